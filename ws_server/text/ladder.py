"""The places inside a sentence at which it may be cut, best first: clause, connecting word, white space, grapheme."""

from bisect import bisect_right
from itertools import pairwise

import regex

from ws_server.text.connectors import Connectors

CLAUSE_LOOKAHEAD_CHARS = 8
CLAUSE_MARKS = ",;:،，、；：—–-)"
CLAUSE = regex.compile(
    r"[,;:،)][\"'”’»)\]]{0,6}+(?=\s)|[，、；：](?![”」』）\d])|—(?![\"'”’—])|(?<=\s)[–-](?=\s)"
)
_TOKEN = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]{1,2}+|[^\s\p{Han}\p{Hiragana}\p{Katakana}]++")
_SPOKEN = regex.compile(r"[\p{L}\p{N}]")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")
_SPACE = regex.compile(r"\s")
_GRAPHEME = regex.compile(r"\X")
_FIRST_WORD = regex.compile(r"[\p{L}\p{M}'’]+")
_LAST_WORD = regex.compile(r"[\p{L}\p{M}'’]+\Z")


def is_spoken(text: str, start: int, end: int) -> bool:
    """Whether there is a letter or a digit."""
    return _SPOKEN.search(text, start, end) is not None


def unspaced_chars(text: str, start: int, end: int) -> int:
    """Characters of scripts that are written without spaces."""
    return sum(1 for _ in _UNSPACED.finditer(text, start, end))


def words(text: str, start: int, end: int) -> int:
    """Two characters of a script without spaces count as a word."""
    return len(_word_ends(text, start, end))


def _word_ends(text: str, start: int, end: int) -> list[int]:
    tokens = (token.span() for token in _TOKEN.finditer(text, start, end))
    return [last for first, last in tokens if is_spoken(text, first, last)]


def best_word(text: str, start: int, end: int, min_words: int, small: Connectors) -> int | None:
    """The best white space before `end` after at least `min_words` words."""
    best, best_score = None, -1
    word_ends = _word_ends(text, start, end)
    before = start
    spaces = [found.start() for found in _SPACE.finditer(text, start, end)]
    for place, following in pairwise([*spaces, end]):
        word_start, before = before, place + 1
        if bisect_right(word_ends, place) < min_words:
            continue
        score = _score(text, word_start, place, following, small)
        if score >= best_score:
            best, best_score = place, score
    return best


def _score(text: str, start: int, place: int, following: int, small: Connectors) -> int:
    before = _LAST_WORD.search(text, start, place)
    after = _FIRST_WORD.match(text, place + 1, following)
    if before is not None and before[0].lower() in small.clinging:
        return 0
    if after is None:
        return 1
    word = after[0].lower()
    return 3 if word in small.joining else 2 if word in small.leading else 1


def last_clause(text: str, start: int, end: int, min_words: int, min_chars: int) -> int | None:
    """The end of the last clause that ends by `end`."""
    found = [
        mark.end() for mark in CLAUSE.finditer(text, start, min(end + 1, len(text))) if mark.end() <= end
    ]
    for place in reversed(found):
        if place - start < min_chars:
            return None
        if words(text, start, place) >= min_words:
            return place
    return None


def last_grapheme(text: str, start: int, end: int) -> int:
    """The last boundary between graphemes by `end`; `end` itself inside an endless one."""
    best = start
    for found in _GRAPHEME.finditer(text, start, min(end + 1, len(text))):
        if found.end() > end:
            break
        best = found.end()
    return best if best > start else end


def within(text: str, start: int, end: int, small: Connectors) -> int:
    """The best place to cut at `end` or before it, whatever it costs."""
    room = end - start
    clause = last_clause(text, start, end, 3, room // 3)
    if clause is not None:
        return clause
    space = best_word(text, start + room // 2, end + 1, 0, small)
    if space is None or not is_spoken(text, start, space):
        space = next((place for place in range(end, start, -1) if text[place : place + 1].isspace()), None)
    if space is not None and is_spoken(text, start, space):
        return space
    return last_grapheme(text, start, end)
