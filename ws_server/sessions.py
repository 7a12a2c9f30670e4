"""The sessions that are open now, and how they all end when the process has to."""

from typing import Protocol

import anyio


class Drainable(Protocol):
    def drain(self, deadline_s: float) -> None:
        """Say goodbye and end well, at the latest at `deadline_s` (monotonic)."""
        ...


class Sessions:
    """Counts sessions and drains them; used on the loop alone."""

    def __init__(self, *, max_connections: int) -> None:
        self._max_connections = max_connections
        self._open: set[Drainable] = set()
        self._drain_started = anyio.Event()
        self._none_left = anyio.Event()
        self.drain_deadline_s: float | None = None
        """Monotonic; None: not draining."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        return len(self._open) >= self._max_connections

    @property
    def draining(self) -> bool:
        return self.drain_deadline_s is not None

    def add(self, session: Drainable) -> None:
        self._open.add(session)
        # Its handshake may have been accepted in the moment in which the drain began.
        if self.drain_deadline_s is not None:
            session.drain(self.drain_deadline_s)

    def discard(self, session: Drainable) -> None:
        self._open.discard(session)
        self._note_if_none_left()

    def drain(self, deadline_s: float) -> None:
        """Once; asked again, it changes nothing."""
        if self.draining:
            return
        self.drain_deadline_s = deadline_s
        self._drain_started.set()
        for session in list(self._open):
            session.drain(deadline_s)
        self._note_if_none_left()

    def _note_if_none_left(self) -> None:
        if self.draining and not self._open:
            self._none_left.set()

    async def wait_drain_started(self) -> None:
        await self._drain_started.wait()

    async def wait_none_left(self) -> None:
        """Until a drain has begun and the last session is gone. The owner bounds the wait."""
        await self._none_left.wait()
