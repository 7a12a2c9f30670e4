"""Pocket TTS on MLX through mlx-audio's real loading code, on a tiny random checkpoint."""

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

from engines import registry  # noqa: E402
from engines.contract import EngineError, EngineUnavailable, OptionError, Request, Source  # noqa: E402
from engines.hosted import HostedEngine  # noqa: E402
from engines.mlx_pocket import PocketOptions, engine  # noqa: E402
from engines.mlx_pocket_model import PocketModel  # noqa: E402
from tests.engines.mlx_suite import METAL, SHORT, TEXT, MlxContract, MlxMemory, recording, write  # noqa: E402
from tests.engines.speaking import speak  # noqa: E402
from tests.engines.tiny_mlx_pocket import make_checkpoint  # noqa: E402
from voices.reference import CloneMode  # noqa: E402

FRAME_SAMPLES = 1920
TWO_PIECES = "Incomprehensibilities unconditionally. Misunderstandings notwithstanding."
"""Of more tokens than the library reads at once, and few words, which it allows a second each."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = make_checkpoint(tmp_path_factory.mktemp("pocket") / "tiny")
    voices = {"anna": write(folder.parent / "anna.wav", recording(1))}
    return Source(path=str(folder), settings={**SHORT, "voices": voices})


@pytest.fixture(scope="module")
def model(source: Source) -> Iterator[PocketModel]:
    model = engine.load(source, "cpu")
    yield model
    model.unload()


def request(text: str = TEXT, voice: str = "alba", **changes: Any) -> Request:
    return Request(text=text, language="en-US", voice=voice, **({"seed": 5} | changes))


class TestPocket(MlxContract):
    engine = engine
    modes: ClassVar[tuple[CloneMode, ...]] = ("audio",)

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def tiny(cls, source: Source) -> None:
        cls.source = source


class TestHostedPocket(MlxContract):
    """In a process of its own, where a native abort ends nothing else."""

    engine = HostedEngine(registry.describe("mlx-pocket"), registry.target("mlx-pocket"))
    modes: ClassVar[tuple[CloneMode, ...]] = ("audio",)
    most_odd_chars: ClassVar[int] = 8
    guarded_texts: ClassVar[list[str]] = ["..."]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def tiny(cls, source: Source) -> None:
        cls.source = source


class TestPocketMemory(MlxMemory):
    engine = engine
    modes: ClassVar[tuple[CloneMode, ...]] = ("audio",)

    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, source: Source) -> Source:
        return replace(source, settings={**source.settings, **METAL})


@pytest.mark.parametrize(("text", "voice"), [("Stop!", "anna"), (TWO_PIECES, "alba")])
def test_steps_join_to_what_the_library_makes_in_one_go(source: Source, text: str, voice: str) -> None:
    """Of a length that the library decides: a second for each word, and two for each piece of text."""
    unbounded = replace(source, settings={**source.settings, "frames_per_token": 50.0})
    model = engine.load(unbounded, "cpu")
    ours = speak(model, request(text, voice)).samples
    model.unload()
    folder = Path(source.path or "")
    library = load_model(folder)
    file = folder / "voices" / "alba.safetensors" if voice == "alba" else folder.parent / "anna.wav"
    state = library.get_state_for_audio_prompt(file)
    mx.eval([cache.keys for cache in state["flow_cache"]])
    mx.random.seed(5)
    theirs = np.array(library.generate_audio(state, text))
    np.testing.assert_array_equal(ours, np.clip(theirs, -1, 1))


def test_a_text_cannot_become_longer_than_its_tokens_allow(model: PocketModel) -> None:
    """0.4 frames for each of 23 bytes, and 3."""
    assert speak(model, request()).samples.size == (9 + 3) * FRAME_SAMPLES


def test_the_temperature_is_of_its_request_alone(model: PocketModel) -> None:
    plain = speak(model, request()).samples
    lively = speak(model, request(options=PocketOptions(temperature=1.5))).samples
    assert not np.array_equal(plain, lively)
    np.testing.assert_array_equal(plain, speak(model, request()).samples)


@pytest.mark.parametrize("value", [-0.1, 1.6, "hot", True])
def test_a_temperature_out_of_range_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(OptionError) as refused:
        PocketOptions(temperature=value)
    assert refused.value.param == "temperature"


def test_voices_are_the_operators_then_those_of_the_folder(source: Source) -> None:
    facts = engine.identify(source)
    assert [voice.voice_id for voice in facts.voices or ()] == ["anna", "alba", "jean"]
    assert facts.languages == {"en-US": "english"}
    assert list(facts.clones or ()) == ["audio"]
    french = replace(source, settings={**source.settings, "language": "french"})
    assert engine.identify(french).languages == {"fr": "french"}


def test_weights_without_an_encoder_speak_and_do_not_clone(source: Source, tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "mute")
    file = str(folder / "model.safetensors")
    left_out = ("mimi.encoder", "mimi.downsample")
    weights = {name: value for name, value in mx.load(file).items() if not name.startswith(left_out)}
    mx.save_safetensors(file, weights)
    deaf = Source(path=str(folder), settings=SHORT)
    assert engine.identify(deaf).clones == frozenset()
    model = engine.load(deaf, "cpu")
    assert speak(model, request()).samples.size
    with pytest.raises(EngineError, match="can't clone"):
        model.prepare(recording(1), "audio")
    model.unload()


def test_a_folder_without_a_tokenizer_is_not_looked_up_on_the_hub(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "wordless")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(EngineUnavailable, match="has no tokenizer"):
        engine.load(Source(path=str(folder), settings=SHORT), "cpu")


@pytest.mark.parametrize(
    ("settings", "param"),
    [({"language": "klingon"}, "language"), ({"voices": {"a": "/nowhere.wav"}}, "voices")],
)
def test_a_wrong_setting_is_refused_by_its_name(source: Source, settings: dict[str, Any], param: str) -> None:
    with pytest.raises(OptionError) as refused:
        engine.identify(Source(path=source.path, settings=settings))
    assert refused.value.param == param


def test_a_checkpoint_without_voices_needs_one(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "voiceless")
    for file in (folder / "voices").iterdir():
        file.unlink()
    with pytest.raises(OptionError, match="needs a voice"):
        engine.identify(Source(path=str(folder)))
