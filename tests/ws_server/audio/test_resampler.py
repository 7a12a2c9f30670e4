import numpy as np
import pytest
import soxr

from engines.contract import Samples
from ws_server.audio.resampler import resampler


def tone(frequency_hz: float, rate_hz: int, length_s: float = 1.0) -> Samples:
    at_s = np.arange(int(rate_hz * length_s)) / rate_hz
    return (0.5 * np.sin(2 * np.pi * frequency_hz * at_s)).astype(np.float32)


def level_db(samples: Samples, rate_hz: int, frequency_hz: float) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples)))) / len(samples) * 4
    return float(20 * np.log10(spectrum[round(frequency_hz * len(samples) / rate_hz)] + 1e-12))


def test_the_same_rate_passes_through_untouched() -> None:
    samples = tone(440, 24000)
    assert resampler(24000, 24000).push(samples, last=False) is samples


@pytest.mark.parametrize("out_rate_hz", [8000, 16000, 22050, 44100, 48000])
@pytest.mark.parametrize("chunk_samples", [1, 479, 1920, 24000])
def test_streamed_equals_one_shot(out_rate_hz: int, chunk_samples: int) -> None:
    samples = tone(440, 24000, 0.25)
    stream = resampler(24000, out_rate_hz)
    parts = [
        stream.push(samples[at : at + chunk_samples], last=at + chunk_samples >= len(samples))
        for at in range(0, len(samples), chunk_samples)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), soxr.resample(samples, 24000, out_rate_hz))


def test_a_second_signal_begins_afresh() -> None:
    stream = resampler(24000, 16000)
    first = stream.push(tone(440, 24000), last=True)
    again = stream.push(tone(440, 24000), last=True)
    np.testing.assert_array_equal(first, again)


def test_the_end_of_a_signal_may_come_without_samples() -> None:
    stream = resampler(24000, 8000)
    head = stream.push(tone(440, 24000), last=False)
    tail = stream.push(np.zeros(0, np.float32), last=True)
    assert len(head) + len(tail) == 8000


def test_pitch_and_level_are_kept() -> None:
    out = resampler(24000, 8000).push(tone(1000, 24000), last=True)
    assert level_db(out, 8000, 1000) == pytest.approx(level_db(tone(1000, 24000), 24000, 1000), abs=0.2)


def test_what_the_lower_rate_cant_carry_doesnt_fold_back() -> None:
    # 7 kHz would come back as 1 kHz.
    out = resampler(24000, 8000).push(tone(7000, 24000), last=True)[400:-400]
    assert level_db(out, 8000, 1000) < -80
