"""The invariants of the design, over many random clients in virtual time."""

import random
from itertools import pairwise
from math import inf
from typing import Any

import pytest

from residency.errors import Busy
from residency.listener import ListenerSpec
from residency.rules import Rules
from residency.scheduler import PATIENCE_S, Entry
from tests.fakes.models import FakeEngine, facts, unit
from tests.residency.simulation import Trace, World

LONG_WAIT = Rules(queue_wait_s=1e6, max_queue=10_000)


def spec(**changes: Any) -> ListenerSpec:
    return ListenerSpec(unit="fake", **changes)


def may_run(entry: Entry, now_s: float, lane: int, loaded: set[str]) -> bool:
    """By the words of the design: its lead is under its limit, its socket isn't blocked."""
    if entry.blocked or entry.lane not in (None, lane) or entry.unit not in loaded:
        return False
    dry_s = entry.dry_s()
    if entry.frozen_s is not None:
        lead_s = entry.made_s - entry.frozen_s
    else:
        lead_s = 0.0 if dry_s is None else min(max(dry_s - now_s, 0.0), entry.made_s)
    return lead_s < entry.lead_s


def check_pick(world: World, lane: int, ready: list[Entry], picked: tuple[Entry, ...]) -> None:
    now_s = world.now_s
    loaded = world.roster.lanes[lane].loaded
    runnable = [entry for entry in ready if may_run(entry, now_s - 1e-9, lane, loaded)]
    if not picked:
        assert not runnable, "idle while a job is runnable"
        return
    assert picked[0] in ready
    first = picked[0]
    live = [entry for entry in runnable if entry.lead_s < inf]
    if first.lead_s == inf:
        assert not live, "a rendering before a live listener"
        return
    dry_s = first.dry_s()
    running = dry_s is not None and dry_s > max(now_s, first.cut_s)
    earlier = [
        entry
        for entry in live
        if (dry := entry.dry_s()) is not None and max(now_s, entry.cut_s) < dry < (dry_s or inf)
    ]
    if running:
        # Those passed over can't be saved, or only at the cost of somebody admitted earlier.
        assert all(entry.order > min(e.order for e in ready) or entry is first for entry in earlier)


def assert_nothing_leaks(world: World) -> None:
    roster = world.roster
    assert roster.audience.admission.in_flight == 0
    assert roster.audience.admission.queued == 0
    assert len(roster.audience.listeners) == 0
    assert not roster.audience.ready
    assert all(lane.open_streams == 0 for lane in roster.lanes)


def random_trace(rng: random.Random, *, at_s: float) -> Trace:
    cuts, cut_s = [], 0.0
    for _ in range(rng.randint(1, 5)):
        cuts.append((cut_s, rng.randint(5, 80)))
        cut_s += rng.choice([0.0, 0.0, rng.uniform(0, 3), rng.uniform(0, 12)])
    return Trace(
        at_s=at_s,
        cuts=tuple(cuts),
        spec=spec(
            lead_s=rng.choice([0.5, 3.0, 3.0, 8.0, inf]),
            cushion_s=rng.choice([0.0, 0.2, 2.0]),
            client=rng.choice("ab"),
            connection=rng.choice("xyz"),
        ),
        cancel_s=rng.choice([inf, inf, inf, rng.uniform(0, 10)]),
        pauses=rng.choice([(), (), ((1.0, rng.uniform(2, 20)),)]),
        stalls=rng.choice([(), (), ((0.5, rng.uniform(1, 20)),)]),
    )


@pytest.mark.parametrize("block", range(4))
def test_random_clients_keep_the_lanes_busy_in_the_right_order_and_leave_nothing_behind(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        rng = random.Random(seed)
        engine = FakeEngine(
            facts(
                step_s=rng.choice([None, 0.08, 0.2]),
                max_batch=rng.choice([1, 1, 4]),
                max_open=rng.choice([1 << 30, 4]),
            )
        )
        slope, base = rng.choice([0.01, 0.1, 0.5]), rng.uniform(0.001, 0.03)
        world = World(
            [unit(engine)],
            cost=lambda _, audio_s, batch: base + slope * audio_s * (0.7 + 0.3 * batch),  # noqa: B023
            lanes=rng.choice([1, 2]),
            rules=Rules(queue_wait_s=rng.choice([5.0, 1e6]), max_load=rng.choice([0.8, 3.0])),
            check=check_pick if engine.facts.max_open > 4 else None,
        )
        for _ in range(rng.randint(2, 10)):
            world.add(random_trace(rng, at_s=100 + rng.choice([0.0, rng.uniform(0, 10)])))
        world.run()
        assert_nothing_leaks(world)
        for speaker in world.speakers:
            whole = speaker.made == len(speaker.trace.cuts)
            assert whole or speaker.error is not None or speaker.trace.cancel_s < inf, seed


def steady(rng: random.Random, *, at_s: float, cushion_s: float, most_chars: int = 60) -> Trace:
    """A reply of a model that writes faster than it is spoken."""
    cuts, cut_s = [], 0.0
    for _ in range(rng.randint(4, 10)):
        chars = rng.randint(15, most_chars)
        cuts.append((cut_s, chars))
        cut_s += chars / CHARS_WRITTEN_PER_S
    return Trace(at_s=at_s, cuts=tuple(cuts), spec=spec(cushion_s=cushion_s, client=rng.random()))


CHARS_WRITTEN_PER_S = 30


@pytest.mark.parametrize(
    ("cost", "step_s"), [(0.015, None), (0.05, None), (0.16, None), (0.08, 0.1), (0.16, 0.1)]
)
def test_up_to_the_admitted_load_nobody_with_two_seconds_of_cushion_runs_dry(
    cost: float, step_s: float | None
) -> None:
    for seed in range(8):
        rng = random.Random(seed)
        world = World(
            [unit(FakeEngine(facts(step_s=step_s)))],
            cost=lambda _, audio_s, batch: cost * audio_s,
            rules=LONG_WAIT,
        )
        for _ in range(min(int(1.5 / cost), 110 if step_s is None else 20)):
            world.add(steady(rng, at_s=100 + rng.uniform(0, 5), cushion_s=2.0))
        world.run()
        assert world.due_gaps == []
        assert world.max_queued > 0
        assert_nothing_leaks(world)


def test_at_the_admitted_load_no_newcomer_with_a_slot_waits_longer_than_two_seconds_and_a_step() -> None:
    for seed in range(10):
        rng = random.Random(seed)
        world = World(
            [unit(FakeEngine(facts()))], cost=lambda _, audio_s, batch: 0.02 * audio_s, rules=LONG_WAIT
        )
        for _ in range(38):
            world.add(steady(rng, at_s=100 + rng.uniform(0, 5), cushion_s=0.2))
        world.run()
        waits = [speaker.first_audio_s - speaker.trace.at_s for speaker in world.speakers]
        assert max(waits) <= PATIENCE_S + 0.02 * 6


def test_under_overload_those_admitted_first_hardly_hear_it_and_nobody_waits_for_ever() -> None:
    world = World(
        [unit(FakeEngine(facts()))],
        cost=lambda _, audio_s, batch: 0.1 * audio_s,
        rules=Rules(max_load=100.0, max_queue=1000),
    )
    for number in range(20):
        cuts = tuple((0.0, 30) for _ in range(8))
        world.add(Trace(at_s=100 + number * 0.5, cuts=cuts, spec=spec()))
    world.run()
    silent_s = dict.fromkeys(range(1, 21), 0.0)
    for gap in world.due_gaps:
        silent_s[gap.listener] += gap.until_s - gap.from_s
    first, last = [sum(silent_s[key] for key in keys) for keys in (range(1, 5), range(17, 21))]
    assert last > 40, "twice the load that fits must show somewhere"
    assert first < last / 10
    assert all(speaker.made == 8 for speaker in world.speakers)
    assert max(s.first_audio_s - s.trace.at_s for s in world.speakers) <= PATIENCE_S + 2 * 0.3


def test_four_callers_at_once_on_a_fast_device_all_speak_at_once() -> None:
    world = World([unit(FakeEngine(facts(step_s=0.1)))], cost=lambda _, audio_s, batch: 0.1 * audio_s)
    for number in range(4):
        world.add(Trace(at_s=100.0, cuts=((0.0, 60), (0.0, 60)), spec=spec(connection=number)))
    world.run()
    first = sorted(speaker.first_audio_s - 100 for speaker in world.speakers)
    assert first == pytest.approx([0.01, 0.02, 0.03, 0.04])
    assert world.due_gaps == []


def test_renderings_share_what_live_listeners_leave() -> None:
    world = World([unit(FakeEngine(facts(step_s=0.5)))], cost=lambda _, audio_s, batch: 0.2 * audio_s)
    renderings = [
        world.add(Trace(at_s=100.0, cuts=((0.0, 200),) * 2, spec=spec(lead_s=inf))) for _ in range(2)
    ]
    live = [world.add(Trace(at_s=101.0, cuts=((0.0, 40),) * 4, spec=spec())) for _ in range(2)]
    world.run()
    assert world.due_gaps == []
    assert max(speaker.first_audio_s for speaker in live) <= 101 + 0.1 * 3
    ends = [speaker.finished_s for speaker in renderings]
    assert max(ends) - min(ends) <= 0.2


def test_a_model_that_cannot_interleave_finishes_one_stream_before_it_opens_another() -> None:
    world = World(
        [unit(FakeEngine(facts(step_s=0.2, max_open=1)))],
        cost=lambda _, audio_s, batch: 0.05 * audio_s,
        check=lambda world, *_: _at_most_one_open(world),
    )
    paused = world.add(Trace(at_s=100.0, cuts=((0.0, 80),) * 2, spec=spec(lead_s=1.0), pauses=((0.3, 60),)))
    other = world.add(Trace(at_s=101.0, cuts=((0.0, 80),) * 2, spec=spec()))
    world.run()
    assert_nothing_leaks(world)
    assert other.first_audio_s < 103, "one who has paused shuts nobody out"
    assert paused.made == other.made == 2


def _at_most_one_open(world: World) -> None:
    assert world.roster.lanes[0].open_streams <= 1


def test_a_model_that_batches_advances_several_streams_in_a_step() -> None:
    def world_with(max_batch: int) -> World:
        world = World(
            [unit(FakeEngine(facts(step_s=0.1, max_batch=max_batch)))],
            cost=lambda _, audio_s, batch: 0.04 + 0.002 * batch,
            rules=LONG_WAIT,
        )
        for number in range(8):
            world.add(Trace(at_s=100.0, cuts=((0.0, 80),), spec=spec(connection=number)))
        world.run()
        assert all(speaker.made == 1 for speaker in world.speakers)
        return world

    alone, together = world_with(1), world_with(8)
    assert together.due_gaps == []
    assert together.max_queued == 0
    assert alone.max_queued > 0
    assert max(len(keys) for _, _, keys in together.steps) == 8


def test_two_lanes_hold_twice_the_listeners_of_one() -> None:
    def held(lanes: int) -> int:
        world = World(
            [unit(FakeEngine(facts()))],
            cost=lambda _, audio_s, batch: 0.1 * audio_s,
            lanes=lanes,
            rules=LONG_WAIT,
        )
        for _ in range(40):
            world.add(Trace(at_s=100.0, cuts=((0.0, 30),) * 8, spec=spec(cushion_s=2.0)))
        world.at(105.0, lambda: at_five.append(world.roster.audience.admission.in_flight))
        at_five: list[int] = []
        world.run()
        assert world.due_gaps == []
        for (_, ended_s, _), (started_s, _, _) in pairwise(sorted(world.steps)):
            assert lanes == 2 or started_s >= ended_s - 1e-9
        return at_five[0]

    assert held(1) == pytest.approx(8, abs=1)
    assert held(2) == pytest.approx(16, abs=1)


def test_a_listener_stays_on_the_lane_where_its_stream_is_open() -> None:
    lanes: dict[int, set[int]] = {}

    def check(world: World, lane: int, ready: list[Entry], picked: tuple[Entry, ...]) -> None:
        for entry in picked:
            lanes.setdefault(entry.key, set()).add(lane)

    world = World(
        [unit(FakeEngine(facts(step_s=0.1)))],
        cost=lambda _, audio_s, batch: 0.05 * audio_s,
        lanes=2,
        check=check,
    )
    for _ in range(8):
        world.add(Trace(at_s=100.0, cuts=((0.0, 100),), spec=spec()))
    world.run()
    assert {len(used) for used in lanes.values()} == {1}
    assert set().union(*lanes.values()) == {0, 1}


def test_the_queue_takes_turns_between_clients_and_tells_its_positions() -> None:
    world = World(
        [unit(FakeEngine(facts()))],
        cost=lambda _, audio_s, batch: 0.1 * audio_s,
        rules=Rules(max_streams=1, max_queue=100, queue_wait_s=1e6),
    )
    world.add(Trace(at_s=100.0, cuts=((0.0, 50),) * 2, spec=spec(client="first")))
    greedy = [
        world.add(Trace(at_s=100.1, cuts=((0.0, 50),), spec=spec(client="greedy", connection=n)))
        for n in range(5)
    ]
    modest = world.add(Trace(at_s=100.2, cuts=((0.0, 50),), spec=spec(client="modest")))
    world.run()
    order = sorted([*greedy, modest], key=lambda speaker: speaker.first_audio_s)
    assert order.index(modest) == 1
    assert modest.waits[0][1:] == ("busy", 2)
    for speaker in [*greedy, modest]:
        times = [at_s for at_s, _, _ in speaker.waits]
        assert all(later - earlier >= 1.0 for earlier, later in pairwise(times))


def test_past_the_queue_and_past_its_wait_a_listener_is_refused_with_a_computed_retry() -> None:
    world = World(
        [unit(FakeEngine(facts()))],
        cost=lambda _, audio_s, batch: 0.1 * audio_s,
        rules=Rules(max_streams=1, max_queue=2, queue_wait_s=3.0),
    )
    world.add(Trace(at_s=100.0, cuts=((0.0, 60),) * 8, spec=spec()))
    waiting = [world.add(Trace(at_s=100.1, cuts=((0.0, 20),), spec=spec())) for _ in range(3)]
    world.run()
    finished = [speaker.finished_s - 100.1 for speaker in waiting]
    assert finished[2] == pytest.approx(0.0)
    assert finished[:2] == pytest.approx([3.0, 3.0], abs=0.3)
    errors = [speaker.error for speaker in waiting]
    retries = [error.retry_after_s for error in errors if isinstance(error, Busy)]
    assert len(retries) == 3
    assert retries[2] == pytest.approx(4.0 * 3, rel=0.2), "three ahead of it, four seconds each at first"
