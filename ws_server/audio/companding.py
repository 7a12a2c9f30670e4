"""G.711: a byte for each of the 65,536 possible samples, looked up."""

import io
from functools import cache
from typing import Literal

import numpy as np
import soundfile
from numpy.typing import NDArray

Law = Literal["mulaw", "alaw"]

_SUBTYPE: dict[Law, str] = {"mulaw": "ULAW", "alaw": "ALAW"}


@cache
def table(law: Law) -> NDArray[np.uint8]:
    """uint8 [65536], indexed by a 16-bit sample read as unsigned; made by libsndfile in a millisecond."""
    every_sample = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
    coded = io.BytesIO()
    soundfile.write(coded, every_sample, 8000, format="RAW", subtype=_SUBTYPE[law])
    return np.frombuffer(coded.getvalue(), dtype=np.uint8)


def encode(pcm: NDArray[np.int16], law: Law) -> bytes:
    return table(law).take(pcm.view(np.uint16)).tobytes()
