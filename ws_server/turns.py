"""Long work on the event loop, cut into pieces: one piece in each round, so that everybody else is served between."""

import asyncio
from collections import deque
from collections.abc import Callable


class Turns:
    """First come, first served, over all connections."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, turn: Callable[[], None]) -> None:
        """`turn` is called once, in a later round of the loop; it may ask again."""
        self._waiting.append(turn)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._take)

    def _take(self) -> None:
        self._scheduled = False
        try:
            self._waiting.popleft()()
        finally:
            # One that raises doesn't keep the others waiting.
            self._schedule()
