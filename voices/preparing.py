"""Turns a recording into the clip that is kept: repaired where it can be, refused where it can't, with a report."""

import unicodedata

import numpy as np
import soxr
from numpy.typing import NDArray

from voices.clip import Clip
from voices.errors import Unusable
from voices.levels import Levels, measure
from voices.reading import Bounds, Recording
from voices.report import Report

HIGHEST_KEPT_HZ = 48_000
_LEVEL_DBFS = -20.0
_PEAK_DBFS = -1.0
_QUIETEST_DBFS = -55.0
_PAD_S = 0.1
"""Left of the silence before and after the speech: a hard start clicks, and engines learn it."""
_DC = 0.005
_MOST_CLIPPED = 0.1
_SHORT_S, _LONG_S = 3.0, 30.0
_FASTEST_LETTERS_S, _FAST_LETTERS_S, _SLOW_LETTERS_S = 40.0, 25.0, 4.0
"""Read aloud, English has some 15 letters a second; nobody reads 40."""
_IDEOGRAPH_LETTERS = 3
"""Han, kana and hangul: a syllable or more each."""


def prepare(
    recording: Recording,
    bounds: Bounds,
    *,
    transcript: str | None,
    audio: str = "audio",
    text: str = "ref_text",
) -> tuple[Clip, Report]:
    """Raises Unusable."""
    dc = round(float(recording.samples.mean()), 5)
    samples = recording.samples - dc
    levels = measure(samples, recording.sample_rate_hz)
    repaired = [*recording.repaired, *(["removed a constant offset"] if abs(dc) >= _DC else [])]
    if not levels.active.any() or levels.speech_dbfs < _QUIETEST_DBFS:
        raise Unusable(audio, f"{audio} is silent, or nearly so ({levels.peak_dbfs:.0f} dBFS at its loudest)")
    if levels.clipped_ratio > _MOST_CLIPPED:
        raise Unusable(
            audio, f"{audio} is clipped ({levels.clipped_ratio:.0%} of it): record it with less gain"
        )
    kept = _trimmed(samples, levels, recording.sample_rate_hz, repaired)
    speech_s = float(levels.active.sum()) * levels.frame_samples / recording.sample_rate_hz
    if speech_s < bounds.least_s:
        raise Unusable(audio, f"{audio} has {speech_s:.1f} s of speech; {bounds.least_s:g} s is the least")
    kept = _levelled(kept, levels, repaired)
    rate_hz = recording.sample_rate_hz
    if rate_hz > HIGHEST_KEPT_HZ:
        kept = np.asarray(soxr.resample(kept, rate_hz, HIGHEST_KEPT_HZ), np.float64)
        rate_hz = HIGHEST_KEPT_HZ
        repaired.append(f"resampled to {rate_hz} Hz")
    clip = Clip.of(kept, rate_hz)
    warnings = _warnings(levels, clip.duration_s, recording.sample_rate_hz)
    warnings += _transcript_warnings(transcript, speech_s, text)
    return clip, _report(levels, clip, recording.sample_rate_hz, repaired, warnings)


def _trimmed(
    samples: NDArray[np.float64], levels: Levels, rate_hz: int, repaired: list[str]
) -> NDArray[np.float64]:
    pad = round(_PAD_S * rate_hz)
    start = max(levels.span.start - pad, 0)
    stop = min(levels.span.stop + pad, len(samples))
    if len(samples) - (stop - start) > levels.frame_samples:
        repaired.append("trimmed silence before and after")
    return samples[start:stop]


def _levelled(samples: NDArray[np.float64], levels: Levels, repaired: list[str]) -> NDArray[np.float64]:
    gain_db = min(_LEVEL_DBFS - levels.speech_dbfs, _PEAK_DBFS - levels.peak_dbfs)
    # Rounded, so that another machine's last bit of a sum can't give another voice.
    gain_db = round(gain_db, 1)
    if abs(gain_db) >= 0.5:
        repaired.append(f"changed the level by {gain_db:+.1f} dB")
    return samples * 10 ** (gain_db / 20)


def _warnings(levels: Levels, duration_s: float, rate_hz: int) -> list[str]:
    warnings = []
    if duration_s < _SHORT_S:
        warnings.append(f"it is short: {duration_s:.1f} s; ten to thirty seconds make a better voice")
    if duration_s > _LONG_S:
        warnings.append(f"it is long: {duration_s:.0f} s; engines may use its beginning alone")
    if rate_hz < 16_000:
        warnings.append(f"it has only {rate_hz} Hz: the voice will sound dull")
    if levels.clipped_ratio > 0.0005:
        warnings.append(f"{levels.clipped_ratio:.1%} of it is clipped")
    if levels.speech_dbfs - levels.noise_dbfs < 20:
        warnings.append(
            "it is noisy, or has no pause: the quietest tenth is less than 20 dB below the speech"
        )
    if levels.silence_ratio > 0.5:
        warnings.append(f"{levels.silence_ratio:.0%} of it is silence")
    return warnings


def _transcript_warnings(transcript: str | None, speech_s: float, param: str) -> list[str]:
    """Words that aren't in the recording leak into the speech."""
    if transcript is None:
        return []
    letters_s = sum(_weight(character) for character in transcript) / speech_s
    if letters_s > _FASTEST_LETTERS_S:
        raise Unusable(
            param,
            f"{param} is too long for the recording: {letters_s:.0f} letters for each second of speech",
        )
    if letters_s > _FAST_LETTERS_S:
        return ["the transcript may be too long for the recording"]
    if letters_s < _SLOW_LETTERS_S:
        return ["the transcript may be too short for the recording"]
    return []


def _weight(character: str) -> int:
    if unicodedata.category(character)[0] not in "LN":
        return 0
    return _IDEOGRAPH_LETTERS if unicodedata.east_asian_width(character) in "WF" else 1


def _report(levels: Levels, clip: Clip, rate_hz: int, repaired: list[str], warnings: list[str]) -> Report:
    return Report(
        duration_s=round(clip.duration_s, 3),
        sample_rate_hz=rate_hz,
        peak_dbfs=round(levels.peak_dbfs, 1),
        loudness_dbfs=round(levels.speech_dbfs, 1),
        noise_dbfs=round(levels.noise_dbfs, 1),
        clipped_ratio=round(levels.clipped_ratio, 5),
        silence_ratio=round(levels.silence_ratio, 3),
        repaired=tuple(repaired),
        warnings=tuple(warnings),
    )
