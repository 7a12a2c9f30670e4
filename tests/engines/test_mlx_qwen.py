"""Qwen3-TTS on MLX through mlx-audio's real loading code, on tiny random checkpoints."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

WHY = "the extra mlx isn't installed here; make test-engines has it"
pytest.importorskip("mlx.core", reason=WHY, exc_type=ImportError)
pytest.importorskip("mlx_audio", reason=WHY)
os.environ.setdefault("MLX_DISABLE_COMPILE", "1")  # a compiler would be run for each kernel

import mlx.core as mx  # noqa: E402 - after what it may be skipped for
from mlx_audio.tts.utils import load_model  # noqa: E402

from engines.contract import EngineError, EngineUnavailable, OptionError, Request, Source  # noqa: E402
from engines.mlx_qwen import QwenOptions, engine  # noqa: E402
from engines.mlx_qwen_model import QwenModel  # noqa: E402
from tests.engines.mlx_suite import METAL, SHORT, TEXT, MlxContract, MlxMemory, recording, write  # noqa: E402
from tests.engines.speaking import speak  # noqa: E402
from tests.engines.tiny_mlx_qwen import make_checkpoint  # noqa: E402
from voices.reference import CloneMode, Reference  # noqa: E402

FRAME_SAMPLES = 1920
SAID = "Hello there."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("qwen")
    for kind in ("base", "custom_voice", "voice_design"):
        make_checkpoint(made / kind, kind)
    write(made / "anna.wav", recording(1))
    return made


@pytest.fixture(scope="module")
def base(folder: Path) -> Source:
    anna = str(folder / "anna.wav")
    voices = {"anna": anna, "anna_said": {"audio": anna, "text": SAID}}
    return Source(path=str(folder / "base"), settings={**SHORT, "voices": voices})


@pytest.fixture(scope="module")
def named(folder: Path) -> Source:
    return Source(path=str(folder / "custom_voice"), settings=SHORT)


@pytest.fixture(scope="module")
def designed(folder: Path) -> Source:
    return Source(path=str(folder / "voice_design"), settings={**SHORT, "voices": {"calm": "A calm voice."}})


@pytest.fixture(scope="module")
def model(named: Source) -> Iterator[QwenModel]:
    model = engine.load(named, "cpu")
    yield model
    model.unload()


def request(text: str = TEXT, voice: str = "ryan", **changes: Any) -> Request:
    return Request(text=text, language="en", voice=voice, **({"seed": 5} | changes))


class TestQwenClones(MlxContract):
    engine = engine
    modes: ClassVar[tuple[CloneMode, ...]] = ("audio", "audio+text")

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def tiny(cls, base: Source) -> None:
        cls.source = base


class TestQwenMemory(MlxMemory):
    engine = engine
    modes: ClassVar[tuple[CloneMode, ...]] = ("audio", "audio+text")

    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, base: Source) -> Source:
        return replace(base, settings={**base.settings, **METAL})


# Against the library ----------------------------------------------------------------------------------------------


def one_shot(source: Source, frames: int, **asked: Any) -> Any:
    """What the library makes of the text at once."""
    library = load_model(Path(source.path or ""))
    mx.random.seed(5)
    (result,) = library.generate(TEXT, lang_code="english", max_tokens=frames, **asked)
    return np.array(result.audio)


def test_steps_join_to_what_the_library_makes_of_a_named_voice(model: QwenModel, named: Source) -> None:
    ours = speak(model, request()).samples
    theirs = one_shot(named, ours.size // FRAME_SAMPLES, voice="ryan")
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("voice", ["anna", "anna_said"])
def test_steps_join_to_what_the_library_makes_of_a_clone(base: Source, folder: Path, voice: str) -> None:
    model = engine.load(base, "cpu")
    ours = speak(model, request(voice=voice)).samples
    asked: dict[str, Any] = {"ref_audio": str(folder / "anna.wav")}
    if voice == "anna_said":
        # At once the library cuts off the recording's part in proportion, which may miss a sample.
        asked |= {"ref_text": SAID, "stream": True, "streaming_interval": 60.0}
    np.testing.assert_array_equal(ours, one_shot(base, ours.size // FRAME_SAMPLES, **asked))
    model.unload()


def test_steps_join_to_what_the_library_makes_of_a_description(designed: Source) -> None:
    model = engine.load(designed, "cpu")
    ours = speak(model, request(voice="calm")).samples
    theirs = one_shot(designed, ours.size // FRAME_SAMPLES, instruct="A calm voice.")
    np.testing.assert_array_equal(ours, theirs)
    other = speak(model, request(voice="calm", options=QwenOptions(instruct="An old man."))).samples
    assert not np.array_equal(ours, other)
    model.unload()


def test_s16_a_tone_is_gone_on_from_in_the_voice_of_the_recording(base: Source) -> None:
    """Only the vector of the speaker comes from the first recording."""
    model = engine.load(base, "cpu")
    who, tone = recording(1), recording(2, transcript=SAID)
    takes: list[tuple[Reference, CloneMode]] = [
        (replace(who, tone=tone), "audio"),
        (who, "audio"),
        (tone, "audio+text"),
    ]
    prompts = [model.restore(model.prepare(reference, mode)) for reference, mode in takes]
    both, speaker, words = (prompt.tensors for prompt in prompts)
    assert mx.array_equal(both["speaker"], speaker["speaker"])
    assert mx.array_equal(both["codes"], words["codes"])
    assert prompts[0].text == SAID
    assert speak(model, request(voice="x"), prompts[0]).samples.size
    model.unload()


def test_a_recording_is_cut_at_a_minute_unless_its_words_go_with_it(base: Source) -> None:
    model = engine.load(base, "cpu")
    minute = Reference(np.tile(recording(1, rate_hz=8000).samples, 61), 8000, SAID, None)
    assert model.prepare(minute, "audio")
    with pytest.raises(EngineError, match="can have 60 s"):
        model.prepare(minute, "audio+text")
    model.unload()


def test_the_librarys_own_cache_of_clones_stays_empty(base: Source) -> None:
    model = engine.load(base, "cpu")
    for voice in ("anna", "anna_said"):
        speak(model, request(voice=voice))
    assert model._library._icl_cache == {}
    model.unload()


# Lengths ----------------------------------------------------------------------------------------------------------


def test_a_text_cannot_become_longer_than_its_tokens_allow(model: QwenModel) -> None:
    """0.4 frames for each of 23 bytes, and 3; the network itself would go on to the library's 2048."""
    assert speak(model, request()).samples.size == (9 + 3) * FRAME_SAMPLES


def test_a_request_can_ask_for_less(model: QwenModel) -> None:
    asked = request(options=QwenOptions(max_new_tokens=5))
    assert speak(model, asked).samples.size == 5 * FRAME_SAMPLES


def test_it_ends_where_the_network_says_so(tmp_path: Path) -> None:
    """The only code whose weight isn't zero is the end's: of that weight and its opposite one is the likeliest."""
    sizes = []
    for sign in (1.0, -1.0):
        made = make_checkpoint(tmp_path / f"end{sign}", "custom_voice")
        file = str(made / "model.safetensors")
        weights = dict(mx.load(file))
        head = mx.zeros_like(weights["talker.codec_head.weight"])
        head[66] = sign
        mx.save_safetensors(file, weights | {"talker.codec_head.weight": head}, metadata={"format": "mlx"})
        model = engine.load(Source(path=str(made), settings=SHORT), "cpu")
        sizes.append(speak(model, request(options=QwenOptions(temperature=0.0))).samples.size)
        model.unload()
    assert min(sizes) == 0
    assert max(sizes) > 0


# Options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        QwenOptions(temperature=0.2),
        QwenOptions(top_k=2),
        QwenOptions(top_p=0.3),
        QwenOptions(repetition_penalty=2.0),
        QwenOptions(subtalker_temperature=0.0),
        QwenOptions(subtalker_top_k=1),
        QwenOptions(subtalker_top_p=0.1),
        QwenOptions(instruct="Very happy."),
    ],
)
def test_every_option_is_heard(model: QwenModel, options: QwenOptions) -> None:
    plain, other = (speak(model, request(options=asked)).samples for asked in (QwenOptions(), options))
    assert not np.array_equal(plain, other)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 2.5),
        ("temperature", "hot"),
        ("top_k", -1),
        ("top_k", 1.5),
        ("top_p", 0.0),
        ("repetition_penalty", 0.5),
        ("subtalker_temperature", -1),
        ("subtalker_top_k", True),
        ("subtalker_top_p", 1.1),
        ("max_new_tokens", 0),
        ("instruct", "two\nlines"),
        ("instruct", "x" * 2001),
    ],
)
def test_an_option_out_of_range_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(OptionError) as refused:
        QwenOptions(**{name: value})
    assert refused.value.param == name


def test_instructions_are_refused_where_the_checkpoint_takes_none(base: Source, tmp_path: Path) -> None:
    small = Source(path=str(make_checkpoint(tmp_path / "small", "custom_voice", size="0b6")), settings=SHORT)
    for source, voice in ((base, "anna"), (small, "ryan")):
        model = engine.load(source, "cpu")
        with pytest.raises(OptionError, match="takes no instructions"):
            model.start(request(voice=voice, options=QwenOptions(instruct="Very happy.")), None)
        model.unload()


# Checkpoints ------------------------------------------------------------------------------------------------------


def test_facts_follow_the_checkpoint(base: Source, named: Source, designed: Source) -> None:
    facts = {kind: engine.identify(source) for kind, source in (("b", base), ("n", named), ("d", designed))}
    assert [voice.voice_id for voice in facts["n"].voices or ()] == ["ryan", "vivian"]
    assert [voice.language for voice in facts["n"].voices or ()] == ["en", "zh"]
    assert [voice.voice_id for voice in facts["d"].voices or ()] == ["calm"]
    assert [voice.voice_id for voice in facts["b"].voices or ()] == ["anna", "anna_said"]
    assert [sorted(facts[kind].clones or ()) for kind in "bn"] == [["audio", "audio+text"], []]
    assert facts["b"].languages == {"und": "auto", "en": "english", "zh": "chinese"}
    assert len({each.checkpoint for each in facts.values()}) == 3
    assert facts["n"].step_s == 4 * FRAME_SAMPLES / 24000


def test_a_described_voice_needs_no_setting(folder: Path) -> None:
    facts = engine.identify(Source(path=str(folder / "voice_design")))
    assert [voice.voice_id for voice in facts.voices or ()] == ["design"]


@pytest.mark.parametrize(
    ("kind", "settings", "param"),
    [
        ("base", {}, "voices"),
        ("base", {"voices": {"anna": "/nowhere.wav"}}, "voices"),
        ("base", {"voices": {"anna": {"text": "x"}}}, "voices"),
        ("custom_voice", {"voices": {"anna": "/nowhere.wav"}}, "voices"),
        ("voice_design", {"voices": {"calm": " "}}, "voices"),
        ("voice_design", {"voices": {"calm": 3}}, "voices"),
        ("voice_design", {"cache_limit_bytes": -1}, "cache_limit_bytes"),
        ("voice_design", {"frames_per_token": 0}, "frames_per_token"),
        ("voice_design", {"spare_frames": 1.5}, "spare_frames"),
        ("voice_design", {"frames_per_step": 0}, "frames_per_step"),
        ("voice_design", {"x": 1}, "x"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(
    folder: Path, kind: str, settings: dict[str, Any], param: str
) -> None:
    with pytest.raises(OptionError) as refused:
        engine.identify(Source(path=str(folder / kind), settings=settings))
    assert refused.value.param == param


@pytest.mark.parametrize("how", ["missing", "of another shape"])
def test_a_codec_that_is_not_whole_is_not_loaded(tmp_path: Path, how: str) -> None:
    """The library would take it, and hiss."""
    made = make_checkpoint(tmp_path / "broken", "custom_voice")
    file = str(made / "speech_tokenizer" / "model.safetensors")
    tensors = dict(mx.load(file))
    name = "decoder.pre_transformer.layers.0.mlp.up_proj.weight"
    value = tensors.pop(name)
    if how != "missing":
        tensors[name] = value[:-1]
    mx.save_safetensors(file, tensors)
    with pytest.raises(EngineUnavailable, match=rf"1 tensors {how} \({name}"):
        engine.load(Source(path=str(made), settings=SHORT), "cpu")


def test_a_codec_that_cannot_hear_is_whole_where_nobody_is_cloned(folder: Path, tmp_path: Path) -> None:
    deaf = make_checkpoint(tmp_path / "deaf", "base")
    file = str(deaf / "speech_tokenizer" / "model.safetensors")
    tensors = {name: value for name, value in mx.load(file).items() if not name.startswith("encoder.")}
    mx.save_safetensors(file, tensors)
    with pytest.raises(EngineUnavailable, match=r"isn't whole: \d+ tensors missing \(encoder_model"):
        engine.load(Source(path=str(deaf), settings=SHORT), "cpu")
    named = make_checkpoint(tmp_path / "named", "custom_voice")
    heard = (folder / "base" / "speech_tokenizer" / "config.json").read_text()
    (named / "speech_tokenizer" / "config.json").write_text(heard)
    model = engine.load(Source(path=str(named), settings=SHORT), "cpu")
    assert speak(model, request()).samples.size
    model.unload()


def test_a_codec_that_is_no_file_of_tensors_says_so(tmp_path: Path) -> None:
    made = make_checkpoint(tmp_path / "broken", "custom_voice")
    (made / "speech_tokenizer" / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(EngineUnavailable, match="no tokenizer"):
        engine.load(Source(path=str(made), settings=SHORT), "cpu")


def test_weights_that_are_not_there_say_so(tmp_path: Path) -> None:
    made = make_checkpoint(tmp_path / "empty", "custom_voice")
    (made / "model.safetensors").unlink()
    with pytest.raises(EngineUnavailable, match="couldn't be loaded: No weight files"):
        engine.load(Source(path=str(made), settings=SHORT), "cpu")


def test_a_voice_that_is_no_recording_says_so(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "anna.wav").write_bytes(b"no recording")
    settings = {"voices": {"anna": str(tmp_path / "anna.wav")}}
    with pytest.raises(EngineUnavailable, match="'anna' can't be read"):
        engine.load(Source(path=str(folder / "base"), settings=settings), "cpu")


def test_a_checkpoint_without_clones_makes_no_prompt(model: QwenModel) -> None:
    with pytest.raises(EngineError, match="doesn't clone"):
        model.prepare(recording(1), "audio")
