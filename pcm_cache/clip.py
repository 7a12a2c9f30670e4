"""A segment's finished audio, as the engine gave it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
Word = tuple[int, int, int, int]
"""(start_char, end_char, start_sample, end_sample): offsets into the text that was spoken, samples from 0."""

_AT_THE_LIMIT = 0.9999
_MOST_AT_THE_LIMIT = 0.01
"""Speech touches full scale with a few samples in a thousand; more is a clamped fault."""


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """Samples are read-only: one array serves every listener.

    They are the engine's own float32, not int16: a clip that is said again is the same to the last bit in every
    output format, f32le and resampled ones included.
    """

    samples: Samples
    """float32 [n], mono, -1..1, at `sample_rate_hz`"""
    words: tuple[Word, ...]
    sample_rate_hz: int

    def __post_init__(self) -> None:
        self.samples.flags.writeable = False

    @property
    def bytes(self) -> int:
        """About what it takes in memory."""
        return self.samples.nbytes + 200 * len(self.words) + 200

    @property
    def sane(self) -> bool:
        """Worth keeping: there is sound, all of it finite and little of it clamped."""
        samples = self.samples
        if not len(samples) or not self.sample_rate_hz:
            return False
        loudness = np.abs(samples)
        loudest = loudness.max()  # NaN if any is
        if not 0 < loudest <= 1:
            return False
        return bool(np.count_nonzero(loudness >= _AT_THE_LIMIT) <= _MOST_AT_THE_LIMIT * len(samples))
