"""The pick against the design's words, and small cases against every possible order."""

from dataclasses import dataclass, replace
from itertools import count, permutations
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from residency.scheduler import NEWCOMER_S, PATIENCE_S, Entry, Room, pick

NOW_S = 100.0
ROOMS = {"u": Room()}
_serial = count(1)


def running(in_hand_s: float, **changes: Any) -> Entry:
    """It has made ten seconds and `in_hand_s` of these are still to be played."""
    number = next(_serial)
    entry = Entry(
        key=number,
        unit="u",
        lead_s=30.0,
        order=number,
        cut_s=NOW_S - 50,
        est_s=0.01,
        est_high_s=0.01,
        made_s=10.0,
        sent_s=10.0,
        origin_s=NOW_S + in_hand_s - 10.0,
    )
    return replace(entry, **changes)


def newcomer(since_s: float = 0.0, **changes: Any) -> Entry:
    number = next(_serial)
    entry = Entry(
        key=number, unit="u", lead_s=3.0, order=number, cut_s=NOW_S - since_s, est_s=0.01, est_high_s=0.01
    )
    return replace(entry, **changes)


def picked(*entries: Entry, lane: int = 0, rooms: dict[str, Room] | None = None) -> tuple[Entry, ...]:
    return pick(entries, now_s=NOW_S, lane=lane, rooms=ROOMS if rooms is None else rooms).entries


def test_the_listener_that_runs_dry_first_is_served_first() -> None:
    late, soon = running(2.0), running(0.5)
    assert picked(late, soon) == (soon,)


def test_of_two_that_run_dry_together_the_one_admitted_first_is_served() -> None:
    first, second = running(1.0, order=1), running(1.0, order=2)
    assert picked(second, first) == (first,)


def test_a_newcomer_goes_first_if_its_step_fits_everybodys_slack() -> None:
    ready = running(0.5, est_s=0.1)
    assert picked(ready, short := newcomer(est_high_s=0.39)) == (short,)
    assert picked(ready, newcomer(est_high_s=0.41)) == (ready,)


def test_a_newcomer_that_doesnt_fit_lets_a_later_one_that_does_go() -> None:
    ready = running(0.5, est_s=0.1)
    big, small = newcomer(0.1, est_high_s=0.6), newcomer(est_high_s=0.2)
    assert picked(ready, big, small) == (small,)


def test_nobody_waits_longer_than_two_seconds_for_its_first_audio() -> None:
    ready = running(0.5, est_s=0.1)
    assert picked(ready, newcomer(PATIENCE_S - 0.01, est_high_s=5.0)) == (ready,)
    assert picked(ready, patient := newcomer(PATIENCE_S, est_high_s=5.0)) == (patient,)


def test_one_whose_text_was_late_is_a_newcomer_from_its_cut_on() -> None:
    ready = running(0.5, est_s=0.1)
    late = running(-20.0, cut_s=NOW_S - 0.1, est_high_s=0.6)
    assert picked(ready, late) == (ready,)
    assert picked(ready, replace(late, cut_s=NOW_S - PATIENCE_S)) != (ready,)


def test_a_rendering_runs_only_when_nothing_live_can_and_the_least_made_goes_first() -> None:
    much, little = running(9.0, lead_s=inf, made_s=50.0), running(9.0, lead_s=inf, made_s=5.0)
    live = running(2.0)
    assert picked(much, little, live) == (live,)
    assert picked(much, little, replace(live, blocked=True)) == (little,)


def test_nothing_is_made_beyond_the_lead_and_the_wake_is_when_it_has_room() -> None:
    full = running(4.0, lead_s=3.0)
    choice = pick([full, running(9.0, lead_s=3.0)], now_s=NOW_S, lane=0, rooms=ROOMS)
    assert choice.entries == ()
    assert choice.wake_s == pytest.approx(NOW_S + 1.0)
    assert picked(replace(full, origin_s=NOW_S - 7.01)) != ()


def test_before_playback_began_the_lead_is_all_that_was_made() -> None:
    begun = running(0.0, origin_s=NOW_S + 0.2, made_s=2.9, lead_s=3.0)
    assert picked(begun) == (begun,)
    assert picked(replace(begun, made_s=3.1)) == ()


def test_a_paused_listener_is_served_up_to_its_lead_and_after_all_others() -> None:
    paused = running(1.0, frozen_s=8.0, lead_s=3.0)
    other = running(2.5)
    assert picked(paused, other) == (other,)
    assert picked(paused) == (paused,)
    full = replace(paused, frozen_s=7.0)
    assert pick([full], now_s=NOW_S, lane=0, rooms=ROOMS).wake_s == inf
    assert picked(full) == ()


def test_a_blocked_socket_gets_nothing() -> None:
    assert picked(running(0.1, blocked=True)) == ()


def test_a_stream_is_served_only_by_the_lane_where_it_is_open() -> None:
    mine, other = running(2.0, lane=0), running(1.0, lane=1)
    assert picked(mine, other, lane=0) == (mine,)
    assert picked(mine, other, lane=1) == (other,)


def test_a_lane_serves_only_units_that_it_has_loaded() -> None:
    assert picked(running(1.0), rooms={}) == ()


def test_streams_of_one_model_share_a_step_the_earliest_first() -> None:
    entries = [running(in_hand_s) for in_hand_s in (4.0, 1.0, 3.0, 2.0)]
    other = running(1.5, unit="v")
    rooms = {"u": Room(max_batch=3), "v": Room()}
    assert picked(*entries, other, rooms=rooms) == (entries[1], entries[3], entries[2])


def test_a_batch_opens_no_more_streams_than_there_is_room_for() -> None:
    entries = [running(1.0), running(2.0), running(3.0, lane=0)]
    assert picked(*entries, rooms={"u": Room(free=1, max_batch=8)}) == (entries[0], entries[2])


def test_a_model_that_is_full_goes_on_with_what_is_open() -> None:
    waiting, opened = running(0.5), running(3.0, lane=0)
    assert picked(waiting, opened, rooms={"u": Room(free=0)}) == (opened,)


def test_an_open_stream_goes_on_past_its_lead_only_if_others_wait_for_its_model() -> None:
    opened = running(5.0, lane=0, lead_s=3.0)
    full = {"u": Room(free=0)}
    assert picked(opened, rooms=full) == ()
    assert picked(opened, newcomer(), rooms=full) == (opened,)
    assert picked(replace(opened, blocked=True), newcomer(), rooms=full) != ()
    assert picked(replace(opened, frozen_s=0.0), newcomer(), rooms=full) != ()


def test_what_was_made_and_not_yet_sent_counts_as_in_hand_from_a_cushion_on() -> None:
    entry = newcomer()
    entry.make(1.0, NOW_S, 0.2)
    assert entry.dry_s() == pytest.approx(NOW_S + 1.2)
    entry.make(1.0, NOW_S + 0.5, 0.2)
    assert entry.dry_s() == pytest.approx(NOW_S + 2.2)
    entry.origin_s, entry.sent_s = NOW_S + 0.6, 0.02
    assert entry.dry_s() == pytest.approx(NOW_S + 2.6)


def test_after_running_dry_the_next_audio_counts_from_its_making() -> None:
    entry = running(-5.0)
    entry.make(1.0, NOW_S, 0.2)
    assert entry.dry_s() == pytest.approx(NOW_S + 1.2)


@dataclass(frozen=True)
class Case:
    """Each needs one step; deadlines within the horizon in which overload is looked for."""

    in_hand_s: float
    est_s: float


CASES = st.lists(st.builds(Case, st.floats(0.001, 0.5), st.floats(0.001, 0.3)), min_size=1, max_size=5)


def serve(entries: list[Entry]) -> dict[int, float]:
    """When each step ends, picking until all are served."""
    now_s, left, ends = NOW_S, list(entries), {}
    while left:
        (entry,) = pick(left, now_s=now_s, lane=0, rooms=ROOMS).entries
        now_s += entry.est_s
        ends[entry.key] = now_s
        left.remove(entry)
    return ends


def met(entry: Entry, end_s: float) -> bool:
    dry_s = entry.dry_s()
    return dry_s is not None and end_s <= dry_s + 1e-9


def orders(entries: list[Entry]) -> list[dict[int, float]]:
    found = []
    for order in permutations(entries):
        now_s, ends = NOW_S, {}
        for entry in order:
            now_s += entry.est_s
            ends[entry.key] = now_s
        found.append(ends)
    return found


@given(CASES)
def test_if_any_order_keeps_every_deadline_so_does_the_pick(cases: list[Case]) -> None:
    entries = [running(case.in_hand_s, est_s=case.est_s, est_high_s=case.est_s) for case in cases]
    if any(all(met(entry, ends[entry.key]) for entry in entries) for ends in orders(entries)):
        ends = serve(entries)
        assert all(met(entry, ends[entry.key]) for entry in entries)


@given(CASES)
def test_in_an_overload_the_first_admitted_keep_their_deadlines_as_far_as_any_order_can(
    cases: list[Case],
) -> None:
    entries = [running(case.in_hand_s, est_s=case.est_s, est_high_s=case.est_s) for case in cases]
    most = max(
        (
            size
            for size in range(len(entries) + 1)
            if any(
                all(met(entry, ends[entry.key]) for entry in entries[:size])
                for ends in orders(entries[:size])
            )
        ),
        default=0,
    )
    ends = serve(entries)
    assert all(met(entry, ends[entry.key]) for entry in entries[:most])


@given(CASES, st.floats(0.001, 0.3))
def test_a_newcomer_is_served_as_early_as_any_order_that_makes_nobody_late(
    cases: list[Case], est_s: float
) -> None:
    entries = [running(case.in_hand_s, est_s=case.est_s, est_high_s=case.est_s) for case in cases]
    late = newcomer(est_s=est_s, est_high_s=est_s)
    harmless = [
        ends for ends in orders([*entries, late]) if all(met(entry, ends[entry.key]) for entry in entries)
    ]
    if harmless:
        ends = serve([*entries, late])
        assert ends[late.key] <= min(ends[late.key] for ends in harmless) + 1e-6
        assert all(met(entry, ends[entry.key]) for entry in entries)


def test_a_newcomers_own_deadline_is_its_cut_and_a_seventh_of_a_second() -> None:
    early, late = newcomer(0.1), newcomer(0.0)
    assert NEWCOMER_S == 0.15
    assert picked(late, early) == (early,)
