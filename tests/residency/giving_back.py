"""Whether unloading an engine really gives memory back, again and again. SAYSTREAM_CYCLES: how often (50 in a soak)."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CYCLES = int(os.environ.get("SAYSTREAM_CYCLES", "4"))
LEARNING = 2
"""Of the first loads something stays for good: libraries, caches of theirs."""
NOISE_BYTES = 8 << 20
Row = tuple[int, int, int]
"""Bytes of memory before, while it is loaded, after."""


def cycles(name: str, process: str, table: Mapping[str, Any] | None = None) -> list[Row]:
    program = [sys.executable, "-m", "tests.residency.cycles"]
    learning = 0 if process == "hosted" else LEARNING
    command = [*program, name, process, str(learning + CYCLES), json.dumps(table or {})]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    rows = [[int(figure) for figure in line.split()] for line in done.stdout.splitlines()]
    return [(before, loaded, after) for before, loaded, after in rows[learning:]]


def assert_given_back(rows: list[Row], *, least_bytes: float, share: float = 0.95) -> None:
    """Of what the loads took, at least `least_bytes` each, so much; and the peaks don't rise."""
    took = [loaded - before for before, loaded, _ in rows]
    returned = [loaded - after for _, loaded, after in rows]
    assert min(took) > least_bytes, "else there is nothing to see"
    assert sum(returned) >= share * sum(took)
    # What is left over in an interpreter's heap after each unload varies; a leak would raise the peaks.
    half = len(rows) // 2
    early, late = (min(loaded for _, loaded, _ in part) for part in (rows[:half], rows[half:]))
    assert late - early < max(NOISE_BYTES, 0.05 * early)


def assert_nothing_taken(rows: list[Row]) -> None:
    """By an engine in a process of its own."""
    assert max(loaded - before for before, loaded, _ in rows) < NOISE_BYTES
    assert rows[-1][2] - rows[0][0] < NOISE_BYTES


def assert_nothing_stays(rows: list[Row]) -> None:
    """Of a model so small that its own memory can't be told from noise."""
    half = len(rows) // 2
    early, late = (min(after for _, _, after in part) for part in (rows[:half], rows[half:]))
    assert late - early < 2 * NOISE_BYTES
