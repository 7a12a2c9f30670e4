"""What the server has to do about a client's message."""

from dataclasses import dataclass

from protocol.messages import ClientMessage, Error, ServerMessage


@dataclass(frozen=True, slots=True)
class Apply:
    """Do what the message says.

    First stop `cancels` (their `done` says cancelled or replaced) and answer `receipts` with `heard`; then, for
    `end` and `flush`, speak `text_before`: half a character that waited for its other half.
    """

    message: ClientMessage
    cancels: tuple[str, ...] = ()
    receipts: tuple[str, ...] = ()
    text_before: str = ""


@dataclass(frozen=True, slots=True)
class Ignore:
    pass


@dataclass(frozen=True, slots=True)
class Refuse:
    """Send the messages; nothing was opened. `cancels` and `receipts` come first, as `replaced`."""

    messages: tuple[ServerMessage, ...]
    cancels: tuple[str, ...] = ()
    receipts: tuple[str, ...] = ()
    replaced_played_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """End that open utterance with the error and its `done`."""

    id: str
    error: Error


@dataclass(frozen=True, slots=True)
class Close:
    """Send the messages, then close the connection."""

    code: int
    reason: str
    messages: tuple[ServerMessage, ...] = ()


Verdict = Apply | Ignore | Refuse | Fail | Close
