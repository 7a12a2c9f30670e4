import threading

import pytest

from engines.contract import EngineError, EngineUnavailable
from residency.dispatcher import Dispatcher
from residency.errors import UnknownUnit
from residency.listener import ListenerSpec
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
    assert isinstance(broken.failures[0][1], EngineError)


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
