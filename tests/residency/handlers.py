"""A listener's owner that writes down what it is told."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from engines.contract import Samples, Word
from residency.listener import StepTiming, WaitReason


@dataclass(eq=False)
class Notes:
    chunks: list[tuple[int, int, bool]] = field(default_factory=list)
    """Job, samples, last."""
    failures: list[tuple[int, Exception]] = field(default_factory=list)
    refusals: list[Exception] = field(default_factory=list)
    waits: list[tuple[WaitReason, int | None, float | None]] = field(default_factory=list)
    changed: asyncio.Event | None = None

    def on_chunk(
        self, job: int, samples: Samples, words: tuple[Word, ...], last: bool, timing: StepTiming
    ) -> None:
        self.chunks.append((job, len(samples), last))
        self._change()

    def on_failed(self, job: int, error: Exception) -> None:
        self.failures.append((job, error))
        self._change()

    def on_waiting(self, reason: WaitReason, position: int | None, wait_s: float | None) -> None:
        self.waits.append((reason, position, wait_s))
        self._change()

    def on_refused(self, error: Exception) -> None:
        self.refusals.append(error)
        self._change()

    @property
    def jobs_done(self) -> list[int]:
        return [job for job, _, last in self.chunks if last]

    @property
    def samples(self) -> int:
        return sum(samples for _, samples, _ in self.chunks)

    def _change(self) -> None:
        if self.changed is not None:
            self.changed.set()

    async def until_done(self, jobs: int) -> None:
        await self._until(lambda: len(self.jobs_done) >= jobs)

    async def until_samples(self, samples: int) -> None:
        await self._until(lambda: self.samples >= samples)

    async def until_failed(self) -> None:
        await self._until(lambda: bool(self.failures or self.refusals))

    async def until_waiting(self) -> None:
        await self._until(lambda: bool(self.waits))

    async def _until(self, reached: Callable[[], bool]) -> None:
        self.changed = self.changed or asyncio.Event()
        async with asyncio.timeout(60):
            while not reached():
                self.changed.clear()
                await self.changed.wait()
