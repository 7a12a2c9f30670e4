import numpy as np
import pytest

from pcm_cache.clip import Clip
from tests.pcm_cache.clips import sound


def test_speech_is_worth_keeping() -> None:
    assert Clip(sound(8000), (), 8000).sane


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros(0, np.float32),
        np.zeros(8000, np.float32),
        np.full(8000, 1.0, np.float32),
        np.full(8000, 1.5, np.float32),
        np.array([0.5] * 100 + [np.nan], np.float32),
        np.array([0.5] * 100 + [np.inf], np.float32),
    ],
    ids=["nothing", "silence", "clamped throughout", "beyond full scale", "not a number", "infinite"],
)
def test_what_is_broken_is_not_worth_keeping(samples: "np.ndarray[tuple[int], np.dtype[np.float32]]") -> None:
    assert not Clip(samples, (), 8000).sane


def test_a_few_samples_at_full_scale_do_no_harm() -> None:
    samples = sound(8000)
    samples[:50] = 1.0
    assert Clip(samples, (), 8000).sane


def test_one_array_serves_every_listener_so_none_can_write_to_it() -> None:
    clip = Clip(sound(10), (), 8000)
    with pytest.raises(ValueError, match="read-only"):
        clip.samples[0] = 0
