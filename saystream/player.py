"""The loudspeaker, through sounddevice where that is installed."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from protocol.messages import Started
from protocol.order import SAMPLE_BYTES
from saystream.utterance import Frame

_CUSHION_S = 0.2
"""In hand before playing begins, and again after running dry: what the server assumes."""
_POLL_S = 0.02


class OutputStream(Protocol):
    latency: float

    def start(self) -> None: ...

    def close(self) -> None: ...


Fill = Callable[[memoryview], None]
OpenStream = Callable[[int, str, Fill], OutputStream]
"""(sample_rate_hz, "int16" or "float32", fill); `fill` is called by the device's own thread."""


def available() -> bool:
    """Whether sounddevice is installed and finds an output device."""
    try:
        import sounddevice

        sounddevice.query_devices(kind="output")
    except (ImportError, OSError, ValueError):  # no package, no PortAudio, no device
        return False
    except Exception as error:  # sounddevice's own error, which can't be named without the package
        if type(error).__name__ == "PortAudioError":
            return False
        raise
    return True


def open_device(sample_rate_hz: int, dtype: str, fill: Fill) -> OutputStream:
    import sounddevice

    def callback(out: Any, _samples: int, _time: Any, _status: Any) -> None:
        fill(memoryview(out).cast("B"))

    stream: OutputStream = sounddevice.RawOutputStream(
        samplerate=sample_rate_hz, channels=1, dtype=dtype, callback=callback
    )
    return stream


class Player:
    """Written by the loop, emptied by the device's thread; `played_ms` counts what the listener can have heard."""

    def __init__(self, open_stream: OpenStream = open_device) -> None:
        self._open_stream = open_stream
        self._stream: OutputStream | None = None
        self._lock = threading.Lock()
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._given_bytes = 0
        self._flowing = False
        self._complete = False
        self._bytes_per_s = 1

    async def start(self, started: Started) -> None:
        dtypes = {"s16le": "int16", "f32le": "float32"}
        if started.format not in dtypes:
            raise ValueError(f"{started.format} can't be played; choose s16le or f32le")
        self._bytes_per_s = started.sample_rate_hz * SAMPLE_BYTES[started.format]
        self._stream = self._open_stream(started.sample_rate_hz, dtypes[started.format], self._fill)
        self._stream.start()

    async def write(self, frame: Frame) -> None:
        """Never waits: what is sent ahead is bounded by the lead."""
        with self._lock:
            self._waiting.append(memoryview(frame.pcm))
            self._waiting_bytes += len(frame.pcm)

    async def finish(self) -> None:
        with self._lock:
            self._complete = True
        while self._waiting_bytes:  # noqa: ASYNC110 - the device's thread can't set an event of the loop cheaply
            await asyncio.sleep(_POLL_S)
        if self._stream is not None:
            await asyncio.sleep(self._stream.latency)
            self.close()

    def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def played_ms(self) -> float | None:
        latency_s = 0.0 if self._stream is None else self._stream.latency
        return 1000 * max(0.0, self._given_bytes / self._bytes_per_s - latency_s)

    def _fill(self, out: memoryview) -> None:
        with self._lock:
            enough = self._waiting_bytes >= _CUSHION_S * self._bytes_per_s
            self._flowing = self._flowing or enough or self._complete
            at = 0
            while self._flowing and self._waiting and at < len(out):
                part = self._waiting[0][: len(out) - at]
                out[at : at + len(part)] = part
                at += len(part)
                rest = self._waiting[0][len(part) :]
                if rest:
                    self._waiting[0] = rest
                else:
                    self._waiting.popleft()
            self._waiting_bytes -= at
            self._given_bytes += at
            if at < len(out):
                out[at:] = bytes(len(out) - at)
                self._flowing = False
