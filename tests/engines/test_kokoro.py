"""Real Kokoro: the int8 network from packages, the voices from another."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from engines import kokoro as kokoro_module
from engines import kokoro_voices
from engines.contract import EngineError, EngineUnavailable, OptionError, Request, Source, info_of
from engines.kokoro import KokoroModel, engine
from tests.engines.contract_suite import EngineContract
from tests.engines.hearing import assert_understood
from tests.engines.speaking import finish, speak, step

WHY = "the extra kokoro, its weights or its voices aren't installed here; make test-engines has them"
pytest.importorskip("kokoro_onnx", reason=WHY)
VOICES = Path(__file__).parents[2] / "build" / "kokoro-js" / "package" / "voices"
if not VOICES.is_dir() or not kokoro_module._installed_parts():
    pytest.skip(WHY, allow_module_level=True)

pytestmark = pytest.mark.timeout(400)
"""Two minutes of speech here, on a machine with other things to do."""
SOURCE = Source(settings={"voices": str(VOICES), "threads": 2})


class TestKokoro(EngineContract):
    engine = engine
    source = SOURCE
    most_odd_chars = 20
    guarded_texts: ClassVar[list[str]] = ["...", "x", "1次", "Huh?", "50% of £3.50"]
    texts: ClassVar[list[str]] = ["Good morning.", "The second one is longer than the first.", "Stop!"]


@pytest.fixture(scope="module")
def model() -> Iterator[KokoroModel]:
    model = engine.load(SOURCE, "cpu")
    yield model
    model.unload()


def request(text: str = "Good morning, everyone.", voice: str = "af_heart", **changes: Any) -> Request:
    return Request(**({"text": text, "language": "en-US", "voice": voice} | changes))


@pytest.mark.real_voice
@pytest.mark.timeout(600)
def test_a_recogniser_understands_twenty_sentences() -> None:
    assert_understood(engine, SOURCE, "af_heart")


def test_each_step_is_a_sentence(model: KokoroModel) -> None:
    stream = model.start(request("Yes, it is. No, it isn't!"), None)
    pieces = [step(model, stream) for _ in range(3)]
    assert [piece.last for piece in pieces] == [False, False, True]
    one, other = (speak(model, request(text)).samples for text in ("Yes, it is.", "No, it isn't!"))
    np.testing.assert_array_equal(pieces[0].samples, one)
    np.testing.assert_array_equal(pieces[1].samples, other)


def test_it_says_what_the_library_says(model: KokoroModel) -> None:
    from kokoro_onnx import Kokoro

    library = Kokoro.__new__(Kokoro)
    library.sess, library.tokenizer, library.has_timings = model._session, model._tokenizer, False
    library._input_dtypes, library._tokens_input = model._types, "tokens"
    style = np.fromfile(VOICES / "bm_george.bin", "<f4").reshape(-1, 1, 256)
    theirs, rate_hz = library.create("Good morning.", style, speed=1.25, lang="en-gb", trim=False)
    ours = speak(model, request("Good morning.", "bm_george", language="en-GB", speed=1.25)).samples
    assert rate_hz == engine.identify(SOURCE).sample_rate_hz
    np.testing.assert_allclose(ours, np.clip(theirs, -1, 1), atol=1e-6)


def test_a_blend_is_the_mean_of_its_voices(model: KokoroModel) -> None:
    one, other, both, same = (
        speak(model, request(voice=voice)).samples
        for voice in ("af_heart", "bm_george", "af_heart+bm_george", "af_heart+af_heart")
    )
    np.testing.assert_array_equal(same, one)
    assert both.size not in {0, one.size} or not np.array_equal(both, one)
    assert min(one.size, other.size) * 0.8 < both.size < max(one.size, other.size) * 1.25


def test_an_unknown_part_of_a_blend_is_named(model: KokoroModel) -> None:
    with pytest.raises(EngineError, match="'nobody'"):
        speak(model, request(voice="af_heart+nobody"))


def test_another_language_has_other_phonemes(model: KokoroModel) -> None:
    french, english = (
        speak(model, request("Bonjour, ma chère amie.", "ff_siwis", language=language)).samples
        for language in ("fr", "en-US")
    )
    assert french.size != english.size


@pytest.mark.parametrize("text", ["", "...", "—", "😀", '""', "\u0000"])
def test_a_text_without_words_makes_no_sound(model: KokoroModel, text: str) -> None:
    assert speak(model, request(text)).samples.size == 0


def test_a_long_run_of_phonemes_is_cut_into_steps(model: KokoroModel) -> None:
    stream = model.start(request("word " * 50), None)
    first = step(model, stream)
    assert not first.last
    assert first.samples.size < 20 * 24000
    model.close(stream)
    with pytest.raises(EngineError, match="ended"):
        finish(model, stream)


# Voices -----------------------------------------------------------------------------------------------------------


def test_all_voices_whose_language_it_speaks_are_listed() -> None:
    facts = engine.identify(SOURCE)
    on_disk = {file.stem for file in VOICES.glob("*.bin")}
    assert len(on_disk) == 54
    listed = {voice.voice_id for voice in facts.voices or ()}
    assert on_disk - listed == {name for name in on_disk if name[0] in "jz"}
    assert {voice.voice_id for voice in engine.info.voices} == listed
    info = info_of(engine.info, facts)
    assert {voice.language for voice in info.voices} == set(info.languages)


def test_an_archive_of_voices_is_the_same_as_a_folder(tmp_path: Path) -> None:
    names = ("af_heart", "bm_george", "jf_alpha")
    styles = {name: np.fromfile(VOICES / f"{name}.bin", "<f4").reshape(-1, 1, 256) for name in names}
    with (tmp_path / "voices-v1.0.bin").open("wb") as file:
        np.savez(file, **styles)  # type: ignore[arg-type]
    archive = kokoro_voices.from_path(tmp_path / "voices-v1.0.bin")
    assert [voice.voice_id for voice in archive.voices] == ["af_heart", "bm_george"]
    folder = kokoro_voices.from_path(VOICES)
    np.testing.assert_array_equal(archive.read("bm_george"), folder.read("bm_george"))


def test_an_archive_of_pickles_is_never_run(tmp_path: Path) -> None:
    with (tmp_path / "voices.bin").open("wb") as file:
        np.savez(file, af_heart=np.array([{"any": "object"}], object))
    styles = kokoro_voices.from_path(tmp_path / "voices.bin")
    with pytest.raises(EngineUnavailable, match="pickle"):
        styles.read("af_heart")


@pytest.mark.parametrize("make", ["nothing", "empty", "text", "zip", "array", "pickle"])
def test_what_has_no_voices_is_refused(tmp_path: Path, make: str) -> None:
    path = tmp_path / "voices"
    if make == "empty":
        path.mkdir()
    elif make == "text":
        path.write_text("voices")
    elif make == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("readme.txt", "voices")
    elif make in {"array", "pickle"}:
        with path.open("wb") as file:
            np.save(file, np.zeros(256) if make == "array" else np.array([{"any": "object"}], object))
    with pytest.raises(OptionError) as refused:
        engine.identify(Source(settings={"voices": str(path)}))
    assert refused.value.param == "voices"


def test_a_damaged_voice_is_refused_when_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "af_heart.bin").write_bytes(b"\0" * 1000)
    with pytest.raises(EngineUnavailable, match="af_heart"):
        kokoro_voices.from_path(tmp_path).read("af_heart")


# Sources ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"weights": "int4"}, "weights"),
        ({"threads": 0}, "threads"),
        ({"voices": 1}, "voices"),
        ({"x": 1}, "x"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(settings: dict[str, Any], param: str) -> None:
    with pytest.raises(OptionError) as refused:
        engine.identify(Source(settings=settings))
    assert refused.value.param == param


def test_a_folder_holds_network_and_voices(tmp_path: Path) -> None:
    (tmp_path / "kokoro.onnx").write_bytes(b"a network")
    with pytest.raises(EngineUnavailable, match="has no voices"):
        engine.identify(Source(path=str(tmp_path)))
    (tmp_path / "voices").symlink_to(VOICES)
    before = engine.identify(Source(path=str(tmp_path)))
    assert len(before.voices or ()) == 41
    (tmp_path / "kokoro.onnx").write_bytes(b"another network")
    assert engine.identify(Source(path=str(tmp_path))).checkpoint != before.checkpoint
    with pytest.raises(EngineUnavailable, match="can't be loaded"):
        engine.load(Source(path=str(tmp_path)), "cpu")
    (tmp_path / "second.onnx").write_bytes(b"a network")
    with pytest.raises(EngineUnavailable, match="has 2 networks"):
        engine.identify(Source(path=str(tmp_path)))


def test_cuda_without_its_provider_says_so() -> None:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this machine has it")
    with pytest.raises(EngineUnavailable, match="CUDAExecutionProvider"):
        engine.load(SOURCE, "cuda")
