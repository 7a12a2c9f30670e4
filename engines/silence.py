"""The silence around a segment's speech: a short lead-in, a natural pause at the end, nothing after a long gap.

Pure, and sample by sample: how the audio is cut into chunks doesn't change what comes out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.contract import Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceRules:
    level: float = 0.003
    """Below it (-50 dB of full scale) a sample is silent."""
    lead_in_s: float = 0.1
    """Kept before the first sound: enough for the breath of an `h` or an `f`, which is under the level."""
    pause_s: float = 0.35
    """Kept after the last sound; what an engine adds to it is held back until sound follows."""
    gap_s: float = 2.0
    """A sampling engine that has said its text and is silent for so long only makes things up after it."""


class SilenceGate:
    """One segment's samples pass through; only silence beyond the pause is ever held back."""

    def __init__(self, rules: SilenceRules, sample_rate_hz: int, *, cut_after_samples: int | None) -> None:
        """`cut_after_samples`: a gap after so much speech ends the segment; None: gaps are left alone."""
        self._level = rules.level
        self._lead_in_samples = round(rules.lead_in_s * sample_rate_hz)
        self._pause_samples = round(rules.pause_s * sample_rate_hz)
        self._gap_samples = round(rules.gap_s * sample_rate_hz)
        self._cut_after_samples = cut_after_samples
        self._held: Samples = np.zeros(0, np.float32)
        self.heard = False
        """Something was louder than silence."""
        self._silent_samples = 0
        """Of the silence that has lasted since the last sound, what was let through."""
        self.dropped_samples = 0
        """From the beginning: positions in what comes out are so much earlier."""
        self.trimmed_samples = 0
        """From the end."""
        self.passed_samples = 0
        self.cut = False
        """A gap has ended the segment: nothing more comes out."""

    def cut_after(self, samples: int | None) -> None:
        """The same, from now on."""
        self._cut_after_samples = samples

    def push(self, samples: Samples, *, last: bool) -> Samples:
        """What can be heard now."""
        if self.cut:
            return self._held[:0]
        waiting = np.concatenate((self._held, samples)) if self._held.size else samples
        loud = np.flatnonzero(np.abs(waiting) >= self._level)
        if not self.heard and loud.size == 0:
            return self._wait_for_sound(waiting, keep_samples=0 if last else self._lead_in_samples)
        if not self.heard:
            start = max(0, int(loud[0]) - self._lead_in_samples)
            self.dropped_samples += start
            waiting, loud = waiting[start:], loud - start
            self.heard = True
        return self._pass(waiting, loud, last=last)

    def _wait_for_sound(self, waiting: Samples, keep_samples: int) -> Samples:
        keep = min(waiting.size, keep_samples)
        self.dropped_samples += waiting.size - keep
        self._held = waiting[waiting.size - keep :].copy()
        return waiting[:0]

    def _pass(self, waiting: Samples, loud: NDArray[np.intp], *, last: bool) -> Samples:
        gap_start = self._find_gap(waiting, loud)
        if gap_start is not None:
            self.cut = last = True
            loud = loud[loud < gap_start]
        if loud.size:
            end = int(loud[-1]) + 1 + self._pause_samples
            self._silent_samples = min(end, waiting.size) - int(loud[-1]) - 1
        else:
            end = self._pause_samples - self._silent_samples
            self._silent_samples += min(end, waiting.size)
        out = waiting[:end]
        if last:
            self.trimmed_samples += waiting.size - out.size
        self._held = waiting[:0] if last else waiting[end:].copy()
        self.passed_samples += out.size
        return out

    def _find_gap(self, waiting: Samples, loud: NDArray[np.intp]) -> int | None:
        """Where a silence of `gap_s` begins that comes after enough speech."""
        if self._cut_after_samples is None:
            return None
        edges = np.concatenate(([-1 - self._silent_samples], loud, [waiting.size]))
        for index in np.flatnonzero(np.diff(edges) > self._gap_samples):
            start = int(edges[index]) + 1
            if self.passed_samples + start >= self._cut_after_samples:
                return max(0, start)
        return None
