"""Two engines that can't be in memory together, in virtual time: their costs and load times are those of real ones."""

import itertools
from math import inf

import pytest

from residency.listener import ListenerSpec
from residency.planner import MemoryRules
from residency.rules import Rules
from tests.fakes.models import CHARS_PER_S, FakeEngine, facts, unit
from tests.residency.simulation import Trace, World

LOAD_S = 4.0
SEGMENT_S = 4.0
ONE_AT_A_TIME = MemoryRules(capacity_bytes=1, swap_s=2.0, settle_s=5.0)


def world(*, cost: float = 0.1, load_s: float = LOAD_S, rules: MemoryRules = ONE_AT_A_TIME) -> World:
    units = [unit(FakeEngine(facts(step_s=0.16)), name=name) for name in ("a", "b")]
    return World(
        units,
        cost=lambda _, audio_s, batch: cost * audio_s * batch,
        load_s=load_s,
        memory=rules,
        rules=Rules(max_queue=100, queue_wait_s=900),
    )


def talk(at_s: float, unit_name: str, segments: int, lead_s: float) -> Trace:
    """Its text comes at once, as from a fast language model."""
    cuts = tuple((0.3 * number, int(SEGMENT_S * CHARS_PER_S)) for number in range(segments))
    return Trace(at_s=at_s, cuts=cuts, spec=ListenerSpec(unit=unit_name, lead_s=lead_s))


def test_listeners_of_the_resident_engine_with_a_lead_do_not_run_dry_because_of_a_swap() -> None:
    lead_s = 30.0
    machine = world()
    resident = [machine.add(talk(100.0 + number, "a", 30, lead_s)) for number in range(3)]
    guest = machine.add(talk(150.0, "b", 2, 3.0))
    machine.run(most_s=400)
    assert machine.due_gaps == []
    assert [name for _, name in machine.swaps] == ["a", "b", "a"]
    assert guest.first_audio_s < 150.0 + LOAD_S + 2.0
    assert all(speaker.finished_s < inf and speaker.error is None for speaker in [*resident, guest])


def test_a_guest_is_served_though_the_residents_listeners_have_no_lead() -> None:
    machine = world()
    for number in range(3):
        machine.add(talk(100.0 + number, "a", 30, 1.0))
    guest = machine.add(talk(150.0, "b", 2, 3.0))
    machine.run(most_s=600)
    # The bound, what is left of one segment of each, the swap.
    assert guest.first_audio_s < 150.0 + 2.0 + 3 * SEGMENT_S + LOAD_S + 1.0
    assert all(speaker.finished_s < inf for speaker in machine.speakers)


def test_a_resident_listener_that_has_paused_does_not_keep_the_others_out() -> None:
    machine = world()
    machine.add(
        Trace(
            at_s=100.0,
            cuts=((0.0, 600),),
            spec=ListenerSpec(unit="a", lead_s=3.0),
            pauses=((8.0, 500.0),),
        )
    )
    guest = machine.add(talk(150.0, "b", 1, 3.0))
    machine.run(most_s=300)
    assert guest.first_audio_s < 150.0 + 2.0 + 60.0 * 0.1 + LOAD_S + 1.0


@pytest.mark.parametrize("cost", [0.05, 0.2])
def test_engines_that_are_always_both_wanted_take_turns_and_mostly_speak(cost: float) -> None:
    machine = world(cost=cost)
    for number in range(12):
        machine.add(talk(100.0 + 5 * number, "ab"[number % 2], 6, 30.0))
    machine.run(most_s=900)
    assert all(speaker.finished_s < inf and speaker.error is None for speaker in machine.speakers)
    moments = [at_s for at_s, _ in machine.swaps]
    # No closer than a load, the least stay and the unload.
    assert all(b - a >= LOAD_S + ONE_AT_A_TIME.settle_s for a, b in itertools.pairwise(moments))


def test_all_who_wait_for_another_engine_leave_and_the_resident_one_stays() -> None:
    machine = world()
    machine.add(talk(100.0, "a", 30, 3.0))
    machine.add(Trace(at_s=110.0, cuts=((0.0, 40),), spec=ListenerSpec(unit="b", lead_s=3.0), cancel_s=1.0))
    machine.run(most_s=300)
    assert [name for _, name in machine.swaps] == ["a"]
    assert machine.due_gaps == []
