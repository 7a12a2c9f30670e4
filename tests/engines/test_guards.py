from typing import Any

import numpy as np
import pytest

from engines.contract import EngineError, Facts, Info, Request, Source
from engines.guards import Guarded, lengths
from engines.tone import ToneEngine
from engines.tone_settings import ToneOptions
from tests.engines.speaking import Spoken, speak, step

TEXT = "the quick brown fox jumps over the lazy dog"


def guarded(**settings: Any) -> Guarded[Any, Any]:
    engine = ToneEngine(lambda _: None)
    source = Source(settings={"faults": True, **settings})
    return Guarded(engine.load(source, "cpu"), engine.identify(source), engine.info)


def request(text: str = TEXT, seed: int = 1, **options: Any) -> Request:
    return Request(text=text, language="en", voice="tone", seed=seed, options=ToneOptions(**options))


def same_sound(one: Spoken, other: Spoken) -> bool:
    return np.array_equal(one.samples, other.samples)


def test_sound_speech_passes_as_it_is() -> None:
    model = guarded()
    plain = speak(ToneEngine().load(Source(), "cpu"), request())
    assert same_sound(speak(model, request()), plain)
    assert speak(model, request()).words == plain.words


def test_samples_that_are_not_numbers_fail_their_stream_alone() -> None:
    model = guarded(step_ms=100, max_batch=2)
    faulty, sound = model.start(request(fault="nan", at_step=1), None), model.start(request(), None)
    model.step([faulty, sound])
    bad, good = model.step([faulty, sound])
    assert isinstance(bad, EngineError)
    assert not isinstance(good, EngineError)
    assert good.samples.size
    assert model.counts.not_finite == 1
    (after,) = model.step([faulty])
    assert isinstance(after, EngineError)


def test_samples_beyond_full_scale_are_clamped_and_counted() -> None:
    model = guarded()
    assert np.abs(speak(model, request(fault="beyond")).samples).max() == 1
    assert model.counts.clamped_chunks == 1


def test_no_sound_for_a_speakable_text_is_an_error() -> None:
    model = guarded()
    with pytest.raises(EngineError, match="no sound"):
        speak(model, request(fault="nothing"))
    assert model.counts.silent == 1


@pytest.mark.parametrize("text", ["...", "—", "😀", ""])
def test_no_sound_for_a_text_without_letters_is_no_error(text: str) -> None:
    assert speak(guarded(), request(text)).samples.size == 0


def with_scripts(*scripts: str) -> Guarded[Any, Any]:
    engine = ToneEngine()
    info = engine.info
    known = {name: getattr(info, name) for name in Info.__dataclass_fields__}
    return Guarded(
        engine.load(Source(settings={"faults": True}), "cpu"),
        engine.identify(Source()),
        Info(**(known | {"scripts": frozenset(scripts)})),
    )


def test_no_sound_for_letters_that_the_engine_cannot_speak_is_no_error() -> None:
    model = with_scripts("Latin")
    assert speak(model, request("你好", fault="nothing")).samples.size == 0
    with pytest.raises(EngineError):
        speak(model, request("你好 hello", fault="nothing"))


def test_almost_no_audio_for_a_long_text_is_an_error() -> None:
    model = guarded()
    with pytest.raises(EngineError, match="lost its text"):
        speak(model, request(fault="collapse"))
    assert model.counts.collapsed == 1


def test_almost_no_audio_for_a_short_text_is_fine() -> None:
    assert speak(guarded(), request("Oh.", fault="collapse")).samples.size


@pytest.mark.parametrize("fault", ["collapse", "nothing", "nan", "runaway"])
def test_a_bad_take_is_taken_again_once_with_another_seed(fault: str) -> None:
    model = guarded(sampling=True)
    result = speak(model, request(fault=fault, only_seed=1))
    assert model.counts.second_takes == 1
    assert result.samples.size > 24000
    assert same_sound(result, speak(model, request(fault=fault, only_seed=1)))
    assert not same_sound(result, speak(model, request()))
    assert result.words == speak(model, request()).words


def test_a_second_bad_take_is_an_error() -> None:
    model = guarded(sampling=True)
    with pytest.raises(EngineError, match="lost its text"):
        speak(model, request(fault="collapse"))
    assert model.counts.second_takes == 1


def test_a_bad_take_is_not_taken_again_once_it_was_heard() -> None:
    model = guarded(sampling=True, step_ms=100)
    with pytest.raises(EngineError, match="numbers"):
        speak(model, request(fault="nan", at_step=3, only_seed=1))
    assert model.counts.second_takes == 0


def test_a_bad_take_of_an_engine_that_does_not_sample_is_not_taken_again() -> None:
    model = guarded()
    with pytest.raises(EngineError):
        speak(model, request(fault="collapse", only_seed=1))
    assert model.counts.second_takes == 0


def test_an_engine_that_does_not_stop_is_stopped() -> None:
    model = guarded(step_ms=500)
    stream = model.start(request(fault="runaway"), None)
    most_steps = int(lengths(TEXT, 1).most_s / 0.5)
    for _ in range(most_steps):
        step(model, stream)
    with pytest.raises(EngineError, match="didn't stop"):
        step(model, stream)
    assert model.counts.runaways == 1


def test_what_is_said_after_a_long_gap_is_cut_where_the_engine_samples() -> None:
    model = guarded(sampling=True, step_ms=200)
    result = speak(model, request(fault="silence_inside"))
    sound = speak(guarded(sampling=True, step_ms=200), request())
    np.testing.assert_array_equal(result.samples[: sound.samples.size], sound.samples)
    assert result.samples.size - sound.samples.size < 0.35 * 24000
    assert model.counts.gaps_cut == 1
    assert speak(guarded(), request(fault="silence_inside")).samples.size > sound.samples.size + 3 * 24000


def test_seconds_of_silence_at_the_end_become_a_pause() -> None:
    plain = speak(guarded(), request()).samples
    long = speak(guarded(step_ms=100), request(fault="silent_tail")).samples
    assert plain.size < long.size < plain.size + 0.35 * 24000


def test_an_error_of_the_engine_is_passed_on_and_closes_its_stream() -> None:
    model = guarded(sampling=True, max_open=1)
    with pytest.raises(EngineError, match="told to fail"):
        speak(model, request(fault="raise"))
    assert speak(model, request()).samples.size


def test_a_stream_that_grows_is_measured_by_all_its_text() -> None:
    model = guarded(grows=True, step_ms=100)
    stream = model.start(Request(text="a ", language="en", voice="tone", last=False), None)
    step(model, stream)
    model.extend(stream, "word " * 60, last=True)
    made = 0
    while True:
        chunk = step(model, stream)
        made += chunk.samples.size
        if chunk.last:
            break
    assert made > lengths("a", 1).most_s * 24000


def test_closing_twice_is_the_same_as_once() -> None:
    model = guarded(max_open=1)
    stream = model.start(request(), None)
    model.close(stream)
    model.close(stream)
    assert speak(model, request()).samples.size


@pytest.mark.parametrize(
    ("text", "speed", "spoken_s"),
    [
        # How long people and engines take: a fast and a slow reading of each.
        ("Huh?", 1, (0.2, 1.0)),
        ("It costs £1,234.56.", 1, (2.0, 5.0)),
        ("The quick brown fox jumps over the lazy dog.", 1, (1.8, 4.5)),
        ("The quick brown fox jumps over the lazy dog.", 2, (0.9, 2.3)),
        ("今日はとても良い天気ですね。", 1, (1.5, 4.0)),
        ("Donaudampfschifffahrtsgesellschaftskapitän", 1, (1.8, 4.0)),
        ("1" * 30, 1, (6, 18)),
        ("a" * 400, 1, (0.5, 90)),
    ],
)
def test_the_bounds_hold_what_people_say(text: str, speed: float, spoken_s: tuple[float, float]) -> None:
    bounds = lengths(text, speed)
    assert bounds.least_s <= spoken_s[0]
    assert spoken_s[1] <= bounds.most_s


def test_facts_tell_whether_another_take_is_worth_it() -> None:
    assert ToneEngine().identify(Source(settings={"sampling": True})).sampling
    assert not Facts(checkpoint="x", sample_rate_hz=24000).sampling
