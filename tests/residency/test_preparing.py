"""Uploaded voices are prepared when nobody waits, and when somebody does, then not at others' expense."""

import asyncio
import threading

import pytest

from engines.contract import ModelLost
from residency.dispatcher import Dispatcher
from residency.listener import ListenerSpec
from residency.preparing import MOST_KNOWN, MOST_WISHES, UNKNOWN_S, Preparing
from residency.roster import Roster
from residency.rules import Rules
from residency.work import Prepare, Step, Work
from tests.fakes.models import FakeEngine, facts, request
from tests.fakes.models import unit as fake_unit
from tests.fakes.prompts import MemoryPrompts
from tests.residency.dispatching import until
from tests.residency.handlers import Notes
from tests.residency.test_prompts import REQUEST, Ear, clone, spec, unit
from voices.reference import Clone, Reference

# What is expected ------------------------------------------------------------------------------------------------


def test_a_voice_costs_once_what_the_last_ones_took_and_then_nothing() -> None:
    preparing = Preparing()
    assert preparing.expected_s("u", None) == 0.0
    assert preparing.expected_s("u", clone(1)) == UNKNOWN_S
    preparing.observe("u", clone(1), 4.0)
    assert preparing.expected_s("u", clone(1)) == 0.0
    assert preparing.expected_s("u", clone(2)) == 4.0
    assert preparing.expected_s("other", clone(1)) == UNKNOWN_S
    preparing.observe("u", clone(1), 0.0)
    assert preparing.expected_s("u", clone(2)) == 4.0, "found again in memory: no news"
    preparing.observe("u", clone(2), 1.0)
    assert preparing.expected_s("u", clone(3)) == pytest.approx(3.6)


def test_with_its_model_a_voice_is_forgotten_and_what_they_take_is_not() -> None:
    preparing = Preparing()
    preparing.observe("u", clone(1), 4.0)
    preparing.wish("u", clone(2))
    preparing.forget("u")
    assert preparing.expected_s("u", clone(1)) == 4.0
    assert preparing.due({"u"}, 1e9) is None


def test_wishes_are_done_in_order_once_and_only_if_there_is_time() -> None:
    preparing = Preparing()
    for number in (1, 2, 2):
        preparing.wish("u", clone(number))
    assert preparing.due({"other"}, 1e9) is None
    assert preparing.due({"u"}, UNKNOWN_S / 2) is None
    assert preparing.due({"u"}, UNKNOWN_S) == Prepare("u", clone(1))
    preparing.observe("u", clone(2), 0.1)
    assert preparing.due({"u"}, 1e9) is None, "somebody has spoken with it meanwhile"


def test_neither_wishes_nor_known_voices_grow_for_ever() -> None:
    preparing = Preparing()
    for number in range(MOST_KNOWN + 5):
        preparing.observe("u", clone(number), 0.1)
        preparing.wish("u", clone(-1 - number))
    assert preparing.expected_s("u", clone(0)) > 0
    assert preparing.expected_s("u", clone(5)) == 0
    found = 0
    while preparing.due({"u"}, 1e9) is not None:
        found += 1
    assert found == MOST_WISHES


# Whose turn it is ------------------------------------------------------------------------------------------------


class Bench:
    """One lane of a roster; `a` speaks with the engine's own voice, `b` with an uploaded one."""

    def __init__(self) -> None:
        self.roster = Roster({"fake": fake_unit(FakeEngine(facts(step_s=0.1)))}, lanes=1, rules=Rules())
        self.roster.finish_load(0, "fake", None, 100.0)

    def open(self, now_s: float, clone: Clone | None = None) -> Notes:
        notes = Notes()
        listener = self.roster.audience.open(
            ListenerSpec(unit="fake", clone=clone, lead_s=60.0), notes, owner=self, replaces=None, now_s=now_s
        )
        self.roster.audience.submit(listener, request("x" * 300), now_s, now_s)
        self.last = listener
        return notes

    def moved(self, listener: object) -> None: ...

    def text_finished(self, listener: object) -> None: ...

    def work(self, now_s: float) -> Work:
        return self.roster.next_work(0, now_s)


def test_a_voice_to_be_prepared_waits_while_a_listener_would_run_dry_for_it_but_not_for_ever() -> None:
    bench = Bench()
    bench.open(100.0)
    speaking = bench.last
    # Half a second in hand: enough for a step, not for a prompt and one.
    speaking.made_any, speaking.entry.made_s, speaking.entry.origin_s = True, 0.5, 100.0
    speaking.entry.sent_s = 0.5
    bench.open(100.0, clone(7))
    newcomer = bench.last
    picked = bench.work(100.0).task
    assert isinstance(picked, Step)
    assert [turn.listener for turn in picked.turns] == [speaking]
    bench.roster.lanes[0].finish()
    speaking.stepping = False
    bench.roster.audience.want(speaking, 102.1)
    speaking.entry.made_s = speaking.entry.sent_s = 2.6
    patient = bench.work(102.1).task
    assert isinstance(patient, Step)
    assert [turn.listener for turn in patient.turns] == [newcomer]


def test_a_voice_that_is_known_does_not_wait() -> None:
    bench = Bench()
    bench.open(100.0)
    speaking = bench.last
    speaking.made_any, speaking.entry.made_s, speaking.entry.origin_s = True, 0.5, 100.0
    speaking.entry.sent_s = 0.5
    bench.roster.audience.preparing.observe("fake", clone(7), 2.0)
    bench.open(100.0, clone(7))
    newcomer = bench.last
    picked = bench.work(100.0).task
    assert isinstance(picked, Step)
    assert [turn.listener for turn in picked.turns] == [newcomer]


# On a lane -------------------------------------------------------------------------------------------------------


async def test_a_voice_is_prepared_when_nobody_speaks_and_its_first_utterance_finds_it_made() -> None:
    source = MemoryPrompts()
    async with Dispatcher([unit(source)]) as dispatcher:
        await dispatcher.loaded("tone")
        dispatcher.prepare("tone", clone(700))
        await until(lambda: clone(700) in source.kept)
        ear = Ear()
        dispatcher.submit(dispatcher.open(spec(700), ear), REQUEST, 0.0)
        await ear.until_done(1)
    assert ear.frequency_hz == pytest.approx(700, abs=3)
    assert source.asked == ["700"]


async def test_nothing_is_loaded_for_it() -> None:
    source = MemoryPrompts()
    async with Dispatcher([unit(source)]) as dispatcher:
        dispatcher.prepare("tone", clone(700))
        dispatcher.tick()
        await asyncio.sleep(0.01)
        assert dispatcher.status("tone").state == "unloaded"


async def test_one_that_cannot_be_prepared_harms_nobody() -> None:
    source = MemoryPrompts(missing={"700"})
    async with Dispatcher([unit(source)]) as dispatcher:
        await dispatcher.loaded("tone")
        dispatcher.prepare("tone", clone(700))
        dispatcher.prepare("tone", clone(800))
        await until(lambda: clone(800) in source.kept)
        assert dispatcher.status("tone").state == "ready"


async def test_a_model_that_is_lost_over_it_is_loaded_again_for_the_next() -> None:
    losing = threading.Event()
    losing.set()

    class Dying(MemoryPrompts):
        def reference(self, clone: Clone) -> Reference:
            if losing.is_set():
                losing.clear()
                raise ModelLost("its process is gone: signal 9")
            return super().reference(clone)

    source = Dying()
    async with Dispatcher([unit(source)]) as dispatcher:
        await dispatcher.loaded("tone")
        dispatcher.prepare("tone", clone(700))
        await until(lambda: not losing.is_set())
        ear = Ear()
        dispatcher.submit(dispatcher.open(spec(700), ear), REQUEST, 0.0)
        await ear.until_done(1)
