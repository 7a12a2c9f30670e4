"""What a listener hears of frames that arrive: where it begins, and where it falls silent though it needn't."""

from dataclasses import dataclass

IN_HAND_S = 0.2
"""A listener begins with so much in hand, and again after it has run dry."""
GAP_S = 0.005
"""Shorter silences aren't heard."""


@dataclass(slots=True)
class Playout:
    """Pure: one utterance, times in seconds of one clock."""

    rate_hz: int
    gaps: int = 0
    silent_s: float = 0.0
    """In gaps."""
    received_s: float = 0.0
    began_s: float | None = None
    """When the first sound was heard."""
    dry_s: float | None = None
    """When what is in hand has been played; None: not playing yet."""
    _held_samples: int = 0
    """Audio in hand while not playing."""

    def frame(self, samples: int, cut_s: float, now_s: float) -> None:
        """`cut_s`: when the text that the frame speaks was known to be a segment."""
        audio_s = samples / self.rate_hz
        self.received_s += audio_s
        if self.dry_s is not None and now_s > self.dry_s:
            silent_s = now_s - max(self.dry_s, cut_s)
            if silent_s > GAP_S:
                self.gaps += 1
                self.silent_s += silent_s
            self.dry_s = None
        if self.dry_s is not None:
            self.dry_s += audio_s
            return
        self._held_samples += samples
        if self._held_samples >= IN_HAND_S * self.rate_hz:
            self._begin(now_s)

    def complete(self, now_s: float) -> float:
        """Nothing more comes; when the listener will have heard all."""
        if self._held_samples:
            self._begin(now_s)
        return now_s if self.dry_s is None else max(now_s, self.dry_s)

    def _begin(self, now_s: float) -> None:
        self.dry_s = now_s + self._held_samples / self.rate_hz
        self._held_samples = 0
        if self.began_s is None:
            self.began_s = now_s
