"""Delays between attempts."""

import random
from itertools import islice

from saystream.backoff import delays_s


def test_the_bound_doubles_from_a_tenth_of_a_second_to_five() -> None:
    class Highest(random.Random):
        def uniform(self, a: float, b: float) -> float:
            return b

    assert list(islice(delays_s(Highest()), 8)) == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_clients_do_not_come_back_together() -> None:
    delays = {round(next(delays_s(random.Random(seed))), 3) for seed in range(50)}
    assert len(delays) > 30
