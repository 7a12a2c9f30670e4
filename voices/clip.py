"""A recording as it is kept: 16-bit, mono, lossless."""

import io
from dataclasses import dataclass

import numpy as np
import soundfile
from numpy.typing import NDArray

_FULL_SCALE = 32768


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    pcm: NDArray[np.int16]
    """int16 [n], mono"""
    sample_rate_hz: int

    @classmethod
    def of(cls, samples: NDArray[np.floating], sample_rate_hz: int) -> "Clip":
        """`samples`: float [n], mono, -1..1."""
        scaled = np.rint(np.asarray(samples, np.float64) * _FULL_SCALE)
        return cls(np.clip(scaled, -_FULL_SCALE, _FULL_SCALE - 1).astype(np.int16), sample_rate_hz)

    @classmethod
    def from_file(cls, data: bytes) -> "Clip":
        """Read what `encode` made. Raises soundfile.SoundFileError."""
        pcm, rate_hz = soundfile.read(io.BytesIO(data), dtype="int16", always_2d=True)
        return cls(np.ascontiguousarray(pcm[:, 0]), int(rate_hz))

    @property
    def duration_s(self) -> float:
        return self.pcm.size / self.sample_rate_hz

    def same_as(self, other: "Clip") -> bool:
        return self.sample_rate_hz == other.sample_rate_hz and np.array_equal(self.pcm, other.pcm)

    def samples(self) -> NDArray[np.float32]:
        """float32 [n], mono, -1..1"""
        return self.pcm.astype(np.float32) / np.float32(_FULL_SCALE)

    def encode(self, kind: str) -> bytes:
        """A whole file; kind: "FLAC" or "WAV"."""
        file = io.BytesIO()
        soundfile.write(file, self.pcm, self.sample_rate_hz, format=kind, subtype="PCM_16")
        return file.getvalue()
