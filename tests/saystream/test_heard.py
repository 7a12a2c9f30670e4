"""What a client says was heard when the server can't be asked; numbers on paper."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.messages import HeardText, Segment
from saystream.heard import Transcript, heard

RATE_HZ = 8000


def segment(index: int, start_char: int, end_char: int, at_sample: int) -> Segment:
    return Segment(id="a", index=index, start_char=start_char, end_char=end_char, at_sample=at_sample)


TWO = Transcript(["Hello big world. And more"], [segment(0, 0, 16, 0), segment(1, 17, 25, 1600)])


@pytest.mark.parametrize(
    ("heard_samples", "end_char"),
    [
        (0, 0),
        (499, 0),  # 4 of 16 characters: inside "Hello"
        (500, 5),  # 5 of 16: "Hello"
        (899, 5),
        (900, 9),  # 9 of 16: "Hello big"
        (1599, 9),
        (1600, 16),
        (9999, 20),  # clamped to what was received: 2000 of the last segment's 8 characters at 15 a second
    ],
)
def test_only_words_that_were_wholly_heard_count(heard_samples: int, end_char: int) -> None:
    said = heard(TWO, sample_rate_hz=RATE_HZ, heard_samples=heard_samples, received_samples=1600 + 2000)
    assert said.end_char == end_char


def test_word_times_are_believed_before_proportions() -> None:
    transcript = Transcript(["Hello big"], [segment(0, 0, 9, 0)], [(0, 5, 0, 800), (6, 9, 900, 1500)])
    said = heard(transcript, sample_rate_hz=RATE_HZ, heard_samples=1499, received_samples=1600)
    assert said == HeardText(end_char=5, exact=False, played_ms=1499 / 8)


def test_a_grown_segment_takes_its_own_place() -> None:
    transcript = Transcript(["Hello big world"])
    transcript.add_segment(segment(0, 0, 5, 0))
    transcript.add_segment(segment(0, 0, 15, 0))
    assert [(each.start_char, each.end_char) for each in transcript.segments] == [(0, 15)]


def test_before_any_audio_nothing_was_heard() -> None:
    said = heard(Transcript(["Hi"]), sample_rate_hz=RATE_HZ, heard_samples=0, received_samples=0)
    assert said == HeardText(end_char=0, exact=True, played_ms=0)


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_more_heard_is_never_less_text_and_words_stay_whole(one: int, other: int) -> None:
    text = "".join(TWO.text)
    few, many = (
        heard(TWO, sample_rate_hz=RATE_HZ, heard_samples=samples, received_samples=5000).end_char
        for samples in sorted((one, other))
    )
    assert few <= many <= len(text)
    assert few in {0, len(text)} or text[few : few + 1].isspace()
