"""Health is proved by speaking."""

import threading

from residency.planner import MemoryRules, Policy
from tests.fakes.models import FakeEngine, FakeStream, facts, request, unit
from tests.residency.dispatching import Clock, dispatch, resident, say, say_nothing, until


async def test_fault_25_an_engine_that_has_not_spoken_for_long_is_tried_on_its_lane_and_an_old_proof_is_none() -> (
    None
):
    clock = Clock()
    engine = FakeEngine(facts())
    probed = unit(engine, probes=(request("hm"),))
    pinned: dict[str, Policy] = {"fake": "HARD_PIN"}
    async with dispatch(probed, memory=MemoryRules(), now=clock, policies=pinned) as dispatcher:
        await dispatcher.loaded("fake")
        spoken = len(engine.models[0].steps())
        assert dispatcher.status("fake").healthy
        clock.now_s += 299.0
        await say_nothing(dispatcher)
        assert len(engine.models[0].steps()) == spoken
        clock.now_s += 602.0
        assert not dispatcher.status("fake").healthy
        await until(lambda: dispatcher.status("fake").healthy, dispatcher)
        assert len(engine.models[0].steps()) == spoken + 1
        assert engine.models[0].open == set()


async def test_an_engine_that_fails_its_health_check_is_loaded_again() -> None:
    clock = Clock()
    broken = threading.Event()

    def work(_: list[FakeStream]) -> None:
        if broken.is_set():
            broken.clear()
            raise RuntimeError("the device is lost")

    engine = FakeEngine(facts(), on_step=work)
    probed = unit(engine, probes=(request("hm"),))
    pinned: dict[str, Policy] = {"fake": "HARD_PIN"}
    async with dispatch(probed, memory=MemoryRules(), now=clock, policies=pinned) as dispatcher:
        await dispatcher.loaded("fake")
        broken.set()
        clock.now_s += 301.0
        await until(lambda: len(engine.models) == 2, dispatcher)
        await until(lambda: dispatcher.status("fake").healthy, dispatcher)
    assert engine.models[0].unloaded


async def test_a_health_check_keeps_nothing_warm() -> None:
    clock = Clock()
    engine = FakeEngine(facts())
    rules = MemoryRules(idle_s=400.0)
    async with dispatch(unit(engine, probes=(request("hm"),)), memory=rules, now=clock) as dispatcher:
        await say(dispatcher, "fake")
        spoken = len(engine.models[0].steps())
        clock.now_s += 301.0
        await until(lambda: len(engine.models[0].steps()) > spoken, dispatcher)
        clock.now_s += 100.0
        await until(lambda: not resident(dispatcher), dispatcher)
