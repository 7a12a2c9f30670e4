"""Tells a send that waits for the client to read from one that is only on its way."""

import asyncio
from collections.abc import Callable

BLOCKED_AFTER_S = 0.02
"""A send that takes longer waits for the client to read; most return at once."""


class SendWatch:
    """One send at a time, on the event loop."""

    def __init__(self, then: Callable[[bool], None]) -> None:
        """`then`: called with True when a send is blocked, and with False when it has returned after all."""
        self._then = then
        self._timer: asyncio.TimerHandle | None = None
        self.blocked = False

    def begin(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(BLOCKED_AFTER_S, self._block)

    def end(self) -> None:
        self.close()
        if self.blocked:
            self.blocked = False
            self._then(False)

    def close(self) -> None:
        """Nothing is told any more of a send that has begun."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _block(self) -> None:
        self.blocked = True
        self._then(True)
