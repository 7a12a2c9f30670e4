import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from engines.contract import EngineError, EngineFault, EngineUnavailable
from residency.dispatcher import Dispatcher
from residency.errors import EngineStalled, UnknownUnit
from residency.listener import Listener, ListenerSpec
from residency.probe import default_probes
from residency.rules import Rules
from tests.fakes.models import FakeEngine, FakeStream, facts, request, unit
from tests.residency.handlers import Notes

SPEC = ListenerSpec(unit="fake")


async def test_a_listeners_segments_come_back_in_order_with_their_samples() -> None:
    engine = FakeEngine(facts())
    async with Dispatcher([unit(engine)]) as dispatcher:
        notes = Notes()
        listener = dispatcher.open(SPEC, notes)
        assert [dispatcher.submit(listener, request(text), 0.0) for text in ("one", "three", "x")] == [
            0,
            1,
            2,
        ]
        await notes.until_done(3)
    assert notes.chunks == [(0, 300, True), (1, 500, True), (2, 100, True)]
    assert engine.models[0].unloaded
    assert engine.models[0].open == set()
    assert len(engine.models[0].threads) == 1
    assert threading.get_ident() not in engine.models[0].threads


async def test_an_unknown_unit_is_refused_at_once() -> None:
    async with Dispatcher([]) as dispatcher:
        with pytest.raises(UnknownUnit):
            dispatcher.open(SPEC, Notes())


class Gate:
    """Holds every step until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self.opened = threading.Event()

    def __call__(self, streams: list[FakeStream]) -> None:
        self.reached.release()
        assert self.opened.wait(10)


async def test_no_step_starts_after_a_cancel_and_the_slot_is_free_when_the_one_in_progress_ends() -> None:
    gate = Gate()
    engine = FakeEngine(facts(step_s=0.1), on_step=gate)
    async with Dispatcher([unit(engine)]) as dispatcher:
        first, second = Notes(), Notes()
        cancelled = dispatcher.open(SPEC, first)
        dispatcher.submit(cancelled, request("a long text to be cancelled"), 0.0)
        gate.reached.acquire()
        dispatcher.close(cancelled)
        dispatcher.close(cancelled)
        other = dispatcher.open(SPEC, second)
        dispatcher.submit(other, request("b"), 0.0)
        assert dispatcher.in_flight == 2
        gate.opened.set()
        await second.until_done(1)
        assert dispatcher.in_flight == 1
    assert first.chunks == []
    assert engine.models[0].steps() == [("a long text to be cancelled",), ("b",)]


async def test_one_bad_stream_in_a_batch_fails_alone() -> None:
    gate = Gate()
    engine = FakeEngine(facts(max_batch=4, step_s=0.1), on_step=gate)
    async with Dispatcher([unit(engine)]) as dispatcher:
        first = Notes()
        dispatcher.submit(dispatcher.open(SPEC, first), request("wait"), 0.0)
        gate.reached.acquire()
        several = [Notes() for _ in range(4)]
        for notes, text in zip(several, ("good", "bad start", "bad step", "fine"), strict=True):
            dispatcher.submit(dispatcher.open(SPEC, notes), request(text), 1.0)
        gate.opened.set()
        await several[0].until_done(1)
        await several[1].until_failed()
        await several[2].until_failed()
        await several[3].until_done(1)
    assert isinstance(several[1].failures[0][1], EngineError)
    assert str(several[2].failures[0][1]) == "can't go on"
    assert [notes.samples for notes in several] == [400, 0, 0, 400]
    assert max(len(texts) for texts in engine.models[0].steps()) >= 3


async def test_an_exception_out_of_a_step_fails_the_streams_of_that_step_and_no_other() -> None:
    engine = FakeEngine(facts())
    async with Dispatcher([unit(engine)]) as dispatcher:
        broken, whole = Notes(), Notes()
        dispatcher.submit(dispatcher.open(SPEC, broken), request("bomb"), 0.0)
        await broken.until_failed()
        dispatcher.submit(dispatcher.open(SPEC, whole), request("whole"), 0.0)
        await whole.until_done(1)
    assert str(broken.failures[0][1]) == "RuntimeError: the device is lost"
    assert isinstance(broken.failures[0][1], EngineFault)


async def test_a_unit_that_cannot_be_loaded_refuses_with_the_reason_and_isnt_tried_again_at_once() -> None:
    loads = []

    def fail() -> None:
        loads.append(1)
        raise EngineUnavailable("its weights are missing")

    engine = FakeEngine(facts(), on_load=fail)
    async with Dispatcher([unit(engine)]) as dispatcher:
        first, second = Notes(), Notes()
        dispatcher.submit(dispatcher.open(SPEC, first), request("a"), 0.0)
        await first.until_failed()
        dispatcher.submit(dispatcher.open(SPEC, second), request("b"), 0.0)
        await second.until_failed()
        assert dispatcher.status("fake").state == "failed"
        assert dispatcher.status("fake").last_error == "its weights are missing"
        with pytest.raises(EngineUnavailable, match="its weights are missing"):
            await dispatcher.loaded("fake")
    assert [str(error) for error in first.refusals + second.refusals] == ["its weights are missing"] * 2
    assert first.waits == [("loading", None, None)]
    assert len(loads) == 2


async def test_a_model_that_cannot_interleave_has_one_stream_open_at_a_time() -> None:
    engine = FakeEngine(facts(max_open=1, step_s=0.1))
    async with Dispatcher([unit(engine)]) as dispatcher:
        several = [Notes() for _ in range(6)]
        for notes in several:
            listener = dispatcher.open(SPEC, notes)
            for _ in range(2):
                dispatcher.submit(listener, request("0123456789"), 0.0)
        for notes in several:
            await notes.until_done(2)
        await until(lambda: dispatcher.open_streams == 0)
    order = [kind for kind, _ in engine.models[0].events if kind in ("start", "close")]
    assert order == ["start", "close"] * 12


async def test_two_lanes_work_at_the_same_time_each_with_a_model_of_its_own() -> None:
    gate = Gate()
    engine = FakeEngine(facts(), on_step=gate)
    async with Dispatcher([unit(engine)], Rules(engine_threads=2)) as dispatcher:
        await dispatcher.loaded("fake")
        both = [Notes(), Notes()]
        for notes in both:
            dispatcher.submit(dispatcher.open(SPEC, notes), request("abc"), 0.0)
        for _ in both:
            assert gate.reached.acquire(timeout=10)
        gate.opened.set()
        for notes in both:
            await notes.until_done(1)
    assert [len(model.steps()) for model in engine.models] == [1, 1]
    assert engine.models[0].threads.isdisjoint(engine.models[1].threads)


async def test_a_step_that_doesnt_come_back_fails_its_listeners_and_the_other_lane_goes_on() -> None:
    gate = Gate()

    def hold(streams: list[FakeStream]) -> None:
        if any("stuck" in stream.request.text for stream in streams):
            gate(streams)

    clock = FakeTime()
    engine = FakeEngine(facts(), on_step=hold)
    rules = Rules(engine_threads=2, stall_s=30.0)
    async with Dispatcher([unit(engine)], rules, now=clock) as dispatcher:
        await dispatcher.loaded("fake")
        stuck, other, late = Notes(), Notes(), Notes()
        dispatcher.submit(dispatcher.open(SPEC, stuck), request("stuck"), 0.0)
        gate.reached.acquire()
        clock.now_s += 29.0
        dispatcher.tick()
        assert not dispatcher.wedged
        clock.now_s += 2.0
        dispatcher.tick()
        assert dispatcher.wedged
        await stuck.until_failed()
        assert isinstance(stuck.failures[0][1], EngineStalled)
        dispatcher.submit(dispatcher.open(SPEC, other), request("fine"), 0.0)
        await other.until_done(1)
        gate.opened.set()
        dispatcher.submit(dispatcher.open(SPEC, late), request("late"), 0.0)
        await late.until_done(1)
        await until(lambda: not dispatcher.wedged)
    assert stuck.chunks == []


async def test_while_the_only_lane_is_stalled_everybody_is_told_so() -> None:
    gate = Gate()
    clock = FakeTime()
    engine = FakeEngine(facts(), on_step=gate)
    async with Dispatcher([unit(engine)], Rules(stall_s=30.0), now=clock) as dispatcher:
        stuck, waiting, later = Notes(), Notes(), Notes()
        dispatcher.submit(dispatcher.open(SPEC, stuck), request("stuck"), 0.0)
        gate.reached.acquire()
        dispatcher.submit(dispatcher.open(SPEC, waiting), request("waiting"), 0.0)
        clock.now_s += 31.0
        dispatcher.tick()
        dispatcher.submit(dispatcher.open(SPEC, later), request("later"), 0.0)
        for notes in (stuck, waiting, later):
            await notes.until_failed()
            assert isinstance((notes.refusals + [error for _, error in notes.failures])[0], EngineStalled)
        assert dispatcher.in_flight == 0
        gate.opened.set()


async def test_a_paused_or_blocked_listener_costs_nothing_until_it_goes_on() -> None:
    clock = FakeTime()
    engine = FakeEngine(facts(step_s=0.5))
    async with Dispatcher([unit(engine)], now=clock) as dispatcher:
        await dispatcher.loaded("fake")
        notes, other = Notes(), Notes()
        listener = dispatcher.open(ListenerSpec(unit="fake", lead_s=1.0), notes)
        listener.set_blocked(True)
        dispatcher.submit(listener, request("x" * 100), clock.now_s)
        await serve_another(dispatcher, other)
        assert notes.chunks == []
        listener.set_blocked(False)
        await notes.until_samples(1000)
        await serve_another(dispatcher, other)
        assert notes.samples == 1000
        listener.sent(1.0, clock.now_s)
        listener.played(0.0, True, clock.now_s)
        clock.now_s += 60
        await serve_another(dispatcher, other)
        assert notes.samples == 1000
        listener.played(0.6, False, clock.now_s)
        await notes.until_samples(2000)
        assert listener.run_dry_s(clock.now_s) == pytest.approx(clock.now_s + 1.4)


async def test_a_listener_that_replaces_another_takes_over_its_slot() -> None:
    gate = Gate()
    engine = FakeEngine(facts(), on_step=gate)
    async with Dispatcher([unit(engine)], Rules(max_streams=1)) as dispatcher:
        old, new, waiting = Notes(), Notes(), Notes()
        speaking = dispatcher.open(SPEC, old)
        dispatcher.submit(speaking, request("old"), 0.0)
        gate.reached.acquire()
        dispatcher.submit(dispatcher.open(SPEC, waiting), request("waiting"), 0.0)
        await waiting.until_waiting()
        assert waiting.waits[0][:2] == ("busy", 1)
        barging = dispatcher.open(SPEC, new, replaces=speaking)
        dispatcher.submit(barging, request("new"), 0.0)
        barging.finish_text()
        gate.opened.set()
        await waiting.until_done(1)
    assert old.chunks == []
    assert engine.models[0].steps() == [("old",), ("new",), ("waiting",)]
    assert new.jobs_done == [0]


async def test_thousands_of_listeners_that_come_and_go_in_any_order_leave_nothing_behind() -> None:
    rng = random.Random(7)
    engine = FakeEngine(facts(step_s=0.2, max_batch=4))
    rules = Rules(engine_threads=2, max_queue=200, max_load=1e6)
    async with Dispatcher([unit(engine)], rules) as dispatcher:
        listeners: list[Listener] = []
        for number in range(3000):
            replaces = listeners.pop() if listeners and rng.random() < 0.2 else None
            listener = dispatcher.open(ListenerSpec(unit="fake", client=number % 7), Notes(), replaces)
            listeners.append(listener)
            for _ in range(rng.randint(0, 3)):
                text = rng.choice(["a", "some words", "bad start", "bad step", "long " * 9])
                dispatcher.submit(listener, request(text), 0.0)
            if rng.random() < 0.3:
                listener.finish_text()
            while len(listeners) > rng.randint(0, 40):
                dispatcher.close(listeners.pop(rng.randrange(len(listeners))))
            if rng.random() < 0.2:
                await asyncio.sleep(0)
        for listener in listeners:
            dispatcher.close(listener)
        await until(
            lambda: not (dispatcher.in_flight or dispatcher.open_streams or dispatcher.open_listeners)
        )
        assert dispatcher.queued == 0
        assert dispatcher.load == pytest.approx(0)
    for model in engine.models:
        assert model.open == set()
        assert model.unloaded


async def test_a_handler_that_raises_keeps_nobody_elses_audio_back() -> None:
    class Broken(Notes):
        def on_chunk(self, *_: object) -> None:
            raise RuntimeError("a fault of the session")

    engine = FakeEngine(facts(max_batch=2))
    async with Dispatcher([unit(engine)]) as dispatcher:
        with loop_faults() as faults:
            whole = Notes()
            for notes in (Broken(), whole):
                dispatcher.submit(dispatcher.open(SPEC, notes), request("abc"), 0.0)
            await whole.until_done(1)
    assert [str(fault) for fault in faults] == ["a fault of the session"]


async def test_after_a_load_the_cost_is_known_from_sentences_that_nobody_hears() -> None:
    engine = FakeEngine(facts(max_batch=2))
    clock = FakeTime(per_call_s=0.001)
    probed = unit(engine, probes=default_probes(engine.info, engine.facts))
    async with Dispatcher([probed], Rules(preload=("fake",)), now=clock) as dispatcher:
        await dispatcher.loaded("fake")
        status = dispatcher.status("fake")
        assert status.state == "ready"
        assert status.cost is not None
        assert 0 < status.cost < 0.01
        assert status.realtime
        assert dispatcher.max_streams > 80
    assert engine.models[0].open == set()
    assert max(len(texts) for texts in engine.models[0].steps()) == 2


async def test_a_model_that_cannot_say_its_probe_isnt_taken_for_loaded() -> None:
    engine = FakeEngine(facts())
    async with Dispatcher([unit(engine, probes=(request("bad step"),))]) as dispatcher:
        with pytest.raises(EngineUnavailable, match="can't go on"):
            await dispatcher.loaded("fake")
    assert engine.models[0].unloaded


async def test_units_of_different_devices_have_lanes_of_their_own() -> None:
    gate = Gate()
    slow, fast = FakeEngine(facts(), on_step=gate), FakeEngine(facts())
    async with Dispatcher([unit(slow, name="slow", device="cuda"), unit(fast, name="fast")]) as dispatcher:
        held, free = Notes(), Notes()
        dispatcher.submit(dispatcher.open(ListenerSpec(unit="slow"), held), request("a"), 0.0)
        gate.reached.acquire()
        dispatcher.submit(dispatcher.open(ListenerSpec(unit="fast"), free), request("b"), 0.0)
        await free.until_done(1)
        gate.opened.set()
        await held.until_done(1)


async def test_leaving_ends_the_lanes_threads() -> None:
    before = threading.active_count()
    async with Dispatcher([unit(FakeEngine(facts()))], Rules(engine_threads=3)) as dispatcher:
        notes = Notes()
        dispatcher.submit(dispatcher.open(SPEC, notes), request("a"), 0.0)
        await notes.until_done(1)
        assert len([one for one in threading.enumerate() if one.name.startswith("lane-")]) == 3
    assert not [one for one in threading.enumerate() if one.name.startswith("lane-")]
    assert threading.active_count() <= before + 1, "a worker that anyio keeps for its next call"


async def test_what_is_still_speaking_when_the_server_leaves_is_closed_before_its_model_is_unloaded() -> None:
    engine = FakeEngine(facts(step_s=0.1))
    async with Dispatcher([unit(engine)]) as dispatcher:
        notes = Notes()
        dispatcher.submit(
            dispatcher.open(ListenerSpec(unit="fake", lead_s=0.5), notes), request("x" * 50), 0.0
        )
        await notes.until_samples(500)
    assert engine.models[0].open == set()
    assert [kind for kind, _ in engine.models[0].events[-2:]] == ["close", "unload"]


class FakeTime:
    """Moves when told to, or by a little at each look."""

    def __init__(self, per_call_s: float = 0.0) -> None:
        self.now_s = 1000.0
        self._per_call_s = per_call_s

    def __call__(self) -> float:
        self.now_s += self._per_call_s
        return self.now_s


async def serve_another(dispatcher: Dispatcher, notes: Notes) -> None:
    """Long enough for the lane to have looked at everybody."""
    notes.chunks.clear()
    listener = dispatcher.open(SPEC, notes)
    dispatcher.submit(listener, request("x"), 0.0)
    await notes.until_done(1)
    dispatcher.close(listener)


async def until(reached: Callable[[], bool]) -> None:
    """A lane makes it true."""
    async with asyncio.timeout(20):
        while not reached():  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0)


@contextmanager
def loop_faults() -> Iterator[list[BaseException]]:
    """What reaches the loop's last resort."""
    faults: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))
    try:
        yield faults
    finally:
        loop.set_exception_handler(None)
