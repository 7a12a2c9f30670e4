"""How much of the client's own text a listener has heard."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import regex
from numpy.typing import NDArray

from protocol import messages as wire
from residency.clock import PlayoutClock
from ws_server.text.segment import TextSegment

# A script written without spaces has no words that white space could tell; its letters stand for them.
_WORD = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*|[^\s\p{Han}]+"
)

WordTime = tuple[int, int, int, int]
"""(start_char, end_char, start_sample, end_sample): the client's text; samples at the output rate, from the
segment's start."""

NOT_SENT = 1 << 62


@dataclass(slots=True)
class SpokenSegment:
    """A segment whose audio is being made or has gone out. Small: an utterance keeps all of its own."""

    start_char: int
    end_char: int
    text_s: float
    """Arrival of its first character; like the next two, on the monotonic clock."""
    cut_s: float
    step_s: float = math.inf
    """When its first step started."""
    at_sample: int = NOT_SENT
    """On the utterance's clock."""
    samples: int = 0
    """At the output rate; all of them once `complete`."""
    complete: bool = False
    _words: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 4), np.int64))

    def grow(self, end_char: int, *, text_s: float, cut_s: float) -> None:
        """More of its text has come, and if the listener has run dry meanwhile, that is why."""
        self.end_char, self.text_s, self.cut_s = end_char, text_s, cut_s

    def add_words(self, words: Sequence[WordTime]) -> None:
        if words:
            self._words = np.concatenate((self._words, np.array(words, np.int64)))

    def replace_words(self, words: Sequence[WordTime]) -> None:
        self._words = np.array(words, np.int64).reshape(-1, 4)

    def heard_until(self, played_samples: int) -> int:
        """`end_char` of the last word that is over `played_samples` after the segment's start; 0: none is."""
        if self.complete and played_samples >= self.samples:
            return self.end_char
        over = self._words[self._words[:, 3] <= played_samples, 1]
        return int(over.max()) if len(over) else 0


def estimated_word_times(segment: TextSegment, samples: int) -> list[WordTime]:
    """Word times in proportion to the text spoken; `samples` is the segment's (estimated) length."""
    letters = len(segment.speakable)
    source = segment.source_chars
    return [
        (
            source[m.start()],
            source[m.end() - 1] + 1,
            samples * m.start() // letters,
            -(-samples * m.end() // letters),
        )
        for m in _WORD.finditer(segment.speakable)
    ]


def heard_until(spoken: Sequence[SpokenSegment], played_samples: int) -> int:
    """The end of the last word whose audio has wholly been heard (`end_char`); 0 if there is none."""
    for piece in reversed(spoken):
        if piece.at_sample < played_samples:
            end_char = piece.heard_until(played_samples - piece.at_sample)
            if end_char:
                return end_char
    return 0


class Recording:
    """What was said, and when it was heard: outlives the utterance for its receipt."""

    def __init__(self, clock: PlayoutClock, rate_hz: int, *, exact_words: bool) -> None:
        self.clock = clock
        self.rate_hz = rate_hz
        self.segments: list[SpokenSegment] = []
        self._exact_words = exact_words

    def segment_at(self, at_sample: int) -> SpokenSegment | None:
        """The one that a frame at that position belongs to."""
        return next((piece for piece in reversed(self.segments) if piece.at_sample <= at_sample), None)

    def heard(
        self, played_ms: float | None, now_s: float, all_samples: int | None, chars: int
    ) -> wire.HeardText:
        """`all_samples`: the utterance's length if it is complete, else None."""
        sent_s = self.clock.sent_s
        if sent_s == 0:
            return wire.HeardText(end_char=0, exact=True, played_ms=0)
        played_s = self.clock.playhead_s(now_s) if played_ms is None else min(played_ms / 1000, sent_s)
        played_samples = round(played_s * self.rate_hz)
        whole = all_samples is not None and played_samples >= all_samples
        return wire.HeardText(
            end_char=chars if whole else heard_until(self.segments, played_samples),
            exact=self._exact_words and (played_ms is not None or self.clock.reported),
            played_ms=round(played_s * 1000, 3),
        )
