"""What was found in a recording and what was done to it, for the person who uploaded it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All but `duration_s` as it was recorded, before anything was repaired."""

    duration_s: float
    """Of what is kept."""
    sample_rate_hz: int
    peak_dbfs: float
    loudness_dbfs: float
    """RMS where somebody speaks."""
    noise_dbfs: float
    """RMS of the quietest tenth."""
    clipped_ratio: float
    silence_ratio: float
    repaired: tuple[str, ...]
    warnings: tuple[str, ...]
