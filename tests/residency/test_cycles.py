"""Unloading the default engine gives its memory back, inline and hosted."""

import sys

import pytest

from tests.residency.giving_back import CYCLES, assert_given_back, assert_nothing_taken, cycles

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(120 + 10 * CYCLES),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]


SOAK = 50


def test_s28_s29_unloading_hibari_gives_back_what_its_load_took_and_memory_stays_flat() -> None:
    # Its dictionaries are 100 MB of small objects. Python gives their memory back by the megabyte, and only if none of
    # it is in use: each of the first cycles leaves some more behind for the next, and later ones don't.
    share = 0.95 if CYCLES >= SOAK else 0.9
    assert_given_back(cycles("hibari", "inline"), least_bytes=20e6, share=share)


def test_a_hosted_hibari_takes_nothing_of_ours_and_gives_all_back() -> None:
    assert_nothing_taken(cycles("hibari", "hosted"))
