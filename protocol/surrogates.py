"""Halves of characters: text whose UTF-16 surrogates were torn apart is joined again, or made whole."""

import re

REPLACEMENT = "\ufffd"
_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_MAY_HOLD = re.compile("\\\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_HIGH_FIRST, _HIGH_LAST = "\ud800", "\udbff"


def has_surrogates(json_text: str) -> bool:
    """Whether one can come out of a JSON text, written as itself or escaped."""
    if json_text.isascii() and "\\u" not in json_text:
        return False
    return _MAY_HOLD.search(json_text) is not None


def mend(text: str) -> str:
    """Join pairs; any other surrogate becomes U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    joined = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _SURROGATE.sub(REPLACEMENT, joined)


class SurrogateJoiner:
    """One text that comes in increments: a high surrogate at an increment's end waits for the next."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, increment: str) -> str:
        if not increment or (not self._held and increment.isascii()):
            return increment
        text = self._held + increment
        self._held = text[-1] if _HIGH_FIRST <= text[-1] <= _HIGH_LAST else ""
        return mend(text[:-1] if self._held else text)

    def finish(self) -> str:
        """What is held at the text's end, or at a point where nothing may wait."""
        held, self._held = self._held, ""
        return REPLACEMENT if held else ""
