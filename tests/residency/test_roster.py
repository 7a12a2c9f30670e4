"""Slots, loads and their notices, step by step."""

from math import inf

import numpy as np
import pytest

from engines.contract import Chunk, EngineError, EngineUnavailable
from residency.errors import Busy
from residency.listener import Listener, ListenerSpec
from residency.roster import Roster
from residency.rules import Rules
from residency.work import Load, Outcome, Rest, Step
from tests.fakes.models import RATE_HZ, FakeEngine, facts, request, unit
from tests.residency.handlers import Notes


class Bench:
    """A roster with its clock in the test's hands, and every unit loaded unless told otherwise."""

    def __init__(self, *, rules: Rules | None = None, loaded: bool = True, lanes: int = 1) -> None:
        units = {name: unit(FakeEngine(facts()), name=name) for name in ("fake", "other")}
        self.roster = Roster(units, lanes=lanes, rules=rules or Rules())
        self.now_s = 100.0
        if loaded:
            for name in units:
                for lane in range(lanes):
                    self.roster.finish_load(lane, name, None, self.now_s)

    def open(self, notes: Notes | None = None, replaces: Listener | None = None, **spec: float) -> Listener:
        return self.roster.audience.open(
            ListenerSpec(unit="fake", **spec),  # type: ignore[arg-type]
            notes or Notes(),
            owner=self,
            replaces=replaces,
            now_s=self.now_s,
        )

    def submit(self, listener: Listener, text: str = "0123456789") -> None:
        self.roster.audience.submit(listener, request(text), self.now_s, self.now_s)

    def step(self, *, seconds: float = 1.0, last: bool = True, error: EngineError | None = None) -> Listener:
        work = self.roster.next_work(0, self.now_s)
        assert isinstance(work.task, Step)
        result = error or Chunk(np.zeros(int(seconds * RATE_HZ), np.float32), last=last)
        outcomes = [Outcome(turn, result) for turn in work.task.turns]
        self.roster.finish_step(0, outcomes, self.now_s, self.now_s)
        self.deliver()
        return work.task.turns[0].listener

    def deliver(self) -> None:
        for listener, call in self.roster.audience.notices.take():
            if not listener.closed:
                call()

    def tick(self) -> None:
        self.roster.tick(self.now_s)
        self.deliver()

    def moved(self, listener: Listener) -> None:
        self.roster.audience.moved(listener, self.now_s)

    def text_finished(self, listener: Listener) -> None:
        self.roster.audience.text_finished(listener, self.now_s)

    def holds(self, listener: Listener) -> bool:
        return self.roster.audience.admission.holds(listener.key)


def test_a_slot_is_taken_with_the_first_segment_not_with_the_opening() -> None:
    bench = Bench()
    listener = bench.open()
    assert not bench.holds(listener)
    bench.submit(listener)
    assert bench.holds(listener)


def test_when_all_is_made_and_no_text_will_follow_the_slot_is_given_back() -> None:
    bench = Bench()
    listener = bench.open()
    bench.submit(listener)
    listener.finish_text()
    assert bench.holds(listener)
    bench.step()
    assert not bench.holds(listener)


def test_while_its_text_is_awaited_a_playing_listener_keeps_its_slot_until_it_runs_dry() -> None:
    bench = Bench()
    listener = bench.open(cushion_s=0.2)
    bench.submit(listener)
    bench.step(seconds=1.0)
    listener.sent(1.0, bench.now_s)
    bench.now_s += 1.1
    bench.tick()
    assert bench.holds(listener)
    bench.now_s += 0.2
    bench.tick()
    assert not bench.holds(listener)
    bench.submit(listener)
    assert bench.holds(listener)


def test_a_pause_gives_the_slot_back_once_the_lead_is_full_and_playing_on_takes_one_again() -> None:
    bench = Bench()
    listener = bench.open(lead_s=1.5)
    for _ in range(3):
        bench.submit(listener)
    bench.step()
    listener.sent(1.0, bench.now_s)
    listener.played(0.0, True, bench.now_s)
    assert bench.holds(listener)
    bench.step()
    assert not bench.holds(listener)
    assert isinstance(bench.roster.next_work(0, bench.now_s).task, Rest)
    listener.sent(1.0, bench.now_s)
    bench.now_s += 5
    listener.played(0.0, False, bench.now_s)
    assert bench.holds(listener)


def test_a_stream_that_is_open_is_finished_even_without_a_slot() -> None:
    bench = Bench(rules=Rules(max_streams=1))
    paused, other = bench.open(lead_s=1.5), bench.open()
    bench.submit(paused)
    bench.submit(other)
    bench.step(seconds=1.0, last=False)
    paused.sent(1.0, bench.now_s)
    paused.played(0.0, True, bench.now_s)
    bench.step(seconds=1.0, last=False)
    assert not bench.holds(paused)
    assert bench.holds(other)
    bench.now_s += 1
    paused.played(0.9, False, bench.now_s)
    assert {bench.step(seconds=1.0), bench.step(seconds=1.0)} == {paused, other}


def test_a_failure_gives_the_slot_to_the_next_in_the_queue() -> None:
    bench = Bench(rules=Rules(max_streams=1))
    first, second = Notes(), Notes()
    failing, waiting = bench.open(first), bench.open(second)
    bench.submit(failing)
    bench.submit(waiting)
    bench.deliver()
    ((reason, position, wait_s),) = second.waits
    assert (reason, position) == ("busy", 1)
    assert wait_s == pytest.approx(4.0)
    bench.step(error=EngineError("no"))
    assert [str(error) for _, error in first.failures] == ["no"]
    assert bench.holds(waiting)
    bench.roster.audience.close(failing, bench.now_s)
    assert len(bench.roster.audience.listeners) == 1


def test_a_replacement_that_waited_keeps_its_place_and_is_no_newcomer_to_the_queue() -> None:
    bench = Bench(rules=Rules(max_streams=1))
    speaking, waiting, behind = bench.open(), bench.open(), bench.open()
    for listener in (speaking, waiting, behind):
        bench.submit(listener)
    instead = bench.open(replaces=waiting)
    assert waiting.closed
    assert list(bench.roster.audience.admission.order()) == [instead.key, behind.key]


def test_a_slot_that_was_taken_over_is_given_back_if_no_text_comes() -> None:
    bench = Bench(rules=Rules(max_streams=1))
    speaking, waiting = bench.open(), bench.open()
    bench.submit(speaking)
    bench.submit(waiting)
    instead = bench.open(replaces=speaking)
    assert bench.holds(instead)
    bench.now_s += 1.9
    bench.tick()
    assert bench.holds(instead)
    bench.now_s += 0.2
    bench.tick()
    assert bench.holds(waiting)


def test_what_was_refused_never_runs() -> None:
    bench = Bench(rules=Rules(max_streams=1, max_queue=0))
    notes = Notes()
    speaking, refused = bench.open(), bench.open(notes)
    bench.submit(speaking)
    bench.submit(refused)
    bench.submit(refused)
    bench.deliver()
    assert [type(error) for error in notes.refusals] == [Busy]
    bench.roster.audience.close(speaking, bench.now_s)
    assert bench.roster.next_work(0, bench.now_s).task == Rest(inf)


def test_ten_first_requests_load_once_and_are_told_that_it_loads() -> None:
    bench = Bench(loaded=False, lanes=2)
    several = [Notes() for _ in range(5)]
    for notes in several:
        bench.submit(bench.open(notes))
    assert bench.roster.next_work(0, bench.now_s).task == Load("fake")
    assert isinstance(bench.roster.next_work(1, bench.now_s).task, Rest)
    bench.deliver()
    assert all(notes.waits == [("loading", None, None)] for notes in several)
    bench.roster.finish_load(0, "fake", None, bench.now_s)
    assert isinstance(bench.roster.next_work(0, bench.now_s).task, Step)
    assert bench.roster.next_work(1, bench.now_s).task == Load("fake")


def test_what_is_to_be_there_from_the_start_is_loaded_before_anything_is_asked_for() -> None:
    bench = Bench(loaded=False, rules=Rules(preload=("other",)))
    assert bench.roster.next_work(0, bench.now_s).task == Load("other")
    assert bench.roster.loads.state("other") == "loading"


def test_a_unit_that_couldnt_be_loaded_is_tried_again_after_half_a_minute() -> None:
    bench = Bench(loaded=False)
    first, second, third = Notes(), Notes(), Notes()
    bench.submit(bench.open(first))
    assert bench.roster.next_work(0, bench.now_s).task == Load("fake")
    bench.roster.finish_load(0, "fake", RuntimeError("no memory"), bench.now_s)
    bench.now_s += 29
    bench.submit(bench.open(second))
    bench.deliver()
    for notes in (first, second):
        assert isinstance(notes.refusals[0], EngineUnavailable)
        assert str(notes.refusals[0]) == "fake couldn't be loaded: no memory"
    bench.now_s += 2
    bench.submit(bench.open(third))
    assert bench.roster.next_work(0, bench.now_s).task == Load("fake")


def test_a_load_waits_while_listeners_of_what_is_loaded_need_the_lane_but_not_for_ever() -> None:
    bench = Bench(loaded=False)
    bench.roster.finish_load(0, "fake", None, bench.now_s)
    speaking = bench.open()
    for _ in range(9):
        bench.submit(speaking)
    other = bench.roster.audience.open(
        ListenerSpec(unit="other"), Notes(), owner=bench, replaces=None, now_s=bench.now_s
    )
    bench.submit(other)
    assert bench.step(seconds=0.1) is speaking
    bench.now_s += 2.0
    assert bench.roster.next_work(0, bench.now_s).task == Load("other")
