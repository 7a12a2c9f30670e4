"""The answers of `POST /v1/tts`: a WAV file when all is made, or raw samples while they are made."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio import SpooledTemporaryFile

from protocol import messages as wire
from saystream import wav
from ws_server.speak import Send
from ws_server.tally import Tally

_MEMORY_BYTES = 4 << 20
"""Two minutes of speech at 16 kHz; what is longer waits in a temporary file."""
_PART_BYTES = 512 * 1024
"""Written and read in one go: each time a thread is asked."""


AUDIO_HEADERS = (
    "x-sample-rate",
    "x-audio-format",
    "x-channels",
    "x-engine",
    "x-voice",
    "x-cache",
    "x-unspoken-chars",
)
"""Pages of listed origins may read them."""


def cache_word(found: int, segments: int, *, whole: bool = True) -> str:
    """`whole`: there are no more segments than those."""
    if not found:
        return "miss"
    return "hit" if whole and found >= segments else "partial"


def _headers(started: wire.Started, tally: Tally, *, found: int) -> dict[str, str]:
    headers = {
        "x-sample-rate": str(started.sample_rate_hz),
        "x-audio-format": started.format,
        "x-channels": "1",
        "x-engine": started.engine,
        "x-voice": started.voice,
        "x-cache": cache_word(found, tally.segments, whole=tally.whole),
        "cache-control": "no-store",
    }
    if tally.unspoken_chars:
        headers["x-unspoken-chars"] = str(tally.unspoken_chars)
    return headers


class Response:
    """One HTTP answer, sent to whoever reads it."""

    def __init__(self, send: Send, stalled_s: float) -> None:
        self._send = send
        self._stalled_s = stalled_s
        self.begun = False
        """The status is out: what goes wrong now can only break the answer off."""

    async def head(self, headers: dict[str, str]) -> None:
        self.begun = True
        raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        await self._bounded({"type": "http.response.start", "status": 200, "headers": raw})

    async def part(self, data: bytes, *, more: bool = True) -> None:
        """Returns when the next can be taken. Raises TimeoutError for a client that reads nothing for long."""
        await self._bounded({"type": "http.response.body", "body": data, "more_body": more})

    async def _bounded(self, message: dict[str, Any]) -> None:
        with anyio.fail_after(self._stalled_s):
            await self._send(message)


class Streamed:
    """Raw samples, each frame as soon as it is there."""

    def __init__(self, response: Response) -> None:
        self._response = response

    async def begin(self, started: wire.Started, tally: Tally) -> None:
        # As much of the text has been cut by now as is cut ahead, so what is stored of that is known.
        headers = _headers(started, tally, found=tally.stored)
        await self._response.head({"content-type": "application/octet-stream", **headers})

    async def add(self, pcm: bytes) -> None:
        await self._response.part(pcm)

    async def finish(self) -> None:
        await self._response.part(b"", more=False)


class Whole:
    """One WAV file, whose length is in its head."""

    def __init__(self, response: Response, file: "SpooledTemporaryFile[bytes]") -> None:
        self._response = response
        self._file = file
        self._started: wire.Started | None = None
        self._tally: Tally | None = None
        self._unwritten = bytearray()
        self._bytes = 0

    async def begin(self, started: wire.Started, tally: Tally) -> None:
        self._started, self._tally = started, tally

    async def add(self, pcm: bytes) -> None:
        self._bytes += len(pcm)
        self._unwritten += pcm
        if len(self._unwritten) >= _PART_BYTES:
            await self._write()

    async def _write(self) -> None:
        data, self._unwritten = self._unwritten, bytearray()
        await self._file.write(data)

    async def finish(self) -> None:
        started, tally = self._started, self._tally
        assert started is not None and tally is not None  # noqa: S101, PT018 - there was sound
        await self._write()
        head = wav.header(started.format, started.sample_rate_hz, self._bytes)
        pad = b"\0" * (self._bytes % 2)
        headers = _headers(started, tally, found=tally.cache_hits)
        length = str(len(head) + self._bytes + len(pad))
        await self._response.head({"content-type": "audio/wav", "content-length": length, **headers})
        await self._response.part(head)
        await self._file.seek(0)
        while data := await self._file.read(_PART_BYTES):
            await self._response.part(data)
        await self._response.part(pad, more=False)


@asynccontextmanager
async def body_of(response: Response, *, streamed: bool) -> AsyncIterator[Streamed | Whole]:
    if streamed:
        yield Streamed(response)
        return
    async with SpooledTemporaryFile[bytes](max_size=_MEMORY_BYTES) as file:
        yield Whole(response, file)
