"""One timer that is moved only when something is due earlier: most reasons to move it never do."""

import asyncio
import math
from collections.abc import Callable


class Alarm:
    """Calls `ring` on the event loop, maybe too early: the caller looks at what is due, and sets it again."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None
        self._due_s = math.inf

    def set(self, due_s: float, now_s: float) -> None:
        """At `due_s` at the latest; both on the monotonic clock. Never sooner than in a millisecond."""
        if due_s >= self._due_s or due_s == math.inf:
            return
        self.stop()
        self._due_s = due_s
        self._handle = asyncio.get_running_loop().call_later(max(due_s - now_s, 0.001), self._fire)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        self._due_s = math.inf

    def _fire(self) -> None:
        self.stop()
        self._ring()
