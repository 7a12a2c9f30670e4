from typing import Any

import numpy as np
import pytest
from hibari import Hibari, dsp

from engines.hibari_signal import Spectrum, WindowedSynth


class Replay:
    """Gives the library, which wants its noise bin by bin, the draws that the windows get frame by frame."""

    def __init__(self, seed: int, frames: int) -> None:
        self._drawn = np.random.default_rng(seed).standard_normal((frames, 1202), dtype=np.float32)

    def standard_normal(self, shape: tuple[int, int], dtype: Any) -> np.ndarray:
        bins = np.ascontiguousarray(self._drawn.view(np.complex64).T).view(np.float32)
        assert bins.shape == shape
        return bins


@pytest.fixture(scope="module")
def parts() -> list[np.ndarray]:
    library = Hibari(threads=1)
    ids = library.ids(library.phonemize("A sentence that is long enough for several windows.")[0])
    feed = {"ids": np.asarray([ids], np.int64), "speed": np.ones(1, np.float32)}
    return [part[0] for part in library.sess.run(None, feed)]


def windows(parts: list[np.ndarray], sizes: list[int]) -> np.ndarray:
    synth = WindowedSynth(Spectrum(*parts), np.random.default_rng(5))
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
