"""Samples as bytes, in each format of the wire."""

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from engines.contract import Samples
from protocol.messages import Format
from ws_server.audio import companding

BYTES_PER_SAMPLE: dict[Format, int] = {"s16le": 2, "f32le": 4, "mulaw": 1, "alaw": 1}

_FULL_SCALE = np.float32(32767)


def encode(samples: Samples, audio_format: Format) -> bytes:
    """What is beyond -1..1 (a resampler overshoots) saturates."""
    match audio_format:
        case "s16le":
            return _rounded(samples).astype("<i2", copy=False).tobytes()
        case "f32le":
            return np.clip(samples, -1.0, 1.0).astype("<f4", copy=False).tobytes()
        case "mulaw" | "alaw":
            return companding.encode(_rounded(samples), audio_format)
        case _:
            assert_never(audio_format)


def _rounded(samples: Samples) -> NDArray[np.int16]:
    scaled = samples * _FULL_SCALE
    np.rint(scaled, out=scaled)
    np.minimum(scaled, _FULL_SCALE, out=scaled)
    np.maximum(scaled, -_FULL_SCALE, out=scaled)
    return scaled.astype(np.int16)
