"""A recording to clone a voice from, and what a clone is asked for by."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

CloneMode = Literal["audio", "audio+text"]


@dataclass(frozen=True, slots=True)
class Reference:
    samples: NDArray[np.float32]
    """float32 [n], mono, -1..1"""
    sample_rate_hz: int
    transcript: str | None
    language: str | None
    tone: "Reference | None" = None
    """A second recording of the same person, whose tone is to be kept."""


@dataclass(frozen=True, slots=True)
class Clone:
    """A voice as one engine takes it: what a prompt is made of and found again by."""

    voice_id: str
    mode: CloneMode
