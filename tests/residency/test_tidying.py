"""The memory that a crowd needed goes back to the system when it has gone, and nobody waits for that."""

import subprocess
import sys
from math import inf
from pathlib import Path

import pytest

from residency.listener import Listener
from residency.rules import Rules
from residency.work import Rest, Step, Task, Tidy
from tests.residency.test_roster import Bench

ROOT = Path(__file__).parents[2]
RULES = Rules(crowd=3, tidy_s=2.0)
FRAGMENTS = """
import gc
from residency.giving_back import resident_bytes, tidy
class Cycle: pass
kept, cycle = [], Cycle()
cycle.me, cycle.blocks = cycle, []
for _ in range(600):
    cycle.blocks.append(b"x" * 100_000)
    kept.append(b"x" * 5_000)
gc.disable()
del cycle
before = resident_bytes()
tidy()
print(before - resident_bytes())
"""


def crowd(bench: Bench, size: int) -> list[Listener]:
    """Each in the middle of a segment."""
    listeners = [bench.open() for _ in range(size)]
    for listener in listeners:
        bench.submit(listener)
        bench.step(seconds=0.1, last=False)
    return listeners


def leave(bench: Bench, listeners: list[Listener]) -> None:
    for listener in listeners:
        bench.roster.audience.close(listener, bench.now_s)


def next_task(bench: Bench) -> Task | Rest:
    return bench.roster.next_work(0, bench.now_s).task


def test_when_a_crowd_has_gone_the_lane_tidies_up_once() -> None:
    bench = Bench(rules=RULES)
    leave(bench, crowd(bench, 3))
    next_task(bench)  # it closes their streams
    assert next_task(bench) == Rest(bench.now_s + 2.0)
    bench.now_s += 2.0
    assert next_task(bench) == Tidy()
    assert bench.roster.lanes[0].busy
    bench.roster.finish_tidy(0)
    assert next_task(bench) == Rest(inf)


def test_speech_comes_before_tidying() -> None:
    bench = Bench(rules=RULES)
    leave(bench, crowd(bench, 3))
    bench.now_s += 2.0
    bench.submit(bench.open())
    assert isinstance(next_task(bench), Step)


@pytest.mark.parametrize("staying", [1, 3])
def test_a_lane_doesnt_tidy_up_while_somebody_has_a_slot(staying: int) -> None:
    bench = Bench(rules=RULES)
    listeners = crowd(bench, 3)
    leave(bench, listeners[staying:])
    for listener in listeners[:staying]:
        listener.set_blocked(True)
    bench.now_s += 100.0
    assert isinstance(next_task(bench), Rest)


def test_what_a_few_needed_is_kept_for_the_next() -> None:
    bench = Bench(rules=RULES)
    for _ in range(5):
        leave(bench, crowd(bench, 2))
        next_task(bench)
    assert next_task(bench) == Rest(inf)


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="another system's allocator gives back by itself"
)
def test_tidying_gives_the_system_what_lies_between_what_stays() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FRAGMENTS], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert int(done.stdout) > 50_000_000
