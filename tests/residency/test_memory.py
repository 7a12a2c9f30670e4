"""What is loaded and unloaded by real lanes: one engine at a time, pins, idling, failures, lost models."""

import asyncio
import threading
from dataclasses import replace

import pytest

from engines.contract import EngineError, EngineUnavailable, ModelLost, ModelStalled
from residency.dispatcher import Dispatcher
from residency.errors import EngineStalled
from residency.listener import ListenerSpec
from residency.planner import Policy
from tests.fakes.models import FakeEngine, FakeStream, facts, request, unit
from tests.residency.dispatching import FREE, ONE, Clock, dispatch, resident, say, say_nothing, until
from tests.residency.handlers import Notes


async def test_s27_one_engine_at_a_time_the_first_is_gone_before_the_next_is_loaded() -> None:
    a = FakeEngine(facts())
    gone_before: list[bool] = []
    b = FakeEngine(facts(), on_load=lambda: gone_before.append(a.models[0].unloaded))
    async with dispatch(unit(a, name="a"), unit(b, name="b")) as dispatcher:
        await say(dispatcher, "a")
        await say(dispatcher, "b")
        assert gone_before == [True]
        assert resident(dispatcher) == ["b"]
        await say(dispatcher, "a")
        assert resident(dispatcher) == ["a"]
    assert len(a.models) == 2


async def test_s27_with_co_loading_as_many_as_fit() -> None:
    engines = {name: FakeEngine(replace(facts(), footprint_bytes={"": 4 * 10**9})) for name in "abc"}
    rules = replace(ONE, capacity_bytes=9e9, coload=True)
    async with dispatch(*(unit(one, name=name) for name, one in engines.items()), memory=rules) as dispatcher:
        for name in "abc":
            await say(dispatcher, name)
        assert resident(dispatcher) == ["b", "c"]


async def test_ten_first_requests_load_once() -> None:
    engine = FakeEngine(facts())
    async with dispatch(unit(engine)) as dispatcher:
        async with asyncio.TaskGroup() as tasks:
            results = [tasks.create_task(say(dispatcher, "fake")) for _ in range(10)]
        assert all(task.result().samples == 500 for task in results)
    assert len(engine.models) == 1


async def test_v4_who_waits_for_a_load_is_told_so() -> None:
    async with dispatch(unit(FakeEngine(facts()))) as dispatcher:
        notes = await say(dispatcher, "fake")
        assert notes.waits == [("loading", None, None)]


async def test_v3_s28_loads_steps_and_unloads_are_all_on_the_one_thread() -> None:
    threads: set[int] = set()
    engine = FakeEngine(facts(), on_load=lambda: threads.add(threading.get_ident()))
    async with dispatch(unit(engine)) as dispatcher:
        await say(dispatcher, "fake")
        await dispatcher.unloaded("fake")
        await say(dispatcher, "fake")
    assert len(threads | engine.models[0].threads | engine.models[1].threads) == 1


async def test_fault_21_idling_is_counted_from_the_end_of_work() -> None:
    clock = Clock()

    def work(_: list[FakeStream]) -> None:
        clock.now_s += 100.0

    engine = FakeEngine(facts(), on_step=work)
    async with dispatch(unit(engine), memory=FREE, now=clock, stall_s=1e6) as dispatcher:
        await say(dispatcher, "fake")
        clock.now_s += 59.0
        dispatcher.tick()
        await say_nothing(dispatcher)
        assert resident(dispatcher) == ["fake"]
        clock.now_s += 2.0
        await until(lambda: not resident(dispatcher), dispatcher)
    assert engine.models[0].unloaded


async def test_health_polling_keeps_nothing_warm() -> None:
    clock = Clock()
    async with dispatch(unit(FakeEngine(facts())), memory=FREE, now=clock) as dispatcher:
        await say(dispatcher, "fake")
        for _ in range(61):
            clock.now_s += 1.0
            dispatcher.statuses()
            dispatcher.tick()
        await until(lambda: not resident(dispatcher))


@pytest.mark.parametrize("policy", ["HARD_PIN", "SOFT_PIN"])
async def test_s26_fault_22_the_idle_sweep_keeps_what_is_pinned(policy: Policy) -> None:
    clock = Clock()
    engines = {name: FakeEngine(facts()) for name in "ab"}
    units = [unit(engine, name=name) for name, engine in engines.items()]
    async with dispatch(*units, memory=FREE, now=clock, policies={"a": policy}) as dispatcher:
        await say(dispatcher, "a")
        await say(dispatcher, "b")
        clock.now_s += 1000.0
        await until(lambda: resident(dispatcher) == ["a"], dispatcher)


async def test_s26_a_soft_pin_makes_room_and_comes_back_when_all_is_quiet() -> None:
    clock = Clock()
    engines = {name: FakeEngine(facts()) for name in "ab"}
    units = [unit(engine, name=name) for name, engine in engines.items()]
    async with dispatch(*units, now=clock, policies={"a": "SOFT_PIN"}, preload=("a",)) as dispatcher:
        await dispatcher.loaded("a")
        await say(dispatcher, "b")
        assert resident(dispatcher) == ["b"]
        clock.now_s += 29.0
        dispatcher.tick()
        await say_nothing(dispatcher)
        assert resident(dispatcher) == ["b"]
        clock.now_s += 2.0
        await until(lambda: resident(dispatcher) == ["a"], dispatcher)


async def test_s26_beside_a_hard_pin_the_others_are_refused_with_the_reason() -> None:
    engines = {name: FakeEngine(facts()) for name in "ab"}
    units = [unit(engine, name=name) for name, engine in engines.items()]
    async with dispatch(*units, policies={"a": "HARD_PIN"}) as dispatcher:
        await until(lambda: resident(dispatcher) == ["a"])
        notes = await say(dispatcher, "b")
        assert [str(error) for error in notes.refusals] == [
            "b doesn't fit into the memory of cpu beside what is pinned: a"
        ]
        assert isinstance(notes.refusals[0], EngineUnavailable)
        dispatcher.set_policy("a", "UNPINNED")
        assert (await say(dispatcher, "a")).samples
    assert not engines["b"].models


async def test_fault_22_when_a_load_fails_the_former_engine_is_there_again() -> None:
    def fail() -> None:
        raise EngineUnavailable("its weights are corrupt")

    a, b = FakeEngine(facts()), FakeEngine(facts(), on_load=fail)
    async with dispatch(unit(a, name="a"), unit(b, name="b")) as dispatcher:
        await say(dispatcher, "a")
        notes = await say(dispatcher, "b")
        assert [str(error) for error in notes.refusals] == ["its weights are corrupt"]
        await until(lambda: resident(dispatcher) == ["a"], dispatcher)
        assert dispatcher.status("b").state == "failed"
        assert dispatcher.status("b").last_error == "its weights are corrupt"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError("8 GB asked for"), "fake couldn't be loaded: 8 GB asked for"),
        (OSError(28, "No space left on device"), r"fake couldn't be loaded: \[Errno 28\] No space left"),
        (ValueError("not a checkpoint"), "fake couldn't be loaded: not a checkpoint"),
        (RuntimeError(), "fake couldn't be loaded: RuntimeError"),
    ],
)
async def test_whatever_a_load_fails_of_is_typed_and_the_others_are_untouched(
    error: Exception, told: str
) -> None:
    def fail() -> None:
        raise error

    whole = FakeEngine(facts())
    units = [unit(FakeEngine(facts(), on_load=fail)), unit(whole, name="whole")]
    async with dispatch(*units, memory=FREE) as dispatcher:
        with pytest.raises(EngineUnavailable, match=told):
            await dispatcher.loaded("fake")
        assert (await say(dispatcher, "whole")).samples == 500


async def test_a_load_past_its_deadline_is_an_error_and_the_lane_counts_as_wedged() -> None:
    clock, gate, reached = Clock(), threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        assert gate.wait(20)

    async with dispatch(unit(FakeEngine(facts(), on_load=hold)), memory=FREE, now=clock) as dispatcher:
        notes = Notes()
        dispatcher.submit(dispatcher.open(ListenerSpec(unit="fake"), notes), request("a"), 0.0)
        await until(reached.is_set)
        clock.now_s += 601.0
        dispatcher.tick()
        await notes.until_failed()
        assert isinstance(notes.failures[0][1], EngineStalled)
        assert dispatcher.wedged
        gate.set()


async def test_all_waiting_leave_during_a_load_and_it_is_finished_once() -> None:
    gate, reached = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        assert gate.wait(20)

    engine = FakeEngine(facts(), on_load=hold)
    async with dispatch(unit(engine)) as dispatcher:
        listener = dispatcher.open(ListenerSpec(unit="fake"), Notes())
        dispatcher.submit(listener, request("a"), 0.0)
        await until(reached.is_set)
        dispatcher.close(listener)
        gate.set()
        await until(lambda: dispatcher.status("fake").state == "ready")
        assert dispatcher.in_flight == 0
    assert len(engine.models) == 1


async def test_an_engine_with_work_on_it_is_drained_before_it_is_unloaded() -> None:
    engine = FakeEngine(facts(step_s=0.1))
    async with dispatch(unit(engine), memory=FREE) as dispatcher:
        notes = Notes()
        listener = dispatcher.open(ListenerSpec(unit="fake", lead_s=0.3), notes)
        dispatcher.submit(listener, request("x" * 30), 0.0)
        await notes.until_samples(300)
        dispatcher.unload("fake")
        await notes.until_done(1)
        assert notes.samples == 3000, "the segment that was begun is spoken to its end, whatever the lead"
        dispatcher.close(listener)
        await until(lambda: not resident(dispatcher))
    assert [kind for kind, _ in engine.models[0].events[-2:]] == ["close", "unload"]


async def test_an_unloaded_engine_is_loaded_again_when_it_is_asked_for() -> None:
    engine = FakeEngine(facts())
    async with dispatch(unit(engine), preload=("fake",)) as dispatcher:
        await dispatcher.loaded("fake")
        await dispatcher.unloaded("fake")
        assert dispatcher.status("fake").state == "unloaded"
        dispatcher.tick()
        await say_nothing(dispatcher)
        assert dispatcher.status("fake").state == "unloaded"
        await say(dispatcher, "fake")
    assert len(engine.models) == 2


# Several lanes of one device ---------------------------------------------------------------------------------------


async def test_hosted_engines_on_one_accelerator_share_what_may_be_promised_of_it() -> None:
    gate = threading.Event()

    def hold() -> None:
        assert gate.wait(20)

    # Nothing is known of their costs before they are loaded: a tenth each, of eight tenths.
    places = {"a": "cuda", "b": "cuda", "c": "cpu", "d": "cpu"}
    units = [
        replace(unit(FakeEngine(facts(), on_load=hold), name=name, device=device), hosted=True)
        for name, device in places.items()
    ]
    async with Dispatcher(units) as dispatcher:
        held = {
            name: [dispatcher.open(ListenerSpec(unit=name), Notes()) for _ in range(10)] for name in "abcd"
        }
        for name in "abcd":
            for listener in held[name]:
                dispatcher.submit(listener, request("x" * 600), 0.0)
        in_flight = {name: dispatcher.status(name).in_flight for name in "abcd"}
        assert in_flight == {"a": 8, "b": 1, "c": 8, "d": 8}
        for listener in held["a"]:
            dispatcher.close(listener)
        await until(lambda: dispatcher.status("b").in_flight == 8, dispatcher)
        gate.set()


# Models that are lost ----------------------------------------------------------------------------------------------


async def test_when_a_model_is_lost_who_was_speaking_fails_and_the_next_load_serves_the_rest() -> None:
    losing = threading.Event()
    steps: list[tuple[str, ...]] = []

    def die(streams: list[FakeStream]) -> None:
        steps.append(tuple(stream.request.text for stream in streams))
        if losing.is_set():
            losing.clear()
            raise ModelLost("its process is gone: signal 9")

    engine = FakeEngine(facts(step_s=0.1), on_step=die)
    async with dispatch(unit(engine), memory=FREE) as dispatcher:
        speaking, waiting = Notes(), Notes()
        first = dispatcher.open(ListenerSpec(unit="fake", lead_s=0.3), speaking)
        dispatcher.submit(first, request("x" * 50), 0.0)
        await speaking.until_samples(300)
        losing.set()
        second = dispatcher.open(ListenerSpec(unit="fake"), waiting)
        dispatcher.submit(second, request("others never notice"), 0.0)
        await waiting.until_done(1)
        await speaking.until_failed()
        assert str(speaking.failures[0][1]) == "its process is gone: signal 9"
        assert waiting.samples == 1900
        assert waiting.failures == []
        assert (await say(dispatcher, "fake")).samples == 500
    assert len(engine.models) == 2


async def test_a_text_that_loses_the_model_each_time_fails_and_loads_come_later_and_later() -> None:
    clock = Clock()

    def die(streams: list[FakeStream]) -> None:
        if any("poison" in stream.request.text for stream in streams):
            raise ModelLost("its process is gone: signal 11")

    engine = FakeEngine(facts(), on_step=die)
    async with dispatch(unit(engine), memory=FREE, now=clock) as dispatcher:
        notes = await say(dispatcher, "fake", "poison")
        assert "signal 11" in str((notes.refusals + [error for _, error in notes.failures])[0])
        assert len(engine.models) == 2
        refused = await say(dispatcher, "fake")
        assert str(refused.refusals[0]) == "fake was lost 2 times: its process is gone: signal 11"
        clock.now_s += 2.1
        assert (await say(dispatcher, "fake")).samples == 500


async def test_one_that_stalled_is_not_tried_a_second_time() -> None:
    def hang(streams: list[FakeStream]) -> None:
        raise ModelStalled("it didn't answer within 30 s and was ended")

    engine = FakeEngine(facts(), on_step=hang)
    async with dispatch(unit(engine), memory=FREE) as dispatcher:
        notes = await say(dispatcher, "fake")
        assert isinstance(notes.failures[0][1], ModelStalled)
        assert isinstance(notes.failures[0][1], EngineError)
    assert len(engine.models) == 1


async def test_out_of_memory_while_speaking_fails_that_utterance_with_its_cause_and_no_other() -> None:
    def step(streams: list[FakeStream]) -> None:
        if any("huge" in stream.request.text for stream in streams):
            raise MemoryError("2.5 GB asked for")

    engine = FakeEngine(facts(), on_step=step)
    async with dispatch(unit(engine), memory=FREE) as dispatcher:
        failed = await say(dispatcher, "fake", "huge")
        assert isinstance(failed.failures[0][1], EngineError)
        assert "MemoryError" in str(failed.failures[0][1])
        assert (await say(dispatcher, "fake")).samples == 500
    assert len(engine.models) == 1
