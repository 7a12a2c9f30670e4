import errno
import logging
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from anyio.lowlevel import checkpoint

from pcm_cache import cache as module
from pcm_cache.cache import PcmCache
from pcm_cache.clip import Clip
from pcm_cache.files import Folder
from tests.pcm_cache.clips import clip, digest, sound, take

MUCH = 1 << 30


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def look(cache: PcmCache, number: int) -> Clip | None:
    """The way of a segment: memory, then disk."""
    found = cache.recall(digest(number))
    if found is not None:
        return found
    answers: list[Clip | None] = []
    if not cache.fetch(digest(number), answers.append):
        return None
    await cache.settled()
    await checkpoint()
    [answer] = answers
    return answer


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.clip"))


@pytest.fixture
async def cache(tmp_path: Path) -> AsyncIterator[PcmCache]:
    async with PcmCache(memory_bytes=MUCH, folder=tmp_path, disk_bytes=MUCH) as cache:
        await cache.settled()
        yield cache


async def test_what_is_kept_is_found_in_memory_with_its_words(cache: PcmCache) -> None:
    cache.keep(take(1))
    await cache.settled()
    found = cache.recall(digest(1))
    assert found is not None
    assert found.samples.tobytes() == sound(800).tobytes()
    assert found.words == ((0, 5, 0, 800),)
    assert (cache.counters.hits, cache.counters.misses, cache.counters.stored) == (1, 0, 1)


async def test_what_was_kept_is_found_after_a_restart_and_then_in_memory(tmp_path: Path) -> None:
    async with PcmCache(memory_bytes=MUCH, folder=tmp_path, disk_bytes=MUCH) as cache:
        cache.keep(take(1))
    async with PcmCache(memory_bytes=MUCH, folder=tmp_path, disk_bytes=MUCH) as cache:
        await cache.settled()
        assert cache.entries == 1
        assert cache.disk_bytes == files(tmp_path)[0].stat().st_size
        assert cache.recall(digest(1)) is None
        found = await look(cache, 1)
        assert found is not None
        assert found.samples.tobytes() == sound(800).tobytes()
        assert cache.recall(digest(1)) is found


async def test_a_look_before_the_folder_has_been_scanned_finds_it_too(tmp_path: Path) -> None:
    async with PcmCache(memory_bytes=MUCH, folder=tmp_path, disk_bytes=MUCH) as cache:
        cache.keep(take(1))
    async with PcmCache(memory_bytes=MUCH, folder=tmp_path, disk_bytes=MUCH) as cache:
        assert cache.may_have(digest(1))
        assert await look(cache, 1) is not None
        assert await look(cache, 2) is None


async def test_the_order_of_use_outlives_the_process(tmp_path: Path) -> None:
    """S22, fault 12"""
    clock = Clock()
    async with PcmCache(memory_bytes=MUCH, folder=tmp_path, disk_bytes=MUCH, now=clock) as cache:
        for number in (1, 2, 3):
            cache.keep(take(number))
            await cache.settled()
        one_bytes = cache.disk_bytes // 3
        for age_s, path in enumerate(reversed(files(tmp_path))):
            os.utime(path, (0, time.time() - 1000 - age_s))
        clock.now_s += 61
        cache.recall(digest(1))
        await cache.settled()
    async with PcmCache(memory_bytes=0, folder=tmp_path, disk_bytes=one_bytes * 2, now=clock) as cache:
        await cache.settled()
        assert [cache.holds(digest(number)) for number in (1, 2, 3)] == [True, False, True]
        assert len(files(tmp_path)) == 2


async def test_a_file_is_touched_at_most_once_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    async with PcmCache(memory_bytes=MUCH, folder=tmp_path, disk_bytes=MUCH, now=clock) as cache:
        cache.keep(take(1))
        await cache.settled()
        [path] = files(tmp_path)
        os.utime(path, (0, 1000))
        for _ in range(59):
            clock.now_s += 1
            cache.recall(digest(1))
            await cache.settled()
        assert path.stat().st_mtime == 1000
        clock.now_s += 1
        cache.recall(digest(1))
        await cache.settled()
        assert path.stat().st_mtime > 1000


async def test_the_disk_is_bounded_and_so_is_the_memory(tmp_path: Path) -> None:
    """S22"""
    size_bytes = clip().bytes
    async with PcmCache(memory_bytes=3 * size_bytes, folder=tmp_path, disk_bytes=20_000) as cache:
        for number in range(30):
            cache.keep(take(number))
            await cache.settled()
        assert cache.memory_bytes <= 3 * size_bytes
        lying_bytes = sum(path.stat().st_size for path in files(tmp_path))
        assert cache.disk_bytes == lying_bytes <= 20_000
        assert await look(cache, 29) is not None
        assert await look(cache, 0) is None


async def test_a_file_deleted_by_hand_is_a_miss_and_leaves_the_total_right(
    cache: PcmCache, tmp_path: Path
) -> None:
    """C3, fault 12"""
    async with PcmCache(memory_bytes=0, folder=tmp_path, disk_bytes=MUCH) as cold:
        for number in (1, 2):
            cold.keep(take(number))
            await cold.settled()
        files(tmp_path)[0].unlink()
        assert await look(cold, 1) is None
        assert cold.disk_bytes == files(tmp_path)[0].stat().st_size
        assert cold.faults.count == 0
        cold.keep(take(1))
        await cold.settled()
        assert await look(cold, 1) is not None


@pytest.mark.parametrize("damage", ["short", "changed", "swapped", "empty"])
async def test_fault_12_a_harmed_file_is_a_miss_never_a_wrong_clip(tmp_path: Path, damage: str) -> None:
    """C3, fault 12"""
    async with PcmCache(memory_bytes=0, folder=tmp_path, disk_bytes=MUCH) as cache:
        for number in (1, 2):
            cache.keep(take(number, samples=800 * number))
            await cache.settled()
        first, second = files(tmp_path)
        match damage:
            case "short":
                os.truncate(first, first.stat().st_size - 4)
            case "changed":
                data = bytearray(first.read_bytes())
                data[-9] ^= 1
                first.write_bytes(data)
            case "swapped":
                first.write_bytes(second.read_bytes())
            case _:
                os.truncate(first, 0)
        assert await look(cache, 1) is None
        assert not first.exists()
        assert cache.faults.count == 1
        cache.keep(take(1))
        await cache.settled()
        assert await look(cache, 1) is not None


async def test_two_makers_of_one_clip_the_first_stored_wins(cache: PcmCache) -> None:
    cache.keep(take(1, samples=800))
    cache.keep(take(1, samples=1600))
    await cache.settled()
    found = cache.recall(digest(1))
    assert found is not None
    assert len(found.samples) == 800
    assert cache.entries == 1


async def test_two_processes_with_one_folder_find_what_the_other_has_stored(tmp_path: Path) -> None:
    async with (
        PcmCache(memory_bytes=0, folder=tmp_path, disk_bytes=MUCH) as one,
        PcmCache(memory_bytes=0, folder=tmp_path, disk_bytes=MUCH) as other,
    ):
        await one.settled()
        await other.settled()
        one.keep(take(1, samples=800))
        await one.settled()
        other.keep(take(1, samples=1600))
        await other.settled()
        found = await look(other, 1)
        assert found is not None
        assert len(found.samples) == 800
        assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("level", [0.0, 4.0, float("nan")])
async def test_what_is_not_sane_is_not_kept(cache: PcmCache, level: float) -> None:
    """fault 11, fault 20"""
    cache.keep(take(1, level=level))
    await cache.settled()
    assert not cache.holds(digest(1))
    assert (cache.counters.stored, cache.counters.refused) == (0, 1)


class FullFolder(Folder):
    def write(self, digest: str, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


class HangingFolder(Folder):
    """Reads that come back only when told."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.go = threading.Event()
        self.reads = 0

    def read(self, digest: str) -> Clip | None:
        self.reads += 1
        self.go.wait(20)
        return super().read(digest)


async def test_with_a_full_disk_memory_goes_on_and_the_log_says_why_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C3"""
    async with PcmCache(memory_bytes=MUCH, folder=tmp_path, disk_bytes=MUCH) as cache:
        cache._folder = FullFolder(tmp_path)
        for number in range(5):
            cache.keep(take(number))
        await cache.settled()
        assert all(cache.recall(digest(number)) is not None for number in range(5))
        assert cache.faults.count == 5
        warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert len(warnings) == 1
        assert "No space left" in warnings[0]


async def test_a_disk_that_does_not_answer_is_a_miss_after_a_moment_and_left_alone_for_a_while(
    tmp_path: Path,
) -> None:
    clock = Clock()
    async with PcmCache(memory_bytes=0, folder=tmp_path, disk_bytes=MUCH, now=clock) as cache:
        cache.keep(take(1))
        cache.keep(take(2))
        await cache.settled()
        hanging = HangingFolder(tmp_path)
        cache._folder = hanging
        assert await look(cache, 1) is None
        assert await look(cache, 2) is None
        assert hanging.reads == 1
        assert cache.faults.count == 1
        hanging.go.set()
        clock.now_s += 61
        assert await look(cache, 2) is not None


async def test_a_folder_that_cannot_be_made_leaves_the_memory(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    async with PcmCache(memory_bytes=MUCH, folder=tmp_path / "taken", disk_bytes=MUCH) as cache:
        await cache.settled()
        cache.keep(take(1))
        await cache.settled()
        assert cache.recall(digest(1)) is not None
        assert cache.faults.count == 1
        assert cache.entries == 1


async def test_many_who_look_for_one_file_at_once_read_it_once(tmp_path: Path) -> None:
    async with PcmCache(memory_bytes=0, folder=tmp_path, disk_bytes=MUCH) as cache:
        cache.keep(take(1))
        await cache.settled()
        hanging = HangingFolder(tmp_path)
        hanging.go.set()
        cache._folder = hanging
        answers: list[Clip | None] = []
        for _ in range(50):
            assert cache.fetch(digest(1), answers.append)
        await cache.settled()
        await checkpoint()
        assert len(answers) == 50
        assert None not in answers
        assert hanging.reads == 1


async def test_too_much_at_once_is_let_go_not_piled_up(cache: PcmCache) -> None:
    for number in range(module.MAX_TAKES + 10):
        cache.keep(take(number))
    await cache.settled()
    assert cache.counters.dropped == 10
    assert cache.entries == module.MAX_TAKES


async def test_switched_off_it_keeps_and_finds_nothing() -> None:
    async with PcmCache(memory_bytes=0) as cache:
        assert not cache.enabled
        cache.keep(take(1))
        await cache.settled()
        assert not cache.may_have(digest(1))
        assert cache.recall(digest(1)) is None
        assert not cache.fetch(digest(1), lambda _clip: None)
