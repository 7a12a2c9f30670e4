"""What went wrong with the cache: counted always, said at most once a minute."""

import logging
import math

log = logging.getLogger(__name__)

EVERY_S = 60.0


class Faults:
    def __init__(self) -> None:
        self.count = 0
        self._unsaid = 0
        self._said_s = -math.inf

    def note(self, what: str, now_s: float) -> None:
        self.count += 1
        self._unsaid += 1
        if now_s - self._said_s >= EVERY_S:
            more = f" ({self._unsaid} faults since the last word of it)" if self._unsaid > 1 else ""
            log.warning("the audio cache: %s%s; speech goes on without it", what, more)
            self._said_s = now_s
            self._unsaid = 0
