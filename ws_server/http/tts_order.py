"""What `POST /v1/tts` is asked for: one JSON object, every field of it known and checked."""

import json
from dataclasses import dataclass
from typing import Any, Never

from protocol.checking import check_client
from protocol.errors import BadMessage
from protocol.limits import Limits
from protocol.messages import Open
from protocol.surrogates import mend
from ws_server.http.errors import Problem
from ws_server.plan import Caps

ID = "tts"
OPEN_FIELDS = (
    "voice",
    "engine",
    "language",
    "format",
    "sample_rate_hz",
    "speed",
    "cache",
    "markup",
    "seed",
    "options",
)
"""Those of the wire's `open` that make sense for a text that is there."""
CAPS = ("max_chars_per_gen", "max_sentences_per_gen")
FIELDS = ("text", *OPEN_FIELDS, *CAPS)
MAX_CAP = 1_000_000
_PARAM_CHARS = 64


@dataclass(frozen=True, slots=True)
class Order:
    text: str
    opened: Open
    caps: Caps


def read_order(body: bytes, limits: Limits, *, lead_ms: float) -> Order:
    """Raises Problem."""
    values = _object(body)
    for name in values:
        if name not in FIELDS:
            message = f"there is no field {name[:_PARAM_CHARS]!r}; there are {', '.join(FIELDS)}"
            raise Problem(422, "invalid_option", message, param=name[:_PARAM_CHARS])
    text = _text(values.get("text"), limits)
    caps = Caps(*(_cap(name, values.get(name)) for name in CAPS))
    asked = {name: values[name] for name in OPEN_FIELDS if name in values}
    try:
        opened = check_client({"type": "open", "id": ID, "lead_ms": lead_ms, **asked})
    except BadMessage as error:
        raise Problem(422, error.code, str(error), param=error.param) from None
    assert isinstance(opened, Open)  # noqa: S101 - its type was given
    return Order(text, opened, caps)


def _object(body: bytes) -> dict[str, Any]:
    try:
        values = _mended(json.loads(body, parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        raise Problem(400, "bad_message", "the body isn't JSON, or is nested too deep") from None
    if not isinstance(values, dict):
        raise Problem(400, "bad_message", "the body isn't a JSON object")
    return values


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} isn't JSON")


def _mended(value: Any) -> Any:
    """Halves of characters made whole: half a character is no text."""
    match value:
        case str():
            return mend(value)
        case dict():
            return {mend(key): _mended(part) for key, part in value.items()}
        case list():
            return [_mended(part) for part in value]
        case _:
            return value


def _text(value: object, limits: Limits) -> str:
    if not isinstance(value, str):
        raise Problem(422, "bad_message", "text: a string is needed", param="text")
    if not value.strip():
        raise Problem(422, "invalid_option", "text: there is nothing to speak", param="text")
    most_chars = min(limits.text_chars, limits.total_chars)
    if len(value) > most_chars:
        raise Problem(413, "text_too_long", f"text: it has more than {most_chars} characters", param="text")
    return value


def _cap(name: str, value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise Problem(422, "bad_message", f"{name}: a whole number is needed; 0: no cap", param=name)
    if not 0 <= value <= MAX_CAP:
        raise Problem(422, "invalid_option", f"{name}: 0 to {MAX_CAP}; 0: no cap", param=name)
    return value
