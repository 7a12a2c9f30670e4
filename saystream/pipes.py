"""Standard input as it arrives and standard output as it drains.

The loop waits until a pipe is ready and only then has a thread read or write it, so that no thread can hang on a
silent or stalled peer and keep the process from ending.
"""

import asyncio
import codecs
import os
from collections.abc import AsyncIterator, Callable

_READ_BYTES = 65_536
_WRITE_BYTES = 4096
"""A pipe that select calls writable takes this much at once (PIPE_BUF on Linux; macOS says the same of 512)."""


async def increments(fd: int) -> AsyncIterator[str]:
    """The UTF-8 text of a pipe, terminal or file, as it comes; a torn character waits for its rest."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while data := await _read(fd):
        if text := decoder.decode(data):
            yield text
    if text := decoder.decode(b"", final=True):
        yield text


async def write(fd: int, data: bytes) -> None:
    """All of it. Raises BrokenPipeError when the reader has gone; a cancelled call may have written a part."""
    loop = asyncio.get_running_loop()
    at = 0
    while at < len(data):
        part = data[at : at + _WRITE_BYTES]
        await _ready(fd, loop.add_writer, loop.remove_writer)
        at += await asyncio.to_thread(os.write, fd, part)


async def _read(fd: int) -> bytes:
    loop = asyncio.get_running_loop()
    await _ready(fd, loop.add_reader, loop.remove_reader)
    return await asyncio.to_thread(os.read, fd, _READ_BYTES)


async def _ready(
    fd: int, watch: Callable[[int, Callable[[], None]], object], unwatch: Callable[[int], object]
) -> None:
    ready = asyncio.Event()
    try:
        watch(fd, ready.set)
    except PermissionError:  # epoll refuses plain files; they don't block for long
        return
    try:
        await ready.wait()
    finally:
        unwatch(fd)
