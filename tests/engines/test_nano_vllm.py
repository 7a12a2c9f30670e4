"""nano-vllm-voxcpm's host program with `tone` behind it: no proof of the library, which needs an NVIDIA card."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from engines.contract import EngineError, EngineUnavailable, ModelLost, OptionError, Request, Source
from engines.hosted import HostedEngine
from engines.nano_vllm_model import NanoModel
from engines.nano_vllm_settings import NanoOptions, NanoSettings
from engines.nano_vllm_voxcpm import engine as real_engine
from engines.voxcpm_settings import DESIGN
from tests.engines.contract_suite import EngineContract
from tests.engines.hosted_suite import HostedFakeContract
from tests.engines.speaking import finish, speak, speak_together, step
from tests.fakes.tone_pool import ToneNano, TonePool
from tests.fakes.tone_pool import engine as tone_engine
from voices.reference import Reference

ROOT = Path(__file__).parents[2]
SAID = "la la la"


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = tmp_path_factory.mktemp("nano")
    (folder / "config.json").write_text(json.dumps({"architecture": "voxcpm2"}), "utf-8")
    (folder / "model.safetensors").write_bytes(b"weights")
    return Source(path=str(folder), settings={"max_open": 4})


@pytest.fixture
def loaded(source: Source) -> Iterator[tuple[NanoModel, TonePool]]:
    model, pools = tone_engine.load_tone(source)
    yield model, pools[0]
    model.unload()


def request(text: str = "one two three", **changes: Any) -> Request:
    values: dict[str, Any] = {"seed": 7, "voice": DESIGN}
    return Request(text=text, language="en", **(values | changes))


def recording(frequency_hz: float, transcript: str | None = None) -> Reference:
    seconds = np.arange(24000) / 24000
    samples = np.sin(2 * np.pi * frequency_hz * seconds).astype(np.float32) * 0.5
    return Reference(samples, 24000, transcript, None)


def frequency_hz(samples: Any) -> float:
    """Of a second of it."""
    return float(np.abs(np.fft.rfft(samples[:48000])).argmax())


class TestToneNano(EngineContract):
    engine = tone_engine
    most_odd_chars: ClassVar[int] = 40

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def tiny(cls, source: Source) -> None:
        cls.source = source


class TestHostedToneNano(HostedFakeContract):
    """In a child process, as it is meant to run."""

    engine: ClassVar[HostedEngine] = HostedEngine(
        ToneNano(), "tests.fakes.tone_pool:engine", python=sys.executable
    )


def test_the_library_makes_all_of_them_at_once(loaded: tuple[NanoModel, TonePool]) -> None:
    model, pool = loaded
    pool.wanted = 4
    requests = [request(f"one two three {word}") for word in ("four", "five", "six", "seven")]
    together = speak_together(model, requests, batch=4)
    assert pool.running == 0
    for each, asked in zip(together, requests, strict=True):
        np.testing.assert_array_equal(each.samples, speak(model, asked).samples)
    with pytest.raises(EngineError, match="for 4 at once"):
        [model.start(request(), None) for _ in range(5)]


def test_a_cancelled_stream_is_cancelled_in_the_library(loaded: tuple[NanoModel, TonePool]) -> None:
    model, pool = loaded
    stream = model.start(request("one two three four five six seven " * 20), None)
    step(model, stream)
    model.close(stream)
    # What comes after it on the library's loop finds it gone.
    assert speak(model, request()).samples.size
    assert pool.running == 0


def test_an_error_of_the_librarys_process_is_its_last_line_and_fails_one_stream(
    loaded: tuple[NanoModel, TonePool],
) -> None:
    model, _ = loaded
    good, bad = model.start(request(), None), model.start(request("this is too long"), None)
    with pytest.raises(EngineError, match=r"^ValueError: the text is too long$"):
        finish(model, bad)
    assert finish(model, good).samples.size


def test_the_end_of_the_librarys_process_is_the_models(loaded: tuple[NanoModel, TonePool]) -> None:
    model, _ = loaded
    with pytest.raises(ModelLost, match="exit code -9"):
        speak(model, request("it dies here"))


def test_a_lost_model_is_lost_for_the_server_too(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    hosted = HostedEngine(ToneNano(), "tests.fakes.tone_pool:engine")
    model = hosted.load(source, "cuda")
    with pytest.raises(ModelLost, match="exit code -9"):
        speak(model, request("it dies here"))
    model.unload()


def test_s16_s23_prompts_are_kept_as_json_and_a_tone_is_gone_on_from(
    loaded: tuple[NanoModel, TonePool],
) -> None:
    model, _ = loaded
    alone = model.prepare(recording(330), "audio")
    assert set(json.loads(alone)) == {"reference", "prompt", "text"}
    assert json.loads(alone)["prompt"] is None
    text = "a" * 30
    assert frequency_hz(speak(model, request(text), model.restore(alone)).samples) == pytest.approx(
        330, abs=1
    )
    toned = model.prepare(replace(recording(330), tone=recording(440, SAID)), "audio")
    assert json.loads(toned)["text"] == SAID
    assert frequency_hz(speak(model, request(text), model.restore(toned)).samples) == pytest.approx(
        440, abs=1
    )


def test_with_a_transcript_it_goes_on_and_the_reference_is_a_setting(source: Source) -> None:
    for with_text, has_reference in (("ultimate", True), ("continuation", False)):
        model, _ = tone_engine.load_tone(Source(path=source.path, settings={"with_text": with_text}))
        made = json.loads(model.prepare(recording(330, SAID), "audio+text"))
        assert (made["reference"] is not None) == has_reference
        assert made["text"] == SAID
        model.unload()


def test_s12_s13_what_cannot_be_is_refused(loaded: tuple[NanoModel, TonePool]) -> None:
    model, _ = loaded
    with pytest.raises(EngineError, match="needs the transcript"):
        model.prepare(recording(330), "audio+text")
    with pytest.raises(EngineError, match="empty"):
        model.prepare(Reference(np.zeros(0, np.float32), 24000, None, None), "audio")
    prompt = model.restore(model.prepare(recording(330, SAID), "audio+text"))
    with pytest.raises(OptionError, match="takes no instruction") as refused:
        model.start(request(options=NanoOptions(instruct="whispering")), prompt)
    assert refused.value.param == "instruct"
    for damaged in (b"", b"{}", b'{"reference": null, "prompt": null, "text": ""}'):
        with pytest.raises(EngineError, match="can't be read"):
            model.restore(damaged)


def test_unloading_ends_the_pool_and_the_thread(source: Source) -> None:
    model, pools = tone_engine.load_tone(source)
    stream = model.start(request("one two three " * 20), None)
    step(model, stream)
    model.unload()
    assert pools[0].stopped
    assert pools[0].running == 0
    assert not model._loop._thread.is_alive()
    model.unload()


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"cfg_value": 0}, "cfg_value"),
        ({"temperature": 3}, "temperature"),
        ({"max_len": 0}, "max_len"),
        ({"instruct": "a)"}, "instruct"),
    ],
)
def test_s13_an_option_out_of_range_is_refused_by_its_name(options: dict[str, Any], param: str) -> None:
    with pytest.raises(OptionError) as refused:
        NanoOptions(**options)
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"with_text": "x"}, "with_text"),
        ({"inference_timesteps": 0}, "inference_timesteps"),
        ({"max_open": 0}, "max_open"),
        ({"gpu_memory_utilization": 2}, "gpu_memory_utilization"),
        ({"devices": []}, "devices"),
        ({"devices": "0"}, "devices"),
        ({"devices": [-1]}, "devices"),
        ({"enforce_eager": 1}, "enforce_eager"),
        ({"voices": {"design": "/x.wav"}}, "voices"),
        ({"x": 1}, "x"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(settings: dict[str, Any], param: str) -> None:
    with pytest.raises(OptionError) as refused:
        NanoSettings.from_source(Source(settings=settings))
    assert refused.value.param == param


def test_facts_are_the_checkpoints_and_what_shapes_the_sound_is_another(source: Source) -> None:
    facts = real_engine.identify(source)
    assert (facts.sample_rate_hz, facts.step_s, facts.max_open, facts.max_batch) == (48000, 0.16, 4, 4)
    assert (facts.max_chars, facts.max_sentences) == (80, 3)
    steps = Source(path=source.path, settings={"inference_timesteps": 4})
    assert real_engine.identify(steps).checkpoint != facts.checkpoint
    many = Source(path=source.path, settings={"max_open": 64})
    assert real_engine.identify(many).checkpoint == facts.checkpoint


def test_without_its_library_or_a_card_it_says_so(source: Source) -> None:
    with pytest.raises(EngineUnavailable, match="on an NVIDIA card alone"):
        real_engine.load(source, "cpu")
    with pytest.raises(EngineUnavailable, match="can't be imported"):
        real_engine.load(source, "cuda")
