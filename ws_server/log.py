"""One line for each event, for people or for machines; what is spoken never appears unless that is asked for."""

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from ws_server.quotas import Bucket

_LOGGER = "saystream"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/+@[]")
_STRANGERS_PER_S = 10.0
_STRANGERS_AT_ONCE = 300.0
"""Lines about requests that make no sense: whoever reaches the port can bring about thousands in a second."""


class Log:
    """Writes events; cheap where the level is off. `texts`: what is spoken may be logged, too."""

    def __init__(self, *, log_text: bool = False) -> None:
        self._logger = logging.getLogger(_LOGGER)
        self.texts = log_text

    def info(self, event: str, **fields: Any) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write(logging.WARNING, event, fields)

    def fault(self, event: str, *, exception: BaseException | None = None, **fields: Any) -> None:
        self._write(logging.ERROR, event, fields, exception)

    def _write(
        self, level: int, event: str, fields: dict[str, Any], exception: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            kept = {name: value for name, value in fields.items() if value is not None}
            self._logger.log(level, event, exc_info=exception, extra={"fields": kept})


def configure(form: Literal["console", "json"], level: str, stream: TextIO | None = None) -> None:
    """Send this process's log to `stream` (standard error)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else ConsoleLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(_LOGGER).setLevel(level.upper())
    # At "info" uvicorn writes each socket's path with its query, and a token is in there.
    seldom = Seldom()
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.filters[:] = [seldom]
        logger.propagate = True
        logger.setLevel(logging.WARNING)


class Seldom(logging.Filter):
    """Lets so many lines through; the next says how many it held back."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = Bucket(_STRANGERS_PER_S, _STRANGERS_AT_ONCE)
        self._unlogged = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now_s = time.monotonic()
        if self._lines.wait_s(now_s) > 0:
            self._unlogged += 1
            return False
        self._lines.take(1, now_s)
        if self._unlogged:
            record.msg, record.args = f"{record.getMessage()} ({self._unlogged} lines unlogged before)", ()
            self._unlogged = 0
        return True


class ConsoleLines(logging.Formatter):
    """`12:30:01.250 info done session=… reason=complete`"""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S.%f")[:-3]
        fields = " ".join(f"{name}={_word(value)}" for name, value in _fields(record).items())
        line = f"{moment} {record.levelname.lower()} {_one_line(record.getMessage())} {fields}".rstrip()
        # An exception quotes what it choked on, and that may be a client's.
        trace = _trace(self, record).split("\n")[1:]
        return "\n".join([line, *("    " + _printable(row) for row in trace)])


class JsonLines(logging.Formatter):
    """One object a line, with `time` in UTC, `level` and `event` first."""

    def format(self, record: logging.LogRecord) -> str:
        row: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **_fields(record),
        }
        trace = _trace(self, record)
        if trace:
            row["trace"] = trace.strip()
        return json.dumps(row, default=str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, dict) else {"logger": record.name}


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    # A client chooses some of these strings: none may look like a field, or a line, of ours.
    return text if text and _PLAIN.issuperset(text) else json.dumps(text)


def _one_line(message: str) -> str:
    return _printable(" ".join(message.splitlines()))


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() or char == "\t" else f"\\x{ord(char):02x}" for char in line)


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return "\n" + formatter.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
