"""CosyVoice's host program with `tone` behind it: no proof of the library, whose checkpoints can't be made small."""

import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

WHY = "PyTorch isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("safetensors", reason=WHY)

from engines.contract import EngineError, EngineUnavailable, OptionError, Request, Source  # noqa: E402
from engines.cosyvoice_library import is_talker  # noqa: E402
from engines.cosyvoice_model import CosyvoiceModel  # noqa: E402
from engines.cosyvoice_settings import CosyvoiceOptions  # noqa: E402
from engines.hosted import HostedEngine  # noqa: E402
from tests.engines.contract_suite import EngineContract  # noqa: E402
from tests.engines.cosyvoice_folders import make_folders  # noqa: E402
from tests.engines.hosted_suite import HostedFakeContract  # noqa: E402
from tests.engines.speaking import finish, speak, step  # noqa: E402
from tests.fakes.tone_cosyvoice import HOP_TOKENS, RATE_HZ, TOKEN_SAMPLES, ToneCosyvoice  # noqa: E402
from tests.fakes.tone_cosyvoice import engine as tone_engine  # noqa: E402
from voices.reference import Reference  # noqa: E402

ROOT = Path(__file__).parents[2]
SAID = "la la la"


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return make_folders(tmp_path_factory.mktemp("cosyvoice"), 2)


@pytest.fixture
def model(source: Source) -> Iterator[CosyvoiceModel]:
    model = tone_engine.load_tone(source)
    yield model
    model.unload()


def request(text: str = "one two three", voice: str = "anna", **changes: Any) -> Request:
    values: dict[str, Any] = {"seed": 7}
    return Request(text=text, language="en", voice=voice, **(values | changes))


def recording(
    frequency_hz: float, transcript: str | None = None, rate_hz: int = 24000, seconds: float = 1
) -> Reference:
    times_s = np.arange(round(rate_hz * seconds)) / rate_hz
    samples = np.sin(2 * np.pi * frequency_hz * times_s).astype(np.float32) * 0.5
    return Reference(samples, rate_hz, transcript, None)


def talkers() -> int:
    return sum(is_talker(thread) for thread in threading.enumerate())


class TestToneCosyvoice(EngineContract):
    engine = tone_engine
    most_odd_chars: ClassVar[int] = 40

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def tiny(cls, source: Source) -> None:
        cls.source = source


class TestHostedToneCosyvoice(HostedFakeContract):
    """In a child process, as it is meant to run."""

    engine: ClassVar[HostedEngine] = HostedEngine(
        ToneCosyvoice(), "tests.fakes.tone_cosyvoice:engine", python=sys.executable
    )


# The library's habits -----------------------------------------------------------------------------------------------


def test_each_utterance_begins_with_a_short_step_whatever_was_spoken_before(model: CosyvoiceModel) -> None:
    for _ in range(3):
        stream = model.start(request("one two three four five six seven"), None)
        sizes = [chunk.samples.size for chunk in (step(model, stream), *finish(model, stream).chunks)]
        assert sizes[:3] == [HOP_TOKENS * TOKEN_SAMPLES * part for part in (1, 2, 4)]


def test_a_cancelled_utterance_leaves_no_thread_and_no_table(model: CosyvoiceModel) -> None:
    network = model._library.model
    network.slow.set()
    stream = model.start(request("one two three four five six seven"), None)
    step(model, stream)
    assert talkers() == 1
    model.close(stream)
    network.slow.clear()
    assert talkers() == 0
    assert not network.tts_speech_token_dict
    assert not network.llm_end_dict
    assert not network.hift_cache_dict
    assert "the one that speaks" not in model._library.frontend.spk2info
    assert speak(model, request()).samples.size


def test_a_thread_that_is_told_to_end_says_nothing_and_any_other_is_heard(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", heard.append)
    model = tone_engine.load_tone(source)
    model._library.model.slow.set()
    stream = model.start(request("one two three four five six seven"), None)
    step(model, stream)
    model.close(stream)
    assert heard == []
    failing = threading.Thread(target=dict[str, int]().__getitem__, args=("x",))
    failing.start()
    failing.join()
    assert len(heard) == 1
    model.unload()
    assert threading.excepthook == heard.append


def test_a_second_stream_is_refused_until_the_first_is_closed(model: CosyvoiceModel) -> None:
    first = model.start(request(), None)
    step(model, first)
    with pytest.raises(EngineError, match="one segment at a time"):
        model.start(request(), None)
    model.close(first)
    assert speak(model, request()).samples.size


# What it is asked for -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("generation", [1, 2, 3])
def test_each_mode_is_one_of_the_librarys_calls(tmp_path: Path, generation: int) -> None:
    model = tone_engine.load_tone(make_folders(tmp_path, generation))
    said = model._library.said
    told = {1: SAID, 2: SAID, 3: f"You are a helpful assistant.<|endofprompt|>{SAID}"}[generation]
    alone = {1: "<|en|>one", 2: "one", 3: "You are a helpful assistant.<|endofprompt|>one"}[generation]
    with_text = model.restore(model.prepare(recording(330, SAID), "audio+text"))
    without = model.restore(model.prepare(recording(330, SAID), "audio"))
    speak(model, request("one"))
    assert said[-1] == ("sft", "one", "anna")
    speak(model, request("one"), with_text)
    assert said[-1] == ("zero_shot", "one", told)
    speak(model, request("one"), without)
    assert said[-1][:2] == ("cross_lingual", alone)
    model.unload()


@pytest.mark.parametrize(
    ("generation", "told"),
    [(2, "whispering<|endofprompt|>"), (3, "You are a helpful assistant. whispering<|endofprompt|>")],
)
def test_an_instruction_takes_the_place_of_the_words_that_are_kept_of_a_voice(
    tmp_path: Path, generation: int, told: str
) -> None:
    model = tone_engine.load_tone(make_folders(tmp_path, generation))
    prompt = model.restore(model.prepare(recording(330, SAID), "audio+text"))
    speak(model, request("one", options=CosyvoiceOptions(instruct=" whispering ")), prompt)
    assert model._library.said[-1] == ("instruct2", "one", told)
    with pytest.raises(OptionError, match="takes no instruction"):
        model.start(request(options=CosyvoiceOptions(instruct="whispering")), None)
    model.unload()


def test_the_first_generation_instructs_its_speakers_alone(tmp_path: Path) -> None:
    model = tone_engine.load_tone(make_folders(tmp_path, 1))
    whispering = CosyvoiceOptions(instruct="whispering")
    speak(model, request("one", options=whispering))
    assert model._library.said[-1] == ("instruct", "one", "anna", "whispering<|endofprompt|>")
    prompt = model.restore(model.prepare(recording(330), "audio"))
    with pytest.raises(OptionError, match="speakers alone") as refused:
        model.start(request(options=whispering), prompt)
    assert refused.value.param == "instruct"
    model.unload()


def test_s19_its_pacing_is_a_setting(source: Source) -> None:
    settings = {**source.settings, "sentences_per_chunk": 2, "silence_ms": 250}
    paced = tone_engine.load_tone(replace(source, settings=settings))
    spoken = speak(paced, request("One. Two! Three? Four.")).samples
    assert [text for _, text, *_ in paced._library.said[1:]] == ["One. Two!", "Three? Four."]
    silence = np.zeros(RATE_HZ // 4, np.float32)
    plain = tone_engine.load_tone(source)
    wanted = [
        piece
        for text in ("One. Two!", "Three? Four.")
        for piece in (speak(plain, request(text)).samples, silence)
    ]
    np.testing.assert_array_equal(spoken, np.concatenate(wanted))
    for each in (paced, plain):
        each.unload()


# Voices -----------------------------------------------------------------------------------------------------------


def test_s23_a_prompt_is_restored_elsewhere_without_the_recording(
    source: Source, model: CosyvoiceModel
) -> None:
    stored = model.prepare(recording(330, SAID), "audio+text")
    here = speak(model, request("a" * 30), model.restore(stored)).samples
    assert np.abs(np.fft.rfft(here[:RATE_HZ])).argmax() == pytest.approx(330, abs=1)
    other = tone_engine.load_tone(source)
    np.testing.assert_array_equal(speak(other, request("a" * 30), other.restore(stored)).samples, here)
    other.unload()


def test_voices_of_the_settings_are_clones_of_their_recordings(source: Source, tmp_path: Path) -> None:
    import soundfile

    soundfile.write(tmp_path / "ben.wav", recording(330).samples, RATE_HZ)
    voices = {"ben": {"audio": str(tmp_path / "ben.wav"), "text": SAID}}
    with_ben = replace(source, settings={**source.settings, "voices": voices})
    assert [voice.voice_id for voice in tone_engine.identify(with_ben).voices or ()] == ["anna", "ben"]
    model = tone_engine.load_tone(with_ben)
    speak(model, request("one", voice="ben"))
    assert model._library.said[-1] == ("zero_shot", "one", SAID)
    model.unload()


def test_s12_what_cannot_be_cloned_is_refused(model: CosyvoiceModel) -> None:
    for reference, reason in (
        (recording(330), "needs the transcript"),
        (recording(330, SAID, rate_hz=8000), "16000 Hz at the least"),
        (recording(330, SAID, seconds=31), "30 s at the most"),
        (Reference(np.zeros(0, np.float32), RATE_HZ, SAID, None), "empty"),
    ):
        with pytest.raises(EngineError, match=reason):
            model.prepare(reference, "audio+text")
    for damaged in (b"", b"{}", b"\x00" * 64):
        with pytest.raises(EngineError, match="can't be read"):
            model.restore(damaged)


def test_a_speaker_that_the_checkpoint_does_not_have_is_told_at_the_load(source: Source) -> None:
    wrong = replace(source, settings={**source.settings, "speakers": ["anna", "zoe"]})
    with pytest.raises(EngineUnavailable, match="no speaker zoe"):
        tone_engine.load_tone(wrong)
