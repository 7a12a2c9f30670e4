"""Repair rather than refusal, with a report of what was found and done."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.voices.recordings import RATE_HZ, silence, tone
from voices.clip import Clip
from voices.errors import Unusable
from voices.preparing import prepare
from voices.reading import Bounds, Recording
from voices.report import Report

FULL = 32768


def prepared(
    samples: NDArray[np.float64], rate_hz: int = RATE_HZ, transcript: str | None = None
) -> tuple[Clip, Report]:
    return prepare(Recording(samples, rate_hz), Bounds(), transcript=transcript)


def rms_dbfs(samples: NDArray[Any]) -> float:
    return float(10 * np.log10(np.square(samples).mean()))


def test_silence_before_and_after_goes_but_for_a_tenth_of_a_second() -> None:
    clip, report = prepared(np.concatenate([silence(2), tone(length_s=3.9), silence(3)]))
    # A frame of 20 ms may reach over the speech at either end.
    assert clip.duration_s == pytest.approx(0.1 + 3.9 + 0.1, abs=0.04)
    assert report.duration_s == round(clip.duration_s, 3)
    assert "trimmed silence before and after" in report.repaired
    assert report.silence_ratio == pytest.approx((5 + 0.7) / 8.9, abs=0.02)


def test_silence_between_words_stays() -> None:
    parts = [tone(length_s=1.4), silence(1), tone(length_s=1.4)]
    clip, _ = prepared(np.concatenate(parts))
    assert clip.duration_s == pytest.approx(3.8, abs=0.04)


def test_a_constant_offset_goes() -> None:
    clip, report = prepared(tone(level=0.1) + 0.05)
    assert abs(float(clip.samples().mean())) < 1e-3
    assert "removed a constant offset" in report.repaired


@pytest.mark.parametrize("level", [0.004, 0.05, 0.2, 0.9])
def test_the_level_becomes_the_same_whatever_it_was(level: float) -> None:
    clip, report = prepared(tone(level=level))
    speech = clip.samples()[: round(0.38 * RATE_HZ)]
    assert rms_dbfs(speech) == pytest.approx(-20, abs=0.2)
    # A sine's RMS lies 3.01 dB below its peak.
    assert report.loudness_dbfs == pytest.approx(20 * np.log10(level) - 3.01, abs=0.2)
    assert report.peak_dbfs == pytest.approx(20 * np.log10(level), abs=0.1)


def test_a_level_that_is_right_is_left_alone() -> None:
    _, report = prepared(tone(level=0.1 * 2**0.5))
    assert report.repaired == ()


def test_a_single_loud_moment_never_clips() -> None:
    samples = tone(level=0.01)
    samples[RATE_HZ : RATE_HZ + 20] = 0.8
    clip, _ = prepared(samples)
    assert np.abs(clip.pcm).max() <= FULL * 10 ** (-1 / 20) + 2


def test_what_is_repaired_comes_out_the_same_when_it_is_sent_again() -> None:
    clip, _ = prepared(np.concatenate([silence(1), tone(level=0.03), silence(1)]) + 0.01)
    again, report = prepared(clip.samples().astype(np.float64))
    assert report.repaired == ()
    np.testing.assert_allclose(again.pcm, clip.pcm, atol=3)


def test_a_high_rate_becomes_48_khz() -> None:
    clip, report = prepared(tone(rate_hz=96000), 96000)
    assert (clip.sample_rate_hz, report.sample_rate_hz) == (48000, 96000)
    assert clip.duration_s == pytest.approx(3.9 + 0.1, abs=0.05)
    assert "resampled to 48000 Hz" in report.repaired


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (silence(4), "silent"),
        (tone(level=0.0005), "silent, or nearly"),
        (np.full(4 * RATE_HZ, 0.3), "silent"),
        (tone(length_s=0.1), "0.1 s of speech; 1 s is the least"),
        (np.concatenate([silence(5), tone(length_s=0.4), silence(5)]), "0.4 s of speech"),
        (np.clip(tone(level=5.0), -1, 1), "clipped"),
    ],
)
def test_what_cannot_be_repaired_is_refused_with_the_reason(
    samples: NDArray[np.float64], reason: str
) -> None:
    with pytest.raises(Unusable, match=reason) as caught:
        prepared(samples)
    assert caught.value.param == "audio"


def test_noise_a_little_clipping_a_low_rate_and_a_short_clip_are_warned_of() -> None:
    rng = np.random.default_rng(1)
    noisy = tone() + rng.normal(0, 0.05, 4 * RATE_HZ)
    assert any("noisy" in line for line in prepared(noisy)[1].warnings)
    hot = tone(level=0.9)
    hot[100:150] = 1.0
    _, report = prepared(hot)
    assert report.clipped_ratio == pytest.approx(50 / hot.size, rel=0.01)
    assert any("Hz" in line for line in prepared(tone(rate_hz=8000), 8000)[1].warnings)
    assert any("short" in line for line in prepared(tone(length_s=2))[1].warnings)
    assert any("long" in line for line in prepared(tone(length_s=40))[1].warnings)
    assert prepared(tone())[1].warnings == ()


def test_a_transcript_is_held_against_the_speech() -> None:
    """V8. The clip has 3.2 s of speech (eight times 0.4 s)."""
    fitting = "a" * 45
    assert prepared(tone(), transcript=fitting)[1].warnings == ()
    assert any("too long" in line for line in prepared(tone(), transcript="a" * 100)[1].warnings)
    assert any("too short" in line for line in prepared(tone(), transcript="a" * 5)[1].warnings)
    # 20 ideographs are some 60 letters.
    assert prepared(tone(), transcript="今" * 20)[1].warnings == ()
    with pytest.raises(Unusable, match="too long for the recording") as caught:
        prepared(tone(), transcript="a" * 200)
    assert caught.value.param == "ref_text"
