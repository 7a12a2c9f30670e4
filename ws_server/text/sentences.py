"""Whether a sentence ends here, said only once what follows has decided it.

`sentencex` knows abbreviations and languages; it is asked about a window that ends at a place the text itself fixes,
so that its answer can't change when more text arrives.
"""

from dataclasses import dataclass
from typing import Final

import regex
import sentencex

NO: Final = -1
WAIT: Final = -2

_WIDE = "。！？｡؟۔؛।॥։።፧፨។៕။"
STOPS = ".!?…" + _WIDE
_CLOSERS = "\"'”’»)\\]}」』）】〉》›*_~"
_OPENERS = "\"'“‘«(\\[{¿¡„‚「『（"
_RUN = regex.compile(rf"[{STOPS}]++")
_GREEK_RUN = regex.compile(rf"[{STOPS};\u037e]++")
_CLOSING = regex.compile(rf"[{_CLOSERS}\p{{M}}]*+")
_OPENING = regex.compile(rf"[{_OPENERS}]{{0,8}}+")
_NEXT_WORD = regex.compile(r"[\p{L}\p{M}\p{N}'’]{0,20}+")
_NEXT_WORD_CHARS = 20
_LIST_NUMBER = regex.compile(rf"[{_OPENERS}\s]*+(?:\d{{1,3}}|[A-Za-z])")
_INITIAL = regex.compile(r"(?<![\p{L}\p{N}])\p{Lu}\Z")
# Titles that sentencex takes for the last word of a sentence.
_TITLES = {
    "en": regex.compile(r"(?<![\p{L}\p{N}])(?:Ms|Mx|Messrs|Mmes)\Z"),
    "fr": regex.compile(r"(?<![\p{L}\p{N}])(?:M|MM|Mme|Mmes|Mlle|Mlles|Mgr|Me)\Z"),
    "pl": regex.compile(r"(?<![\p{L}\p{N}])(?:dr|mgr|inż|prof|hab)\Z"),
}
_TITLE_CHARS = 9
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")
_ENDED = regex.compile(rf"[{STOPS}][{_CLOSERS}\p{{M}}]*+\s*+\Z")
_ENDED_BY_NUMBER = regex.compile(rf"\p{{N}}\.[{_CLOSERS}\p{{M}}]*+\s*+\Z")

LOOKAHEAD_CHARS = 32
"""What follows a stop decides within so many characters."""


def language_code(tag: str) -> str:
    """The primary part of a BCP-47 tag."""
    return tag.replace("_", "-").partition("-")[0].lower() or "en"


@dataclass(frozen=True, slots=True)
class _Stop:
    text: str
    start: int
    """Where the sentence began."""
    at: int
    marks: str
    close: int
    """Where its closing quotes and brackets end."""

    @property
    def after_digit(self) -> bool:
        return self.marks == "." and self.text[self.at - 1 : self.at].isdigit()

    @property
    def quoted(self) -> bool:
        return self.close > self.at + len(self.marks)

    def next_word(self) -> int:
        opening = _OPENING.match(self.text, self.close + 1)
        return opening.end() if opening else self.close + 1


class SentenceEnds:
    """The rules of one language, named by the primary part of its tag."""

    __slots__ = ("_code", "_run")

    def __init__(self, code: str) -> None:
        self._code = code
        self._run = _GREEK_RUN if self._code == "el" else _RUN

    @property
    def stops(self) -> str:
        return STOPS + ";\u037e" if self._code == "el" else STOPS

    def at(self, text: str, stop: int, start: int, end: int) -> tuple[int, int]:
        """Look at the run of stops at `stop` in the sentence that began at `start`, in a text that ends at `end`.

        The first value is where the sentence ends (its closing quotes and brackets included), NO or WAIT; the second
        where to look on.
        """
        run = self._run.match(text, stop, end)
        run_end = run.end() if run else stop + 1
        closing = _CLOSING.match(text, run_end, end)
        close = closing.end() if closing else run_end
        if close == end:
            return WAIT, close
        marks = text[stop:run_end]
        following = text[close]
        if following == "\n":
            return close, close
        if any(mark in _WIDE for mark in marks):
            quoted = text[close - 1] in "」』”" and following == "と"
            return (NO if quoted else close), close
        if following != " ":
            unspaced = _UNSPACED.match(following) is not None and not text[stop - 1 : stop].isdigit()
            return (close if unspaced else NO), close
        return self._before_space(_Stop(text[:end], start, stop, marks, close)), close

    def likely(self, tail: str) -> bool:
        """Whether a tail of which nothing more is known is a sentence rather than an abbreviation or a number."""
        return looks_ended(tail) and not ends_with_number(tail) and self._ends(tail.rstrip(), "A")

    def _before_space(self, stop: _Stop) -> int:
        word, close = stop.next_word(), stop.close
        if word == len(stop.text):
            return WAIT
        first = stop.text[word]
        if first == "\n" or ";" in stop.marks or "\u037e" in stop.marks:
            return close
        if self._is_inside(stop, first):
            return NO
        ordinal = stop.after_digit and self._code != "en"
        sentence = stop.text[stop.start : stop.at] + stop.marks.replace("…", "...")
        if not ordinal and self._ends(sentence, first):
            return close
        if not (ordinal or first.isupper()):
            return NO
        # An abbreviation or an ordinal, and the next word may yet begin a sentence.
        rest = _NEXT_WORD.match(stop.text, word)
        rest_end = rest.end() if rest else word
        if rest_end == len(stop.text) and rest_end - word < _NEXT_WORD_CHARS:
            return WAIT
        return close if self._ends(sentence, stop.text[word:rest_end]) else NO

    def _is_inside(self, stop: _Stop, first: str) -> bool:
        """Whether the sentence goes on with `first`, by rules that `sentencex` hasn't."""
        if stop.quoted and first.islower():
            return True
        if stop.marks != ".":
            return False
        if stop.after_digit and first.isdigit():
            return True
        if _LIST_NUMBER.fullmatch(stop.text, stop.start, stop.at):
            return True
        title = _TITLES.get(self._code)
        if title is not None and title.search(stop.text, max(stop.start, stop.at - _TITLE_CHARS), stop.at):
            return True
        return (
            self._code != "en"
            and _INITIAL.search(stop.text, max(stop.start, stop.at - 2), stop.at) is not None
        )

    def _ends(self, sentence: str, following: str) -> bool:
        found = sentencex.get_sentence_boundaries(self._code, f"{sentence} {following}")
        length = len(sentence)
        return any(length <= boundary["end_index"] <= length + 1 for boundary in found)


def looks_ended(tail: str) -> bool:
    """Whether a text that has stopped coming ends like a sentence."""
    return _ENDED.search(tail) is not None


def ends_with_number(tail: str) -> bool:
    """Whether its full stop may yet become a decimal point."""
    return _ENDED_BY_NUMBER.search(tail) is not None
