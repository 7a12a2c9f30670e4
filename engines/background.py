"""Something slow that one stream needs, got in a thread of its own so that a lane goes on with the others."""

import threading
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

from engines.contract import VoiceUnavailable

T = TypeVar("T")

_POLL_S = 0.01
"""So that a lane with nothing else to do doesn't spin."""
_PATIENCE_S = 30.0


class Background(Generic[T]):
    """`what` names it in errors, which are those of the stream that asks."""

    def __init__(self, what: str, get: Callable[[], T]) -> None:
        self._what = what
        self._get = get
        self._give_up_s = monotonic() + _PATIENCE_S
        self._got: T | None = None
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._got = self._get()
        except Exception as error:  # noqa: BLE001 - the edge of this thread: whatever it is, its waiters hear of it
            self._failure = str(error) or repr(error)

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def wait(self) -> T | None:
        """What was got; None: not yet, after a moment. Raises VoiceUnavailable."""
        self._thread.join(_POLL_S)
        if self.over:
            if self._got is None:
                raise VoiceUnavailable(f"{self._what} couldn't be loaded: {self._failure}")
            return self._got
        if monotonic() > self._give_up_s:
            raise VoiceUnavailable(f"{self._what} is still being loaded; try again later")
        return None
