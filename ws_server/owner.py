"""Whom an utterance belongs to."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from protocol import messages as wire
from residency.listener import StepTiming
from ws_server.text.segment import TextSegment

if TYPE_CHECKING:
    from ws_server.utterance import Utterance


class Owner(Protocol):
    """The connection, as its utterances see it."""

    def changed(self) -> None:
        """There may be something to send."""
        ...

    def stepped(self, utterance: "Utterance", timing: StepTiming, audio_s: float) -> None:
        """The device has worked for it."""
        ...

    def cut(self, utterance: "Utterance", segment: TextSegment) -> None:
        """A piece of its text is about to be spoken."""
        ...

    def finished(self, utterance: "Utterance", messages: Sequence[wire.ServerMessage]) -> None:
        """It ended before its audio did; `messages` are its last."""
        ...
