"""Where `saystream say` puts the audio: a file, a pipe, the loudspeaker."""

import asyncio
from pathlib import Path
from typing import BinaryIO, Protocol

from protocol.messages import Started
from saystream import pipes, wav
from saystream.utterance import Frame


class Sink(Protocol):
    async def start(self, started: Started) -> None: ...

    async def write(self, frame: Frame) -> None: ...

    async def finish(self) -> None:
        """Everything has been written; returns when it has been heard or stored."""
        ...

    def close(self) -> None:
        """Idempotent; also after an interruption."""
        ...

    def played_ms(self) -> float | None:
        """How far its listener has heard; None: it has no listener."""
        ...


class FileSink:
    """A file that is whole at any time but for the lengths in its header, which `close` mends."""

    def __init__(self, path: Path, *, raw: bool) -> None:
        self._path = path
        self._raw = raw
        self._file: BinaryIO | None = None
        self._started: Started | None = None
        self._data_bytes = 0

    async def start(self, started: Started) -> None:
        self._started = started
        self._file = await asyncio.to_thread(self._path.open, "wb")
        if not self._raw:
            await asyncio.to_thread(self._file.write, wav.header(started.format, started.sample_rate_hz))

    async def write(self, frame: Frame) -> None:
        if self._file is not None:
            await asyncio.to_thread(self._file.write, frame.pcm)
            self._data_bytes += len(frame.pcm)

    async def finish(self) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is None or self._started is None:
            return
        with file:
            if not self._raw:
                file.write(b"\0" * (self._data_bytes % 2))  # chunks have even lengths
                file.seek(0)
                file.write(wav.header(self._started.format, self._started.sample_rate_hz, self._data_bytes))

    def played_ms(self) -> float | None:
        return None


class PipeSink:
    """Standard output; its WAV header says 'until the end'."""

    def __init__(self, fd: int, *, raw: bool) -> None:
        self._fd = fd
        self._raw = raw

    async def start(self, started: Started) -> None:
        if not self._raw:
            await pipes.write(self._fd, wav.header(started.format, started.sample_rate_hz))

    async def write(self, frame: Frame) -> None:
        await pipes.write(self._fd, frame.pcm)

    async def finish(self) -> None:
        pass

    def close(self) -> None:
        pass

    def played_ms(self) -> float | None:
        return None
