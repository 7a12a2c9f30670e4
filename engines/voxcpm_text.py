"""What VoxCPM is given to read: on one line, with nothing that it would take for an instruction."""

import re

_OPENING, _CLOSING = "(（", ")）"
_WHITE = re.compile(r"\s+")


def spoken(text: str) -> str:
    """Empty: there is nothing to say."""
    plain = _WHITE.sub(" ", "".join(one if one.isprintable() else " " for one in text)).strip()
    if not any(one.isalnum() for one in plain):
        return ""
    while plain[0] in _OPENING:
        # At the start of a text brackets hold a style, which isn't read: a client's words would be lost.
        plain = _without_the_first_pair(plain).strip()
    return plain


def instructed(text: str, instruct: str) -> str:
    return f"({instruct.strip()}){text}" if instruct.strip() else text


def _without_the_first_pair(text: str) -> str:
    closing = next((index for index, one in enumerate(text) if one in _CLOSING), None)
    if closing is None:
        return text[1:]
    return f"{text[1:closing]},{text[closing + 1 :]}" if text[closing + 1 :].strip() else text[1:closing]
