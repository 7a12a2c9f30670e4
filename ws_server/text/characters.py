"""Which characters are spoken, which are plain white space, and which aren't there for a voice."""

import unicodedata
from enum import Enum, auto

import regex


class Role(Enum):
    SPOKEN = auto()
    SPACE = auto()
    """White space, control characters, emoji: they part words and say nothing."""
    MARK = auto()
    """Belongs to the character before it and is spoken with it."""
    SILENT_MARK = auto()
    """Belongs to the character before it and changes only its looks."""
    NOTHING = auto()
    """Zero width: neither heard nor parting."""


LINE_ENDS = frozenset("\n\r\v\f\x85\u2028\u2029")
_JOINERS = frozenset("\u200c\u200d")
# Scripts in which a joiner changes the letter that is read; elsewhere it is typography.
_JOINED = regex.compile(
    r"[\p{Arabic}\p{Syriac}\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}\p{Oriya}\p{Tamil}\p{Telugu}"
    r"\p{Kannada}\p{Malayalam}\p{Sinhala}\p{Tibetan}\p{Myanmar}\p{Khmer}\p{Mongolian}]"
)
_SILENT_MARKS = regex.compile(
    r"[\uFE00-\uFE0F\u20E3\U0001F3FB-\U0001F3FF\U000E0020-\U000E007F\U000E0100-\U000E01EF]"
)
_PICTURE = regex.compile(r"[\p{Extended_Pictographic}\p{RI}--[©®™]]", regex.V1)
_CATEGORY_ROLES = {
    "Cc": Role.SPACE,
    "Cs": Role.SPACE,
    "Co": Role.SPACE,
    "Cf": Role.NOTHING,
    "Mn": Role.MARK,
    "Mc": Role.MARK,
    "Me": Role.MARK,
    "Zs": Role.SPACE,
    "Zl": Role.SPACE,
    "Zp": Role.SPACE,
}


def role(char: str, before: str) -> Role:
    """`before` is the spoken character that it follows."""
    if char in _JOINERS:
        return Role.MARK if _JOINED.match(before) else Role.SILENT_MARK
    if _SILENT_MARKS.match(char):
        return Role.SILENT_MARK
    category = unicodedata.category(char)
    if category == "So" and _PICTURE.match(char):
        return Role.SPACE
    return _CATEGORY_ROLES.get(category, Role.SPOKEN)
