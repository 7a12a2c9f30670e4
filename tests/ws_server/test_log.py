import io
import json
import logging
import time
from collections.abc import Iterator

import pytest

from ws_server.log import Log, configure


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    names = (None, "saystream", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
    loggers = [logging.getLogger(name) for name in names]
    before = [
        (logger, logger.handlers[:], logger.filters[:], logger.level, logger.propagate) for logger in loggers
    ]
    yield
    for logger, handlers, filters, level, propagate in before:
        logger.handlers[:] = handlers
        logger.filters[:] = filters
        logger.setLevel(level)
        logger.propagate = propagate


def test_an_event_is_one_line_for_people() -> None:
    out = io.StringIO()
    configure("console", "info", out)
    Log().info("done", session="ab12", reason="complete", audio_ms=1250.0, code=None, gaps={"text": 1})
    line = out.getvalue()
    assert line.count("\n") == 1
    assert (
        line.split(" ", 1)[1]
        == 'info done session=ab12 reason=complete audio_ms=1250 gaps="{\\"text\\": 1}"\n'
    )


def test_an_event_is_one_object_for_machines() -> None:
    out = io.StringIO()
    configure("json", "info", out)
    Log().warning("refused", status=401, tag='a"b\n')
    row = json.loads(out.getvalue())
    assert {k: row[k] for k in ("level", "event", "status", "tag")} == {
        "level": "warning",
        "event": "refused",
        "status": 401,
        "tag": 'a"b\n',
    }
    assert row["time"].endswith("+00:00")


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize(
    "tag", ["x\n12:00:00 info done id=forged", "x done=1", "\x1b[31mred", "\u2028", "\r\n"]
)
def test_what_a_client_chose_can_forge_neither_line_nor_field(form: str, tag: str) -> None:
    out = io.StringIO()
    configure("json" if form == "json" else "console", "info", out)
    Log().info("done", tag=tag)
    assert len(out.getvalue().splitlines()) == 1
    assert "\x1b" not in out.getvalue()
    assert " done=1" not in out.getvalue().replace('"x done=1"', "")


def test_a_socket_library_at_info_stays_silent_since_it_writes_query_strings() -> None:
    out = io.StringIO()
    configure("console", "debug", out)
    logging.getLogger("uvicorn.error").info('127.0.0.1:1 - "WebSocket /v1/speak?token=abc" [accepted]')
    logging.getLogger("uvicorn.access").info("GET /v1/speak?token=abc")
    assert out.getvalue() == ""


def test_a_fault_carries_its_trace() -> None:
    out = io.StringIO()
    configure("json", "info", out)
    try:
        raise RuntimeError("broken")  # noqa: TRY301 - a trace is wanted
    except RuntimeError as error:
        Log().fault("failed", exception=error)
    assert "RuntimeError: broken" in json.loads(out.getvalue())["trace"]


@pytest.mark.parametrize("form", ["console", "json"])
def test_what_an_exception_quotes_can_forge_neither_a_line_nor_a_terminals_command(form: str) -> None:
    out = io.StringIO()
    configure("json" if form == "json" else "console", "info", out)
    try:
        raise ValueError("can't say 'x\n12:00:00.000 info done id=forged\r\u2028\x1b[2J'")  # noqa: TRY301 - the same
    except ValueError as error:
        Log().fault("failed", exception=error)
    lines = out.getvalue().split("\n")
    assert not [line for line in lines if line.startswith("12:00:00.000")]
    assert not {"\r", "\u2028", "\x1b"} & set(out.getvalue())


def test_what_uvicorn_says_of_senseless_requests_is_limited_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    out = io.StringIO()
    configure("console", "info", out)
    for _ in range(5000):
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    assert len(out.getvalue().splitlines()) == 300
    now_s += 1
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    assert "(4700 lines unlogged before)" in out.getvalue().splitlines()[-1]
    Log().info("done")
    assert " done" in out.getvalue().splitlines()[-1]


def test_below_the_level_nothing_is_written() -> None:
    out = io.StringIO()
    configure("console", "warning", out)
    Log().info("done")
    assert out.getvalue() == ""
