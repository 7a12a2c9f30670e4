"""Recordings made on the spot: tones with pauses, whose every figure can be worked out on paper."""

import io

import numpy as np
import soundfile
from numpy.typing import NDArray

RATE_HZ = 24000


def tone(
    *, frequency_hz: float = 440.0, length_s: float = 4.0, rate_hz: int = RATE_HZ, level: float = 0.2
) -> NDArray[np.float64]:
    """float64 [n]: a tone that rests for a tenth of each half second, as speech does."""
    time_s = np.arange(round(length_s * rate_hz)) / rate_hz
    return np.where(time_s % 0.5 < 0.4, level * np.sin(2 * np.pi * frequency_hz * time_s), 0.0)


def silence(length_s: float, rate_hz: int = RATE_HZ) -> NDArray[np.float64]:
    return np.zeros(round(length_s * rate_hz))


def encoded(
    samples: NDArray[np.float64], rate_hz: int = RATE_HZ, kind: str = "WAV", subtype: str | None = None
) -> bytes:
    """A file; `samples`: [n] or [n, channels]."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format=kind, subtype=subtype)
    return file.getvalue()


def recording(**changes: float) -> bytes:
    """A WAV file of `tone`."""
    return encoded(tone(**changes))  # type: ignore[arg-type]  # rates are whole numbers
