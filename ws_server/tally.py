"""Where an utterance's time went, for `done.stats`, the log and the metrics."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

from protocol import messages as wire
from ws_server.heard import SpokenSegment

GapCause = Literal["text", "overload", "misestimate"]


def gap_cause(segment: SpokenSegment | None, dry_s: float) -> GapCause | None:
    """Why the listener had nothing to play from `dry_s` until `segment` came; None: there was nothing to say."""
    if segment is None or segment.text_s >= dry_s:
        return None
    if segment.cut_s >= dry_s:
        return "text"
    return "overload" if segment.step_s >= dry_s else "misestimate"


def _ms(start_s: float | None, end_s: float | None) -> float | None:
    if start_s is None or end_s is None:
        return None
    return round(max(end_s - start_s, 0.0) * 1000, 3)


@dataclass(slots=True)
class Tally:
    """Moments on the monotonic clock; each is None until it was reached, and keeps its first value."""

    opened_s: float
    certain_s: float | None = None
    """Arrival of the text that made the first cut certain."""
    cut_s: float | None = None
    step_started_s: float | None = None
    step_ended_s: float | None = None
    first_sent_s: float | None = None
    queued_since_s: float | None = None
    queue_s: float = 0.0
    compute_s: float = 0.0
    segments: int = 0
    whole: bool = False
    """All of the text has been cut."""
    forced_cuts: int = 0
    stored: int = 0
    """Segments that were in the cache when they were cut."""
    cache_hits: int = 0
    unspoken_chars: int = 0
    gaps: dict[GapCause, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Their lengths in seconds."""

    def waits(self, now_s: float) -> None:
        if self.queued_since_s is None:
            self.queued_since_s = now_s

    def runs(self, now_s: float) -> None:
        if self.queued_since_s is not None:
            self.queue_s += max(now_s - self.queued_since_s, 0.0)
            self.queued_since_s = None

    def steps(self, started_s: float, ended_s: float, *, sound: bool) -> None:
        """A step for it, or what stands for one; the first counts, and the first with sound."""
        self.runs(started_s)
        if self.step_started_s is None:
            self.step_started_s = started_s
        if self.step_ended_s is None and sound:
            self.step_ended_s = ended_s

    def stats(self, audio_s: float, now_s: float) -> wire.Stats:
        self.runs(now_s)
        return wire.Stats(
            queue_ms=round(self.queue_s * 1000, 3),
            ttfa_ms=_ms(self.certain_s, self.first_sent_s),
            cut_ms=_ms(self.certain_s, self.cut_s),
            wait_ms=_ms(self.cut_s, self.step_started_s),
            engine_ms=_ms(self.step_started_s, self.step_ended_s),
            send_ms=_ms(self.step_ended_s, self.first_sent_s),
            audio_ms=round(audio_s * 1000, 3),
            compute_ms=round(self.compute_s * 1000, 3),
            segments=self.segments,
            forced_cuts=self.forced_cuts,
            gaps=sum(map(len, self.gaps.values())),
            cache_hits=self.cache_hits,
            unspoken_chars=self.unspoken_chars,
        )
