"""From the engine's rate to the client's, chunk by chunk, without a seam."""

from typing import Protocol, cast

import numpy as np
import soxr

from engines.contract import Samples

_NOTHING = np.zeros(0, dtype=np.float32)


class Resampler(Protocol):
    def push(self, samples: Samples, *, last: bool) -> Samples:
        """What is certain with `samples`; all of it when `last`, after which a new signal may begin."""
        ...


class _SameRate:
    def push(self, samples: Samples, *, last: bool) -> Samples:
        del last
        return samples


class _Soxr:
    """The filter looks ahead: 40 to 90 ms of the signal stay inside until more comes or it ends.

    Made with its first samples: it takes 50 kB, and of a client's open utterances most may have nothing to say.
    """

    def __init__(self, in_rate_hz: int, out_rate_hz: int) -> None:
        self._rates_hz = in_rate_hz, out_rate_hz
        self._stream: soxr.ResampleStream | None = None

    def push(self, samples: Samples, *, last: bool) -> Samples:
        if not len(samples) and not last:
            return _NOTHING
        if self._stream is None:
            self._stream = soxr.ResampleStream(*self._rates_hz, 1, dtype="float32", quality="HQ")
        out = self._stream.resample_chunk(np.ascontiguousarray(samples, dtype=np.float32), last=last)
        if last:
            self._stream.clear()
        return cast("Samples", out)


def resampler(in_rate_hz: int, out_rate_hz: int) -> Resampler:
    """One signal at a time, from one thread at a time."""
    return _SameRate() if in_rate_hz == out_rate_hz else _Soxr(in_rate_hz, out_rate_hz)
