"""The places inside a sentence at which it may be cut, best first: clause, connecting word, white space, grapheme."""

from itertools import pairwise

import regex

CLAUSE_MARKS = ",;:،，、；：—–-)]"
CLAUSE = regex.compile(
    r"[,;:،)\]][\"'”’»)\]]*+(?=\s)|[，、；：](?![”」』）\d])|—(?![\"'”’—])|(?<=\s)[–-](?=\s)"
)
_WORD = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}]{1,2}+|[^\s\p{Han}\p{Hiragana}\p{Katakana}]*[\p{L}\p{N}][^\s\p{Han}\p{Hiragana}\p{Katakana}]*"
)
_SPOKEN = regex.compile(r"[\p{L}\p{N}]")
_SPACE = regex.compile(r"\s")
_GRAPHEME = regex.compile(r"\X")
_FIRST_WORD = regex.compile(r"[\p{L}\p{M}'’]+")
_LAST_WORD = regex.compile(r"[\p{L}\p{M}'’]+\Z")

# Words before which a speaker may take a breath, strong ones first, and words after which none would.
_JOINING = frozenset(
    "and but or nor so yet because since although though while whereas unless until if when whenever where which who "
    "whom whose that than "
    "und oder aber sondern denn weil dass wenn ob als damit obwohl während "
    "et ou mais donc car parce que qui quand lorsque si puisque "
    "y e o u pero sino porque cuando aunque si "
    "ed oppure ma perché quando se che "
    "mas nem quando se "
    "en of maar want omdat wanneer als dat".split()  # noqa: SIM905 - a list of words reads best as words
)
_LEADING = frozenset(
    "in on at for with from by about after before between during through over under into without "
    "mit von für nach bei aus durch ohne "
    "avec pour dans sur sans "
    "con para por sin "
    "per com voor met".split()  # noqa: SIM905
)
_CLINGING = frozenset(
    "a an the this that these those my your his her its our their of to in on at for with from by and or but as is are "
    "was were be been i you he she we they it not no very more most mr mrs ms dr st "
    "der die das den dem des ein eine einen einem einer und zu "
    "le la les un une des du de à et "
    "el los las una de del al y "
    "il lo gli i di da che o os as um uma do no na e "
    "het een van te".split()  # noqa: SIM905
)


def is_spoken(text: str, start: int, end: int) -> bool:
    """Whether there is a letter or a digit."""
    return _SPOKEN.search(text, start, end) is not None


def words(text: str, start: int, end: int) -> int:
    """Two characters of a script without spaces count as a word."""
    return sum(1 for _ in _WORD.finditer(text, start, end))


def best_word(text: str, start: int, end: int, min_words: int, fallback: int) -> int:
    """The best white space after at least `min_words` words; `fallback` if there is none."""
    best, best_score = fallback, -1
    spaces = [found.start() for found in _SPACE.finditer(text, start, end)]
    for place, following in pairwise([*spaces, end]):
        if words(text, start, place) < min_words:
            continue
        score = _score(text, start, place, following)
        if score >= best_score:
            best, best_score = place, score
    return best


def _score(text: str, start: int, place: int, following: int) -> int:
    before = _LAST_WORD.search(text, start, place)
    after = _FIRST_WORD.match(text, place + 1, following)
    if before is not None and before[0].lower() in _CLINGING:
        return 0
    if after is None:
        return 1
    word = after[0].lower()
    return 3 if word in _JOINING else 2 if word in _LEADING else 1


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


def within(text: str, start: int, end: int) -> int:
    """The best place to cut at `end` or before it, whatever it costs."""
    room = end - start
    clause = last_clause(text, start, end, 3, room // 3)
    if clause is not None:
        return clause
    space = best_word(text, start + room // 2, end + 1, 0, -1)
    if space < 0 or not is_spoken(text, start, space):
        space = next((place for place in range(end, start, -1) if text[place : place + 1].isspace()), -1)
    if space > start and is_spoken(text, start, space):
        return space
    return last_grapheme(text, start, end)
