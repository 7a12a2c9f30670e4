"""Reads text as it is written and makes the speakable copy: Markdown, emoji and odd spaces become plain speech.

What a character means may depend on what follows, so a little is held back: never beyond the line or sentence, and
never more than `HOLD_CHARS` of it.
"""

import html
from collections.abc import Callable, Mapping

import regex

from protocol.messages import Markup
from ws_server.text import inline
from ws_server.text.characters import LINE_ENDS
from ws_server.text.inline import NO, WAIT
from ws_server.text.lines import HOLD_CHARS, Kind, LineStart, line_start
from ws_server.text.speakable import SpeakableCopy

_UNUSUAL = r"\s\p{C}\p{M}\p{Extended_Pictographic}\p{RI}\p{Emoji_Modifier}"
_PLAIN_RUN = regex.compile(rf"[^{_UNUSUAL}](?:[^{_UNUSUAL}]| (?=[^{_UNUSUAL}]))*+")
# An "h" may begin a web address.
_MARKS = r"*_~`\[\]<&\\|!h"
_MARKDOWN_RUN = regex.compile(
    rf"(?:[^{_UNUSUAL}{_MARKS}]|h(?=[^t]))(?:[^{_UNUSUAL}{_MARKS}]|h(?=[^t])| (?=[^{_UNUSUAL}{_MARKS}]))*+"
)
_INDENT = regex.compile(r"[ \t]*+(?:>[ \t]*+)*+")
_PLAIN_INDENT = regex.compile(r"[ \t]*+")
_WORD = regex.compile(r"[\p{L}\p{N}]")
_BREAKING_TAGS = regex.compile(
    r"</?(?:br|p|div|li|ul|ol|tr|table|h[1-6]|hr|section|article|blockquote|pre|dt|dd)\b", regex.IGNORECASE
)
_CELL_TAG = regex.compile(r"</?t[dh]\b", regex.IGNORECASE)
_LIST_LIKE = frozenset("-*+•◦▪‣∙#>|")
_LONG_RUN_CHARS = 64
_SOFT_LINE_CHARS = 60
"""A line of prose that is at least this long was wrapped; a shorter one ends because its writer ended it."""


class Reader:
    """Pure and incremental: the copy depends on the text alone, not on how it was split."""

    def __init__(self, copy: SpeakableCopy, markup: Markup) -> None:
        self._copy = copy
        self._markdown = markup == "markdown"
        self._run = _MARKDOWN_RUN if self._markdown else _PLAIN_RUN
        self._raw = ""
        self._raw_start = 0
        self._before = "\n"
        """The client's character before `_raw`."""
        self._at_line_start = True
        self._break_at: int | None = None
        """A line end of which it isn't known yet whether it also ends a paragraph."""
        self._line_from = 0
        self._kind = Kind.TEXT
        self._fence: regex.Pattern[str] | None = None
        """What closes the fenced code that is being skipped."""
        self._skipping_line = False
        self._skipping_url = False
        self._in_url = False
        self._link_ends: list[int] = []
        self._code_end = -1
        self._code_ticks = 0
        self._emphasis_open = False
        marks: dict[str, Callable[[int, bool], int]] = {
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
        }
        self._marks: Mapping[str, Callable[[int, bool], int]] = marks if self._markdown else {}

    def feed(self, text: str) -> None:
        self._raw += text
        self._read(final=False)

    def settle(self) -> None:
        """Decide about what is held back as if nothing followed."""
        self._read(final=True)
        if self._break_at is not None:
            self._copy.paragraph(self._break_at)
            self._break_at = None

    @property
    def holds_words(self) -> bool:
        return self._fence is None and _WORD.search(self._raw) is not None

    def _read(self, *, final: bool) -> None:
        at = 0
        end = len(self._raw)
        while at < end:
            following = self._step(at, final=final)
            if following == WAIT:
                break
            at = following
        if at:
            self._before = self._raw[at - 1]
            self._raw = self._raw[at:]
            self._raw_start += at

    def _step(self, at: int, *, final: bool) -> int:
        raw = self._raw
        if self._fence is not None:
            return self._skip_fenced(at)
        if self._skipping_line or self._skipping_url:
            return self._skip(at)
        if self._at_line_start:
            return self._start_line(at, final=final)
        if self._code_end >= 0:
            return self._code(at)
        run = self._run.match(raw, at)
        if run is not None:
            self._copy.put_run(run[0], self._raw_start + at)
            return run.end()
        char = raw[at]
        if char in LINE_ENDS:
            return self._end_line(at)
        if char in " \t" and self._kind is Kind.ROW:
            return self._row_space(at, final=final)
        act = self._marks.get(char)
        if act is not None:
            return act(at, final)
        return self._put(at)

    def _put(self, at: int) -> int:
        char = self._raw[at]
        if char.isspace():
            self._in_url = False
        start = self._raw_start + at
        self._copy.put(char, start, start + 1)
        return at + 1

    def _previous(self, at: int) -> str:
        return self._raw[at - 1] if at else self._before

    # Lines --------------------------------------------------------------------------------------------------

    def _end_line(self, at: int) -> int:
        source = self._raw_start + at
        self._in_url = False
        if self._raw[at] == "\n" and self._previous(at) == "\r":
            return at + 1
        if self._kind in {Kind.HEADING, Kind.ROW}:
            self._copy.paragraph(source)
        elif self._break_at is None:
            self._break_at = source
        self._at_line_start = True
        self._link_ends.clear()
        return at + 1

    def _start_line(self, at: int, *, final: bool) -> int:
        indent = (_INDENT if self._markdown else _PLAIN_INDENT).match(self._raw, at)
        content = indent.end() if indent else at
        if content == len(self._raw):
            return content
        if self._raw[content] in LINE_ENDS:
            return self._blank_line(content)
        start = (
            line_start(self._raw, content, final=final) if self._markdown else LineStart(Kind.TEXT, content)
        )
        if start is None:
            return WAIT
        self._settle_break(start.kind, content)
        self._kind = start.kind
        self._line_from = self._raw_start + content
        self._at_line_start = start.kind is Kind.BULLET
        if start.kind is Kind.FENCE:
            self._open_fence(content, start.content)
        elif start.kind is Kind.SILENT:
            self._skipping_line = True
        return start.content

    def _blank_line(self, at: int) -> int:
        """`at`: its line end."""
        if self._raw[at] == "\n" and self._previous(at) == "\r":
            return at + 1
        self._kind = Kind.TEXT
        self._emphasis_open = False
        self._break_at = None
        self._copy.paragraph(self._raw_start + at)
        return at + 1

    def _settle_break(self, kind: Kind, content: int) -> None:
        if self._break_at is None:
            if kind is not Kind.TEXT:
                self._copy.paragraph(self._raw_start + content)
            return
        if kind is Kind.TEXT and self._is_wrapped(self._raw[content]):
            self._copy.space(self._break_at)
        else:
            self._copy.paragraph(self._break_at)
            self._emphasis_open = False
        self._break_at = None

    def _is_wrapped(self, following: str) -> bool:
        """Whether the line goes on in the next one."""
        if following.islower():
            return True
        line_chars = (self._break_at or 0) - self._line_from
        return line_chars >= _SOFT_LINE_CHARS and following not in _LIST_LIKE and not following.isdigit()

    def _open_fence(self, at: int, content: int) -> None:
        mark, ticks = self._raw[at], content - at
        self._fence = regex.compile(rf"[ \t]{{0,8}}{mark}{{{ticks},{ticks + 64}}}+[ \t]{{0,64}}+(?=[\n\r])")
        self._skipping_line = True

    def _skip_fenced(self, at: int) -> int:
        raw = self._raw
        if self._skipping_line:
            return self._skip(at)
        close = self._fence.match(raw, at, partial=True) if self._fence is not None else None
        if close is None:
            self._skipping_line = True
            return at
        if close.partial:
            return WAIT
        self._fence = None
        self._at_line_start = False
        return close.end()

    def _skip(self, at: int) -> int:
        """Leave out the rest of the line, or of an address."""
        for place in range(at, len(self._raw)):
            char = self._raw[place]
            if char in LINE_ENDS:
                self._skipping_url = self._skipping_line = False
                return place + (self._fence is not None)
            if self._skipping_url and (char.isspace() or char == ")"):
                self._skipping_url = False
                return place + (char == ")")
        return len(self._raw)

    # Marks inside a line ------------------------------------------------------------------------------------

    def _literally(self, at: int, end: int) -> int:
        for place in range(at, end):
            self._put(place)
        return end

    def _marker(self, at: int, *, final: bool) -> int:
        """The end of a run of one marker; a very long one is read in pieces."""
        char = self._raw[at]
        limit = min(len(self._raw), at + _LONG_RUN_CHARS)
        end = at + 1
        while end < limit and self._raw[end] == char:
            end += 1
        return WAIT if end == len(self._raw) and end < at + _LONG_RUN_CHARS and not final else end

    def _star(self, at: int, final: bool) -> int:
        end = self._marker(at, final=final)
        if end == WAIT or end - at == _LONG_RUN_CHARS:
            return end
        before, after = self._previous(at), self._raw[end : end + 1] or " "
        if before.isspace() and after.isspace():
            return self._literally(at, end)
        if end - at == 1 and before.isalnum() and after.isalnum():
            return self._star_in_word(at, final=final)
        self._emphasis_open = not after.isspace() and (before.isspace() or not before.isalnum())
        return end

    def _star_in_word(self, at: int, *, final: bool) -> int:
        if self._emphasis_open:
            self._emphasis_open = False
            return at + 1
        if self._previous(at).isdigit() or self._raw[at + 1].isdigit():
            return self._literally(at, at + 1)
        other = inline.emphasis(self._raw, at + 1, final=final)
        if other == WAIT:
            return WAIT
        if other == NO:
            return self._literally(at, at + 1)
        self._emphasis_open = True
        return at + 1

    def _underscore(self, at: int, final: bool) -> int:
        end = self._marker(at, final=final)
        if end == WAIT:
            return WAIT
        after = self._raw[end : end + 1]
        inside = self._previous(at).isalnum() and after.isalnum()
        return self._literally(at, end) if inside or self._in_url else end

    def _tilde(self, at: int, final: bool) -> int:
        end = self._marker(at, final=final)
        if end == WAIT:
            return WAIT
        return self._literally(at, end) if end - at == 1 or self._in_url else end

    def _tick(self, at: int, final: bool) -> int:
        end = self._marker(at, final=final)
        if end == WAIT or end - at == _LONG_RUN_CHARS:
            return end
        close = inline.code_span(self._raw, end, end - at, final=final)
        if close == WAIT:
            return WAIT
        if close != NO:
            self._code_end = self._raw_start + close
            self._code_ticks = end - at
        return end

    def _code(self, at: int) -> int:
        close = self._code_end - self._raw_start
        if at == close:
            self._code_end = -1
            return at + self._code_ticks
        return self._literally(at, close)

    def _exclamation(self, at: int, final: bool) -> int:
        # Only where an image may begin; after a word the mark itself is needed at once.
        if not self._previous(at).isspace() and self._previous(at) not in "[(|>*_":
            return self._put(at)
        if at + 1 == len(self._raw):
            return self._put(at) if final else WAIT
        if self._raw[at + 1] != "[":
            return self._put(at)
        close = inline.link_text(self._raw, at + 1, final=final)
        if close == WAIT:
            return WAIT
        return self._put(at) if close == NO else at + 1

    def _open_bracket(self, at: int, final: bool) -> int:
        note = inline.footnote(self._raw, at, final=final)
        if note != NO:
            return note
        close = inline.link_text(self._raw, at, final=final)
        if close == WAIT:
            return WAIT
        if close == NO:
            return self._put(at)
        self._link_ends.append(self._raw_start + close)
        return at + 1

    def _close_bracket(self, at: int, final: bool) -> int:
        if not self._link_ends or self._link_ends[-1] != self._raw_start + at:
            return self._put(at)
        goes_on = False
        if self._raw[at + 1] == "[":
            end = inline.reference(self._raw, at + 1, final=final)
        else:
            end, goes_on = inline.destination(self._raw, at + 1, final=final)
        if end == WAIT:
            return WAIT
        self._link_ends.pop()
        self._skipping_url = goes_on
        if end == NO:
            self._copy.space(self._raw_start + at)
            return at + 1
        return end

    def _angle(self, at: int, final: bool) -> int:
        end = inline.autolink(self._raw, at, final=final)
        if end > at:
            return self._address(at + 1, end)
        tag_end = inline.tag(self._raw, at, final=final)
        if WAIT in {end, tag_end}:
            return WAIT
        if tag_end == NO:
            return self._put(at)
        if _BREAKING_TAGS.match(self._raw, at):
            self._copy.paragraph(self._raw_start + at)
        elif _CELL_TAG.match(self._raw, at):
            self._copy.comma(self._raw_start + at)
        return tag_end

    def _address(self, at: int, end: int) -> int:
        """What stands between angle brackets: spoken without its scheme."""
        address = self._raw[at : end - 1]
        for prefix in ("https://", "http://", "mailto:"):
            if address.startswith(prefix):
                at += len(prefix)
        self._literally(at, end - 1)
        return end

    def _ampersand(self, at: int, final: bool) -> int:
        end = inline.entity(self._raw, at, final=final)
        if end == WAIT:
            return WAIT
        meant = html.unescape(self._raw[at:end]) if end != NO else ""
        if end == NO or meant == self._raw[at:end]:
            return self._put(at)
        for char in meant:
            self._copy.put(char, self._raw_start + at, self._raw_start + end)
        return end

    def _backslash(self, at: int, final: bool) -> int:
        if at + 1 == len(self._raw):
            return self._put(at) if final else WAIT
        following = self._raw[at + 1]
        if following in "\r\n":
            return at + 1
        if following.isascii() and not following.isalnum() and following.isprintable() and following != " ":
            return self._put(at + 1)
        return self._put(at)

    def _bar(self, at: int, final: bool) -> int:
        if self._kind is Kind.ROW:
            end = self._cell_end(at + 1, final=final)
            if end == WAIT:
                return WAIT
            if self._raw[end : end + 1] not in LINE_ENDS and end < len(self._raw):
                self._copy.comma(self._raw_start + at)
            return end
        if at + 1 == len(self._raw) and not final:
            return WAIT
        after = self._raw[at + 1 : at + 2] or " "
        if self._previous(at).isspace() and after.isspace():
            self._copy.comma(self._raw_start + at)
            return at + 1
        return self._put(at)

    def _row_space(self, at: int, *, final: bool) -> int:
        end = self._cell_end(at, final=final)
        if end == WAIT:
            return WAIT
        if self._raw[end : end + 1] not in {"|", "\n", "\r", ""}:
            self._copy.space(self._raw_start + at)
        return end

    def _cell_end(self, at: int, *, final: bool) -> int:
        """Past the spaces at `at`."""
        end = at
        limit = min(len(self._raw), at + HOLD_CHARS)
        while end < limit and self._raw[end] in " \t":
            end += 1
        return WAIT if end == len(self._raw) and end < at + HOLD_CHARS and not final else end

    def _scheme(self, at: int, final: bool) -> int:
        if self._previous(at).isalnum():
            return self._put(at)
        end = inline.scheme(self._raw, at, final=final)
        if end == WAIT:
            return WAIT
        if end == NO:
            return self._put(at)
        self._in_url = True
        return end
