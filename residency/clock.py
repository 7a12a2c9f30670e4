"""How far a listener has heard, from what was sent to it and what it reported."""

from dataclasses import dataclass
from math import inf

AHEAD_S = 0.25
"""A report may lie this far beyond real time since the first frame: clocks and buffers of devices differ."""
ROUNDING_S = 1e-6
"""Sums of seconds are this exact: a frame at the very moment of running dry ends no gap."""
MERGE_S = 0.05
"""Reports of the same state that come closer than this are merged: 20 a second."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The listener had nothing to play between two moments; whether speech was due then, its owner knows."""

    position_s: float
    """Media time at which it stopped."""
    from_s: float
    until_s: float
    """The moment at which the next frame was sent."""

    @property
    def length_s(self) -> float:
        return self.until_s - self.from_s


class PlayoutClock:
    """The playhead of one utterance in seconds of media; pure, every moment is an argument.

    `origin_s` is the moment at which position 0 would have been played had nothing interrupted: while
    playing, playhead = now - origin, and the listener runs dry at origin + audio. None before playback was
    assumed or reported. `frozen_s` is the playhead while paused, else None.
    """

    __slots__ = (
        "_cushion_s",
        "_first_sent_s",
        "_floor_s",
        "_pending",
        "_reported_at_s",
        "_reported_s",
        "frozen_s",
        "gaps",
        "origin_s",
        "reported",
        "sent_s",
    )

    def __init__(self, cushion_s: float) -> None:
        self._cushion_s = cushion_s
        self._first_sent_s: float | None = None
        self._floor_s = 0.0
        self._pending: tuple[float, float] | None = None
        self._reported_at_s = -inf
        self._reported_s = 0.0
        self.origin_s: float | None = None
        self.frozen_s: float | None = None
        self.reported = False
        """Whether the playhead rests on a report."""
        self.sent_s = 0.0
        self.gaps = 0

    @property
    def paused(self) -> bool:
        return self.frozen_s is not None

    @property
    def dry_s(self) -> float:
        """When all that was sent will have been played; infinite before the start and in a pause."""
        if self.frozen_s is not None or self.origin_s is None:
            return inf
        return self.origin_s + self.sent_s

    def sent(self, audio_s: float, now_s: float) -> Gap | None:
        """A frame has left; returns the gap that it ended, if the listener had run dry."""
        if audio_s <= 0:
            return None
        self._settle(now_s)
        gap = None
        if self._first_sent_s is None:
            self._first_sent_s = now_s
            if self.frozen_s is None:
                self.origin_s = now_s + self._cushion_s
        elif now_s - self.dry_s > ROUNDING_S:
            gap = Gap(self.sent_s, self.dry_s, now_s)
            self.gaps += 1
            self._floor_s = self.sent_s
            self.origin_s = now_s + self._cushion_s - self.sent_s
        self.sent_s += audio_s
        return gap

    def report(self, played_s: float, paused: bool, now_s: float) -> None:
        if paused == self.paused and now_s - self._reported_at_s < MERGE_S:
            self._pending = (played_s, now_s)
            return
        self._pending = None
        self._apply(played_s, paused, now_s)

    def playhead_s(self, now_s: float) -> float:
        self._settle(now_s)
        if self.frozen_s is not None:
            return self.frozen_s
        if self.origin_s is None:
            return 0.0
        return min(max(now_s - self.origin_s, self._floor_s), self.sent_s)

    def in_hand_s(self, now_s: float) -> float:
        """Audio that was sent and isn't played."""
        return self.sent_s - self.playhead_s(now_s)

    def _settle(self, now_s: float) -> None:
        if self._pending is not None and now_s - self._reported_at_s >= MERGE_S:
            played_s, at_s = self._pending
            self._pending = None
            self._apply(played_s, self.paused, at_s)

    def _apply(self, played_s: float, paused: bool, at_s: float) -> None:
        self._reported_at_s = at_s
        if self._first_sent_s is None:
            self.frozen_s = 0.0 if paused else None
            return
        if played_s < self._reported_s:
            # Only the position is ignored: a pause or its end is still one.
            if paused == self.paused:
                return
            position_s = self.playhead_s(at_s)
        else:
            position_s = min(played_s, self.sent_s, at_s - self._first_sent_s + AHEAD_S)
            self._reported_s = position_s
            self.reported = True
        self._floor_s = position_s
        self.frozen_s = position_s if paused else None
        if not paused:
            self.origin_s = at_s - position_s
