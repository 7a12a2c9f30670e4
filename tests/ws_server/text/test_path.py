"""When a segment is cut: early at the start, then by the sentence, after silences, and by force."""

from hypothesis import given
from hypothesis import strategies as st

from tests.ws_server.text.feeding import path, segments, spoken
from tests.ws_server.text.test_invariance import TEXTS
from ws_server.text import SegmentRules


def test_a_long_first_sentence_starts_before_it_ends() -> None:
    open_path = path()
    text = "I think that we should all go to the market tomorrow because it is nice there."
    early = open_path.feed(text[:45])
    assert [(segment.speakable, segment.cut) for segment in early] == [
        ("I think that we should all go", "clause")
    ]
    assert [segment.speakable for segment in open_path.feed(text[45:]) + open_path.end()] == [
        "to the market tomorrow because it is nice there."
    ]


def test_the_first_segment_ends_at_a_clause_of_four_words_and_not_at_an_interjection() -> None:
    assert spoken("Well, if you ask me, I would rather stay at home.")[0] == "Well, if you ask me,"
    assert spoken("Here are the things: apples and pears.")[0] == "Here are the things:"


def test_a_later_sentence_isnt_cut_at_a_clause() -> None:
    later = "When it rains, we stay at home, and when it doesn't, we go out and walk for a while."
    assert spoken(f"This is the first. {later}")[1] == later


def test_after_a_flush_the_next_segment_may_start_early_again() -> None:
    open_path = path()
    assert [segment.cut for segment in open_path.feed("First one. Rest")] == ["sentence"]
    assert [(segment.speakable, segment.cut) for segment in open_path.flush()] == [("Rest", "flush")]
    assert [segment.speakable for segment in open_path.feed(" Well, as I was saying, yes")] == [
        "Well, as I was saying,"
    ]


def test_short_sentences_are_joined_within_their_paragraph() -> None:
    assert spoken("Hello you. Yes. No. Maybe so, who knows. Bye.\n\nOk. Fine.") == [
        "Hello you.",
        "Yes. No. Maybe so, who knows.",
        "Bye.",
        "Ok. Fine.",
    ]


def test_a_joined_sentence_waits_no_longer_than_the_wait() -> None:
    open_path = path()
    open_path.feed("Hello you there. Yes. ")
    open_path.feed("No wor")
    assert open_path.silence_deadline_ms() == 300
    assert [segment.speakable for segment in open_path.silence(300)] == ["Yes."]
    assert open_path.silence_deadline_ms() == 1500


def test_a_wrapped_line_goes_on_and_a_short_line_ends() -> None:
    wrapped = "This line of prose was wrapped by an editor at some sixty-odd\nCharacters or so."
    assert " ".join(spoken(wrapped)) == wrapped.replace("\n", " ")
    assert spoken("Roses are red\nViolets are blue\nand so on") == [
        "Roses are red",
        "Violets are blue",
        "and so on",
    ]


def test_a_tail_without_an_end_is_spoken_up_to_its_last_space_and_then_wholly() -> None:
    open_path = path(rules=SegmentRules(wait_ms=100, stall_ms=1000))
    open_path.feed("wait for the unfini")
    assert open_path.silence_deadline_ms() == 1000
    assert [segment.speakable for segment in open_path.silence(1000)] == ["wait for the"]
    assert open_path.silence_deadline_ms() == 2000
    assert [segment.speakable for segment in open_path.silence(2000)] == ["unfini"]
    assert not open_path.pending


def test_a_held_back_bracket_is_spoken_after_a_stall() -> None:
    open_path = path()
    open_path.feed("See [the manual of it")
    assert open_path.pending
    assert [segment.speakable for segment in open_path.silence(1500)] == ["See [the manual of"]
    assert [segment.speakable for segment in open_path.silence(3000)] == ["it"]


def test_an_address_whose_rest_is_late_isnt_spoken() -> None:
    open_path = path()
    made = open_path.feed("See [the docs](https://exam") + open_path.silence(3000)
    made += open_path.feed("ple.org/a) and more.") + open_path.end()
    assert [segment.speakable for segment in made] == ["See the docs", "and more."]


def test_a_longer_wait_than_the_stall_moves_the_stall() -> None:
    open_path = path(rules=SegmentRules(wait_ms=5000))
    open_path.feed("one two thr")
    assert open_path.silence_deadline_ms() == 5000


def test_an_answer_that_is_a_number_alone_ends_after_three_waits() -> None:
    open_path = path()
    open_path.feed("42.")
    assert open_path.silence_deadline_ms() == 900
    assert [segment.speakable for segment in open_path.silence(900)] == ["42."]


def test_a_marker_that_is_held_back_delays_no_sentence() -> None:
    open_path = path()
    open_path.feed("All is **done.**")
    assert open_path.silence_deadline_ms() == 300
    assert [segment.speakable for segment in open_path.silence(300)] == ["All is done."]


@given(text=TEXTS, plain=st.booleans())
def test_silence_cuts_at_its_deadline_and_not_before(text: str, plain: bool) -> None:
    open_path = path(plain=plain)
    open_path.feed(text)
    last_ms = 0.0
    while (deadline_ms := open_path.silence_deadline_ms()) is not None:
        assert deadline_ms > last_ms
        assert open_path.silence(deadline_ms - 1) == []
        open_path.silence(deadline_ms)
        last_ms = deadline_ms
    assert open_path.end() == []


@given(
    text=TEXTS,
    gaps_ms=st.lists(st.sampled_from([100.0, 300.0, 900.0, 1500.0, 3000.0]), min_size=40),
    plain=st.just(True),
)
def test_no_word_is_lost_or_said_twice_however_long_the_gaps(
    text: str, gaps_ms: list[float], plain: bool
) -> None:
    open_path = path(plain=plain)
    made = []
    for place, char in enumerate(text):
        made += open_path.feed(char) + open_path.silence(gaps_ms[place % len(gaps_ms)])
    made += open_path.end()
    heard = [
        source
        for segment in made
        for char, source in zip(segment.speakable, segment.source_chars, strict=False)
        if char.isalnum()
    ]
    assert heard == [place for place, char in enumerate(text) if char.isalnum()]


def forced(text: str, max_chars: int) -> str | None:
    open_path = path(rules=SegmentRules(first_words=1000, first_chars=10_000, first_clause_words=1000))
    assert open_path.feed(text) == []
    segment = open_path.force(max_chars)
    assert segment is None or segment.cut == "forced"
    return None if segment is None else segment.speakable


def test_a_forced_cut_takes_the_best_rung_that_fits() -> None:
    text = "we went home early, because it had begun to rain and everyone was tir"
    assert forced(text, 200) == "we went home early,"
    assert forced("we went home because it had begun to rai", 200) == "we went home"
    assert forced("one two three four five si", 200) == "one two three four five"
    assert forced("one two three four five si", 15) == "one two three"
    assert forced("this is the whole of it.", 200) == "this is the whole of it."
    assert forced("please ask the good Dr.", 200) == "please ask the good"


def test_a_forced_cut_is_sensible_or_none() -> None:
    assert forced("hello", 200) is None
    assert forced("hello th", 200) is None
    assert forced("unbelievable consequences follow no", 3) == "unbelievable consequences"
    assert forced("x" * 100, 50) == "x" * 50
    assert forced("", 50) is None


def test_a_forced_cut_speaks_short_sentences_that_were_waiting() -> None:
    open_path = path()
    open_path.feed("Hello you there. Yes. No. And no")
    segment = open_path.force(100)
    assert segment is not None
    assert segment.speakable == "Yes. No."


@given(text=TEXTS, every=st.integers(1, 20), max_chars=st.integers(1, 60))
def test_forced_cuts_lose_no_word(text: str, every: int, max_chars: int) -> None:
    open_path = path(plain=True)
    made = []
    for place, char in enumerate(text):
        made += open_path.feed(char)
        if place % every == 0:
            segment = open_path.force(max_chars)
            made += [segment] if segment else []
    made += open_path.end()
    heard = [
        source
        for segment in made
        for char, source in zip(segment.speakable, segment.source_chars, strict=False)
        if char.isalnum()
    ]
    assert heard == [place for place, char in enumerate(text) if char.isalnum()]


def test_offsets_count_code_points_of_the_whole_text() -> None:
    text = "😀 *Hello* you. [Docs](https://x.y) are **there**, ok?"
    first, second = segments(text)
    assert text[first.start_char : first.end_char] == "Hello* you."
    assert text[second.start_char : second.end_char] == "Docs](https://x.y) are **there**, ok?"
    assert second.speakable == "Docs are there, ok?"
    assert text[second.source_chars[5] :].startswith("are")
