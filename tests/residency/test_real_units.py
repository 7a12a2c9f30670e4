"""Real engines under real lanes: one in a process of its own that is killed, two that can't be in memory together."""

import asyncio
import os
import signal
import time
from typing import Any

import psutil

from engines import registry
from engines.contract import EngineError, ModelLost, Request, Samples, Source, Word
from engines.hosted import HostedEngine
from engines.tone import ToneEngine
from engines.tone_settings import ToneOptions
from residency.dispatcher import Dispatcher
from residency.listener import Listener, ListenerSpec, StepTiming
from residency.planner import MemoryRules
from residency.rules import Rules
from residency.units import Unit
from tests.residency.handlers import Notes

RATE_HZ = 24000
WORDS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"


def tone(name: str, *, hosted: bool = False, device: str = "cpu", **settings: Any) -> Unit:
    source = Source(settings={"step_ms": 80, **settings})
    inline = ToneEngine()
    engine = HostedEngine(inline, registry.target("tone"), step_s=5.0) if hosted else inline
    return Unit(
        name=name,
        engine=engine,
        source=source,
        device=device,
        facts=inline.identify(source),
        hosted=hosted,
    )


def request(text: str) -> Request:
    return Request(text=text, language="en", voice="a4")


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE}


async def until_gone(pid: int) -> None:
    async with asyncio.timeout(60):
        while pid in children():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)


async def test_on_a_cpu_each_lane_of_a_hosted_engine_has_a_process_of_its_own() -> None:
    before = children()
    async with Dispatcher([tone("hosted", hosted=True)], Rules(engine_threads=2)) as dispatcher:
        await dispatcher.loaded("hosted")
        assert len(children() - before) == 2


async def test_a_hosted_engine_that_is_killed_in_mid_speech_fails_its_own_and_the_next_succeeds() -> None:
    before = children()
    async with Dispatcher([tone("hosted", hosted=True), tone("inline")]) as dispatcher:
        await dispatcher.loaded("hosted")
        (pid,) = children() - before
        speaking, witness = Notes(), Notes()
        killed = dispatcher.open(ListenerSpec(unit="hosted", lead_s=1.0), speaking)
        dispatcher.submit(killed, request(WORDS), 0.0)
        other = dispatcher.open(ListenerSpec(unit="inline", lead_s=100.0), witness)
        await speaking.until_samples(RATE_HZ // 2)
        os.kill(pid, signal.SIGKILL)
        killed.sent(1.0, 0.0)
        await speaking.until_failed()
        failure = speaking.failures[0][1]
        assert isinstance(failure, ModelLost)
        assert "signal 9" in str(failure)
        dispatcher.close(killed)
        dispatcher.submit(other, request(WORDS), 0.0)
        await witness.until_done(1)
        assert not witness.failures
        again = Notes()
        listener = dispatcher.open(ListenerSpec(unit="hosted", lead_s=100.0), again)
        dispatcher.submit(listener, request(WORDS), 0.0)
        await again.until_done(1)
        assert again.samples == witness.samples
        assert not dispatcher.wedged
    assert children() <= before


async def test_a_hosted_engine_that_died_while_idle_is_not_noticed_by_who_comes_next() -> None:
    before = children()
    async with Dispatcher([tone("hosted", hosted=True)]) as dispatcher:
        await dispatcher.loaded("hosted")
        (pid,) = children() - before
        os.kill(pid, signal.SIGKILL)
        await until_gone(pid)
        notes = Notes()
        listener = dispatcher.open(ListenerSpec(unit="hosted", lead_s=100.0), notes)
        dispatcher.submit(listener, request("hello there"), 0.0)
        await notes.until_done(1)
        assert notes.failures == []
        assert notes.refusals == []
    assert children() <= before


async def test_an_unloaded_hosted_engine_leaves_no_process_behind() -> None:
    before = children()
    async with Dispatcher([tone("hosted", hosted=True)]) as dispatcher:
        for _ in range(3):
            await dispatcher.loaded("hosted")
            assert len(children() - before) == 1
            await dispatcher.unloaded("hosted")
            assert children() <= before


async def test_a_step_that_hangs_in_a_hosted_engine_fails_alone_and_the_lane_goes_on() -> None:
    async with Dispatcher([tone("hosted", hosted=True, faults=True)]) as dispatcher:
        notes, again = Notes(), Notes()
        stuck = Request(
            text="hello", language="en", voice="a4", options=ToneOptions(fault="stall", stall_s=600.0)
        )
        dispatcher.submit(dispatcher.open(ListenerSpec(unit="hosted"), notes), stuck, 0.0)
        await notes.until_failed()
        assert isinstance(notes.failures[0][1], EngineError)
        listener = dispatcher.open(ListenerSpec(unit="hosted", lead_s=100.0), again)
        dispatcher.submit(listener, request("hello"), 0.0)
        await again.until_done(1)


async def test_two_engines_take_turns_under_load_and_everybody_is_served() -> None:
    # A tenth of real ones' load times; nobody's clock runs here, so nobody can run dry.
    rules = Rules(
        memory={"cpu": MemoryRules(capacity_bytes=1, swap_s=0.1, settle_s=0.2)}, max_load=100, max_queue=100
    )
    units = [tone("a", load_s=0.3, cost=0.002), tone("b", load_s=0.2, cost=0.002)]
    async with Dispatcher(units, rules) as dispatcher:
        everybody = [Notes() for _ in range(16)]
        for number, notes in enumerate(everybody):
            listener = dispatcher.open(ListenerSpec(unit="ab"[number % 2], lead_s=100.0), notes)
            for _ in range(3):
                dispatcher.submit(listener, request(WORDS), 0.0)
            listener.finish_text()
        for notes in everybody:
            await notes.until_done(3)
        assert len({notes.samples for notes in everybody}) == 1
        assert sum(status.state == "ready" for status in dispatcher.statuses()) == 1


class Player(Notes):
    """Plays what it gets at once, in real time, and counts when it had nothing to play."""

    def __init__(self) -> None:
        super().__init__()
        self.listener: Listener | None = None
        self.gaps = 0

    def on_chunk(
        self, job: int, samples: Samples, words: tuple[Word, ...], last: bool, timing: StepTiming
    ) -> None:
        assert self.listener is not None
        self.gaps += self.listener.sent(len(samples) / RATE_HZ, time.monotonic()) is not None
        super().on_chunk(job, samples, words, last, timing)

    def speak(self, dispatcher: Dispatcher, name: str, segments: int) -> None:
        self.listener = dispatcher.open(ListenerSpec(unit=name, lead_s=8.0), self)
        for _ in range(segments):
            dispatcher.submit(self.listener, request(WORDS), 0.0)
        self.listener.finish_text()


async def test_listeners_with_a_lead_play_on_while_another_engine_has_their_place() -> None:
    # A tenth of real ones' load times, and as many listeners as a GPU has.
    memory = MemoryRules(capacity_bytes=1, swap_s=0.2, settle_s=0.3)
    rules = Rules(memory={"cpu": memory}, max_load=100)
    async with Dispatcher([tone("a", load_s=0.5, cost=0.005), tone("b", load_s=0.3)], rules) as dispatcher:
        residents = [Player() for _ in range(4)]
        for player in residents:
            player.speak(dispatcher, "a", 3)
        for player in residents:
            # Some five seconds in hand, and more to be made than the lead allows.
            await player.until_done(1)
        guest = Player()
        guest.speak(dispatcher, "b", 1)
        await guest.until_done(1)
        assert dispatcher.status("b").state == "ready"
        for player in residents:
            await player.until_done(3)
        assert dispatcher.status("a").state == "ready"
    assert [player.gaps for player in residents] == [0, 0, 0, 0]
    assert not any(player.failures or player.refusals for player in residents)
