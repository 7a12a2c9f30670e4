"""Reads text as it is written and makes the speakable copy: Markdown, emoji and odd spaces become plain speech.

What a character means may depend on what follows, so a little is held back: never beyond the line or the sentence,
and never more than a few hundred characters of it.
"""

import regex

from protocol.messages import Markup
from ws_server.text.characters import LINE_ENDS
from ws_server.text.held import Held
from ws_server.text.inline import WAIT
from ws_server.text.lines import Kind, LineStart, line_start
from ws_server.text.marks import SPECIAL, Marks
from ws_server.text.speakable import SpeakableCopy

_ODD = r"\s\p{C}\p{M}\p{Extended_Pictographic}\p{RI}\p{Emoji_Modifier}"
_PLAIN_RUN = regex.compile(rf"[^{_ODD}](?:[^{_ODD}]| (?=[^{_ODD}]))*+")
_MARKDOWN_RUN = regex.compile(
    rf"(?:[^{_ODD}{SPECIAL}]|h(?=[^t]))(?:[^{_ODD}{SPECIAL}]|h(?=[^t])| (?=[^{_ODD}{SPECIAL}]))*+"
)
_INDENT = regex.compile(r"[ \t]*+(?:>[ \t]*+)*+")
_PLAIN_INDENT = regex.compile(r"[ \t]*+")
_WORD = regex.compile(r"[\p{L}\p{N}]")
_HARMLESS = regex.compile(r"[*_~!]{0,20}+|\d{1,9}[.)]?")
_LIST_LIKE = frozenset("-*+•◦▪‣∙#>|")
_WRAPPED_LINE_CHARS = 60
"""A line of prose that is at least this long was wrapped; a shorter one ends because its writer ended it,"""
_WRAPPED_BEFORE_SMALL_CHARS = 40
"""unless the next begins with a small letter and it isn't very short."""


class Reader:
    """Pure and incremental: the copy depends on the text alone, not on how it was split."""

    def __init__(self, copy: SpeakableCopy, markup: Markup) -> None:
        self._copy = copy
        self._held = Held()
        self._marks = Marks(copy, self._held)
        self._markdown = markup == "markdown"
        self._run = _MARKDOWN_RUN if self._markdown else _PLAIN_RUN
        self._at_line_start = True
        self._break_at: int | None = None
        """A line end of which it isn't known yet whether it also ends a paragraph."""
        self._line_from = 0
        self._kind = Kind.TEXT
        self._fence: regex.Pattern[str] | None = None
        """What closes the fenced code that is being left out."""
        self._skipping_line = False

    def feed(self, text: str) -> None:
        self._held.text += text
        self._read(final=False)

    def settle(self) -> None:
        """Decide about what is held back as if nothing followed."""
        self._read(final=True)
        if self._break_at is not None:
            self._copy.paragraph(self._break_at)
            self._break_at = None

    @property
    def holds_back(self) -> bool:
        """Whether `settle` may change what is there."""
        return self._break_at is not None or self._held.text != ""

    @property
    def holds_words(self) -> bool:
        return self._fence is None and _WORD.search(self._held.text) is not None

    @property
    def undecided_tail(self) -> str:
        """What is held back and will be spoken as it is, if nothing follows: a number, markers."""
        return self._held.text if _HARMLESS.fullmatch(self._held.text) else ""

    def _read(self, *, final: bool) -> None:
        at = 0
        end = len(self._held.text)
        while at < end:
            following = self._step(at, final=final)
            if following == WAIT:
                break
            at = following
        self._held.drop(at)

    def _step(self, at: int, *, final: bool) -> int:
        if self._skipping_line or self._marks.url_goes_on:
            return self._skip(at)
        if self._fence is not None:
            return self._skip_fenced(at, self._fence)
        if self._at_line_start:
            return self._start_line(at, final=final)
        if self._marks.in_code:
            return self._marks.read_code(at)
        text = self._held.text
        run = self._run.match(text, at)
        if run is not None:
            self._copy.put_run(run[0], self._held.source(at))
            return run.end()
        if text[at] in LINE_ENDS:
            return self._end_line(at)
        return self._marks.read(at, final=final) if self._markdown else self._marks.put(at)

    # Lines --------------------------------------------------------------------------------------------------

    def _is_rest_of_line_end(self, at: int) -> bool:
        return self._held.text[at] == "\n" and self._held.previous(at) == "\r"

    def _end_line(self, at: int) -> int:
        if self._is_rest_of_line_end(at):
            return at + 1
        if self._kind in {Kind.HEADING, Kind.ROW}:
            self._copy.paragraph(self._held.source(at))
        elif self._break_at is None:
            self._break_at = self._held.source(at)
        self._at_line_start = True
        self._marks.end_line()
        return at + 1

    def _blank_line(self, at: int) -> int:
        """`at`: its line end."""
        if not self._is_rest_of_line_end(at):
            self._kind = Kind.TEXT
            self._end_paragraph(self._held.source(at))
        return at + 1

    def _end_paragraph(self, source: int) -> None:
        self._copy.paragraph(source)
        self._marks.end_paragraph()
        self._break_at = None

    def _start_line(self, at: int, *, final: bool) -> int:
        text = self._held.text
        indent = (_INDENT if self._markdown else _PLAIN_INDENT).match(text, at)
        content = indent.end() if indent else at
        if content == len(text):
            return content
        if text[content] in LINE_ENDS:
            return self._blank_line(content)
        start = line_start(text, content, final=final) if self._markdown else LineStart(Kind.TEXT, content)
        if start is None:
            return WAIT
        self._settle_break(start.kind, content)
        self._kind = start.kind
        self._marks.in_row = start.kind is Kind.ROW
        self._line_from = self._held.source(content)
        self._at_line_start = start.kind is Kind.BULLET
        self._skipping_line = start.kind in {Kind.SILENT, Kind.FENCE}
        if start.kind is Kind.FENCE:
            self._fence = _closing_fence(text[content], start.content - content)
        return start.content

    def _settle_break(self, kind: Kind, content: int) -> None:
        source = self._held.source(content) if self._break_at is None else self._break_at
        if kind is not Kind.TEXT:
            self._end_paragraph(source)
        elif self._break_at is None:
            return
        elif self._is_wrapped(source - self._line_from, self._held.text[content]):
            self._copy.space(source)
            self._break_at = None
        else:
            self._end_paragraph(source)

    def _is_wrapped(self, line_chars: int, following: str) -> bool:
        """Whether a line goes on in the one that begins with `following`."""
        if following.islower():
            return line_chars >= _WRAPPED_BEFORE_SMALL_CHARS
        return line_chars >= _WRAPPED_LINE_CHARS and following not in _LIST_LIKE and not following.isdigit()

    # What is left out ---------------------------------------------------------------------------------------

    def _skip_fenced(self, at: int, fence: regex.Pattern[str]) -> int:
        close = fence.match(self._held.text, at, partial=True)
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
        text = self._held.text
        for place in range(at, len(text)):
            char = text[place]
            if char in LINE_ENDS:
                self._marks.url_goes_on = self._skipping_line = False
                return place + (self._fence is not None)
            if self._marks.url_goes_on and (char.isspace() or char == ")"):
                self._marks.url_goes_on = False
                return place + (char == ")")
        return len(text)


def _closing_fence(mark: str, length: int) -> regex.Pattern[str]:
    return regex.compile(rf"[ \t]{{0,8}}{mark}{{{length},{length + 64}}}+[ \t]{{0,64}}+(?=[\n\r])")
