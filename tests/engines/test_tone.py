import threading
from typing import ClassVar

import numpy as np
import pytest

from engines.contract import EngineError, EngineUnavailable, OptionError, Request, Source
from engines.tone import ToneEngine, ToneModel
from engines.tone_settings import FAULTS, ToneOptions
from tests.engines.contract_suite import EngineContract
from tests.engines.speaking import speak, step
from voices.reference import Reference


class TestPlain(EngineContract):
    engine = ToneEngine()


class TestInSteps(EngineContract):
    engine = ToneEngine()
    source: ClassVar[Source] = Source(settings={"step_ms": 80})


class TestBatchesAndGrows(EngineContract):
    engine = ToneEngine()
    source: ClassVar[Source] = Source(
        settings={"step_ms": 80, "max_batch": 4, "grows": True, "sample_rate_hz": 48000}
    )


class TestOneAtATime(EngineContract):
    engine = ToneEngine()
    source: ClassVar[Source] = Source(settings={"step_ms": 160, "max_open": 1, "sampling": True})


class SleepNotes:
    """Notes how long it was asked to sleep, and doesn't."""

    def __init__(self) -> None:
        self.slept_s: list[float] = []

    def __call__(self, duration_s: float) -> None:
        self.slept_s.append(duration_s)


def load(sleep: SleepNotes | None = None, **settings: object) -> ToneModel:
    return ToneEngine(sleep or SleepNotes()).load(Source(settings=settings), "cpu")


def request(text: str = "one two three", voice: str = "a4", **options: object) -> Request:
    return Request(text=text, language="en", voice=voice, options=ToneOptions(**options))  # type: ignore[arg-type]


def strongest_hz(samples: np.ndarray, rate_hz: int) -> float:
    return float(np.abs(np.fft.rfft(samples)).argmax()) * rate_hz / samples.size


def test_a_voice_has_its_frequency() -> None:
    samples = speak(load(), request("aaaaaaaaaaaaaaaaaaaa")).samples
    assert strongest_hz(samples, 24000) == pytest.approx(440, abs=1)


def test_the_default_voice_tells_requests_apart() -> None:
    model = load()
    found = {
        round(strongest_hz(speak(model, request(f"{'a' * 20}{n}", "tone")).samples, 24000)) for n in range(20)
    }
    assert len(found) > 15


def test_a_character_lasts_60_ms_and_so_does_a_gap() -> None:
    result = speak(load(), request("one three"))
    assert result.words == ((0, 3, 0, 4320), (4, 9, 5760, 12960))
    assert result.samples.size == 14400


def test_steps_have_the_length_that_was_set() -> None:
    result = speak(load(step_ms=80), request())
    assert {chunk.samples.size for chunk in result.chunks[:-1]} == {1920}
    np.testing.assert_array_equal(result.samples, speak(load(), request()).samples)


def test_compute_time_is_the_cost_times_the_audio_shared_by_a_batch() -> None:
    sleep = SleepNotes()
    model = load(sleep, cost=0.5, step_ms=100, max_batch=2, first_step_s=1)
    streams = [model.start(request(), None) for _ in range(2)]
    model.step(streams)
    model.step(streams)
    assert sleep.slept_s == [pytest.approx(1.05), pytest.approx(0.05)]


def test_a_cloned_voice_has_the_frequency_of_its_recording() -> None:
    model = load()
    recording = np.sin(2 * np.pi * 330 * np.arange(16000) / 16000).astype(np.float32)
    prompt = model.restore(model.prepare(Reference(recording, 16000, None, None), "audio"))
    samples = speak(model, request("aaaaaaaaaaaaaaaaaaaa"), prompt).samples
    assert strongest_hz(samples, 24000) == pytest.approx(330, abs=1)


def test_cloning_with_text_needs_the_transcript() -> None:
    with pytest.raises(EngineError, match="transcript"):
        load().prepare(Reference(np.ones(100, np.float32), 16000, None, None), "audio+text")


def test_more_streams_than_it_takes_are_refused() -> None:
    model = load(max_open=1)
    stream = model.start(request(), None)
    with pytest.raises(EngineError, match="1 open"):
        model.start(request(), None)
    model.close(stream)
    model.start(request(), None)


def test_only_the_thread_that_loaded_it_may_use_it() -> None:
    model = load()
    caught: list[Exception] = []

    def trespass() -> None:
        try:
            model.start(request(), None)
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=trespass)
    thread.start()
    thread.join()
    assert "thread" in str(caught[0])


def test_it_is_not_used_after_its_unload() -> None:
    model = load()
    model.unload()
    with pytest.raises(RuntimeError, match="unload"):
        model.start(request(), None)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"costs": 1}, "costs"),
        ({"cost": -1}, "cost"),
        ({"cost": "much"}, "cost"),
        ({"step_ms": 0}, "step_ms"),
        ({"step_ms": True}, "step_ms"),
        ({"max_batch": 1.5}, "max_batch"),
        ({"max_batch": 0}, "max_batch"),
        ({"grows": "yes"}, "grows"),
        ({"sample_rate_hz": 4000}, "sample_rate_hz"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, object], named: str) -> None:
    with pytest.raises(OptionError) as caught:
        ToneEngine().identify(Source(settings=settings))
    assert caught.value.param == named


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"fault": "fire"}, "fault"),
        ({"at_step": -1}, "at_step"),
        ({"at_step": True}, "at_step"),
        ({"stall_s": 1e9}, "stall_s"),
        ({"only_seed": "x"}, "only_seed"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], named: str) -> None:
    with pytest.raises(OptionError) as caught:
        ToneOptions(**options)  # type: ignore[arg-type]
    assert caught.value.param == named


@pytest.mark.parametrize("fault", FAULTS)
def test_a_client_cannot_ask_for_a_fault_unless_the_operator_allowed_it(fault: str) -> None:
    with pytest.raises(OptionError, match="faults"):
        load().start(request(fault=fault), None)


def test_failing_at_a_step_leaves_the_others_of_the_batch_alone() -> None:
    model = load(faults=True, step_ms=50, max_batch=2)
    sound, faulty = model.start(request(), None), model.start(request(fault="raise", at_step=1), None)
    assert [type(result).__name__ for result in model.step([sound, faulty])] == ["Chunk", "Chunk"]
    assert [type(result).__name__ for result in model.step([faulty, sound])] == ["EngineError", "Chunk"]


def test_each_fault_is_what_it_says() -> None:
    sleep = SleepNotes()
    model = load(sleep, faults=True)
    with pytest.raises(EngineError):
        model.start(request(fault="raise_at_start"), None)
    whole = speak(model, request()).samples
    assert np.isnan(speak(model, request(fault="nan")).samples).any()
    assert np.abs(speak(model, request(fault="beyond")).samples).max() > 1
    assert speak(model, request(fault="nothing")).samples.size == 0
    assert 0 < speak(model, request(fault="collapse")).samples.size < 2400
    assert speak(model, request(fault="runaway")).samples.size > 100 * 24000
    assert speak(model, request(fault="silent_tail")).samples.size == whole.size + 5 * 24000
    assert speak(model, request(fault="silence_inside")).samples.size > whole.size + 3 * 24000
    speak(model, request(fault="stall", stall_s=3))
    assert sleep.slept_s == [3]


def test_a_fault_can_be_in_the_take_of_one_seed_alone() -> None:
    model = load(faults=True)
    assert speak(model, request(fault="nothing", only_seed=1)).samples.size
    assert not speak(model, request(fault="nothing", only_seed=0)).samples.size


def test_loading_takes_as_long_as_was_set_and_fails_when_told_to() -> None:
    sleep = SleepNotes()
    load(sleep, load_s=2)
    assert sleep.slept_s == [2]
    with pytest.raises(EngineUnavailable):
        load(fails_to_load=True)


def test_unloading_fails_when_told_to() -> None:
    with pytest.raises(RuntimeError):
        load(fails_to_unload=True).unload()


def test_a_stream_waits_for_more_text_without_ending() -> None:
    model = load(grows=True)
    stream = model.start(Request(text="one ", language="en", voice="a4", last=False), None)
    step(model, stream)
    waiting = step(model, stream)
    assert (waiting.samples.size, waiting.last) == (0, False)
    model.extend(stream, "two", last=True)
    assert step(model, stream).last
