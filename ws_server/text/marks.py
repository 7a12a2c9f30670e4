"""Reads what stands inside a line of Markdown: emphasis, code, links, images, tags, entities, table cells.

Every method takes a place in the held text and returns the place to read on from, or WAIT.
"""

import html
from collections.abc import Callable, Mapping

import regex

from ws_server.text import inline
from ws_server.text.characters import LINE_ENDS
from ws_server.text.held import Held
from ws_server.text.inline import NO, WAIT
from ws_server.text.speakable import SpeakableCopy

# An "h" may begin a web address.
SPECIAL = r"*_~`\[\]<&\\|!h"

_BREAKING_TAGS = regex.compile(
    r"</?(?:br|p|div|li|ul|ol|tr|table|h[1-6]|hr|section|article|blockquote|pre|dt|dd)\b", regex.IGNORECASE
)
_CELL_TAG = regex.compile(r"</?t[dh]\b", regex.IGNORECASE)
_LONG_RUN_CHARS = 64
_HOLD_SPACES_CHARS = 200


class Marks:
    __slots__ = (
        "_acts",
        "_code_end",
        "_code_ticks",
        "_copy",
        "_emphasis_open",
        "_held",
        "_in_url",
        "_link_ends",
        "in_row",
        "url_goes_on",
    )

    def __init__(self, copy: SpeakableCopy, held: Held) -> None:
        self._copy = copy
        self._held = held
        self._in_url = False
        self._link_ends: list[int] = []
        """Where the texts of open links end, in the client's text."""
        self._code_end = -1
        self._code_ticks = 0
        self._emphasis_open = False
        self.in_row = False
        """The line is a table row."""
        self.url_goes_on = False
        """A link's address was cut off: its rest is still to be left out."""
        self._acts: Mapping[str, Callable[[int, bool], int]] = {
            "*": self._star,
            "_": self._underscore,
            "~": self._tilde,
            "`": self._tick,
            "!": self._exclamation,
            "[": self._open_bracket,
            "]": self._close_bracket,
            "<": self._angle,
            "&": self._ampersand,
            "\\": self._backslash,
            "|": self._bar,
            "h": self._scheme,
            " ": self._space,
            "\t": self._space,
        }

    def end_line(self) -> None:
        self._in_url = False
        self._link_ends.clear()

    def end_paragraph(self) -> None:
        self._emphasis_open = False

    @property
    def in_code(self) -> bool:
        return self._code_end >= 0

    def read_code(self, at: int) -> int:
        close = self._code_end - self._held.start
        if at == close:
            self._code_end = -1
            return at + self._code_ticks
        return self._literally(at, close)

    def read(self, at: int, *, final: bool) -> int:
        act = self._acts.get(self._held.text[at])
        return self.put(at) if act is None else act(at, final)

    def put(self, at: int) -> int:
        char = self._held.text[at]
        if char.isspace():
            self._in_url = False
        source = self._held.source(at)
        self._copy.put(char, source, source + 1)
        return at + 1

    def _literally(self, at: int, end: int) -> int:
        for place in range(at, end):
            self.put(place)
        return end

    # Emphasis and code --------------------------------------------------------------------------------------

    def _run(self, at: int, *, final: bool) -> int:
        """The end of a run of one marker; a very long one is read in pieces."""
        text = self._held.text
        limit = min(len(text), at + _LONG_RUN_CHARS)
        end = at + 1
        while end < limit and text[end] == text[at]:
            end += 1
        return WAIT if end == len(text) and end < at + _LONG_RUN_CHARS and not final else end

    def _star(self, at: int, final: bool) -> int:
        end = self._run(at, final=final)
        if end == WAIT or end - at == _LONG_RUN_CHARS:
            return end
        before, after = self._held.previous(at), self._held.text[end : end + 1] or " "
        if before.isspace() and after.isspace():
            return self._literally(at, end)
        if end - at == 1 and before.isalnum() and after.isalnum():
            return self._star_in_word(at, final=final)
        self._emphasis_open = not after.isspace() and not before.isalnum()
        return end

    def _star_in_word(self, at: int, *, final: bool) -> int:
        if self._emphasis_open:
            self._emphasis_open = False
            return at + 1
        if self._held.previous(at).isdigit() or self._held.text[at + 1].isdigit():
            return self._literally(at, at + 1)
        other = inline.emphasis(self._held.text, at + 1, final=final)
        if other == WAIT:
            return WAIT
        if other == NO:
            return self._literally(at, at + 1)
        self._emphasis_open = True
        return at + 1

    def _underscore(self, at: int, final: bool) -> int:
        end = self._run(at, final=final)
        if end == WAIT:
            return WAIT
        inside = self._held.previous(at).isalnum() and self._held.text[end : end + 1].isalnum()
        return self._literally(at, end) if inside or self._in_url else end

    def _tilde(self, at: int, final: bool) -> int:
        end = self._run(at, final=final)
        if end == WAIT:
            return WAIT
        return self._literally(at, end) if end - at == 1 or self._in_url else end

    def _tick(self, at: int, final: bool) -> int:
        end = self._run(at, final=final)
        if end == WAIT or end - at == _LONG_RUN_CHARS:
            return end
        close = inline.code_span(self._held.text, end, end - at, final=final)
        if close == WAIT:
            return WAIT
        if close != NO:
            self._code_end = self._held.source(close)
            self._code_ticks = end - at
        return end

    def _backslash(self, at: int, final: bool) -> int:
        text = self._held.text
        if at + 1 == len(text):
            return self.put(at) if final else WAIT
        following = text[at + 1]
        if following in LINE_ENDS:
            return at + 1
        escaped = (
            following.isascii() and following.isprintable() and not following.isalnum() and following != " "
        )
        return self.put(at + 1 if escaped else at)

    # Links --------------------------------------------------------------------------------------------------

    def _exclamation(self, at: int, final: bool) -> int:
        # Only where an image may begin; after a word the mark itself is needed at once.
        before = self._held.previous(at)
        if not before.isspace() and before not in "[(|>*_":
            return self.put(at)
        if at + 1 == len(self._held.text):
            return self.put(at) if final else WAIT
        if self._held.text[at + 1] != "[":
            return self.put(at)
        close = inline.link_text(self._held.text, at + 1, final=final)
        if close == WAIT:
            return WAIT
        return self.put(at) if close == NO else at + 1

    def _open_bracket(self, at: int, final: bool) -> int:
        note = inline.footnote(self._held.text, at, final=final)
        if note != NO:
            return note
        close = inline.link_text(self._held.text, at, final=final)
        if close == WAIT:
            return WAIT
        if close == NO:
            return self.put(at)
        self._link_ends.append(self._held.source(close))
        return at + 1

    def _close_bracket(self, at: int, final: bool) -> int:
        source = self._held.source(at)
        if not self._link_ends or self._link_ends[-1] != source:
            return self.put(at)
        goes_on = False
        if self._held.text[at + 1] == "[":
            end = inline.reference(self._held.text, at + 1, final=final)
        else:
            end, goes_on = inline.destination(self._held.text, at + 1, final=final)
        if end == WAIT:
            return WAIT
        self._link_ends.pop()
        self.url_goes_on = goes_on
        if end == NO:
            self._copy.space(source)
            return at + 1
        return end

    def _scheme(self, at: int, final: bool) -> int:
        if self._held.previous(at).isalnum():
            return self.put(at)
        end = inline.scheme(self._held.text, at, final=final)
        if end == WAIT:
            return WAIT
        if end == NO:
            return self.put(at)
        self._in_url = True
        return end

    # HTML ---------------------------------------------------------------------------------------------------

    def _angle(self, at: int, final: bool) -> int:
        text = self._held.text
        address_end = inline.autolink(text, at, final=final)
        if address_end > at:
            return self._address(at + 1, address_end)
        tag_end = inline.tag(text, at, final=final)
        if WAIT in {address_end, tag_end}:
            return WAIT
        if tag_end == NO:
            return self.put(at)
        if _BREAKING_TAGS.match(text, at):
            self._copy.paragraph(self._held.source(at))
        elif _CELL_TAG.match(text, at):
            self._copy.comma(self._held.source(at))
        return tag_end

    def _address(self, at: int, end: int) -> int:
        """What stands between angle brackets: spoken without its scheme."""
        address = self._held.text[at : end - 1]
        for prefix in ("https://", "http://", "mailto:"):
            if address.startswith(prefix):
                at += len(prefix)
        self._literally(at, end - 1)
        return end

    def _ampersand(self, at: int, final: bool) -> int:
        end = inline.entity(self._held.text, at, final=final)
        if end == WAIT:
            return WAIT
        name = self._held.text[at:end] if end != NO else ""
        meant = html.unescape(name)
        if meant == name:
            return self.put(at)
        for char in meant:
            self._copy.put(char, self._held.source(at), self._held.source(end))
        return end

    # Tables -------------------------------------------------------------------------------------------------

    def _bar(self, at: int, final: bool) -> int:
        text = self._held.text
        if self.in_row:
            end = self._past_spaces(at + 1, final=final)
            if end != WAIT and end < len(text) and text[end] not in LINE_ENDS:
                self._copy.comma(self._held.source(at))
            return end
        if at + 1 == len(text) and not final:
            return WAIT
        after = text[at + 1 : at + 2] or " "
        if self._held.previous(at).isspace() and after.isspace():
            self._copy.comma(self._held.source(at))
            return at + 1
        return self.put(at)

    def _space(self, at: int, final: bool) -> int:
        if not self.in_row:
            return self.put(at)
        end = self._past_spaces(at, final=final)
        if end != WAIT and end < len(self._held.text) and self._held.text[end] != "|":
            self.put(at)
        return end

    def _past_spaces(self, at: int, *, final: bool) -> int:
        text = self._held.text
        end = at
        limit = min(len(text), at + _HOLD_SPACES_CHARS)
        while end < limit and text[end] in " \t":
            end += 1
        return WAIT if end == len(text) and end < at + _HOLD_SPACES_CHARS and not final else end
