"""Torn characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.surrogates import SurrogateJoiner, has_surrogates, mend

HIGH, LOW = "\ud83d", "\ude00"
UTF16_UNITS = st.lists(st.sampled_from(["a", "é", "😀", HIGH, LOW]), max_size=8).map("".join)


@pytest.mark.parametrize(
    ("torn", "whole"),
    [
        ("plain", "plain"),
        (HIGH + LOW, "😀"),
        (LOW + HIGH, "\ufffd\ufffd"),
        (HIGH + HIGH + LOW, "\ufffd😀"),
        ("a" + LOW, "a\ufffd"),
        ("a" + HIGH, "a\ufffd"),
    ],
)
def test_a_pair_is_joined_and_a_lone_half_replaced(torn: str, whole: str) -> None:
    assert mend(torn) == whole


@given(UTF16_UNITS)
def test_mending_always_gives_text_that_can_be_encoded(text: str) -> None:
    mend(text).encode()


@given(st.lists(UTF16_UNITS, max_size=6))
def test_increments_say_the_same_as_the_text_in_one_piece(increments: list[str]) -> None:
    joiner = SurrogateJoiner()
    heard = "".join(joiner.feed(increment) for increment in increments) + joiner.finish()
    assert heard == mend("".join(increments))


def test_a_high_half_waits_for_the_next_increment() -> None:
    joiner = SurrogateJoiner()
    assert joiner.feed("a" + HIGH) == "a"
    assert joiner.feed("") == ""
    assert joiner.feed(LOW + "b") == "😀b"
    assert joiner.finish() == ""


@pytest.mark.parametrize("text", [r'"\ud83d"', r'"\uDE00"', '"\ud83d"'])
def test_json_that_can_hold_a_half_is_recognised(text: str) -> None:
    assert has_surrogates(text)


@pytest.mark.parametrize("text", ['"plain"', r'"\u00e9"', '"é😀"', r'"\n"'])
def test_other_json_isnt(text: str) -> None:
    assert not has_surrogates(text)
