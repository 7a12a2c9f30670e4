"""How long to wait between attempts to connect."""

import random
from collections.abc import Iterator

FIRST_S = 0.1
LONGEST_S = 5.0


def delays_s(random_source: random.Random) -> Iterator[float]:
    """Doubling bounds with full jitter, so that clients who lost the same server don't come back together."""
    bound_s = FIRST_S
    while True:
        yield random_source.uniform(0, bound_s)
        bound_s = min(2 * bound_s, LONGEST_S)
