"""A recording to clone a voice from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Reference:
    samples: NDArray[np.float32]
    """float32 [n], mono, -1..1"""
    sample_rate_hz: int
    transcript: str | None
    language: str | None
