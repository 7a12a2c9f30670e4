"""What an engine needs is brought here beside the lanes: whoever speaks meanwhile doesn't notice."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from engines.contract import EngineUnavailable, Source
from residency.dispatcher import Dispatcher
from residency.listener import ListenerSpec
from residency.planner import MemoryRules, Policy
from residency.rules import Rules
from tests.fakes.models import FakeEngine, FakeModel, facts, request, unit
from tests.residency.dispatching import FREE, ONE, Clock, dispatch, resident, say, until
from tests.residency.handlers import Notes


@dataclass(eq=False)
class RemoteEngine(FakeEngine):
    on_fetch: Callable[[], None] = lambda: None
    """May block, or raise."""
    fetched: int = 0
    threads: set[int] = field(default_factory=set)

    def fetch(self, source: Source) -> None:
        self.threads.add(threading.get_ident())
        self.on_fetch()
        self.fetched += 1

    def load(self, source: Source, device: str) -> FakeModel:
        assert self.fetched
        self.threads.add(threading.get_ident())
        return super().load(source, device)


class Gate:
    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.open.wait(20)


def waiter(dispatcher: Dispatcher, name: str) -> Notes:
    notes = Notes()
    listener = dispatcher.open(ListenerSpec(unit=name), notes)
    dispatcher.submit(listener, request("hello"), 0.0)
    listener.finish_text()
    return notes


@pytest.mark.parametrize("memory", [FREE, ONE])
async def test_while_one_is_fetched_others_speak_on_the_only_lane(memory: MemoryRules) -> None:
    gate = Gate()
    far = RemoteEngine(facts(), on_fetch=gate)
    async with dispatch(unit(FakeEngine(facts())), unit(far, name="far"), memory=memory) as dispatcher:
        await say(dispatcher, "fake")
        waiting = waiter(dispatcher, "far")
        await until(gate.reached.is_set, dispatcher)
        assert dispatcher.status("far").state == "loading"
        await waiting.until_waiting()
        assert waiting.waits[0][0] == "loading"
        assert (await say(dispatcher, "fake")).samples == 500
        assert resident(dispatcher) == ["fake"], "nobody makes room for what is still on its way"
        assert not dispatcher.wedged
        gate.open.set()
        await waiting.until_done(1)
    assert len(far.threads) == 2, "the lane doesn't fetch"


async def test_ten_first_requests_fetch_and_load_once() -> None:
    gate = Gate()
    far = RemoteEngine(facts(), on_fetch=gate)
    async with dispatch(unit(far, name="far"), memory=FREE) as dispatcher:
        crowd = [waiter(dispatcher, "far") for _ in range(10)]
        await until(gate.reached.is_set)
        gate.open.set()
        for notes in crowd:
            await notes.until_done(1)
    assert (far.fetched, len(far.models)) == (1, 1)


async def test_a_fetch_that_fails_is_typed_and_the_next_one_is_tried_after_a_while() -> None:
    clock, broken = Clock(), threading.Event()
    broken.set()

    def fetch() -> None:
        if broken.is_set():
            raise OSError(28, "No space left on device")

    far = RemoteEngine(facts(), on_fetch=fetch)
    async with dispatch(
        unit(far, name="far"), unit(FakeEngine(facts())), memory=FREE, now=clock
    ) as dispatcher:
        refused = await say(dispatcher, "far")
        assert isinstance(refused.refusals[0], EngineUnavailable)
        assert "No space left on device" in str(refused.refusals[0])
        assert dispatcher.status("far").state == "failed"
        assert (await say(dispatcher, "fake")).samples == 500
        broken.clear()
        assert (await say(dispatcher, "far")).refusals, "too soon"
        clock.now_s += 31.0
        assert (await say(dispatcher, "far")).samples == 500


async def test_what_was_fetched_stays_so_until_a_load_fails() -> None:
    clock, gone = Clock(), threading.Event()

    def load() -> None:
        if gone.is_set():
            gone.clear()
            raise EngineUnavailable("its weights have gone")

    far = RemoteEngine(facts(), on_load=load)
    async with dispatch(unit(far, name="far"), memory=FREE, now=clock) as dispatcher:
        for _ in range(3):
            await dispatcher.loaded("far")
            await dispatcher.unloaded("far")
        assert far.fetched == 1
        gone.set()
        assert (await say(dispatcher, "far")).refusals
        clock.now_s += 31.0
        assert (await say(dispatcher, "far")).samples == 500
    assert (far.fetched, len(far.models)) == (2, 4)


@pytest.mark.parametrize("policy", ["HARD_PIN", "SOFT_PIN"])
async def test_a_pinned_one_is_fetched_unasked_and_others_stay_until_it_is_here(policy: Policy) -> None:
    gate, clock = Gate(), Clock()
    far = RemoteEngine(facts(), on_fetch=gate)
    units = [unit(FakeEngine(facts())), unit(far, name="far")]
    async with dispatch(*units, memory=ONE, policies={"far": policy}, now=clock) as dispatcher:
        await until(gate.reached.is_set, dispatcher)
        assert (await say(dispatcher, "fake")).samples == 500
        assert resident(dispatcher) == ["fake"]
        gate.open.set()
        clock.now_s += 31.0
        await until(lambda: resident(dispatcher) == ["far"], dispatcher)


async def test_all_who_waited_leave_and_what_was_begun_is_fetched_and_not_loaded() -> None:
    gate = Gate()
    far = RemoteEngine(facts(), on_fetch=gate)
    async with dispatch(unit(far, name="far"), unit(FakeEngine(facts())), memory=ONE) as dispatcher:
        notes = Notes()
        listener = dispatcher.open(ListenerSpec(unit="far"), notes)
        dispatcher.submit(listener, request("hello"), 0.0)
        await until(gate.reached.is_set)
        dispatcher.close(listener)
        dispatcher.tick()
        gate.open.set()
        await until(lambda: far.fetched == 1, dispatcher)
        assert (await say(dispatcher, "fake")).samples == 500
        assert resident(dispatcher) == ["fake"]
    assert far.models == []


async def test_each_lane_of_the_cpu_has_it_after_one_fetch() -> None:
    far = RemoteEngine(facts())
    async with Dispatcher([unit(far, name="far")], Rules(engine_threads=2)) as dispatcher:
        await dispatcher.loaded("far")
    assert (far.fetched, len(far.models)) == (1, 2)


async def test_a_fetch_that_never_ends_does_not_keep_the_process() -> None:
    gate = Gate()
    async with dispatch(unit(RemoteEngine(facts(), on_fetch=gate), name="far"), memory=FREE) as dispatcher:
        waiter(dispatcher, "far")
        await until(gate.reached.is_set)
    assert next(thread for thread in threading.enumerate() if thread.name == "fetch far").daemon
    gate.open.set()
