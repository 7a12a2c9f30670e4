"""What the server may send for one utterance, and when: a table of transitions, and the positions that must fit.

    OPENED --started--> BETWEEN --segment--> ANNOUNCED --audio--> SPEAKING --segment--> ANNOUNCED ...
    any of these --error--> FAILED --done{failed, timeout}--> DONE
    any of these --done{complete, cancelled, replaced}--> DONE --heard--> HEARD

Both ends keep one UtteranceOrder for each utterance: the server asks it before it sends, the client when it
receives. A message that doesn't fit raises the error class that the end gave.
"""

from collections import deque
from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Literal

from protocol.errors import ProtocolError
from protocol.limits import FRAME_BYTES
from protocol.messages import (
    Audio,
    Done,
    Error,
    Flushed,
    Heard,
    Open,
    Queued,
    Segment,
    Started,
    Words,
)

UtteranceMessage = Queued | Started | Segment | Words | Audio | Flushed | Error | Done | Heard
Verb = Literal["cancelled", "replaced"]
SAMPLE_BYTES = MappingProxyType({"s16le": 2, "f32le": 4, "mulaw": 1, "alaw": 1})


class State(Enum):
    OPENED = auto()
    BETWEEN = auto()
    """Started; no segment is being spoken."""
    ANNOUNCED = auto()
    SPEAKING = auto()
    FAILED = auto()
    DONE = auto()
    HEARD = auto()


_ENDINGS = {"error": State.FAILED, "done": State.DONE}
TABLE: Mapping[State, Mapping[str, State]] = MappingProxyType(
    {
        State.OPENED: {
            "queued": State.OPENED,
            "started": State.BETWEEN,
            "flushed": State.OPENED,
            **_ENDINGS,
        },
        State.BETWEEN: {"segment": State.ANNOUNCED, "flushed": State.BETWEEN, **_ENDINGS},
        State.ANNOUNCED: {
            "segment": State.ANNOUNCED,
            "words": State.ANNOUNCED,
            "audio": State.SPEAKING,
            "flushed": State.BETWEEN,
            **_ENDINGS,
        },
        State.SPEAKING: {
            "segment": State.ANNOUNCED,
            "audio": State.SPEAKING,
            "flushed": State.BETWEEN,
            **_ENDINGS,
        },
        State.FAILED: {"done after error": State.DONE},
        State.DONE: {"heard": State.HEARD},
        State.HEARD: {},
    }
)
"""`done after error` is `done` with `failed` or `timeout`; plain `done` has the other reasons."""


class UtteranceOrder:
    """The progress of one utterance. Mutable; belongs to one end's conversation."""

    __slots__ = (
        "_breach",
        "_end_char",
        "_index",
        "_marks",
        "_opened",
        "_predecessor",
        "_sample_bytes",
        "_seq",
        "_start_char",
        "complete",
        "ended",
        "owes",
        "position_samples",
        "state",
        "verbs",
    )

    def __init__(
        self, opened: Open, breach: type[ProtocolError], predecessor: "UtteranceOrder | None" = None
    ) -> None:
        self._opened = opened
        self._breach = breach
        self._predecessor = predecessor
        self._marks: deque[str | int | None] = deque()
        self._sample_bytes = 1
        self._seq = 0
        self._index = -1
        self._start_char = 0
        self._end_char = 0
        self.state = State.OPENED
        self.position_samples = 0
        self.complete = False
        """Its `done` said so."""
        self.ended = False
        """The client said that no more text comes."""
        self.verbs: frozenset[Verb] = frozenset()
        """What the client did to stop it."""
        self.owes: Literal["done", "heard"] | None = None
        """All that may still come of it, apart from an `error` before the `done`."""

    @property
    def pending_flushes(self) -> int:
        return len(self._marks)

    def flush(self, mark: str | int | None) -> None:
        self._marks.append(mark)

    def stop(self, verb: Verb) -> None:
        self.verbs |= {verb}

    def advance(self, message: UtteranceMessage, *, words_anywhere: bool = False) -> None:
        """Take one step; nothing is changed by a message that doesn't fit.

        `words_anywhere`: word times are also taken between the frames of their segment.
        """
        event = _event(message)
        state = TABLE[self.state].get(event)
        if state is None and words_anywhere and event == "words" and self.state is State.SPEAKING:
            state = State.SPEAKING
        if state is None:
            raise self._breach(f"{event} of {message.id!r} can't come in state {self.state.name}")
        if self._predecessor is not None:
            self._check(self._predecessor.owes is None, "what it replaces isn't over", message)
            self._predecessor = None
        match message:
            case Audio():
                self._audio(message)
            case Started():
                self._sample_bytes = SAMPLE_BYTES[message.format]
            case Segment():
                self._segment(message)
            case Words():
                self._check(self._opened.words, "word times weren't asked for", message)
            case Flushed():
                self._flushed(message)
            case Done():
                self._done(message)
            case Heard():
                self.owes = None
            case Queued() | Error():
                pass
        self.state = state

    def _check(self, fits: bool, fault: str, message: UtteranceMessage) -> None:
        if not fits:
            raise self._breach(f"{_event(message)} of {message.id!r}: {fault}")

    def _audio(self, message: Audio) -> None:
        size_bytes = len(message.pcm)
        if message.seq != self._seq or message.at_sample != self.position_samples:
            raise self._breach(
                f"audio of {message.id!r}: seq {message.seq} at sample {message.at_sample}, "
                f"expected {self._seq} at {self.position_samples}"
            )
        if not 0 < size_bytes < FRAME_BYTES or size_bytes % self._sample_bytes:
            raise self._breach(
                f"audio of {message.id!r}: {size_bytes} bytes for samples of {self._sample_bytes} bytes"
            )
        self._seq += 1
        self.position_samples += size_bytes // self._sample_bytes

    def _segment(self, message: Segment) -> None:
        if message.index == self._index:
            grows = message.start_char == self._start_char and message.end_char > self._end_char
            self._check(grows, "a repeated segment must grow", message)
        else:
            self._check(message.index > self._index, "its index isn't new", message)
            self._check(message.start_char >= self._end_char, "it starts inside the last one", message)
            self._check(message.end_char > message.start_char, "it is empty", message)
            self._check(message.at_sample == self.position_samples, "it starts at another sample", message)
        self._index, self._start_char, self._end_char = message.index, message.start_char, message.end_char

    def _flushed(self, message: Flushed) -> None:
        self._check(bool(self._marks), "nothing was flushed", message)
        self._check(self._marks[0] == message.mark, "another mark comes first", message)
        self._check(message.at_sample == self.position_samples, "another position", message)
        self._marks.popleft()

    def _done(self, message: Done) -> None:
        self._check(message.samples == self.position_samples, "another number of samples was sent", message)
        match message.reason:
            case "complete":
                self._check(self.ended, "complete without an end", message)
                self._check(not self._marks, "complete with flushes pending", message)
                self.complete = True
            case "cancelled" | "replaced":
                self._check(message.reason in self.verbs, f"nobody had it {message.reason}", message)
                self._check(message.heard is not None, "it doesn't say what was heard", message)
            case "failed" | "timeout":
                pass
        self.owes = None


def _event(message: UtteranceMessage) -> str:
    if isinstance(message, Done) and message.reason in ("failed", "timeout"):
        return "done after error"
    return str(message.__struct_config__.tag)
