"""What can go wrong in a conversation, and the one table of error codes that travel.

ProtocolError
├── BadMessage           a message that came in can't be used; says what to answer
├── LocalProtocolError   our own side is about to break the order: a fault of the caller
└── RemoteProtocolError  the other side broke the order
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from protocol.messages import Done, Error, Stats

ErrorCode = Literal[
    "bad_message",
    "message_too_long",
    "duplicate_id",
    "unknown_voice",
    "unknown_engine",
    "unsupported_language",
    "unsupported_format",
    "invalid_option",
    "text_too_long",
    "too_many_utterances",
    "busy",
    "rate_limited",
    "engine_unavailable",
    "engine_failed",
    "engine_stalled",
    "idle_timeout",
    "shutting_down",
    "internal",
]


@dataclass(frozen=True, slots=True)
class Meaning:
    text: str
    retryable: bool
    """The same request may succeed later, or elsewhere, without a change."""


ERROR_CODES: Mapping[ErrorCode, Meaning] = MappingProxyType(
    {
        "bad_message": Meaning(
            "a message can't be decoded, isn't known, or a field is missing or wrong", False
        ),
        "message_too_long": Meaning("a message is longer than limits.message_bytes", False),
        "duplicate_id": Meaning("an open names an id that is open; the open one goes on", False),
        "unknown_voice": Meaning("no such voice, or the engine can't speak with it", False),
        "unknown_engine": Meaning("no such engine", False),
        "unsupported_language": Meaning("the engine can't speak that language, or none of the text", False),
        "unsupported_format": Meaning(
            "the format or the sample rate isn't offered; value lists what is", False
        ),
        "invalid_option": Meaning("a value is out of range or an option isn't known; param names it", False),
        "text_too_long": Meaning("an increment or the whole text is over its limit", False),
        "too_many_utterances": Meaning("the connection has as many open as it may", True),
        "busy": Meaning("no slot came free, or no place in the queue", True),
        "rate_limited": Meaning("more than the limits allow this client now", True),
        "engine_unavailable": Meaning("the engine couldn't be loaded; the message says why", False),
        "engine_failed": Meaning("the engine failed, maybe after some audio", True),
        "engine_stalled": Meaning("the engine didn't answer in time", True),
        "idle_timeout": Meaning("nothing came for an utterance that wasn't ended", True),
        "shutting_down": Meaning("the server is about to stop", True),
        "internal": Meaning("a fault of the server", False),
    }
)


def make_error(
    code: ErrorCode,
    message: str,
    *,
    id: str | None = None,  # noqa: A002 - the wire's name
    param: str | None = None,
    value: Any = None,
    retry_after_ms: float | None = None,
) -> Error:
    return Error(
        code=code,
        message=message,
        retryable=ERROR_CODES[code].retryable,
        id=id,
        retry_after_ms=retry_after_ms,
        param=param,
        value=value,
    )


NOTHING_SPOKEN = Stats(
    queue_ms=0,
    ttfa_ms=None,
    cut_ms=None,
    wait_ms=None,
    engine_ms=None,
    send_ms=None,
    audio_ms=0,
    compute_ms=0,
    segments=0,
    forced_cuts=0,
    gaps=0,
    cache_hits=0,
    unspoken_chars=0,
)


def make_refusal(error: Error, tag: str | None) -> tuple[Error, Done]:
    """The answer to an `open` (the one that `error.id` names) that can't be served."""
    if error.id is None:
        raise ValueError("a refusal names its utterance")
    done = Done(id=error.id, reason="failed", samples=0, chars=0, stats=NOTHING_SPOKEN, tag=tag)
    return error, done


class ProtocolError(Exception):
    """The root of this package's errors."""


class LocalProtocolError(ProtocolError):
    pass


class RemoteProtocolError(ProtocolError):
    pass


@dataclass(frozen=True, slots=True)
class RefusedOpen:
    """What could be read of an `open` with a wrong field: it still has to be answered, and still replaces."""

    tag: str | None = None
    replaces: str | None = None
    replaced_played_ms: float | None = None


class BadMessage(ProtocolError):  # noqa: N818 - named by situation
    """`id` and `type` are None where they couldn't be read or aren't valid.

    `undecodable`: not even a map came out of the bytes.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        id: str | None = None,  # noqa: A002 - the wire's name
        type: str | None = None,  # noqa: A002 - the wire's name
        param: str | None = None,
        value: Any = None,
        undecodable: bool = False,
        refused_open: RefusedOpen | None = None,
    ) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message = message
        self.id = id
        self.type = type
        self.param = param
        self.value = value
        self.undecodable = undecodable
        self.refused_open = refused_open
