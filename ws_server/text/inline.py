"""Where links, code, tags and emphasis inside a line end, asked again and again while the line is still being written.

Each answer is a place in the examined text, `NO` (it isn't one, and never will be), or `WAIT` (what follows
decides). What was once answered with NO or a place is answered the same however the text goes on.
"""

from typing import Final

import regex

NO: Final = -1
WAIT: Final = -2

HOLD_CHARS = 300
"""The longest link text, code span or tag that is waited for."""
HOLD_URL_CHARS = 2000

_BRACKETS = regex.compile(r"\\.|[\[\]\n]|[.!?](?=\s)")
_DESTINATION = regex.compile(
    r"\([ \t]*+(?:<[^<>\n]*+>|[^\s()<>]*+(?:\([^\s()]*+\)[^\s()]*+)*+)"
    r"(?:[ \t]++(?:\"[^\"\n]*+\"|'[^'\n]*+'|\([^()\n]*+\)))?[ \t]*+\)"
)
_REFERENCE = regex.compile(r"\[[^\[\]\n]{0,100}+\]")
_FOOTNOTE = regex.compile(r"\[\^[^\[\]\s]{1,40}+\]")
_TAG = regex.compile(
    r"</?[A-Za-z][A-Za-z0-9:-]{0,40}+(?:\s++[A-Za-z_:@][\w.:-]*+\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'=<>`]++))*+\s*+/?>"
    r"|<!--(?:[^-]|-(?!->))*+-->"
)
_AUTOLINK = regex.compile(r"<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}+:[^\s<>]*+|[\w.+-]{1,64}+@[\w.-]++)>")
_ENTITY = regex.compile(r"&(?:#\d{1,7}+|#[xX][0-9a-fA-F]{1,6}+|[A-Za-z][A-Za-z0-9]{1,31}+);")
_SCHEME = regex.compile(r"https?+://")
_LINE_OR_SENTENCE_END = regex.compile(r"\n|[.!?](?=\s)")


def _ask(pattern: regex.Pattern[str], text: str, at: int, *, hold_chars: int, final: bool) -> int:
    found = pattern.match(text, at, at + hold_chars, partial=True)
    if found is None:
        return NO
    if not found.partial:
        return found.end()
    return NO if final or len(text) - at >= hold_chars else WAIT


def link_text(text: str, at: int, *, final: bool) -> int:
    """The `]` that closes the link text or the image's name opened by the `[` at `at`."""
    depth = 0
    window_end = at + HOLD_CHARS
    for mark in _BRACKETS.finditer(text, at, window_end):
        found = mark[0]
        if found == "[":
            depth += 1
            if depth > 3:
                return NO
        elif found == "]":
            depth -= 1
            if depth == 0:
                return _opens_destination(text, mark.start(), final=final)
        elif found[0] != "\\":
            return NO
    return NO if final or len(text) >= window_end else WAIT


def _opens_destination(text: str, closer: int, *, final: bool) -> int:
    after = text[closer + 1 : closer + 2]
    if not after:
        return NO if final else WAIT
    return closer if after in "([" else NO


def footnote(text: str, at: int, *, final: bool) -> int:
    """The end of a `[^note]`."""
    return _ask(_FOOTNOTE, text, at, hold_chars=HOLD_CHARS, final=final)


def reference(text: str, at: int, *, final: bool) -> int:
    """The end of the `[label]` that follows a link's text."""
    return _ask(_REFERENCE, text, at, hold_chars=HOLD_CHARS, final=final)


def destination(text: str, at: int, *, final: bool) -> tuple[int, bool]:
    """The end of the `(url "title")` that follows a link's text, and whether the address goes on after it.

    An address that is cut off, or very long, is one all the same.
    """
    found = _DESTINATION.match(text, at, at + HOLD_URL_CHARS, partial=True)
    if found is None:
        return NO, False
    if not found.partial:
        return found.end(), False
    end = min(len(text), at + HOLD_URL_CHARS)
    if end - at < HOLD_URL_CHARS and not final:
        return WAIT, False
    cut_off = not any(char.isspace() for char in text[at:end])
    return (end, True) if cut_off else (NO, False)


def tag(text: str, at: int, *, final: bool) -> int:
    """The end of an HTML tag or comment."""
    return _ask(_TAG, text, at, hold_chars=HOLD_CHARS, final=final)


def autolink(text: str, at: int, *, final: bool) -> int:
    """The end of a `<https://...>`."""
    return _ask(_AUTOLINK, text, at, hold_chars=HOLD_CHARS, final=final)


def entity(text: str, at: int, *, final: bool) -> int:
    """The end of a `&name;`."""
    return _ask(_ENTITY, text, at, hold_chars=40, final=final)


def scheme(text: str, at: int, *, final: bool) -> int:
    """The end of a `https://`."""
    return _ask(_SCHEME, text, at, hold_chars=40, final=final)


def code_span(text: str, at: int, ticks: int, *, final: bool) -> int:
    """Where the closing run of a code span begins whose content begins at `at`."""
    for run in regex.finditer(r"`++|\n", text, pos=at, endpos=at + HOLD_CHARS):
        if run[0] == "\n":
            return NO
        if run.end() == len(text) and not final:
            return WAIT
        if run.end() - run.start() == ticks:
            return run.start()
    return NO if final or len(text) >= at + HOLD_CHARS else WAIT


def emphasis(text: str, at: int, *, final: bool) -> int:
    """The next asterisk of the sentence, sought from `at`."""
    window = text[at : at + HOLD_CHARS]
    star = window.find("*")
    stop = _LINE_OR_SENTENCE_END.search(window)
    if star >= 0 and (stop is None or star < stop.start()):
        return at + star
    return NO if final or stop is not None or len(window) == HOLD_CHARS else WAIT
