"""Pocket TTS through its real loading code, on a tiny random checkpoint."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

WHY = "the extra pocket isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("pocket_tts", reason=WHY)

import soundfile  # noqa: E402 - after what it may be skipped for
import torch  # noqa: E402
from pocket_tts import TTSModel, export_model_state  # noqa: E402

from engines.contract import EngineError, EngineUnavailable, OptionError, Request, Source, info_of  # noqa: E402
from engines.pocket import PocketOptions, engine  # noqa: E402
from engines.pocket_model import PocketModel  # noqa: E402
from engines.torch_random import RandomState  # noqa: E402
from tests.engines.contract_suite import EngineContract  # noqa: E402
from tests.engines.speaking import finish, speak, speak_together, step  # noqa: E402
from tests.engines.tiny_pocket import make_checkpoint  # noqa: E402
from voices.reference import Reference  # noqa: E402

FRAME_SAMPLES = 1920
LONG = "The train to the coast leaves at half past nine every day. She sells sea shells by the sea shore."


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = tmp_path_factory.mktemp("pocket")
    for number, name in enumerate(("anna", "ben")):
        noise = np.random.default_rng(number).standard_normal(24000 * 2).astype(np.float32) * 0.1
        soundfile.write(folder / f"{name}.wav", noise, 24000)
    voices = {name: str(folder / f"{name}.wav") for name in ("anna", "ben")}
    return Source(path=str(make_checkpoint(folder)), settings={"voices": voices})


@pytest.fixture(scope="module")
def model(source: Source) -> Iterator[PocketModel]:
    model = engine.load(source, "cpu")
    yield model
    model.unload()


def request(text: str = "Good morning, everyone.", voice: str = "anna", **changes: Any) -> Request:
    return Request(text=text, language="en-US", voice=voice, **({"seed": 7} | changes))


def recording(number: int, rate_hz: int = 24000, seconds: float = 2.0) -> Reference:
    draw = np.random.default_rng(number)
    samples = draw.standard_normal(round(rate_hz * seconds)).astype(np.float32) * 0.1
    return Reference(samples, rate_hz, None, None)


class TestPocket(EngineContract):
    engine = engine
    most_odd_chars: ClassVar[int] = 30
    guarded_texts: ClassVar[list[str]] = ["...", "x", "1次", "Huh?", "50% of £3.50"]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def tiny(cls, source: Source) -> None:
        cls.source = source


# Against the library ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["Good morning, everyone.", LONG, "stop"])
def test_steps_join_to_what_the_library_makes_in_one_go(
    model: PocketModel, source: Source, text: str
) -> None:
    library = TTSModel.load_model(config=source.path)
    library.max_decoder_frames_per_call = 1
    state = library.get_state_for_audio_prompt(Path(source.settings["voices"]["anna"]))
    with torch.random.fork_rng():
        torch.manual_seed(7)
        theirs = library.generate_audio(state, text).numpy()
    ours = speak(model, request(text))
    assert {chunk.samples.size for chunk in ours.chunks} == {FRAME_SAMPLES}
    np.testing.assert_allclose(ours.samples, np.clip(theirs, -1, 1), atol=1e-5)


def test_the_first_step_is_one_frame(model: PocketModel) -> None:
    stream = model.start(request(LONG), None)
    assert step(model, stream).samples.size == FRAME_SAMPLES
    model.close(stream)


def test_the_library_starts_no_threads_between_steps(model: PocketModel) -> None:
    stream = model.start(request(LONG), None)
    step(model, stream)
    before = threading.active_count()
    for _ in range(5):
        step(model, stream)
        assert threading.active_count() == before
    model.close(stream)
    assert threading.active_count() == before


def test_it_ends_where_the_network_says_so(source: Source, tmp_path: Path) -> None:
    """With the bias the other way round: 6 frames, in which the end isn't believed, and those that follow it."""
    folder = tmp_path / "short"
    path = make_checkpoint(folder)
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["flow_lm.out_eos.bias"].fill_(50.0)
    save_file(weights, folder / "model.safetensors")
    model = engine.load(Source(path=str(path), settings=source.settings), "cpu")
    assert speak(model, request("One two three four five six.")).samples.size == (6 + 3) * FRAME_SAMPLES
    assert speak(model, request("One two.")).samples.size == (6 + 5) * FRAME_SAMPLES
    model.unload()


# Random states ----------------------------------------------------------------------------------------------------


def test_seeds_differ_and_repeat(model: PocketModel) -> None:
    one, same, other = (speak(model, request(seed=seed)).samples for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0


def test_what_others_draw_changes_nothing(model: PocketModel) -> None:
    alone = speak(model, request(LONG)).samples
    stream = model.start(request(LONG), None)
    pieces = []
    for _ in range(10):
        torch.manual_seed(99)
        torch.rand(17)
        pieces.append(step(model, stream).samples)
    pieces.append(finish(model, stream).samples)
    np.testing.assert_array_equal(np.concatenate(pieces), alone)


def test_steps_draw_nothing_from_the_global_state(model: PocketModel) -> None:
    before = torch.get_rng_state()
    speak(model, request())
    model.prepare(recording(1), "audio")
    assert torch.equal(before, torch.get_rng_state())


def test_three_streams_at_once_speak_as_alone(model: PocketModel) -> None:
    requests = [request(seed=1), request(LONG, voice="ben", seed=1), request("Stop!", seed=2)]
    alone = [speak(model, each).samples for each in requests]
    for together, one in zip(speak_together(model, requests, batch=1), alone, strict=True):
        np.testing.assert_array_equal(together.samples, one)


def test_a_state_gives_what_its_seed_gives_in_pytorch() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        wanted = [torch.rand(3) for _ in range(2)]
    state = RandomState(5)
    for each in wanted:
        torch.rand(1)
        with state:
            assert torch.equal(torch.rand(3), each)


def test_the_number_of_threads_is_given_back(source: Source) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    model = engine.load(source, "cpu")
    assert torch.get_num_threads() == 1
    model.unload()
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


# Cloning ----------------------------------------------------------------------------------------------------------


def test_a_prompt_says_the_same_as_the_voice_that_it_was_made_of(model: PocketModel, source: Source) -> None:
    samples, rate_hz = soundfile.read(source.settings["voices"]["anna"], dtype="float32")
    prompt = model.restore(model.prepare(Reference(samples, rate_hz, None, None), "audio"))
    cloned = speak(model, request(), prompt).samples
    np.testing.assert_allclose(cloned, speak(model, request()).samples, atol=1e-5)


def test_prompts_of_two_people_differ_and_repeat(model: PocketModel) -> None:
    one, same, other = (model.prepare(recording(number), "audio") for number in (1, 1, 2))
    assert one == same
    assert one != other
    spoken = [
        speak(model, request(voice="clip"), model.restore(prompt)).samples for prompt in (one, same, other)
    ]
    np.testing.assert_array_equal(spoken[0], spoken[1])
    assert np.abs(spoken[0] - spoken[2]).max() > 0


def test_a_prompt_is_restored_by_another_process_model_without_the_recording(
    model: PocketModel, source: Source
) -> None:
    prompt = model.prepare(recording(3), "audio")
    before = speak(model, request(voice="clip"), model.restore(prompt)).samples
    other = engine.load(source, "cpu")
    after = speak(other, request(voice="clip"), other.restore(prompt)).samples
    other.unload()
    np.testing.assert_array_equal(before, after)


def test_a_prompt_can_be_used_many_times_and_at_once(model: PocketModel) -> None:
    prompt = model.restore(model.prepare(recording(4), "audio"))
    alone = speak(model, request(LONG, voice="clip"), prompt).samples
    streams = [model.start(request(LONG, voice="clip"), prompt) for _ in range(2)]
    pieces: list[list[Any]] = [[], []]
    for _ in range(4):
        for index, stream in enumerate(streams):
            pieces[index].append(step(model, stream).samples)
    model.close(streams[0])
    pieces[1].append(finish(model, streams[1]).samples)
    np.testing.assert_array_equal(np.concatenate(pieces[1]), alone)


def test_prompts_and_the_librarys_exported_states_are_the_same_files(
    model: PocketModel, source: Source, tmp_path: Path
) -> None:
    library = TTSModel.load_model(config=source.path)
    state = library.get_state_for_audio_prompt(torch.from_numpy(recording(5).samples)[None])
    export_model_state(state, tmp_path / "theirs.safetensors")
    theirs = model.restore((tmp_path / "theirs.safetensors").read_bytes())
    ours = model.restore(model.prepare(recording(5), "audio"))
    np.testing.assert_array_equal(
        speak(model, request(), theirs).samples, speak(model, request(), ours).samples
    )
    settings = {"voices": {"theirs": str(tmp_path / "theirs.safetensors")}}
    with_file = engine.load(Source(path=source.path, settings=settings), "cpu")
    np.testing.assert_array_equal(
        speak(with_file, request(voice="theirs")).samples, speak(model, request(), ours).samples
    )
    with_file.unload()


def test_a_recording_of_another_rate_is_brought_to_the_models(model: PocketModel) -> None:
    prompt = model.restore(model.prepare(recording(6, rate_hz=16000), "audio"))
    assert speak(model, request("Stop!", voice="clip"), prompt).samples.size


def test_what_cannot_be_cloned_is_an_engine_error(model: PocketModel) -> None:
    with pytest.raises(EngineError, match="audio alone"):
        model.prepare(recording(1), "audio+text")
    with pytest.raises(EngineError, match="empty"):
        model.prepare(Reference(np.zeros(0, np.float32), 24000, None, None), "audio")
    for damaged in (b"", b"{}", b"\x00" * 64):
        with pytest.raises(EngineError, match="can't be read"):
            model.restore(damaged)


def test_weights_that_cannot_clone_say_what_to_do(source: Source) -> None:
    model = engine.load(source, "cpu")
    model._library.has_voice_cloning = False
    with pytest.raises(EngineError, match="accept the terms"):
        model.prepare(recording(1), "audio")
    model.unload()


# Options and sources ----------------------------------------------------------------------------------------------


def test_the_temperature_is_of_the_request_alone(model: PocketModel) -> None:
    usual = speak(model, request()).samples
    cold = [speak(model, request(seed=seed, options=PocketOptions(temperature=0))).samples for seed in (1, 2)]
    np.testing.assert_array_equal(cold[0], cold[1])
    np.testing.assert_array_equal(speak(model, request()).samples, usual)


@pytest.mark.parametrize("value", [-1, 2, "hot", True])
def test_a_wrong_temperature_is_refused(value: Any) -> None:
    with pytest.raises(OptionError) as refused:
        PocketOptions(temperature=value)
    assert refused.value.param == "temperature"


@pytest.mark.filterwarnings("ignore:.*torch.ao:DeprecationWarning", "ignore::UserWarning:torch")
def test_int8_is_another_checkpoint_and_speaks(source: Source) -> None:
    int8 = Source(path=source.path, settings={**source.settings, "int8": True})
    assert engine.identify(int8).checkpoint != engine.identify(source).checkpoint
    model = engine.load(int8, "cpu")
    samples = speak(model, request()).samples
    assert np.isfinite(samples).all()
    assert samples.size
    model.unload()


def test_facts_follow_the_checkpoint(source: Source, tmp_path: Path) -> None:
    facts = engine.identify(source)
    info = info_of(engine.info, facts)
    assert [voice.voice_id for voice in info.voices] == ["anna", "ben"]
    assert info.clones == {"audio"}
    assert facts.step_s == FRAME_SAMPLES / facts.sample_rate_hz
    other = make_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    assert engine.identify(Source(path=str(other), settings=source.settings)).checkpoint != facts.checkpoint


def test_the_librarys_models_have_their_voices_and_languages() -> None:
    french = engine.identify(Source(settings={"language": "french"}))
    assert (french.voices or ())[0].voice_id == "estelle"
    assert list(french.languages or ()) == ["fr"]
    english = engine.identify(Source())
    assert (english.voices or ())[0].voice_id == "alba"
    from pocket_tts.utils.utils import _ORIGINS_OF_PREDEFINED_VOICES

    assert {voice.voice_id for voice in english.voices or ()} == set(_ORIGINS_OF_PREDEFINED_VOICES)


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"language": "klingon"}, "language"),
        ({"language": "english_9m"}, "language"),
        ({"voices": ["anna"]}, "voices"),
        ({"voices": {"anna": "/nowhere.wav"}}, "voices"),
        ({"int8": 1}, "int8"),
        ({"threads": 0}, "threads"),
        ({"x": 1}, "x"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(settings: dict[str, Any], param: str) -> None:
    with pytest.raises(OptionError) as refused:
        engine.identify(Source(settings=settings))
    assert refused.value.param == param


def test_an_own_checkpoint_needs_a_voice(source: Source) -> None:
    with pytest.raises(OptionError, match="needs a voice"):
        engine.identify(Source(path=source.path))


def test_a_checkpoint_that_is_not_there_says_so(source: Source, tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"none\.yaml isn't there"):
        engine.identify(Source(path=str(tmp_path / "none.yaml"), settings=source.settings))
    (tmp_path / "wrong.yaml").write_text("flow_lm: {}", "utf-8")
    with pytest.raises(EngineUnavailable, match="couldn't be loaded"):
        engine.load(Source(path=str(tmp_path / "wrong.yaml"), settings=source.settings), "cpu")


def test_a_voice_that_is_no_recording_says_so(source: Source, tmp_path: Path) -> None:
    (tmp_path / "anna.wav").write_bytes(b"no recording")
    broken = Source(path=source.path, settings={"voices": {"anna": str(tmp_path / "anna.wav")}})
    with pytest.raises(EngineUnavailable, match=r"'anna' can't be read"):
        engine.load(broken, "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_without_a_device_says_so(source: Source) -> None:
    with pytest.raises(EngineUnavailable, match="sees no GPU"):
        engine.load(source, "cuda")
