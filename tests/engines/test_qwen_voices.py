"""Who speaks with Qwen3-TTS: clones in both ways, the speakers of a checkpoint, and those that are described."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WHY = "the extra qwen isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("transformers", reason=WHY)
pytest.importorskip("accelerate", reason=WHY)

import safetensors.torch  # noqa: E402 - after what it may be skipped for
import soundfile  # noqa: E402
import torch  # noqa: E402

from engines.contract import EngineError, EngineUnavailable, OptionError, Source, info_of  # noqa: E402
from engines.qwen import engine  # noqa: E402
from engines.qwen_model import QwenModel  # noqa: E402
from engines.qwen_options import QwenOptions  # noqa: E402
from tests.engines.qwen_library import base_source, generated, library_of, recording, request  # noqa: E402
from tests.engines.speaking import speak  # noqa: E402
from tests.engines.tiny_qwen import make_checkpoint  # noqa: E402
from voices.reference import Reference  # noqa: E402

ROUNDING = 2e-5
TEXT = "Nobody answered the door, and it rained."
WORDS = "What was said."


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return base_source(tmp_path_factory.mktemp("qwen"), threads=1)


@pytest.fixture(scope="module")
def model(source: Source) -> Iterator[QwenModel]:
    model = engine.load(source, "cpu")
    yield model
    model.unload()


@pytest.fixture(scope="module")
def speakers(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = make_checkpoint(tmp_path_factory.mktemp("speakers"), "custom_voice")
    return Source(path=str(folder), settings={"threads": 1})


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = make_checkpoint(tmp_path_factory.mktemp("described"), "voice_design")
    voices = {"narrator": "A low, warm voice, unhurried.", "child": "A bright voice."}
    return Source(path=str(folder), settings={"threads": 1, "voices": voices})


# Clones -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [None, WORDS])
def test_a_clone_speaks_as_the_library_makes_it_speak(model: QwenModel, words: str | None) -> None:
    reference = recording(1, transcript=words)
    mode = "audio+text" if words else "audio"
    prompt = model.restore(model.prepare(reference, mode))  # type: ignore[arg-type]
    ours = speak(model, request(TEXT, "clip"), prompt).samples
    theirs = generated(
        library_of(model).generate_voice_clone,
        text=TEXT,
        ref_audio=(reference.samples, reference.sample_rate_hz),
        ref_text=words,
        x_vector_only_mode=words is None,
    )
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=ROUNDING)


def test_without_its_words_a_transcript_is_nothing(model: QwenModel) -> None:
    """Asked for by audio alone, it is the speaker's vector alone."""
    with_words, without = (recording(1, transcript=words) for words in (WORDS, None))
    assert model.prepare(with_words, "audio") == model.prepare(without, "audio")


def test_s12_a_missing_transcript_is_refused(model: QwenModel) -> None:
    for words in (None, ""):
        with pytest.raises(EngineError, match="what is said"):
            model.prepare(recording(1, transcript=words), "audio+text")


def test_s16_a_tone_is_what_is_gone_on_from_and_the_first_says_who_speaks(model: QwenModel) -> None:
    tone = recording(2, transcript="How it is said.")
    for mode in ("audio", "audio+text"):
        reference = recording(1, transcript=WORDS, tone=tone)
        parts = safetensors.torch.load(model.prepare(reference, mode))
        first = safetensors.torch.load(model.prepare(recording(1), "audio"))
        second = safetensors.torch.load(model.prepare(tone, "audio+text"))
        assert torch.equal(parts["speaker"], first["speaker"])
        assert torch.equal(parts["codes"], second["codes"])
        assert torch.equal(parts["text"], second["text"])
    with pytest.raises(EngineError, match="what is said"):
        model.prepare(replace(reference, tone=recording(2)), "audio")


def test_s23_a_prompt_is_restored_by_another_model_without_the_recording(
    model: QwenModel, source: Source
) -> None:
    prompt = model.prepare(recording(3, transcript=WORDS), "audio+text")
    assert len(prompt) < 10_000
    before = speak(model, request(TEXT, "clip"), model.restore(prompt)).samples
    other = engine.load(source, "cpu")
    after = speak(other, request(TEXT, "clip"), other.restore(prompt)).samples
    other.unload()
    np.testing.assert_array_equal(before, after)


def test_prompts_of_two_people_differ_and_repeat(model: QwenModel) -> None:
    one, same, other = (model.prepare(recording(number), "audio") for number in (1, 1, 2))
    assert one == same
    assert one != other
    mine, theirs = (speak(model, request(TEXT, "clip"), model.restore(each)).samples for each in (one, other))
    assert mine.size != theirs.size or np.abs(mine - theirs).max() > 0.01


def test_a_prompt_can_be_used_many_times(model: QwenModel) -> None:
    prompt = model.restore(model.prepare(recording(4, transcript=WORDS), "audio+text"))
    first, second = (speak(model, request(TEXT, "clip"), prompt).samples for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_recording_of_another_rate_is_brought_to_the_models(model: QwenModel) -> None:
    tone = 0.3 * np.sin(2 * np.pi * 220 * np.arange(2 * 48000) / 48000).astype(np.float32)
    whole, half = (
        safetensors.torch.load(model.prepare(Reference(samples, rate_hz, None, None), "audio"))["speaker"]
        for samples, rate_hz in ((tone, 48000), (tone[::2], 24000))
    )
    assert torch.cosine_similarity(whole, half, dim=0) > 0.99


def test_what_cannot_be_cloned_is_an_engine_error(model: QwenModel) -> None:
    with pytest.raises(EngineError, match="empty"):
        model.prepare(Reference(np.zeros(0, np.float32), 24000, None, None), "audio")
    long = Reference(np.zeros(61 * 24000, np.float32), 24000, WORDS, None)
    with pytest.raises(EngineError, match="at most 60 s"):
        model.prepare(long, "audio+text")


def test_a_prompt_that_does_not_fit_is_refused_before_it_reaches_the_device(model: QwenModel) -> None:
    parts = safetensors.torch.load(model.prepare(recording(5, transcript=WORDS), "audio+text"))

    def refused(**changes: Any) -> str:
        changed = {name: value for name, value in (parts | changes).items() if value is not None}
        with pytest.raises(EngineError) as told:
            model.restore(safetensors.torch.save(changed))
        return str(told.value)

    assert "vector" in refused(speaker=None)
    assert "vector" in refused(speaker=torch.zeros(7))
    assert "codes" in refused(codes=parts["codes"] + 64)
    assert "codes" in refused(codes=parts["codes"] - 64)
    assert "codes" in refused(codes=parts["codes"].float())
    assert "codes" in refused(codes=parts["codes"][:, :2].contiguous())
    assert "codes" in refused(text=None)
    for damaged in (b"", b"{}", b"\x00" * 64):
        with pytest.raises(EngineError, match="can't be read"):
            model.restore(damaged)


def test_a_voice_that_is_no_recording_says_so(source: Source, tmp_path: Path) -> None:
    (tmp_path / "anna.wav").write_bytes(b"no recording")
    broken = Source(path=source.path, settings={"voices": {"anna": str(tmp_path / "anna.wav")}})
    with pytest.raises(EngineUnavailable, match=r"'anna' can't be read"):
        engine.load(broken, "cpu")


def test_a_base_checkpoint_takes_no_instruction(model: QwenModel) -> None:
    with pytest.raises(OptionError) as refused:
        model.start(request(options=QwenOptions(instruct="Slowly.")), None)
    assert refused.value.param == "instruct"


def test_a_voice_of_two_channels_is_read(source: Source, tmp_path: Path) -> None:
    samples = 0.1 * np.random.default_rng(1).standard_normal((24000, 2))
    soundfile.write(tmp_path / "two.wav", samples, 24000)
    both = engine.load(
        Source(path=source.path, settings={"voices": {"two": str(tmp_path / "two.wav")}}), "cpu"
    )
    assert speak(both, request(voice="two")).samples.size
    both.unload()


# Speakers of its own ----------------------------------------------------------------------------------------------


def test_a_checkpoints_speakers_are_its_voices_and_those_of_english_come_first(speakers: Source) -> None:
    info = info_of(engine.info, engine.identify(speakers))
    assert [voice.voice_id for voice in info.voices] == ["ryan", "vivian", "dylan"]
    assert [voice.language for voice in info.voices] == ["en", "zh", "zh"]
    assert not info.clones


@pytest.mark.parametrize("speaker", ["ryan", "dylan"])
@pytest.mark.parametrize("instruct", [None, "Whisper."])
def test_a_speaker_speaks_as_in_the_library(speakers: Source, speaker: str, instruct: str | None) -> None:
    model = engine.load(speakers, "cpu")
    options = QwenOptions(non_streaming_mode=False, instruct=instruct)
    ours = speak(model, request(TEXT, speaker, options=options)).samples
    theirs = generated(
        library_of(model).generate_custom_voice,
        text=TEXT,
        speaker=speaker,
        instruct=instruct,
        non_streaming_mode=False,
    )
    with pytest.raises(EngineError, match="only a Base checkpoint"):
        model.prepare(recording(1), "audio")
    with pytest.raises(EngineError, match="only a Base checkpoint"):
        model.restore(b"")
    with pytest.raises(EngineError, match="no voice 'nobody'"):
        model.start(request(TEXT, "nobody"), None)
    model.unload()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=ROUNDING)


def test_the_smaller_model_refuses_the_instruction_that_the_library_would_leave_out(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path, "custom_voice", size="0b6")
    model = engine.load(Source(path=str(folder), settings={"threads": 1}), "cpu")
    with pytest.raises(OptionError) as refused:
        model.start(request(TEXT, "ryan", options=QwenOptions(instruct="Whisper.")), None)
    model.unload()
    assert refused.value.param == "instruct"


# Voices that are described ----------------------------------------------------------------------------------------


def test_a_description_is_a_voice_and_an_instruction_takes_its_place(described: Source) -> None:
    model = engine.load(described, "cpu")
    library = library_of(model).generate_voice_design
    for voice, instruct, wanted in (
        ("narrator", None, "A low, warm voice, unhurried."),
        ("child", None, "A bright voice."),
        ("child", "An old man.", "An old man."),
    ):
        options = QwenOptions(non_streaming_mode=False, instruct=instruct)
        ours = speak(model, request(TEXT, voice, options=options)).samples
        theirs = generated(library, text=TEXT, instruct=wanted, non_streaming_mode=False)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=ROUNDING)
    model.unload()


def test_the_whole_text_first_is_what_the_library_does_unless_it_is_told(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path, "voice_design", ends=False)
    model = engine.load(Source(path=str(folder), settings={"threads": 1}), "cpu")
    options = QwenOptions(max_new_tokens=12)
    ours = speak(model, request(TEXT, "design", options=options)).samples
    theirs = generated(
        library_of(model).generate_voice_design,
        text=TEXT,
        instruct=engine_description(model),
        max_new_tokens=13,  # the library draws one more, and makes no sound of it
    )
    model.unload()
    assert ours.size == 12 * 1920
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=ROUNDING)


def engine_description(model: QwenModel) -> str:
    return str(model._checkpoint.voices["design"].text)
