"""What is told to the listeners' owners, in order, until somebody delivers it."""

from collections.abc import Callable
from functools import partial

from engines.contract import Chunk
from residency.listener import Job, Listener, StepTiming, WaitReason

NOTICE_S = 1.0
"""Of waiting a listener is told on change, and not more often."""
Event = tuple[Listener, Callable[[], None]]


class Notices:
    def __init__(self) -> None:
        self._events: list[Event] = []

    def __bool__(self) -> bool:
        return bool(self._events)

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def made(self, listener: Listener, job: Job, chunk: Chunk, timing: StepTiming) -> None:
        on_chunk = listener.handler.on_chunk
        self._add(listener, partial(on_chunk, job.number, chunk.samples, chunk.words, chunk.last, timing))

    def refused(self, listener: Listener, error: Exception) -> None:
        self._add(listener, partial(listener.handler.on_refused, error))

    def failed(self, listener: Listener, job: Job, error: Exception) -> None:
        self._add(listener, partial(listener.handler.on_failed, job.number, error))

    def waits(
        self,
        listener: Listener,
        reason: WaitReason,
        now_s: float,
        position: int | None = None,
        wait_s: float | None = None,
    ) -> None:
        if listener.noticed is not None:
            given_s, *said = listener.noticed
            if said == [reason, position] or now_s - given_s < NOTICE_S:
                return
        listener.noticed = (now_s, reason, position)
        self._add(listener, partial(listener.handler.on_waiting, reason, position, wait_s))

    def _add(self, listener: Listener, call: Callable[[], None]) -> None:
        self._events.append((listener, call))
