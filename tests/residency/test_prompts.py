"""Prompts in memory: computed once, bounded, the least used let go, never a silent step down to no clone."""

import gc
import json
import time
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engines.contract import EngineError, Request, Samples, Source, Word
from engines.tone import ToneEngine, ToneModel, TonePrompt
from engines.tone_settings import ToneSettings
from residency.dispatcher import Dispatcher
from residency.listener import ListenerSpec, StepTiming
from residency.prompts import LivePrompts
from residency.units import Unit
from tests.fakes.prompts import RATE_HZ, MemoryPrompts
from tests.residency.handlers import Notes
from voices.errors import VoiceMissing
from voices.reference import Clone, Reference

REQUEST = Request(text="one two three", language="en", voice="", speed=1.0)
REQUEST_S = 11 * 0.06 + 3 * 0.06


def model() -> ToneModel:
    return ToneEngine().load(Source(), "cpu")


def clone(frequency_hz: int) -> Clone:
    return Clone(str(frequency_hz), "audio")


def size_bytes(frequency_hz: float) -> int:
    return len(json.dumps({"frequency_hz": frequency_hz}))


def test_a_prompt_is_computed_once_and_then_in_memory() -> None:
    source = MemoryPrompts()
    prompts = LivePrompts(source, model(), max_bytes=1000)
    first = prompts.get(clone(300))
    assert first.frequency_hz == 300
    assert prompts.get(clone(300)) is first
    assert source.asked == ["300"]
    assert json.loads(source.kept[clone(300)]) == {"frequency_hz": 300.0}


def test_s23_a_stored_one_is_restored_without_a_look_at_the_recording() -> None:
    source = MemoryPrompts(kept={clone(300): b'{"frequency_hz": 301}'})
    assert LivePrompts(source, model(), max_bytes=1000).get(clone(300)).frequency_hz == 301
    assert source.asked == []


def test_a_stored_one_that_the_engine_cannot_use_is_computed_again() -> None:
    source = MemoryPrompts(kept={clone(300): b"{}"})
    assert LivePrompts(source, model(), max_bytes=1000).get(clone(300)).frequency_hz == 300
    assert json.loads(source.kept[clone(300)]) == {"frequency_hz": 300.0}


def test_s24_the_number_in_memory_is_bounded_and_the_least_used_goes() -> None:
    source = MemoryPrompts()
    prompts = LivePrompts(source, model(), max_bytes=2 * size_bytes(300.0))
    for frequency_hz in (300, 400, 300, 500, 300):
        prompts.get(clone(frequency_hz))
    assert len(prompts) == 2
    del source.kept[clone(400)]
    prompts.get(clone(300))
    assert source.asked == ["300", "400", "500"]
    prompts.get(clone(400))
    assert source.asked == ["300", "400", "500", "400"]


def test_fault_13_one_that_was_let_go_comes_back_from_the_store() -> None:
    source = MemoryPrompts()
    prompts = LivePrompts(source, model(), max_bytes=1)
    for frequency_hz in (300, 400, 300):
        assert prompts.get(clone(frequency_hz)).frequency_hz == frequency_hz
        assert len(prompts) == 1
    assert source.asked == ["300", "400"]


def test_s24_the_recording_is_not_kept_in_memory() -> None:
    found: list[weakref.ref[Samples]] = []

    class Watched(MemoryPrompts):
        def reference(self, clone: Clone) -> Reference:
            reference = super().reference(clone)
            found.append(weakref.ref(reference.samples))
            return reference

    prompts = LivePrompts(Watched(), model(), max_bytes=1000)
    prompts.get(clone(300))
    gc.collect()
    assert found[0]() is None


def test_modes_are_prompts_of_their_own() -> None:
    source = MemoryPrompts()
    prompts = LivePrompts(source, model(), max_bytes=1000)
    prompts.get(clone(300))
    with pytest.raises(EngineError, match="transcript"):
        prompts.get(Clone("300", "audio+text"))
    assert list(source.kept) == [clone(300)]


def test_without_a_source_an_uploaded_voice_is_an_error() -> None:
    with pytest.raises(EngineError, match="no voice '300'"):
        LivePrompts(None, model(), max_bytes=1000).get(clone(300))


# On a lane ------------------------------------------------------------------------------------------------------


class Ear(Notes):
    """Keeps the samples, too."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Samples] = []

    def on_chunk(
        self, job: int, samples: Samples, words: tuple[Word, ...], last: bool, timing: StepTiming
    ) -> None:
        self.heard.append(samples)
        super().on_chunk(job, samples, words, last, timing)

    @property
    def frequency_hz(self) -> float:
        heard = np.concatenate(self.heard)
        return float(np.abs(np.fft.rfft(heard)).argmax() * RATE_HZ / heard.size)


def unit(source: MemoryPrompts, engine: ToneEngine | None = None, **settings: Any) -> Unit:
    engine = engine or ToneEngine()
    made_of = Source(settings=settings)
    return Unit(
        name="tone",
        engine=engine,
        source=made_of,
        device="cpu",
        facts=engine.identify(made_of),
        prompts=source,
    )


def spec(frequency_hz: int) -> ListenerSpec:
    return ListenerSpec(unit="tone", clone=clone(frequency_hz))


async def test_an_utterance_speaks_with_its_clone_in_every_segment() -> None:
    source = MemoryPrompts()
    async with Dispatcher([unit(source)]) as dispatcher:
        ear = Ear()
        listener = dispatcher.open(spec(700), ear)
        for _ in range(3):
            dispatcher.submit(listener, REQUEST, 0.0)
        await ear.until_done(3)
    assert ear.frequency_hz == pytest.approx(700, abs=3)
    assert source.asked == ["700"]


async def test_clones_and_the_engines_own_voices_share_a_batch() -> None:
    source = MemoryPrompts()
    async with Dispatcher([unit(source, max_batch=4, step_ms=20)]) as dispatcher:
        ears = {frequency_hz: Ear() for frequency_hz in (600, 700, 800)}
        for frequency_hz, ear in ears.items():
            dispatcher.submit(dispatcher.open(spec(frequency_hz), ear), REQUEST, 0.0)
        own = Ear()
        dispatcher.submit(dispatcher.open(ListenerSpec(unit="tone"), own), replace(REQUEST, voice="a4"), 0.0)
        for ear in (*ears.values(), own):
            await ear.until_done(1)
    for frequency_hz, ear in {**ears, 440: own}.items():
        assert ear.frequency_hz == pytest.approx(frequency_hz, abs=3)


async def test_fault_27_a_clone_that_fails_fails_and_the_others_go_on() -> None:
    source = MemoryPrompts(missing={"700"})
    async with Dispatcher([unit(source, max_batch=4)]) as dispatcher:
        lost, broken, fine = Ear(), Ear(), Ear()
        dispatcher.submit(dispatcher.open(spec(700), lost), REQUEST, 0.0)
        needs_text = ListenerSpec(unit="tone", clone=Clone("800", "audio+text"))
        dispatcher.submit(dispatcher.open(needs_text, broken), REQUEST, 0.0)
        dispatcher.submit(dispatcher.open(spec(600), fine), REQUEST, 0.0)
        await fine.until_done(1)
        await lost.until_failed()
        await broken.until_failed()
    assert isinstance(lost.failures[0][1], VoiceMissing)
    assert isinstance(broken.failures[0][1], EngineError)
    assert lost.heard == broken.heard == []
    assert fine.frequency_hz == pytest.approx(600, abs=3)


class Watched(ToneEngine):
    """Its prompts can be watched; they are seen to go when the model is unloaded."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[weakref.ref[Any]] = []
        self.alive_at_unload: list[bool] = []

    def load(self, source: Source, device: str) -> ToneModel:
        watched = self

        class Prompt(TonePrompt):
            __slots__ = ("__weakref__",)

        class Model(ToneModel):
            def restore(self, prompt: bytes) -> TonePrompt:
                made = Prompt(super().restore(prompt).frequency_hz)
                watched.prompts.append(weakref.ref(made))
                return made

            def unload(self) -> None:
                gc.collect()
                watched.alive_at_unload.append(watched.prompts[0]() is not None)
                super().unload()

        return Model(ToneSettings.from_source(source), lambda _: None)


async def test_s30_prompts_leave_memory_before_their_model_and_stay_in_the_store() -> None:
    source, engine = MemoryPrompts(), Watched()
    async with Dispatcher([unit(source, engine)]) as dispatcher:
        ear = Ear()
        dispatcher.submit(dispatcher.open(spec(700), ear), REQUEST, 0.0)
        await ear.until_done(1)
    assert engine.alive_at_unload == [False]
    assert list(source.kept) == [clone(700)]


async def test_what_a_prompt_takes_is_no_cost_of_speech() -> None:
    """A step is foretold by those before it; a prompt isn't made again."""

    class Slow(MemoryPrompts):
        def reference(self, clone: Clone) -> Reference:
            began_s = time.monotonic()
            while time.monotonic() < began_s + 0.2:
                pass
            return super().reference(clone)

    async with Dispatcher([unit(Slow())]) as dispatcher:
        ear = Ear()
        dispatcher.submit(dispatcher.open(spec(700), ear), REQUEST, 0.0)
        await ear.until_done(1)
        status = dispatcher.status("tone")
    assert status.cost is not None
    assert status.cost * REQUEST_S < 0.1
