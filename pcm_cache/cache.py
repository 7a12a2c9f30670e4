"""Finished audio, found again: memory over a folder of files, for the event loop."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import numpy as np
from anyio import CapacityLimiter
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from anyio.to_thread import run_sync

from pcm_cache.clip import Clip, Samples, Word
from pcm_cache.entry import BadEntry, encode
from pcm_cache.faults import Faults
from pcm_cache.files import Folder
from pcm_cache.shelf import Shelf

READ_THREADS = 4
READ_PATIENCE_S = 0.25
"""A listener doesn't wait longer for a file: making the segment takes about as long."""
READ_PAUSE_S = 60.0
"""A disk that was that slow isn't read before."""
MAX_READS = 256
MAX_TAKES = 64
"""Finished segments that wait to be put away, each at most a few megabytes; more are let go."""
TOUCH_S = 60.0
CLOSING_S = 2.0
SCAN_TURN = 1024
"""Entries of a scan that the loop takes in at once."""

Then = Callable[[Clip | None], None]


@dataclass(frozen=True, slots=True)
class Take:
    """A segment's audio, complete, as it came out of the engine."""

    digest: str
    chunks: Sequence[Samples]
    words: Sequence[Word]
    sample_rate_hz: int

    def sane_clip(self) -> Clip | None:
        samples = np.concatenate(self.chunks) if self.chunks else np.zeros(0, np.float32)
        clip = Clip(samples, tuple(self.words), self.sample_rate_hz)
        return clip if clip.sane else None


@dataclass(slots=True)
class Counters:
    hits: int = 0
    misses: int = 0
    stored: int = 0
    refused: int = 0
    """Takes that aren't worth keeping: silent, not finite, clamped."""
    dropped: int = 0
    """Takes and reads that found too many before them."""


@dataclass(slots=True)
class _OnDisk:
    touched_s: float


class PcmCache:
    """`async with` it; every method is for the loop that entered it and returns at once.

    Files are read, checked, written and removed by threads. Whatever fails there is a miss.
    """

    def __init__(
        self,
        *,
        memory_bytes: int,
        folder: Path | None = None,
        disk_bytes: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder` None, or `disk_bytes` 0: memory alone. Neither: off."""
        self.counters = Counters()
        self.faults = Faults()
        self._folder = Folder(folder) if folder is not None and disk_bytes > 0 else None
        self._memory: Shelf[Clip] = Shelf(memory_bytes)
        self._disk: Shelf[_OnDisk] = Shelf(disk_bytes if self._folder is not None else 0)
        self.enabled = memory_bytes > 0 or self._folder is not None
        self._now = now
        self._scanned = False
        self._read_from_s = 0.0
        """No file is read before."""
        self._asked: dict[str, list[Then]] = {}
        self._takes = 0
        self._under_way = 0
        self._idle = anyio.Event()
        self._tasks: TaskGroup | None = None
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._readers, self._writer = CapacityLimiter(READ_THREADS), CapacityLimiter(1)
        if self.enabled:
            self._tasks = await self._exit.enter_async_context(anyio.create_task_group())
            self._exit.callback(self._tasks.cancel_scope.cancel)
            if self._folder is not None:
                self._start(self._scan, self._folder)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with anyio.move_on_after(CLOSING_S, shield=True):
            await self.settled()
        self._tasks = None
        await self._exit.aclose()

    async def settled(self) -> None:
        """Until every read and write that has begun is over."""
        while self._under_way:
            await self._idle.wait()

    # Looking up ---------------------------------------------------------------------------------------------

    def holds(self, digest: str) -> bool:
        """Whether it is there, as far as is known; no lookup."""
        return digest in self._memory or digest in self._disk

    def may_have(self, digest: str) -> bool:
        """Whether it is worth a lookup; a no is a miss."""
        may = digest in self._memory or self._may_be_on_disk(digest)
        self.counters.misses += not may
        return may

    def recall(self, digest: str) -> Clip | None:
        """From memory."""
        clip = self._memory.get(digest)
        if clip is not None:
            self.counters.hits += 1
            self._touch(digest)
        return clip

    def fetch(self, digest: str, then: Then) -> bool:
        """From the disk: `then` is called soon, once. False: it isn't there, and `then` won't be called."""
        folder = self._folder
        if folder is None or not self._may_be_on_disk(digest):
            self.counters.misses += 1
            return False
        waiting = self._asked.setdefault(digest, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._start(self._read, folder, digest)
        return True

    def _may_be_on_disk(self, digest: str) -> bool:
        if self._tasks is None or self._folder is None or self._now() < self._read_from_s:
            return False
        if self._scanned and digest not in self._disk:
            return False
        if len(self._asked) >= MAX_READS and digest not in self._asked:
            self.counters.dropped += 1
            return False
        return True

    async def _read(self, folder: Folder, digest: str) -> None:
        clip = None
        try:
            with anyio.fail_after(READ_PATIENCE_S):
                clip = await run_sync(folder.read, digest, abandon_on_cancel=True, limiter=self._readers)
        except TimeoutError:
            self._read_from_s = self._now() + READ_PAUSE_S
            self._fault(f"reading took more than {READ_PATIENCE_S:g} s")
        except BadEntry as error:
            self._fault(f"an entry was {error}")
        except Exception as error:  # noqa: BLE001 - the edge to a thread: whatever it is, it is a miss
            self._fault(f"can't read: {_words(error)}")
        self._answer(digest, clip)

    def _answer(self, digest: str, clip: Clip | None) -> None:
        asked = self._asked.pop(digest)
        if clip is None:
            self.counters.misses += len(asked)
            self._disk.remove(digest)
        else:
            self.counters.hits += len(asked)
            self._disk.get(digest)
            self._memory.put(digest, clip, clip.bytes)
            self._touch(digest)
        loop = asyncio.get_running_loop()
        for then in asked:
            # Not called from here: what goes wrong with one listener stays with it.
            loop.call_soon(then, clip)

    # Putting away -------------------------------------------------------------------------------------------

    def keep(self, take: Take) -> None:
        """Unless there is one already, or it isn't sane. The chunks aren't written to any more."""
        if self._tasks is None or self.holds(take.digest):
            return
        if self._takes >= MAX_TAKES:
            self.counters.dropped += 1
            return
        self._takes += 1
        self._start(self._put_away, take)

    async def _put_away(self, take: Take) -> None:
        try:
            clip = await run_sync(take.sane_clip, limiter=self._writer)
            if clip is None:
                self.counters.refused += 1
                return
            self.counters.stored += 1
            self._memory.put(take.digest, clip, clip.bytes)
            if self._folder is not None:
                await self._write(self._folder, take.digest, clip)
        finally:
            self._takes -= 1

    async def _write(self, folder: Folder, digest: str, clip: Clip) -> None:
        try:
            size_bytes = await run_sync(
                lambda: folder.write(digest, encode(digest, clip)),
                abandon_on_cancel=True,
                limiter=self._writer,
            )
        except Exception as error:  # noqa: BLE001 - the edge to a thread: whatever it is, it isn't stored
            self._fault(f"can't write: {_words(error)}")
        else:
            await self._shelve(folder, digest, size_bytes)

    async def _shelve(self, folder: Folder, digest: str, size_bytes: int) -> None:
        for gone in self._disk.put(digest, _OnDisk(self._now()), size_bytes):
            await self._in_folder(folder.remove, gone)

    async def _in_folder(self, act: Callable[[str], None], digest: str) -> None:
        try:
            await run_sync(act, digest, abandon_on_cancel=True, limiter=self._writer)
        except Exception as error:  # noqa: BLE001 - the edge to a thread
            self._fault(f"can't keep the folder in order: {_words(error)}")

    # The folder ---------------------------------------------------------------------------------------------

    async def _scan(self, folder: Folder) -> None:
        try:
            await run_sync(folder.prepare, limiter=self._writer)
            found = await run_sync(folder.scan, abandon_on_cancel=True, limiter=self._writer)
        except Exception as error:  # noqa: BLE001 - the edge to a thread
            self._fault(f"can't use {folder.path}: {_words(error)}")
            self._folder = None
            return
        for number, entry in enumerate(found):
            await self._shelve(folder, entry.digest, entry.bytes)
            if number % SCAN_TURN == 0:
                await checkpoint()
        self._scanned = True

    def _touch(self, digest: str) -> None:
        """Tell the file that it was used, so that the order outlives the process."""
        entry = self._disk.get(digest)
        if entry is None or self._folder is None or self._now() < entry.touched_s + TOUCH_S:
            return
        entry.touched_s = self._now()
        self._start(self._in_folder, self._folder.touch, digest)

    # Figures, work ------------------------------------------------------------------------------------------

    @property
    def entries(self) -> int:
        """On disk, where there is one."""
        return len(self._memory if self._folder is None else self._disk)

    @property
    def memory_bytes(self) -> int:
        return self._memory.bytes

    @property
    def disk_bytes(self) -> int:
        return self._disk.bytes

    def _fault(self, what: str) -> None:
        self.faults.note(what, self._now())

    def _start(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        if self._tasks is not None:
            self._under_way += 1
            self._tasks.start_soon(self._run, work, args)

    async def _run(self, work: Callable[..., Awaitable[None]], args: tuple[object, ...]) -> None:
        try:
            await work(*args)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()
                self._idle = anyio.Event()


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
