from typing import Any

import numpy as np
import pytest
from hibari import Hibari, dsp

from engines.hibari_signal import Noise, Spectrum, WindowedSynth


class Replay:
    """Gives the library, which wants its noise bin by bin, the draws that the windows get frame by frame."""

    def __init__(self, seed: int, frames: int) -> None:
        self._drawn = Noise(seed).take(frames)

    def standard_normal(self, shape: tuple[int, int], dtype: Any) -> np.ndarray:
        bins = np.ascontiguousarray(self._drawn.T).view(np.float32)
        assert bins.shape == shape
        return bins


@pytest.fixture(scope="module")
def parts() -> list[np.ndarray]:
    library = Hibari(threads=1)
    ids = library.ids(library.phonemize("A sentence that is long enough for several windows.")[0])
    feed = {"ids": np.asarray([ids], np.int64), "speed": np.ones(1, np.float32)}
    return [part[0] for part in library.sess.run(None, feed)]


def windows(parts: list[np.ndarray], sizes: list[int]) -> np.ndarray:
    synth = WindowedSynth(Spectrum(*parts), Noise(5))
    taken: list[np.ndarray] = []
    while synth.taken_frames < synth.frames:
        taken.append(synth.take(sizes[min(len(taken), len(sizes) - 1)]))
    return np.concatenate(taken)


@pytest.mark.parametrize("sizes", [[10_000], [1], [2], [3], [48, 96, 192], [5, 1, 64]])
def test_any_windows_give_the_samples_of_the_library_s_one_call(
    parts: list[np.ndarray], sizes: list[int]
) -> None:
    expected = dsp.synth(*[part.copy() for part in parts], Replay(5, len(parts[5])))
    np.testing.assert_allclose(windows(parts, sizes), expected, rtol=0, atol=1e-6)


def test_windows_do_not_change_a_single_bit(parts: list[np.ndarray]) -> None:
    np.testing.assert_array_equal(windows(parts, [48, 96, 192]), windows(parts, [10_000]))


@pytest.mark.parametrize("frames", [4, 5, 8])
def test_a_sentence_of_few_frames_is_whole(parts: list[np.ndarray], frames: int) -> None:
    few = [part[..., :frames] for part in parts]
    assert windows(few, [2]).size == 300 * frames
    np.testing.assert_allclose(windows(few, [2]), dsp.synth(*few, Replay(5, frames)), rtol=0, atol=1e-6)


def test_noise_is_that_of_its_frames_however_it_is_taken_and_never_runs_out() -> None:
    whole = Noise(3).take(5000)
    stream = Noise(3)
    np.testing.assert_array_equal(np.concatenate([stream.take(250) for _ in range(20)]), whole)
    assert abs(whole.real.std() - 1) < 0.01
    assert abs(whole.imag.std() - 1) < 0.01
    assert abs(np.mean(whole[:500] * whole[1:501].conj())) < 0.01
    assert not np.array_equal(Noise(4).take(10), whole[:10])
