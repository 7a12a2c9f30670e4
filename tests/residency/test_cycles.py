"""Unloading the default engine gives its memory back, inline and hosted."""

import sys

import pytest

from tests.residency.giving_back import CYCLES, assert_given_back, assert_nothing_taken, cycles

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(120 + 10 * CYCLES),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]


def test_s28_s29_unloading_hibari_gives_back_what_its_load_took_and_memory_stays_flat() -> None:
    assert_given_back(cycles("hibari", "inline"), least_bytes=20e6)


def test_a_hosted_hibari_takes_nothing_of_ours_and_gives_all_back() -> None:
    assert_nothing_taken(cycles("hibari", "hosted"))
