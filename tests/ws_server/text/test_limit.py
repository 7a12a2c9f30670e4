"""Pieces bounded from outside while others wait for the device."""

from hypothesis import given
from hypothesis import strategies as st

from ws_server.text import SegmentRules, TextPath

SENTENCE = "The museum by the river has a new room that is full of paintings from the cold and distant north."


def path() -> TextPath:
    return TextPath(SegmentRules(), markup="plain", language="en")


def test_a_limit_cuts_a_long_sentence_at_words_and_says_that_time_decided() -> None:
    text = path()
    text.limit(50)
    segments = text.feed(SENTENCE) + text.end()
    assert all(len(segment.speakable) <= 50 for segment in segments)
    assert " ".join(segment.speakable for segment in segments) == SENTENCE
    assert "forced" in {segment.cut for segment in segments}


def test_a_limit_can_be_taken_back() -> None:
    text = path()
    text.limit(50)
    first = text.feed(SENTENCE + " ")
    text.limit(None)
    rest = text.feed(SENTENCE + " ") + text.end()
    assert any(segment.cut == "forced" for segment in first)
    assert rest[-1].speakable.endswith(SENTENCE)
    assert all(segment.cut != "forced" for segment in rest)


@given(st.integers(40, 200), st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_no_word_is_lost_whatever_the_limit(limit: int, sizes: list[int]) -> None:
    text, whole, segments = path(), f"{SENTENCE} {SENTENCE}", []
    text.limit(limit)
    for size in sizes:
        increment, whole_rest = whole[:size], whole[size:]
        segments += text.feed(increment)
        whole = whole_rest
    segments += text.feed(whole) + text.end()
    spoken = " ".join(segment.speakable for segment in segments)
    assert spoken == f"{SENTENCE} {SENTENCE}"
    assert max(len(segment.speakable) for segment in segments) <= limit
