"""Whether a sentence ends here, said only once what follows has decided it.

`sentencex` knows abbreviations and languages; it is asked about a window that ends at a place the text itself fixes,
so that its answer can't change when more text arrives.
"""

from typing import Final

import regex
import sentencex

NO: Final = -1
WAIT: Final = -2

_WIDE = "。！？｡؟۔؛।॥։።፧፨។៕။"
STOPS = ".!?…" + _WIDE
_CLOSERS = "\"'”’»)\\]}」』）】〉》›*"
_OPENERS = "\"'“‘«(\\[{¿¡„‚「『（"
_RUN = regex.compile(rf"[{STOPS}]++")
_GREEK_RUN = regex.compile(rf"[{STOPS};\u037e]++")
_CLOSING = regex.compile(rf"[{_CLOSERS}\p{{M}}]*+")
_OPENING = regex.compile(rf"[{_OPENERS}]{{0,8}}+")
_NEXT_WORD = regex.compile(r"[\p{L}\p{M}\p{N}'’]{0,20}+")
_NEXT_WORD_CHARS = 20
_LIST_NUMBER = regex.compile(rf"[{_OPENERS}\s]*+(?:\d{{1,3}}|[A-Za-z])")
_INITIAL = regex.compile(r"(?<![\p{L}\p{N}])\p{Lu}\Z")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")
_ENDED = regex.compile(rf"[{STOPS}][{_CLOSERS}\p{{M}}]*+\s*+\Z")
_ENDED_BY_NUMBER = regex.compile(rf"\p{{N}}\.[{_CLOSERS}\p{{M}}]*+\s*+\Z")

LOOKAHEAD_CHARS = 32
"""What follows a stop decides within so many characters."""


def language_code(tag: str) -> str:
    """The primary part of a BCP-47 tag."""
    return tag.replace("_", "-").partition("-")[0].lower() or "en"


class SentenceEnds:
    """The rules of one language."""

    __slots__ = ("_code", "_run")

    def __init__(self, language: str) -> None:
        self._code = language_code(language)
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
        return self._before_space(text, start, stop, marks, close, end), close

    def _before_space(self, text: str, start: int, stop: int, marks: str, close: int, end: int) -> int:
        opening = _OPENING.match(text, close + 1, end)
        word = opening.end() if opening else close + 1
        if word == end:
            return WAIT
        first = text[word]
        if first == "\n":
            return close
        if ";" in marks or "\u037e" in marks:
            return close
        after_digit = marks == "." and text[stop - 1 : stop].isdigit()
        if after_digit and first.isdigit():
            return NO
        if marks == "." and _LIST_NUMBER.fullmatch(text, start, stop):
            return NO
        if close > stop + len(marks) and first.islower():
            return NO
        if marks == "." and self._code != "en" and _INITIAL.search(text, max(start, stop - 2), stop):
            return NO
        ordinal = after_digit and self._code != "en"
        sentence = text[start:stop] + marks.replace("…", "...")
        if not ordinal and self._ends(sentence, first):
            return close
        if not (ordinal or first.isupper()):
            return NO
        # An abbreviation or an ordinal, and the next word may yet begin a sentence.
        rest = _NEXT_WORD.match(text, word, end)
        rest_end = rest.end() if rest else word
        if rest_end == end and rest_end - word < _NEXT_WORD_CHARS:
            return WAIT
        return close if self._ends(sentence, text[word:rest_end]) else NO

    def _ends(self, sentence: str, following: str) -> bool:
        found = sentencex.get_sentence_boundaries(self._code, f"{sentence} {following}")
        length = len(sentence)
        return any(length <= boundary["end_index"] <= length + 1 for boundary in found)


def looks_ended(tail: str) -> bool:
    """Whether a text that has stopped coming ends like a sentence."""
    return _ENDED.search(tail) is not None and _LIST_NUMBER.fullmatch(tail.rstrip(" .")) is None


def ends_with_number(tail: str) -> bool:
    """Whether its full stop may yet become a decimal point."""
    return _ENDED_BY_NUMBER.search(tail) is not None
