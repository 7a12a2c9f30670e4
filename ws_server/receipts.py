"""Completed utterances within their receipt time: what was heard of them can still be asked."""

from dataclasses import dataclass

from protocol import messages as wire
from ws_server.heard import Recording


@dataclass(frozen=True, slots=True)
class _Finished:
    recording: Recording
    samples: int
    chars: int


class Receipts:
    """By the utterance's id. How long one is kept is the conversation's business."""

    def __init__(self) -> None:
        self._finished: dict[str, _Finished] = {}

    def __len__(self) -> int:
        return len(self._finished)

    def keep(self, done: wire.Done, recording: Recording) -> None:
        self._finished[done.id] = _Finished(recording, done.samples, done.chars)

    def drop(self, id: str) -> None:  # noqa: A002 - the wire's name
        self._finished.pop(id, None)

    def answer(self, id: str, played_ms: float | None, now_s: float) -> wire.Heard:  # noqa: A002
        """Once for each."""
        finished = self._finished.pop(id)
        heard = finished.recording.heard(played_ms, now_s, finished.samples, finished.chars)
        return wire.Heard(id=id, end_char=heard.end_char, exact=heard.exact, played_ms=heard.played_ms)
