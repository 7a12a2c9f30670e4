from hypothesis import given
from hypothesis import strategies as st

from residency.clock import PlayoutClock
from ws_server.heard import Recording, SpokenSegment, estimated_word_times, heard_until
from ws_server.text.segment import TextSegment

RATE_HZ = 1000


def segment(text: str, start_char: int = 0) -> TextSegment:
    """Spoken as it is written."""
    source = tuple(range(start_char, start_char + len(text) + 1))
    return TextSegment(start_char, start_char + len(text), text, source, "sentence")


def spoken(
    text: str, *, start_char: int = 0, at_sample: int = 0, samples: int, complete: bool = True
) -> SpokenSegment:
    made = segment(text, start_char)
    piece = SpokenSegment(made.start_char, made.end_char, text_s=0, cut_s=0, at_sample=at_sample)
    piece.samples = samples
    piece.complete = complete
    piece.add_words(estimated_word_times(made, samples))
    return piece


def recording(*pieces: SpokenSegment, exact: bool = False) -> Recording:
    clock = PlayoutClock(cushion_s=0.2)
    made = Recording(clock, RATE_HZ, exact_words=exact)
    made.segments.extend(pieces)
    return made


def test_nothing_is_heard_before_the_first_sample() -> None:
    assert heard_until([spoken("Hello there.", samples=1200)], 0) == 0


def test_a_word_counts_once_its_audio_is_over() -> None:
    # "Hello" is 5 of 12 characters, so it is over after 500 of 1200 samples.
    piece = spoken("Hello there.", samples=1200)
    assert heard_until([piece], 499) == 0
    assert heard_until([piece], 500) == 5
    assert heard_until([piece], 1199) == 5
    assert heard_until([piece], 1200) == 12


def test_exact_word_times_decide_where_there_are_any() -> None:
    piece = SpokenSegment(0, 12, text_s=0, cut_s=0, at_sample=100, samples=1200, complete=True)
    piece.add_words([(0, 5, 50, 300), (6, 12, 400, 1100)])
    assert heard_until([piece], 100 + 299) == 0
    assert heard_until([piece], 100 + 300) == 5
    assert heard_until([piece], 100 + 1100) == 12


def test_the_text_between_segments_counts_with_what_follows_it() -> None:
    first = spoken("Hello.", samples=600)
    second = spoken("Bye.", start_char=9, at_sample=600, samples=400)
    assert heard_until([first, second], 600) == 6
    assert heard_until([first, second], 601) == 6
    assert heard_until([first, second], 1000) == 13


def test_a_segment_that_is_still_being_made_is_never_heard_whole() -> None:
    piece = spoken("Hello there friend.", samples=1900, complete=False)
    assert heard_until([piece], 1899) == 11


def test_before_any_audio_the_answer_is_exact() -> None:
    heard = recording().heard(None, 5.0, None, 100)
    assert (heard.end_char, heard.exact, heard.played_ms) == (0, True, 0)


def test_a_reported_position_is_clamped_to_what_was_sent() -> None:
    made = recording(spoken("Hello there.", samples=1200))
    made.clock.sent(0.6, now_s=10.0)
    heard = made.heard(5000, 10.0, None, 12)
    assert heard.played_ms == 600
    assert heard.end_char == 5


def test_a_playhead_that_nobody_reported_follows_the_assumed_clock() -> None:
    made = recording(spoken("Hello there.", samples=1200))
    made.clock.sent(1.2, now_s=10.0)
    # The cushion of 200 ms passes first.
    heard = made.heard(None, 10.75, None, 12)
    assert heard.played_ms == 550
    assert heard.end_char == 5
    assert not heard.exact


def test_when_all_was_heard_even_the_unspoken_end_counts() -> None:
    made = recording(spoken("Hello.", samples=600))
    made.clock.sent(0.6, now_s=10.0)
    assert made.heard(600, 11.0, 600, 9).end_char == 9
    assert made.heard(599, 11.0, 600, 9).end_char < 9


def test_exact_needs_word_times_and_a_report() -> None:
    made = recording(spoken("Hello.", samples=600), exact=True)
    made.clock.sent(0.6, now_s=10.0)
    assert made.heard(300, 11.0, None, 6).exact
    assert not made.heard(None, 11.0, None, 6).exact
    made.clock.report(0.3, False, 10.5)
    assert made.heard(None, 11.0, None, 6).exact


def test_a_script_without_spaces_is_counted_by_its_letters() -> None:
    piece = spoken("你好世界", samples=400)
    assert heard_until([piece], 250) == 2


@given(st.text("ab c.,你", min_size=1, max_size=40), st.integers(1, 5000))
def test_what_was_heard_never_shrinks_as_the_playhead_moves(text: str, samples: int) -> None:
    piece = spoken(text, samples=samples)
    ends = [heard_until([piece], position) for position in range(0, samples + 1, max(samples // 50, 1))]
    assert ends == sorted(ends)
    assert ends[0] == 0
    assert heard_until([piece], samples) == len(text)
