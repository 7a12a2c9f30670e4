"""Segments whose text arrives while they are spoken."""

from math import inf
from typing import Any

import numpy as np
import pytest

from engines.contract import Chunk, Request
from residency.dispatcher import Dispatcher
from residency.listener import Listener, ListenerSpec
from residency.roster import Roster
from residency.rules import Rules
from residency.work import Growth, Outcome, Rest, Step, Turn, Unload
from tests.residency.handlers import Notes
from tests.residency.test_real_units import tone

TEXT = "one two three four five six seven eight nine ten"
RATE_HZ = 24000
SAID_SAMPLES = round(0.06 * RATE_HZ) * len(TEXT.replace(" ", "")) + round(0.06 * RATE_HZ) * 10
"""60 ms for each letter and after each word."""


def request(text: str, *, last: bool = False) -> Request:
    return Request(text=text, language="en", voice="a4", last=last)


@pytest.mark.parametrize("hosted", [False, True])
async def test_all_its_text_is_spoken_in_whatever_pieces_it_comes(hosted: bool) -> None:
    unit = tone("tone", hosted=hosted, grows=True)
    async with Dispatcher([unit]) as dispatcher:
        await dispatcher.loaded("tone")
        for ends in ([3], [4, 8, 14], [len(TEXT)], [7, 7, 19, 44]):
            notes = Notes()
            listener = dispatcher.open(ListenerSpec(unit="tone", lead_s=inf), notes)
            job = dispatcher.submit(listener, request(TEXT[: ends[0]]), 0.0)
            for start, end in zip(ends, [*ends[1:], len(TEXT)], strict=True):
                await notes.until_samples(100)
                assert dispatcher.extend(listener, job, TEXT[start:end], last=end == len(TEXT))
            await notes.until_done(1)
            dispatcher.close(listener)
            assert notes.samples == SAID_SAMPLES


async def test_one_that_waits_for_text_keeps_nobody_up() -> None:
    async with Dispatcher([tone("tone", grows=True)]) as dispatcher:
        waiting, other = Notes(), Notes()
        stalled = dispatcher.open(ListenerSpec(unit="tone"), waiting)
        job = dispatcher.submit(stalled, request("one "), 0.0)
        await waiting.until_samples(3 * 1440 + 1440)
        dispatcher.submit(dispatcher.open(ListenerSpec(unit="tone"), other), request("two", last=True), 0.0)
        await other.until_done(1)
        assert waiting.jobs_done == []
        assert dispatcher.extend(stalled, job, "two", last=True)
        await waiting.until_done(1)
        assert waiting.samples == 8 * 1440


async def test_where_there_is_room_for_one_it_ends_when_another_wants_to_speak() -> None:
    async with Dispatcher([tone("tone", grows=True, max_open=1)]) as dispatcher:
        waiting, other = Notes(), Notes()
        stalled = dispatcher.open(ListenerSpec(unit="tone"), waiting)
        job = dispatcher.submit(stalled, request("one "), 0.0)
        await waiting.until_samples(4 * 1440)
        dispatcher.submit(dispatcher.open(ListenerSpec(unit="tone"), other), request("two", last=True), 0.0)
        await other.until_done(1)
        assert waiting.jobs_done == [0]
        assert not dispatcher.extend(stalled, job, "two", last=True)
        following = dispatcher.submit(stalled, request("two", last=True), 0.0)
        await waiting.until_done(2)
        assert (following, waiting.samples) == (1, 8 * 1440)


async def test_hanging_up_while_it_waits_leaves_nothing() -> None:
    async with Dispatcher([tone("tone", grows=True, max_open=1)]) as dispatcher:
        notes, after = Notes(), Notes()
        listener = dispatcher.open(ListenerSpec(unit="tone"), notes)
        job = dispatcher.submit(listener, request("one "), 0.0)
        await notes.until_samples(4 * 1440)
        dispatcher.close(listener)
        assert dispatcher.extend(listener, job, "two", last=True)
        dispatcher.submit(dispatcher.open(ListenerSpec(unit="tone"), after), request("x", last=True), 0.0)
        await after.until_done(1)
        assert (dispatcher.in_flight, dispatcher.open_listeners) == (1, 1)
        assert notes.samples == 4 * 1440


class Bench:
    """A roster of one growing unit, loaded, with its clock in the test's hands."""

    def __init__(self, **settings: Any) -> None:
        self.roster = Roster({"tone": tone("tone", grows=True, **settings)}, lanes=1, rules=Rules())
        self.now_s = 100.0
        self.notes = Notes()
        self.roster.finish_load(0, "tone", None, self.now_s)

    def open(self) -> Listener:
        return self.roster.audience.open(
            ListenerSpec(unit="tone"), self.notes, owner=self, replaces=None, now_s=self.now_s
        )

    def submit(self, listener: Listener, text: str, *, last: bool = False) -> int:
        return self.roster.audience.submit(listener, request(text, last=last), self.now_s, self.now_s)

    def extend(self, listener: Listener, text: str, *, last: bool = False) -> bool:
        return self.roster.audience.extend(listener, 0, text, last=last, now_s=self.now_s)

    def begin(self) -> Turn:
        work = self.roster.next_work(0, self.now_s)
        assert isinstance(work.task, Step)
        (turn,) = work.task.turns
        turn.job.stream = turn.job.stream or object()
        return turn

    def end(self, turn: Turn, *, last: bool = False, wants_text: bool = False, seconds: float = 0.1) -> None:
        samples = np.zeros(round(seconds * RATE_HZ), np.float32)
        outcome = Outcome(turn, Chunk(samples, last=last, wants_text=wants_text))
        self.roster.finish_step(0, [outcome], self.now_s, self.now_s)
        for _, call in self.roster.audience.notices.take():
            call()

    def moved(self, listener: Listener) -> None:
        self.roster.audience.moved(listener, self.now_s)

    def text_finished(self, listener: Listener) -> None:
        self.roster.audience.text_finished(listener, self.now_s)


def test_no_step_is_made_for_one_that_waits_for_text() -> None:
    bench = Bench()
    listener = bench.open()
    bench.submit(listener, "one ")
    bench.end(bench.begin(), wants_text=True)
    assert isinstance(bench.roster.next_work(0, bench.now_s).task, Rest)
    bench.moved(listener)
    assert isinstance(bench.roster.next_work(0, bench.now_s).task, Rest)
    assert bench.extend(listener, "two")
    turn = bench.begin()
    assert turn.growth == Growth("two", last=False)
    assert turn.request.text == "one two"


def test_what_comes_while_a_step_is_made_is_told_with_the_next() -> None:
    bench = Bench()
    listener = bench.open()
    bench.submit(listener, "one ")
    turn = bench.begin()
    assert turn.growth is None
    bench.extend(listener, "two ")
    bench.extend(listener, "three", last=True)
    bench.end(turn, wants_text=True)
    following = bench.begin()
    assert following.growth == Growth("two three", last=True)
    bench.end(following, last=True)
    assert bench.notes.jobs_done == [0]
    assert not listener.jobs


def test_what_comes_before_the_stream_is_begun_is_begun_with() -> None:
    bench = Bench()
    listener = bench.open()
    bench.submit(listener, "one ")
    bench.extend(listener, "two", last=True)
    turn = bench.begin()
    assert (turn.request.text, turn.request.last, turn.growth) == ("one two", True, None)


def test_a_complete_text_takes_no_more() -> None:
    bench = Bench()
    listener = bench.open()
    bench.submit(listener, "one", last=True)
    assert not bench.extend(listener, "two")
    bench.end(bench.begin(), last=True)
    assert not bench.extend(listener, "two")


def test_the_slot_of_one_whose_text_stalls_goes_to_others_when_it_has_played_all() -> None:
    bench = Bench()
    listener = bench.open()
    bench.submit(listener, "one ")
    bench.end(bench.begin(), wants_text=True)
    admission = bench.roster.audience.admission
    bench.roster.tick(bench.now_s)
    assert admission.holds(listener.key)
    bench.now_s += 10
    bench.roster.tick(bench.now_s)
    assert not admission.holds(listener.key)
    bench.extend(listener, "two")
    assert admission.holds(listener.key)
    assert bench.begin().growth == Growth("two", last=False)


def test_a_model_that_leaves_is_not_kept_by_one_that_waits() -> None:
    bench = Bench()
    listener = bench.open()
    bench.submit(listener, "one ")
    bench.end(bench.begin(), wants_text=True)
    bench.roster.direct(load=(), leave=("tone",), refused={}, now_s=bench.now_s)
    turn = bench.begin()
    assert turn.growth == Growth("", last=True)
    bench.end(turn, last=True)
    assert isinstance(bench.roster.next_work(0, bench.now_s).task, Unload)


def test_an_engine_that_ends_before_its_text_fails() -> None:
    bench = Bench()
    listener = bench.open()
    bench.submit(listener, "one ")
    bench.end(bench.begin(), last=True)
    ((_, error),) = bench.notes.failures
    assert "before its text" in str(error)


def test_waiting_teaches_nothing_about_the_cost_of_speech() -> None:
    bench = Bench()
    listener = bench.open()
    bench.submit(listener, "one ")
    before = bench.roster.estimates["tone"].step_s(10)
    bench.end(bench.begin(), wants_text=True, seconds=0)
    assert bench.roster.estimates["tone"].step_s(10) == before
