"""A segment's text as the ids that a Piper voice reads: phonemes, with the punctuation that shapes the tune."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import sentencex

_START, _END, _PAD = "^", "$", "_"
_MARKS = {
    **dict.fromkeys(",、，،—–", ","),
    **dict.fromkeys(".。।…۔", "."),
    **dict.fromkeys("?？؟", "?"),
    **dict.fromkeys("!！", "!"),
    **dict.fromkeys(";；؛", ";"),
    **dict.fromkeys(":：", ":"),
}
_CLOSERS = "\"'”’»)]"
_CLOSING = f"[{re.escape(_CLOSERS)}]"
_CLAUSE = re.compile(
    rf"(.*?)([,;:!?،؛؟—–…]+{_CLOSING}*(?=\s|$)|\.+{_CLOSING}+(?=\s|$)|[、，。！？；：।۔]+|$)", re.DOTALL
)
"""What is said up to a mark, and the mark. Any other full stop inside a sentence is an abbreviation's."""
_MOST_PHONEMES = 400
"""Read at once: the cost grows with their square."""


class Phonemes(Protocol):
    def phonemes(self, clause: str) -> str: ...


class Reader:
    def __init__(self, source: Phonemes | None, ids: Mapping[str, Sequence[int]], language: str) -> None:
        """`source`: None where the voice was trained on letters."""
        self._source = source
        self._ids = ids
        self._language = language

    def read(self, text: str) -> list[list[int]]:
        """One list for each run of the network; none: nothing can be spoken."""
        runs: list[list[str]] = [[]]
        for part in self._parts(text):
            if len(runs[-1]) + len(part) > _MOST_PHONEMES and runs[-1]:
                runs.append([])
            runs[-1] += part
        return [self._numbered(run) for run in runs if any(self._is_sound(symbol) for symbol in run)]

    def _parts(self, text: str) -> Iterator[list[str]]:
        """Words and clauses' ends, in the voice's symbols; each ends with a space."""
        for sentence in sentencex.segment(self._language, text):
            for clause, mark in _clauses(sentence.strip()):
                words = self._spoken(clause).split()
                for index, word in enumerate(words):
                    ends = mark if index == len(words) - 1 else ""
                    symbols = [symbol for symbol in word if symbol in self._ids]
                    for start in range(0, len(symbols), _MOST_PHONEMES):
                        yield symbols[start : start + _MOST_PHONEMES]
                    yield [symbol for symbol in f"{ends} " if symbol in self._ids]

    def _spoken(self, clause: str) -> str:
        if not any(character.isalnum() for character in clause):
            return ""
        found = clause.casefold() if self._source is None else self._source.phonemes(clause)
        return unicodedata.normalize("NFD", found)

    def _is_sound(self, symbol: str) -> bool:
        return symbol.isalnum()

    def _numbered(self, symbols: list[str]) -> list[int]:
        ids = [*self._ids[_START], *self._ids[_PAD]]
        for symbol in symbols:
            ids += [*self._ids[symbol], *self._ids[_PAD]]
        return [*ids, *self._ids[_END]]


def _clauses(sentence: str) -> Iterator[tuple[str, str]]:
    """The last one's mark may be a full stop."""
    body = sentence.rstrip(_CLOSERS + " ")
    final = ""
    while body and body[-1] in _MARKS:
        mark = _MARKS[body[-1]]
        final = mark if mark != "." or not final else final
        body = body[:-1]
    found = [(match[1], match[2]) for match in _CLAUSE.finditer(body) if match[1].strip()]
    for index, (clause, mark) in enumerate(found):
        last = index == len(found) - 1
        yield clause, final if last else _MARKS.get(mark[0], ",")
