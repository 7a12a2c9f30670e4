"""What is certain of a segment before it ends, for engines that take a text's words while they speak."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ws_server.text.feeding import path, segments
from tests.ws_server.text.test_invariance import LANGUAGES, RULES, TEXTS, cut_up
from ws_server.text import SegmentRules, TextPath, TextSegment

GROWS = SegmentRules(grows=True)


@dataclass
class Follower:
    """Hands out what is certain after each increment, as somebody who speaks it would."""

    path: TextPath
    segments: list[TextSegment] = field(default_factory=list)
    open: TextSegment | None = None

    def take(self, made: list[TextSegment]) -> None:
        for segment in made:
            if self.open is not None:
                self._check_goes_on(self.open, segment)
                self.open = None
            self.segments.append(segment)
        growth = self.path.growth()
        if growth is not None:
            if self.open is not None:
                self._check_goes_on(self.open, growth)
                assert len(growth.speakable) > len(self.open.speakable)
            assert growth.speakable.endswith(" ")
            self.open = growth

    def _check_goes_on(self, before: TextSegment, after: TextSegment) -> None:
        count = len(before.speakable.rstrip())
        assert after.speakable[:count] == before.speakable[:count]
        assert after.source_chars[:count] == before.source_chars[:count]
        assert after.start_char == before.start_char
        assert after.end_char >= before.end_char


def follow(increments: list[str], rules: SegmentRules, language: str = "en") -> Follower:
    follower = Follower(path(rules=rules, language=language))
    for increment in increments:
        follower.take(follower.path.feed(increment))
    follower.take(follower.path.end())
    assert follower.open is None
    return follower


def heard(*increments: str) -> list[str]:
    """What can be spoken after each increment: whole segments, or the beginning of one."""
    open_path, said = path(rules=GROWS), []
    for increment in increments:
        made = open_path.feed(increment)
        growth = open_path.growth()
        said.append("|".join(each.speakable for each in [*made, *([growth] if growth else [])]))
    return said


@given(text=TEXTS, places=st.lists(st.integers(0, 400), max_size=30), rules=RULES, language=LANGUAGES)
def test_what_was_handed_out_is_the_beginning_of_what_is_cut_and_the_cuts_are_the_texts_own(
    text: str, places: list[int], rules: SegmentRules, language: str
) -> None:
    growing = replace(rules, grows=True)
    whole = segments(text, rules=growing, language=language)
    assert follow(cut_up(text, places), growing, language).segments == whole
    assert follow(list(text), growing, language).segments == whole


@given(
    text=TEXTS,
    gaps=st.lists(
        st.tuples(st.integers(0, 200), st.sampled_from([300.0, 900.0, 1500.0, 3000.0, -8.0, -40.0]))
    ),
)
def test_silences_and_forced_cuts_come_no_earlier_than_what_was_handed_out(
    text: str, gaps: list[tuple[int, float]]
) -> None:
    """A negative gap: a cut is forced, of so many characters."""
    follower = Follower(path(rules=GROWS, plain=True))
    at = {place % (len(text) + 1): gap for place, gap in gaps}
    for number, char in enumerate(text):
        follower.take(follower.path.feed(char))
        gap = at.get(number)
        if gap is not None and gap < 0:
            forced = follower.path.force(-int(gap))
            follower.take([] if forced is None else [forced])
        elif gap is not None:
            follower.take(follower.path.silence(gap))
    follower.take(follower.path.end())
    assert follower.open is None
    letters = "".join(each.speakable for each in segments(text, rules=GROWS, plain=True))
    said = "".join(each.speakable for each in follower.segments)
    assert [c for c in said if c.isalnum()] == [c for c in letters if c.isalnum()]


def test_words_are_handed_out_one_by_one() -> None:
    assert heard("The", " tr", "ain ", "leaves", " at") == ["", "The ", "The train ", "", "The train leaves "]


def test_nothing_is_handed_out_beyond_a_stop_that_may_end_the_sentence() -> None:
    assert heard("It is 3", ". ", "5", " percent") == ["It is ", "", "It is 3. ", "It is 3. 5 "]


def test_what_comes_as_a_whole_sentence_is_not_begun_before_it_is_cut() -> None:
    """So that it can be found in the cache."""
    assert heard("Good morning.") == [""]
    assert heard("Good ", "morning all.") == ["Good ", "Good morning "]


def test_the_first_sentence_is_not_cut_at_a_clause() -> None:
    text = "Well, we have thought about it for a long time, and we will come. "
    assert [each.speakable for each in segments(text, rules=GROWS)] == [text.strip()]


def test_a_sentences_end_is_the_segments() -> None:
    assert heard("Good morn", "ing. How ", "are you?") == ["Good ", "Good morning.|How ", "How are "]


def test_a_tail_that_is_all_handed_out_ends_when_nothing_comes() -> None:
    open_path = path(rules=GROWS)
    open_path.feed("The weather is ")
    assert open_path.growth() is not None
    assert open_path.silence_deadline_ms() == 1500
    (ended,) = open_path.silence(1500)
    assert ended.speakable == "The weather is"
    assert not open_path.pending


def test_a_sentence_without_end_is_cut_at_the_last_white_space_that_fits() -> None:
    rules = SegmentRules(grows=True, max_chars=20)
    for increments in (["one two three four five six"], list("one two three four five six")):
        cut = [each.speakable for each in follow(increments, rules).segments]
        assert cut == ["one two three four", "five six"]


def test_the_rest_of_a_segment_begins_at_a_word() -> None:
    (segment,) = segments("**One** two three.", rules=GROWS)
    rest = segment.rest(3)
    assert rest is not None
    assert (rest.speakable, rest.start_char, rest.end_char) == ("two three.", 8, 18)
    assert rest.source_chars[0] == 8
    assert segment.rest(14) is None
    assert segment.rest(15) is None, "what grew had a space after it"


@pytest.mark.parametrize("text", ["", "...", "👍 👍 "])
def test_nothing_speakable_is_never_handed_out(text: str) -> None:
    open_path = path(rules=GROWS)
    open_path.feed(text)
    assert open_path.growth() is None
