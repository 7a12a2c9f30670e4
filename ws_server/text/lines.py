"""What the beginning of a line says about the line: heading, list item, table row, fence, rule, or text."""

from dataclasses import dataclass
from enum import Enum, auto

import regex

HOLD_CHARS = 200
"""No line is held back longer than this for the sake of what it might turn out to be."""


class Kind(Enum):
    TEXT = auto()
    HEADING = auto()
    BULLET = auto()
    NUMBER = auto()
    ROW = auto()
    FENCE = auto()
    SILENT = auto()
    """A rule, the underline of a heading, the second row of a table, a link definition."""


@dataclass(frozen=True, slots=True)
class LineStart:
    kind: Kind
    content: int
    """Where in the examined text the line's content begins."""


_RULE = regex.compile(r"[-*_=|:+ \t]*+")
_TICKS = regex.compile(r"`++|~++")
_HASHES = regex.compile(r"#++")
_NUMBER = regex.compile(r"\d{1,9}+[.)][ \t\r\n]")
_DEFINITION = regex.compile(r"\[[^\[\]\n]{1,99}\]:[ \t]*+(?:https?://|mailto:|[/#<.])")
_FOOTNOTE = regex.compile(r"\[\^[^\[\]\n]{1,40}\]:[ \t]*+")
_TASK = regex.compile(r"\[[ xX]\][ \t]")
_BULLETS = frozenset("-*+•◦▪‣∙")
_RULE_CHARS = frozenset("-*_=|:+")


def line_start(text: str, at: int, *, final: bool) -> LineStart | None:
    """Decide about the line whose first character (indentation aside) is at `at`; None: not yet certain.

    `final`: nothing follows what is there.
    """
    char = text[at]
    plain = LineStart(Kind.TEXT, at)
    if char in _RULE_CHARS or char in _BULLETS:
        return _ruled(text, at, final=final)
    if char in "`~":
        return _fence(text, at, final=final)
    if char == "#":
        return _heading(text, at, final=final)
    if char.isdigit():
        found = _NUMBER.match(text, at, partial=True)
        if found is None:
            return plain
        if found.partial:
            return plain if final else None
        return LineStart(Kind.NUMBER, at)
    if char == "[":
        return _bracketed(text, at, final=final)
    return plain


def _ruled(text: str, at: int, *, final: bool) -> LineStart | None:
    char = text[at]
    if char in _RULE_CHARS:
        rule = _RULE.match(text, at, at + HOLD_CHARS)
        end = rule.end() if rule else at
        if end - at < HOLD_CHARS:
            if end == len(text) and not final:
                return None
            if end == len(text):
                return LineStart(Kind.TEXT, end)
            if text[end] in "\r\n":
                return LineStart(Kind.SILENT, end)
    if char == "|":
        return LineStart(Kind.ROW, at + 1)
    if char in _BULLETS:
        if at + 1 == len(text) and not final:
            return None
        if text[at + 1 : at + 2] in {" ", "\t"}:
            return LineStart(Kind.BULLET, at + 2)
    return LineStart(Kind.TEXT, at)


def _fence(text: str, at: int, *, final: bool) -> LineStart | None:
    run = _TICKS.match(text, at, at + HOLD_CHARS)
    end = run.end() if run else at
    if end - at < 3:
        return LineStart(Kind.TEXT, at) if end < len(text) or final else None
    info, line_end, _ = text[end : end + HOLD_CHARS].partition("\n")
    if text[at] == "`" and "`" in info:
        return LineStart(Kind.TEXT, at)  # a code span of three ticks
    if not line_end and not final and len(info) < HOLD_CHARS:
        return None
    return LineStart(Kind.FENCE, end)


def _heading(text: str, at: int, *, final: bool) -> LineStart | None:
    run = _HASHES.match(text, at, at + 7)
    end = run.end() if run else at
    if end - at > 6:
        return LineStart(Kind.TEXT, at)
    if end == len(text):
        return LineStart(Kind.TEXT, end) if final else None
    return LineStart(Kind.HEADING, end) if text[end] in " \t\r\n" else LineStart(Kind.TEXT, at)


def _bracketed(text: str, at: int, *, final: bool) -> LineStart | None:
    patterns = ((_TASK, Kind.BULLET), (_FOOTNOTE, Kind.NUMBER), (_DEFINITION, Kind.SILENT))
    for pattern, kind in patterns:
        found = pattern.match(text, at, partial=True)
        if found is None:
            continue
        if not found.partial:
            return LineStart(kind, found.end())
        if not final:
            return None
    return LineStart(Kind.TEXT, at)
