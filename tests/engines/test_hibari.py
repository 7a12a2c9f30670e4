import hashlib
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hibari import Hibari, voices

from engines import background, downloads
from engines import hibari as hibari_module
from engines.contract import EngineUnavailable, OptionError, Request, Source, VoiceUnavailable
from engines.downloads import Download
from engines.hibari import HibariEngine, HibariModel, engine
from tests.engines.contract_suite import EngineContract
from tests.engines.speaking import finish, speak, step

LONG = (
    "The quick brown fox jumps over the lazy dog, and she sells sea shells by the sea shore "
    "every Sunday morning."
)


class TestHibari(EngineContract):
    engine = engine


@pytest.fixture(scope="module")
def model() -> HibariModel:
    return engine.load(Source(), "cpu")


@pytest.fixture(scope="module")
def library() -> Hibari:
    return Hibari(threads=1)


def request(text: str = "Good morning, everyone.", voice: str = "heart", **changes: Any) -> Request:
    return Request(text=text, language="en-US", voice=voice, **changes)


def spectrum(samples: np.ndarray) -> np.ndarray:
    """Power in dB over time and frequency, the noise's realisation smoothed away."""
    frames = np.lib.stride_tricks.sliding_window_view(samples, 1200)[::600] * np.hanning(1200)
    power = np.abs(np.fft.rfft(frames, axis=1)[:, :600]) ** 2
    smooth = power.reshape(len(power), 60, 10).mean(axis=2)
    return np.asarray(10 * np.log10(smooth + 1e-6))


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("text", ["Good morning, everyone.", LONG, "It is 7:30 pm. Really? Yes."])
def test_it_speaks_as_the_library_does_up_to_the_noise(
    model: HibariModel, library: Hibari, text: str, speed: float
) -> None:
    ours = speak(model, request(text, speed=speed, seed=3)).samples
    theirs = library(text, speed=speed, seed=4)
    again = library(text, speed=speed, seed=5)
    assert ours.size == theirs.size
    by_chance = np.abs(spectrum(theirs) - spectrum(again)).mean()
    assert np.abs(spectrum(ours) - spectrum(theirs)).mean() < 1.1 * by_chance


def test_a_long_sentence_starts_before_it_is_done(model: HibariModel) -> None:
    stream = model.start(request(LONG), None)
    first = step(model, stream)
    rest = finish(model, stream)
    assert first.samples.size < 0.7 * 24000
    assert rest.samples.size > 5 * 24000


def test_words_are_spoken_where_it_says(model: HibariModel) -> None:
    """The silences that a comma makes are between the words that it separates."""
    text = "Apples, oranges; and lemons."
    result = speak(model, request(text, speed=0.5))
    words = {text[start:end]: (first, last) for start, end, first, last in result.words}
    assert list(words) == ["Apples", "oranges", "and", "lemons"]
    loud = {word: np.abs(result.samples[first:last]).mean() for word, (first, last) in words.items()}
    lead_in = np.abs(result.samples[: words["Apples"][0] // 2]).mean()
    assert min(loud.values()) > 20 * lead_in
    pause = np.abs(result.samples[words["Apples"][1] : words["oranges"][0]])
    assert pause.min() < 0.001


def test_other_letters_than_latin_are_left_out(model: HibariModel) -> None:
    assert speak(model, request("你好。")).samples.size == 0
    mixed = speak(model, request("Hello 你好 there."))
    assert [word[:2] for word in mixed.words] == [(0, 5), (9, 14)]


def test_punctuation_alone_makes_no_sound(model: HibariModel) -> None:
    for text in ("...", "!!!", "—", '""', "::"):
        assert speak(model, request(text)).samples.size == 0


def test_users_cannot_give_the_front_end_instructions(model: HibariModel) -> None:
    instructed = speak(model, request("[word](/ˈ/) here.", seed=1))
    assert [word[:2] for word in instructed.words][-1] == (12, 16)
    assert instructed.samples.size > 1.2 * 24000


def test_streams_of_several_threads_speak_the_same_from_their_own_models() -> None:
    """Lanes are threads, each with its model."""
    spoken: list[np.ndarray] = []

    def lane() -> None:
        own = engine.load(Source(), "cpu")
        spoken.extend(speak(own, request(LONG, seed=2)).samples for _ in range(3))
        own.unload()

    threads = [threading.Thread(target=lane) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(spoken) == 6
    assert all(np.array_equal(spoken[0], samples) for samples in spoken)


def test_the_checkpoint_is_that_of_the_weights(tmp_path: Path) -> None:
    bundled = Path(voices.voice_path("heart"))
    copy, other = tmp_path / "copy.onnx", tmp_path / "other.onnx"
    copy.write_bytes(bundled.read_bytes())
    other.write_bytes(bundled.read_bytes() + b"\x00")
    known = voices.VOICES["heart"]["sha256"]
    assert hashlib.sha256(bundled.read_bytes()).hexdigest() == known
    checkpoint = engine.identify(Source()).checkpoint
    assert engine.identify(Source(str(copy))).checkpoint == checkpoint
    assert engine.identify(Source(str(other))).checkpoint != checkpoint


def test_weights_that_are_not_there_or_not_a_network_are_unavailable(tmp_path: Path) -> None:
    missing = Source(str(tmp_path / "none.onnx"))
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a network")
    with pytest.raises(EngineUnavailable, match=r"none\.onnx"):
        engine.identify(missing)
    for source in (missing, Source(str(broken))):
        with pytest.raises(EngineUnavailable):
            engine.load(source, "cpu")


def test_another_export_of_the_network_can_be_used(tmp_path: Path) -> None:
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(Path(voices.voice_path("heart")).read_bytes())
    model = engine.load(Source(str(copy)), "cpu")
    assert speak(model, request()).samples.size > 24000


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"voice": "kore"}, "voice"),
        ({"voices": "kore"}, "voices"),
        ({"voices": ["nobody"]}, "voices"),
        ({"voices": 3}, "voices"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, object], named: str) -> None:
    with pytest.raises(OptionError) as caught:
        engine.identify(Source(settings=settings))
    assert caught.value.param == named


# Voices that are fetched ----------------------------------------------------------------------------------------


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the library keeps fetched voices, with no hub to be reached."""
    monkeypatch.setenv("HIBARI_HOME", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    return tmp_path


def test_a_voice_in_the_cache_speaks_and_the_bundled_one_meanwhile(own_cache: Path) -> None:
    (own_cache / voices.VOICES["emma"]["file"]).write_bytes(Path(voices.voice_path("heart")).read_bytes())
    model = engine.load(Source(), "cpu")
    emma = model.start(request(voice="emma"), None)
    assert not step(model, emma).samples.size
    assert speak(model, request()).samples.size > 24000
    assert finish(model, emma).samples.size > 24000
    assert speak(model, request(voice="emma")).chunks[0].samples.size > 0


def test_a_voice_that_cannot_be_fetched_fails_its_stream_and_says_why(own_cache: Path) -> None:
    model = engine.load(Source(), "cpu")
    told: list[Download] = []
    with downloads.watched(told.append):
        for _ in range(2):
            with pytest.raises(VoiceUnavailable, match=r"kore.*could not download"):
                speak(model, request(voice="kore"))
    known = voices.VOICES["kore"]
    assert [(one.file, one.total_bytes, one.over) for one in told] == [
        (known["file"], known["bytes"], over) for over in (False, True)
    ] * 2
    assert speak(model, request()).samples.size > 24000


def test_a_hub_that_never_answers_fails_its_stream_in_the_end(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def hang(name: str, path: str | None) -> Any:
        release.wait(20)
        raise RuntimeError("too late")

    model = engine.load(Source(), "cpu")
    monkeypatch.setattr(hibari_module, "_load_voice", hang)
    monkeypatch.setattr(background, "_PATIENCE_S", 0.05)
    try:
        with pytest.raises(VoiceUnavailable, match="still being loaded"):
            speak(model, request(voice="fable"))
    finally:
        release.set()


def test_voices_can_be_fetched_at_start(own_cache: Path) -> None:
    (own_cache / voices.VOICES["kore"]["file"]).write_bytes(Path(voices.voice_path("heart")).read_bytes())
    model = HibariEngine().load(Source(settings={"voices": ["kore"]}), "cpu")
    assert speak(model, request(voice="kore")).samples.size > 24000
