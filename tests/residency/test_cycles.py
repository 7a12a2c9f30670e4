"""Unloading really gives memory back, again and again. SAYSTREAM_CYCLES: how often (50 in a soak)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CYCLES = int(os.environ.get("SAYSTREAM_CYCLES", "6"))
LEARNING = 2
"""Of the first loads something stays for good: libraries, caches of theirs."""
NOISE_BYTES = 8 << 20

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(120 + 10 * CYCLES),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]


def cycles(name: str, process: str) -> list[tuple[int, int, int]]:
    command = [sys.executable, "-m", "tests.residency.cycles", name, process, str(LEARNING + CYCLES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    rows = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    return [(before, loaded, after) for before, loaded, after in rows[LEARNING:]]


def test_s28_s29_unloading_hibari_gives_back_what_its_load_took_and_memory_stays_flat() -> None:
    rows = cycles("hibari", "inline")
    took = [loaded - before for before, loaded, _ in rows]
    returned = [loaded - after for _, loaded, after in rows]
    assert min(took) > 20e6, "else there is nothing to see"
    assert sum(returned) >= 0.95 * sum(took)
    # What is left over in an interpreter's heap after each unload varies; a leak would raise the peaks.
    half = len(rows) // 2
    early, late = (min(loaded for _, loaded, _ in part) for part in (rows[:half], rows[half:]))
    assert late - early < NOISE_BYTES


def test_a_hosted_hibari_takes_nothing_of_ours_and_gives_all_back() -> None:
    rows = cycles("hibari", "hosted")
    assert max(loaded - before for before, loaded, _ in rows) < NOISE_BYTES
    assert rows[-1][2] - rows[0][0] < NOISE_BYTES
