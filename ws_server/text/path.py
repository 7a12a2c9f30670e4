"""The way of one utterance's text: increments in, segments out."""

from protocol.messages import Markup
from ws_server.text.reader import Reader
from ws_server.text.rules import SegmentRules
from ws_server.text.segment import TextSegment
from ws_server.text.segmenter import Segmenter
from ws_server.text.speakable import SpeakableCopy

_SLICE_CHARS = 1024
"""Longer increments are taken in slices, so that nothing that is done for each cut walks over all of the text."""
_EARLY_MS = 0.5
"""A timer that fires a hair too early is on time."""


class TextPath:
    """Pure: knows no clock; the caller says how long nothing has come.

    Offsets are code points of the concatenated increments. Without `silence` and `force` the segments depend on that
    text (and on where it was flushed) alone, not on how it was split.
    """

    def __init__(self, rules: SegmentRules, *, markup: Markup, language: str) -> None:
        copy = SpeakableCopy()
        self._rules = rules
        self._stall_ms = max(rules.stall_ms, rules.wait_ms)
        self._reader = Reader(copy, markup)
        self._segmenter = Segmenter(copy, rules, language)
        self._silent_ms = 0.0
        """The gap that has been dealt with."""
        self.chars = 0
        """Code points of the client's text so far."""

    @property
    def pending(self) -> bool:
        """Whether there is speakable text that hasn't been cut."""
        return self._segmenter.pending or self._reader.holds_words

    def limit(self, max_chars: int | None) -> None:
        """Others wait: until told otherwise cut no piece longer than that. None: as the rules say."""
        self._segmenter.limit(max_chars)

    def feed(self, text: str) -> list[TextSegment]:
        """The segments that became certain with this increment."""
        if not text:
            return []
        self._silent_ms = 0.0
        self.chars += len(text)
        if len(text) <= _SLICE_CHARS:
            return self._feed(text)
        made: list[TextSegment] = []
        for start in range(0, len(text), _SLICE_CHARS):
            made += self._feed(text[start : start + _SLICE_CHARS])
        return made

    def _feed(self, text: str) -> list[TextSegment]:
        self._reader.feed(text)
        return self._segmenter.cut_certain()

    def growth(self) -> TextSegment | None:
        """What is certain of the segment that isn't cut yet, with the next cut's beginning; None: nothing new."""
        return self._segmenter.growth()

    def flush(self) -> list[TextSegment]:
        """Everything so far; what comes next starts afresh."""
        self._reader.settle()
        return self._segmenter.cut_tail("flush")

    def end(self) -> list[TextSegment]:
        """The rest."""
        self._reader.settle()
        return self._segmenter.cut_tail("end")

    def silence_deadline_ms(self) -> float | None:
        """The gap since the last increment at which `silence` would cut; None: nothing waits for one."""
        return min((gap for gap in self._gaps_ms() if gap > self._silent_ms), default=None)

    def _gaps_ms(self) -> list[float]:
        if not self.pending:
            return []
        gaps = [2 * self._stall_ms]
        if self._segmenter.last_sentence_end() is not None:
            gaps.append(self._rules.wait_ms)
        waits = self._segmenter.ended_wait(self._reader.undecided_tail)
        if waits is not None:
            gaps.append(waits * self._rules.wait_ms)
        if self._segmenter.last_space() is not None or self._reader.holds_back:
            gaps.append(self._stall_ms)
        return gaps

    def silence(self, gap_ms: float) -> list[TextSegment]:
        """Nothing has come for `gap_ms`: what a listener would take for finished is spoken."""
        gap_ms += _EARLY_MS
        made = self._silence(gap_ms)
        self._silent_ms = max(self._silent_ms, gap_ms)
        return made

    def _silence(self, gap_ms: float) -> list[TextSegment]:
        segmenter = self._segmenter
        if gap_ms >= 2 * self._stall_ms:
            self._reader.settle()
            return segmenter.cut_tail("wait")
        made: list[TextSegment] = []
        if gap_ms >= self._stall_ms and self._silent_ms < self._stall_ms:
            self._reader.settle()
            made = segmenter.cut_certain()
        waits = segmenter.ended_wait(self._reader.undecided_tail)
        if waits is not None and gap_ms >= waits * self._rules.wait_ms:
            self._reader.settle()
            return made + segmenter.cut_tail("wait")
        sentence = segmenter.last_sentence_end()
        if sentence is not None and gap_ms >= self._rules.wait_ms:
            made += segmenter.cut_tail("wait", sentence)
        space = segmenter.last_space()
        if space is not None and gap_ms >= self._stall_ms:
            made += segmenter.cut_tail("wait", space)
        return made

    def force(self, max_chars: int) -> TextSegment | None:
        """A listener is about to run dry: the best piece of at most `max_chars`, None if none is sensible."""
        return self._segmenter.force(max_chars)
