import json
import logging

import pytest

from protocol.errors import make_error
from protocol.messages import Done, End, Error, Open, Ping, Pong, Text
from tests.ws_server.running import running
from ws_server.log import JsonLines, Log
from ws_server.metrics import Metrics
from ws_server.observer import Observer


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, object]]:
    rows = [json.loads(JsonLines().format(record)) for record in caplog.records]
    return [row for row in rows if row["event"] == event]


async def test_each_refusal_has_a_line_that_says_what_was_wrong(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "saystream")
    async with running() as server, server.speak() as client:
        await client.receive()
        await client.send(Open(id="a"), Open(id="a"), Open(id="b", voice="nobody"))
        await client.socket.send(b"\xc1")
        await client.receive_until(Error, 3)
        text = (await server.http.get("/metrics")).text
    refused = [(row["code"], row.get("param")) for row in lines(caplog, "message refused")]
    assert refused == [("duplicate_id", "id"), ("bad_message", None)]
    assert [(row["code"], row["id"]) for row in lines(caplog, "utterance refused")] == [
        ("unknown_voice", "b")
    ]
    for code in ("duplicate_id", "bad_message", "unknown_voice"):
        assert f'saystream_errors_total{{code="{code}"}} 1.0' in text


def test_a_flood_of_refusals_is_counted_and_not_all_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "saystream")
    metrics = Metrics()
    observer = Observer(metrics, Log())
    for _ in range(5000):
        observer.messages_refused("s", [make_error("bad_message", "no")])
        observer.connection_refused("1.2.3.4:5", 401, "unauthorized")
    assert len(caplog.records) < 400
    text = metrics.text().decode()
    assert 'saystream_errors_total{code="bad_message"} 5000.0' in text
    assert 'saystream_connections_refused_total{status="401"} 5000.0' in text


async def test_what_was_said_is_in_no_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with running(message_bytes=2000) as server, server.speak() as client:
        await client.receive()
        await client.send(
            Open(id="a"), Text(id="a", text="a private word"), Text(id="a", text="private " * 500)
        )
        await client.receive_until(Error)
        await client.send(Ping())
        await client.receive_until(Pong)
    assert "private" not in caplog.text


async def test_a_fault_s_line_says_what_it_was(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "saystream")
    async with running(engines={"tone": {"faults": True}}) as server, server.speak() as client:
        await client.receive()
        await client.send(
            Open(id="a", options={"fault": "nothing"}), Text(id="a", text="Hello."), End(id="a")
        )
        error = (await client.receive_until(Error))[-1]
        assert isinstance(error, Error)
        await client.receive_until(Done)
    (line,) = lines(caplog, "done")
    assert (line["code"], line["error"]) == ("engine_failed", error.message)
