"""hibari's spectrum to waveform in windows, so that a long sentence starts before its last frame is turned.

The library's own `dsp.synth` makes a sentence in one call. Per frame of 12.5 ms the network gives a harmonic
branch (filters a pulse train), shaped noise and a free-phase branch; their sum goes through an inverse
short-time Fourier transform (1200 points, hop 300, Hann). Frames are independent up to the overlap-add, for
which the last three are kept from window to window. Noise belongs to frames, so it doesn't depend on the
windows; drawing it anew took more than a third of the time here, so it comes from a store that is drawn once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
from hibari import dsp
from numpy.typing import NDArray

from engines.contract import Samples

_BLOCKS = dsp.N_FFT // dsp.HOP
_PAD_BLOCKS = _BLOCKS // 2
"""The transform is centred: the first two hops of the overlap-add lie before the first sample."""
_WINDOW_POWER = (dsp.WIN * dsp.WIN).reshape(_BLOCKS, dsp.HOP)
_LEAST_POWER = 1e-11
_BINS = dsp.N_FFT // 2 + 1
_STORED_FRAMES = 1021
"""12.8 s. That the same draws come again then, under another spectrum, can't be heard."""
_OVERRUN_FRAMES = 300


@dataclass(frozen=True, slots=True)
class Spectrum:
    """What the network predicts for a sentence: five arrays [601, frames] and the pitch [frames] in Hz."""

    log_harmonic: NDArray[np.float32]
    theta: NDArray[np.float32]
    log_noise: NDArray[np.float32]
    log_free: NDArray[np.float32]
    free_phase: NDArray[np.float32]
    f0_hz: NDArray[np.float32]

    @classmethod
    def kept(cls, parts: Sequence[NDArray[np.float32]]) -> Self:
        """A copy in one block, which is a mapping of its own and goes back to the system when the sentence is over.

        What the network hands out lies among its own short-lived blocks: a heap full of these would grow for ever.
        """
        *images, f0_hz = parts
        log_harmonic, theta, log_noise, log_free, free_phase = np.stack(images)
        return cls(log_harmonic, theta, log_noise, log_free, free_phase, f0_hz)


class Noise:
    """Complex normal noise of one stream, 601 bins a frame: a run through the store from where the seed says."""

    def __init__(self, seed: int) -> None:
        self._at = int(np.random.default_rng(seed).integers(_STORED_FRAMES))

    def take(self, frames: int) -> NDArray[np.complex64]:
        """complex64 [frames, 601], not to be written to."""
        store = _noise_store()
        start = self._at
        self._at = (start + frames) % _STORED_FRAMES
        if start + frames <= len(store):
            return store[start : start + frames]
        return store[np.arange(start, start + frames) % _STORED_FRAMES]


@cache
def _noise_store() -> NDArray[np.complex64]:
    """complex64 [frames and a window more, 601]; the window repeats the beginning."""
    drawn = np.random.default_rng(0).standard_normal((_STORED_FRAMES, 2 * _BINS), dtype=np.float32)
    store = np.concatenate((drawn, drawn[:_OVERRUN_FRAMES])).view(np.complex64)
    store.flags.writeable = False
    return store


class WindowedSynth:
    """One sentence; `take` gives its next samples. The windows' sizes don't shape the sound."""

    def __init__(self, spectrum: Spectrum, noise: Noise) -> None:
        self.frames = len(spectrum.f0_hz)
        self.taken_frames = 0
        self._spectrum = spectrum
        self._noise = noise
        pulses = np.pad(dsp.pulses(spectrum.f0_hz), dsp.N_FFT // 2, mode="reflect")
        self._sources = np.lib.stride_tricks.sliding_window_view(pulses, dsp.N_FFT)[:: dsp.HOP]
        self._recent = np.zeros((_BLOCKS - 1, _BLOCKS, dsp.HOP), np.float32)

    def take(self, frames: int) -> Samples:
        """float32 [n]: 300 samples a frame, two frames late until the last window makes it up."""
        start = self.taken_frames
        end = self.taken_frames = min(start + frames, self.frames)
        blocks = self._overlap_add(self._invert(start, end))
        if end < self.frames:
            blocks = blocks[: end - start]
        blocks *= self._norm(start, len(blocks))
        first = max(0, _PAD_BLOCKS - start)
        last = self.frames + _PAD_BLOCKS - start
        return blocks[first:last].reshape(-1)

    def _invert(self, start: int, end: int) -> NDArray[np.float32]:
        """float32 [frames, 1200]: each frame's windowed waveform."""
        spectrum = dsp.rfft(self._sources[start:end] * dsp.WIN_SRC, 1)
        rotation = np.empty(spectrum.shape, np.complex64)
        angle = np.tanh(self._rows(self._spectrum.theta, start, end))
        angle *= np.pi
        _rotate(rotation, angle, self._rows(self._spectrum.log_harmonic, start, end))
        spectrum *= rotation
        spectrum += self._noise.take(end - start) * dsp.ex(self._rows(self._spectrum.log_noise, start, end))
        free_phase = self._rows(self._spectrum.free_phase, start, end)
        _rotate(rotation, free_phase, self._rows(self._spectrum.log_free, start, end))
        spectrum += rotation
        frames: NDArray[np.float32] = dsp.irfft(spectrum, dsp.N_FFT, 1)
        frames *= dsp.WIN
        return frames

    @staticmethod
    def _rows(part: NDArray[np.float32], start: int, end: int) -> NDArray[np.float32]:
        return np.ascontiguousarray(part[:, start:end].T)

    def _overlap_add(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 [frames + 3, 300]; summed from the newest frame to the oldest whatever the windows."""
        count = len(frames)
        pieces = frames.reshape(count, _BLOCKS, dsp.HOP)
        blocks = np.zeros((count + _BLOCKS - 1, dsp.HOP), np.float32)
        for shift in range(_BLOCKS):
            blocks[shift : shift + count] += pieces[:, shift]
            blocks[:shift] += self._recent[_BLOCKS - 1 - shift :, shift]
        self._recent = np.concatenate((self._recent, pieces[1 - _BLOCKS :]))[1 - _BLOCKS :]
        return blocks

    def _norm(self, first_block: int, count: int) -> NDArray[np.float32]:
        """1 / summed squared window: the same row everywhere but in the three hops at either end."""
        if first_block >= _BLOCKS - 1 and first_block + count <= self.frames:
            return np.asarray(1 / _WINDOW_POWER.sum(axis=0), np.float32)
        power = np.zeros((count, dsp.HOP), np.float32)
        for shift in range(_BLOCKS):
            low = max(0, shift - first_block)
            high = max(low, min(count, self.frames + shift - first_block))
            power[low:high] += _WINDOW_POWER[shift]
        return np.asarray(1 / np.maximum(power, _LEAST_POWER), np.float32)


def _rotate(
    out: NDArray[np.complex64], angle: NDArray[np.float32], log_magnitude: NDArray[np.float32]
) -> None:
    """Sets `out` to exp(log_magnitude) e^(i angle)."""
    np.cos(angle, out=out.real)
    np.sin(angle, out=out.imag)
    out *= dsp.ex(log_magnitude)
