"""A process that is killed while it writes leaves no wrong or short clip."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pcm_cache.cache import PcmCache
from pcm_cache.files import Folder
from tests.pcm_cache.clips import digest
from tests.pcm_cache.writer import written

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("KILLS", "20"))
"""`make soak` asks for more."""
MOST_KILLS = 10 * KILLS
"""Until one has hit a write: on a fast disk few do."""


def kill_in_the_middle(folder: Path, first: int, after_s: float) -> None:
    command = [sys.executable, "-m", "tests.pcm_cache.writer", str(folder), str(first)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)


@pytest.mark.timeout(600)
def test_every_entry_that_is_there_after_a_kill_is_whole_and_the_right_one(tmp_path: Path) -> None:
    """C3, fault 12"""
    folder, chance = Folder(tmp_path), random.Random(5)
    halves = 0
    for round_number in range(MOST_KILLS):
        if round_number >= KILLS and halves:
            break
        kill_in_the_middle(tmp_path, round_number % 3, chance.uniform(0, 0.02))
        halves += len(list(tmp_path.rglob("*.tmp")))
        for number in range(8):
            clip = folder.read(digest(number))  # raises BadEntry if it isn't whole
            if clip is not None:
                assert clip.samples.tobytes() == written(number).samples.tobytes()
    assert halves, "no kill has hit a write"


async def test_what_a_killed_writer_left_is_gone_after_the_next_start(tmp_path: Path) -> None:
    for path in (tmp_path / "ab" / "0123.tmp", tmp_path / "ab" / "4567.tmp"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half of an entry")
        os.utime(path, (0, time.time() - 3600))
    async with PcmCache(memory_bytes=0, folder=tmp_path, disk_bytes=1 << 30) as cache:
        await cache.settled()
    assert not list(tmp_path.rglob("*.tmp"))  # noqa: ASYNC240 - nothing else runs
