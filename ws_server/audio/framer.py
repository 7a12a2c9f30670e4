"""Cuts an utterance's audio into frames of the client's rate, format and length."""

from collections import deque

import numpy as np

from engines.contract import Samples
from protocol.messages import Format
from ws_server.audio.encoding import BYTES_PER_SAMPLE, encode
from ws_server.audio.resampler import resampler

FIRST_FRAME_MS = 20
LONGEST_FRAME_MS = 100
"""Without `frame_ms`; 38 kB at the most (f32le at 48 kHz), with `frame_ms` twice that at most."""


class _Segment:
    """Output samples of one segment that aren't taken yet."""

    __slots__ = ("arrays", "ended", "ready")

    def __init__(self) -> None:
        self.arrays: deque[Samples] = deque()
        self.ready = 0
        self.ended = False


class Framer:
    """One utterance's audio: pushed chunk by chunk, taken frame by frame.

    No frame spans two segments. Nothing is held back at a segment's end. What is taken is the whole of what
    was pushed, resampled segment by segment, whatever the chunks were. Encoding happens in `take`.
    """

    def __init__(
        self,
        *,
        engine_rate_hz: int,
        output_rate_hz: int,
        format: Format,  # noqa: A002 - the wire's word
        frame_ms: int | None,
    ) -> None:
        self._resampler = resampler(engine_rate_hz, output_rate_hz)
        self._format = format
        self._first_samples = _samples(min(FIRST_FRAME_MS, frame_ms or FIRST_FRAME_MS), output_rate_hz)
        self._frame_samples = _samples(frame_ms or LONGEST_FRAME_MS, output_rate_hz)
        self._exact = frame_ms is not None
        self._segments: deque[_Segment] = deque([_Segment()])
        self.bytes_per_sample = BYTES_PER_SAMPLE[format]
        self.position_samples = 0
        """Taken so far: where the next frame begins."""
        self.pushed_samples = 0
        """At the output rate; a resampler holds a little of an open segment back."""

    @property
    def ready_samples(self) -> int:
        """Pushed and not yet taken."""
        return self.pushed_samples - self.position_samples

    def push(self, samples: Samples, last_of_segment: bool) -> None:
        """float32 [n], mono, at the engine's rate; kept until taken, so the caller doesn't write to it."""
        out = self._resampler.push(samples, last=last_of_segment)
        segment = self._segments[-1]
        if len(out):
            segment.arrays.append(out)
            segment.ready += len(out)
            self.pushed_samples += len(out)
        if last_of_segment:
            segment.ended = True
            self._segments.append(_Segment())

    def take(self) -> bytes | None:
        """The next frame; None: nothing that is long enough yet."""
        while not self._segments[0].ready and self._segments[0].ended:
            self._segments.popleft()
        segment = self._segments[0]
        samples = self._next_samples(segment)
        if not samples:
            return None
        self.position_samples += samples
        return encode(_cut(segment, samples), self._format)

    def _next_samples(self, segment: _Segment) -> int:
        first = self.position_samples == 0
        wanted = self._first_samples if first else self._frame_samples
        if segment.ready >= wanted:
            return wanted
        holds_back = (first or self._exact) and not segment.ended
        return 0 if holds_back else segment.ready


def _samples(length_ms: int, rate_hz: int) -> int:
    return round(length_ms * rate_hz / 1000)


def _cut(segment: _Segment, samples: int) -> Samples:
    """Take the first `samples` (at most what is ready) out of `segment`."""
    segment.ready -= samples
    parts: list[Samples] = []
    while samples:
        head = segment.arrays[0]
        if len(head) <= samples:
            parts.append(segment.arrays.popleft())
            samples -= len(head)
        else:
            parts.append(head[:samples])
            segment.arrays[0] = head[samples:]
            samples = 0
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
