"""VoxCPM on MLX through mlx-audio's real loading code, on tiny random checkpoints."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import soundfile

WHY = "the extra mlx isn't installed here; make test-engines has it"
pytest.importorskip("mlx.core", reason=WHY, exc_type=ImportError)
pytest.importorskip("mlx_audio", reason=WHY)
os.environ.setdefault("MLX_DISABLE_COMPILE", "1")  # a compiler would be run for each kernel

import mlx.core as mx  # noqa: E402 - after what it may be skipped for
from mlx_audio.tts.utils import load_model  # noqa: E402

from engines.contract import OptionError, Request, Source  # noqa: E402
from engines.mlx_voxcpm import VoxcpmOptions, engine  # noqa: E402
from engines.mlx_voxcpm_model import VoxcpmModel  # noqa: E402
from tests.engines.mlx_suite import METAL, SHORT, TEXT, MlxContract, MlxMemory, recording, write  # noqa: E402
from tests.engines.speaking import speak, step  # noqa: E402
from tests.engines.tiny_mlx_voxcpm import make_checkpoint  # noqa: E402
from voices.reference import CloneMode  # noqa: E402

PATCH_SAMPLES = {"voxcpm2": 7680, "voxcpm": 2560}
SAID = "Hello there."
QUICK = VoxcpmOptions(inference_timesteps=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("voxcpm")
    make_checkpoint(made / "voxcpm2", "voxcpm2")
    make_checkpoint(made / "voxcpm", "voxcpm")
    write(made / "low.wav", recording(1, rate_hz=16000))
    write(made / "high.wav", recording(1, rate_hz=48000))
    return made


@pytest.fixture(scope="module")
def second(folder: Path) -> Source:
    high = str(folder / "high.wav")
    voices = {"anna": high, "anna_said": {"audio": high, "text": SAID}}
    return Source(path=str(folder / "voxcpm2"), settings={**SHORT, "frames_per_token": 0.3, "voices": voices})


@pytest.fixture(scope="module")
def first(folder: Path) -> Source:
    voices = {"anna_said": {"audio": str(folder / "low.wav"), "text": SAID}}
    return Source(path=str(folder / "voxcpm"), settings={**SHORT, "voices": voices})


@pytest.fixture(scope="module")
def model(second: Source) -> Iterator[VoxcpmModel]:
    model = engine.load(second, "cpu")
    yield model
    model.unload()


def request(text: str = TEXT, voice: str = "design", **changes: Any) -> Request:
    values: dict[str, Any] = {"seed": 5, "options": QUICK}
    return Request(text=text, language="en", voice=voice, **(values | changes))


class QuickContract(MlxContract):
    most_odd_chars: ClassVar[int] = 12
    guarded_texts: ClassVar[list[str]] = ["...", "Huh?"]

    def request_for(self, text: str, **changes: Any) -> Request:
        return super().request_for(text, **({"options": QUICK} | changes))


class TestVoxcpm2(QuickContract):
    engine = engine
    modes: ClassVar[tuple[CloneMode, ...]] = ("audio", "audio+text")

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def tiny(cls, second: Source) -> None:
        cls.source = replace(second, settings={**SHORT, "frames_per_token": 0.3})


class TestVoxcpmMemory(MlxMemory):
    engine = engine
    modes: ClassVar[tuple[CloneMode, ...]] = ("audio", "audio+text")

    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, second: Source) -> Source:
        return replace(second, settings={**second.settings, **METAL})


# Against the library, which knows no streaming --------------------------------------------------------------------


def one_shot(source: Source, patches: int, **asked: Any) -> Any:
    library = load_model(Path(source.path or ""))
    mx.random.seed(5)
    (result,) = library.generate(TEXT, max_tokens=patches, inference_timesteps=2, **asked)
    return np.array(result.audio)


def assert_same(source: Source, voice: str, **asked: Any) -> None:
    """But for the few samples that an odd rate leaves over at the end."""
    patch_samples = PATCH_SAMPLES[Path(source.path or "").name]
    model = engine.load(source, "cpu")
    result = speak(model, request(voice=voice))
    model.unload()
    assert result.chunks[0].samples.size == patch_samples
    assert result.chunks[1].samples.size == 2 * patch_samples
    patches = result.samples.size // patch_samples
    assert patches > 6, "else the decoder has nothing to look back on"
    theirs = one_shot(source, patches, **asked)
    assert theirs.size - result.samples.size < 10
    np.testing.assert_array_equal(result.samples, np.clip(theirs[: result.samples.size], -1, 1))


def test_patches_join_to_what_the_library_makes_at_once(second: Source, first: Source) -> None:
    assert_same(second, "design")
    assert_same(first, "design")


def test_patches_join_to_what_the_library_makes_of_a_reference(second: Source, folder: Path) -> None:
    assert_same(second, "anna", ref_audio=_samples(folder / "high.wav"))


@pytest.mark.parametrize("with_text", ["ultimate", "continuation"])
def test_patches_join_to_what_the_library_makes_of_a_recording_that_goes_on(
    second: Source, folder: Path, with_text: str
) -> None:
    samples = _samples(folder / "high.wav")
    asked = {"prompt_audio": samples, "prompt_text": SAID}
    if with_text == "ultimate":
        asked["ref_audio"] = samples
    assert_same(replace(second, settings={**second.settings, "with_text": with_text}), "anna_said", **asked)


def test_the_first_voxcpm_goes_on_from_a_recording(first: Source, folder: Path) -> None:
    assert_same(first, "anna_said", ref_audio=mx.array(_samples(folder / "low.wav")), ref_text=SAID)


def _samples(file: Path) -> Any:
    samples, _ = soundfile.read(file, dtype="float32")
    return samples


def test_s16_a_tone_is_gone_on_from_in_the_voice_of_the_recording(second: Source) -> None:
    model = engine.load(second, "cpu")
    who, tone = recording(1, rate_hz=48000), recording(2, rate_hz=48000, transcript=SAID)
    prompt = model.restore(model.prepare(replace(who, tone=tone), "audio"))
    ours = speak(model, request(voice="x"), prompt).samples
    model.unload()
    asked = {"ref_audio": who.samples, "prompt_audio": tone.samples, "prompt_text": SAID}
    theirs = one_shot(second, ours.size // PATCH_SAMPLES["voxcpm2"], **asked)
    np.testing.assert_array_equal(ours, np.clip(theirs[: ours.size], -1, 1))


# Lengths, options -------------------------------------------------------------------------------------------------


def test_a_text_cannot_become_longer_than_its_tokens_allow(model: VoxcpmModel) -> None:
    """0.3 patches for each of 23 bytes, and 3."""
    assert speak(model, request()).samples.size == (7 + 3) * PATCH_SAMPLES["voxcpm2"]


def test_a_request_can_ask_for_less(model: VoxcpmModel) -> None:
    asked = VoxcpmOptions(inference_timesteps=1, max_len=4)
    assert speak(model, request(options=asked)).samples.size == 4 * PATCH_SAMPLES["voxcpm2"]


@pytest.mark.parametrize(("least", "patches"), [(None, 4), (0, 2), (5, 7)])
def test_it_ends_where_the_network_says_so(tmp_path: Path, least: int | None, patches: int) -> None:
    """With an end that is always said: it is believed after so many patches, and the one it is said with is heard."""
    folder = make_checkpoint(tmp_path / "short")
    file = str(folder / "model.safetensors")
    weights = dict(mx.load(file))
    weights["stop_proj.bias"] = mx.ones_like(weights["stop_proj.bias"]) * 50
    weights["stop_head.weight"] = mx.concatenate([-mx.ones((1, 64)), mx.ones((1, 64))])
    mx.save_safetensors(file, weights, metadata={"format": "mlx"})
    model = engine.load(Source(path=str(folder), settings=SHORT), "cpu")
    asked = VoxcpmOptions(inference_timesteps=1, min_len=least)
    assert speak(model, request(options=asked)).samples.size == patches * PATCH_SAMPLES["voxcpm2"]
    model.unload()


@pytest.mark.parametrize(
    "options",
    [
        VoxcpmOptions(inference_timesteps=2, cfg_value=5.0),
        VoxcpmOptions(inference_timesteps=4),
        VoxcpmOptions(inference_timesteps=2, instruct="whispering"),
    ],
)
def test_every_option_is_heard(model: VoxcpmModel, options: VoxcpmOptions) -> None:
    plain, other = (speak(model, request(options=asked)).samples for asked in (QUICK, options))
    assert not np.array_equal(plain, other)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cfg_value", 0.1),
        ("inference_timesteps", 0),
        ("min_len", -1),
        ("max_len", 0),
        ("instruct", "(loud)"),
        ("instruct", "two\nlines"),
    ],
)
def test_an_option_out_of_range_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(OptionError) as refused:
        VoxcpmOptions(**{name: value})
    assert refused.value.param == name


def test_instructions_are_refused_where_they_cannot_be_followed(model: VoxcpmModel, first: Source) -> None:
    loud = VoxcpmOptions(instruct="loud")
    with pytest.raises(OptionError, match="goes on from a transcript"):
        model.start(request(voice="anna_said", options=loud), None)
    older = engine.load(first, "cpu")
    with pytest.raises(OptionError, match="takes no instructions"):
        older.start(request(options=loud), None)
    older.unload()


def test_the_caps_of_the_seed_are_its_own(second: Source) -> None:
    """S15: it gets worse on long unbroken generation."""
    facts = engine.identify(second)
    assert (facts.max_chars, facts.max_sentences) == (80, 3)


# Checkpoints ------------------------------------------------------------------------------------------------------


def test_facts_follow_the_checkpoint(first: Source, second: Source) -> None:
    older, newer = engine.identify(first), engine.identify(second)
    assert (older.sample_rate_hz, newer.sample_rate_hz) == (16000, 48000)
    assert [sorted(each.clones or ()) for each in (older, newer)] == [["audio+text"], ["audio", "audio+text"]]
    assert (older.step_s, newer.step_s) == (0.32, 0.32)
    assert [voice.voice_id for voice in newer.voices or ()] == ["anna", "anna_said", "design"]
    assert list(older.languages or ()) == ["zh", "en"]
    other = replace(second, settings={**second.settings, "with_text": "continuation"})
    assert engine.identify(other).checkpoint != newer.checkpoint


@pytest.mark.parametrize(
    ("kind", "settings", "param"),
    [
        ("voxcpm2", {"with_text": "always"}, "with_text"),
        ("voxcpm2", {"voices": {"design": "/nowhere.wav"}}, "voices"),
        ("voxcpm2", {"frames_per_step": 0}, "frames_per_step"),
        ("voxcpm", {"voices": {"anna": "low.wav"}}, "voices"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(
    folder: Path, kind: str, settings: dict[str, Any], param: str
) -> None:
    found = {name: str(folder / str(file)) for name, file in settings.get("voices", {}).items()}
    with pytest.raises(OptionError) as refused:
        engine.identify(
            Source(path=str(folder / kind), settings={**settings, **({"voices": found} if found else {})})
        )
    assert refused.value.param == param


def test_the_decoder_hears_no_more_than_it_looks_back_on(model: VoxcpmModel) -> None:
    """Five patches: the work of a step doesn't grow with the text."""
    stream = model.start(request("word " * 16), None)
    sizes = [step(model, stream).samples.size for _ in range(8)]
    peak_bytes = model.peak_bytes()
    sizes += [step(model, stream).samples.size for _ in range(4)]
    assert set(sizes[1:]) == {2 * PATCH_SAMPLES["voxcpm2"]}
    assert model.peak_bytes() < 1.2 * peak_bytes
    model.close(stream)
