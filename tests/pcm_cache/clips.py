"""Clips for tests."""

import numpy as np

from pcm_cache.cache import Take
from pcm_cache.clip import Clip, Samples

RATE_HZ = 8000


def digest(number: int) -> str:
    return f"{number:040x}"


def sound(samples: int, level: float = 0.5) -> Samples:
    return np.asarray(level * np.sin(np.arange(samples) * 0.3), np.float32)


def clip(samples: int = 800, level: float = 0.5) -> Clip:
    return Clip(sound(samples, level), ((0, 5, 0, samples // 2), (6, 9, samples // 2, samples)), RATE_HZ)


def take(number: int, samples: int = 800, level: float = 0.5) -> Take:
    whole = sound(samples, level)
    return Take(digest(number), [whole[:100], whole[100:]], [(0, 5, 0, samples)], RATE_HZ)
