"""How loud a recording is, moment by moment: where somebody speaks, and how far below the rest lies."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FRAME_S = 0.02
_FLOOR_DBFS = -120.0
_BELOW_SPEECH_DB = 35.0
"""What lies further below the loud moments is taken for silence; natural speech moves within 30 dB."""
_SILENCE_DBFS = -60.0
_CLIPPED = 0.985
_CLIPPED_RUN = 3
"""So many samples in a row at full scale: a single one is a peak."""


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    frame_samples: int
    active: NDArray[np.bool_]
    """For each frame, whether somebody speaks."""
    peak_dbfs: float
    speech_dbfs: float
    """RMS of the active frames."""
    noise_dbfs: float
    """RMS of the quietest tenth of the frames."""
    clipped_ratio: float

    @property
    def silence_ratio(self) -> float:
        return 1.0 - float(self.active.mean())

    @property
    def span(self) -> slice:
        """Samples from the first active frame to the last one's end; empty if there is none."""
        found = np.flatnonzero(self.active)
        if not found.size:
            return slice(0, 0)
        return slice(int(found[0]) * self.frame_samples, (int(found[-1]) + 1) * self.frame_samples)


def measure(samples: NDArray[np.float64], sample_rate_hz: int) -> Levels:
    """`samples`: float64 [n], mono, n > 0."""
    frame_samples = max(1, round(_FRAME_S * sample_rate_hz))
    padded = np.pad(samples, (0, -len(samples) % frame_samples))
    frames = padded.reshape(-1, frame_samples)
    # About each frame's own mean: what moves slower than speech isn't heard. Some at a time, for the memory's sake.
    power = np.concatenate([frames[at : at + 100].var(axis=1) for at in range(0, len(frames), 100)])
    frames_dbfs = _power_dbfs(power)
    threshold_dbfs = max(float(np.percentile(frames_dbfs, 95)) - _BELOW_SPEECH_DB, _SILENCE_DBFS)
    active = frames_dbfs > threshold_dbfs
    quiet = np.sort(power)[: max(1, len(power) // 10)]
    return Levels(
        frame_samples=frame_samples,
        active=active,
        peak_dbfs=float(_power_dbfs(np.square(np.abs(samples).max()))),
        speech_dbfs=float(_power_dbfs(power[active].mean())) if active.any() else _FLOOR_DBFS,
        noise_dbfs=float(_power_dbfs(quiet.mean())),
        clipped_ratio=_clipped_ratio(samples),
    )


def _power_dbfs(power: "NDArray[np.float64] | np.float64") -> NDArray[np.float64]:
    return np.asarray(10 * np.log10(np.maximum(power, 10 ** (_FLOOR_DBFS / 10))))


def _clipped_ratio(samples: NDArray[np.float64]) -> float:
    """The part of the samples that lie in runs at full scale."""
    full = np.concatenate(([0], (np.abs(samples) >= _CLIPPED).astype(np.int8), [0]))
    edges = np.flatnonzero(np.diff(full))
    lengths = edges[1::2] - edges[::2]
    return float(lengths[lengths >= _CLIPPED_RUN].sum() / len(samples))
