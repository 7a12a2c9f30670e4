"""dots.tts through its real loading code, on tiny random checkpoints."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

WHY = "the extra dots isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("torchdiffeq", reason=WHY)

import torch  # noqa: E402 - after what it may be skipped for

from engines.contract import EngineError, OptionError, Request, Source  # noqa: E402
from engines.dots import DotsOptions, engine  # noqa: E402
from engines.dots_model import DotsModel  # noqa: E402
from engines.torch_random import RandomState  # noqa: E402
from tests.engines.contract_suite import EngineContract  # noqa: E402
from tests.engines.speaking import finish, speak, speak_together, step  # noqa: E402
from tests.engines.tiny_dots import make_checkpoint  # noqa: E402
from voices.reference import CloneMode, Reference  # noqa: E402

PATCH_SAMPLES = 7680
MODES: tuple[CloneMode, ...] = ("audio", "audio+text")
TEXT = "Good morning, everyone."
SETTINGS = {"optimize": False, "steps": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("dots"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[DotsModel]:
    model = engine.load(Source(path=str(folder), settings=SETTINGS), "cpu")
    yield model
    model.unload()


def request(text: str = TEXT, **changes: Any) -> Request:
    values: dict[str, Any] = {"language": "en", "voice": "any", "seed": 7}
    return Request(text=text, **(values | changes))


def recording(seed: int, seconds: float = 1.5, rate_hz: int = 24000) -> Reference:
    noise = np.random.default_rng(seed).standard_normal(round(seconds * rate_hz)).astype(np.float32) * 0.1
    return Reference(noise, rate_hz, "She sells sea shells by the sea shore every day.", "en")


class TestContract(EngineContract):
    engine = engine
    most_odd_chars: ClassVar[int] = 60
    guarded_texts: ClassVar[list[str]] = ["Huh?", "x", "你好。", "50% of £3.50"]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _with_checkpoint(cls, folder: Path) -> None:
        cls.source = Source(path=str(folder), settings=SETTINGS)


# Steps -----------------------------------------------------------------------------------------------------------


def test_the_first_step_is_half_a_patch_and_the_others_are_whole(model: DotsModel) -> None:
    sizes = [chunk.samples.size for chunk in speak(model, request()).chunks]
    assert sizes[0] == PATCH_SAMPLES // 2
    assert set(sizes[1:-2]) == {PATCH_SAMPLES}
    assert sizes[-1] == 0


def test_streamed_is_what_the_library_says_in_one_go(model: DotsModel) -> None:
    stream = model.start(request(), None)
    streamed = finish(model, stream).samples
    runtime = model._runtime
    from dots_tts.runtime import DotsTtsRuntime

    with RandomState(7):
        whole = (
            DotsTtsRuntime.generate(runtime, text=TEXT, language="en", num_steps=1)["audio"].flatten().numpy()
        )
    assert whole.size == streamed.size
    np.testing.assert_allclose(streamed, whole, atol=1e-6)


def test_two_seeds_sound_different_and_what_others_draw_does_not_matter(model: DotsModel) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = speak(model, request(seed=1)).samples
    assert torch.equal(torch.get_rng_state(), before)
    torch.randn(7)
    np.testing.assert_array_equal(speak(model, request(seed=1)).samples, first)
    other = speak(model, request(seed=2)).samples
    assert np.abs(first[: other.size] - other[: first.size]).max() > 1e-3


def test_a_newcomer_between_any_two_steps_changes_nothing(model: DotsModel) -> None:
    """The library lets the newest stream write into the buffers of the others."""
    alone = speak(model, request()).samples
    for at in range(4):
        stream = model.start(request(), None)
        pieces = [step(model, stream).samples for _ in range(at)]
        other = model.start(request("Stop!", seed=3), None)
        step(model, other)
        pieces.append(finish(model, stream).samples)
        model.close(other)
        np.testing.assert_array_equal(np.concatenate(pieces), alone)


def test_autocast_of_one_stream_is_nobody_elses(model: DotsModel) -> None:
    torch.set_autocast_enabled("cpu", True)
    try:
        stream = model.start(request(), None)
        step(model, stream)
        assert torch.is_autocast_enabled("cpu")
        model.close(stream)
        assert torch.is_autocast_enabled("cpu")
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.clear_autocast_cache()


# Voices ----------------------------------------------------------------------------------------------------------


def test_a_clone_from_audio_alone_and_one_that_goes_on_sound_like_neither(model: DotsModel) -> None:
    plain = speak(model, request()).samples
    takes = [plain]
    for mode in MODES:
        prompt = model.restore(model.prepare(recording(1), mode))
        takes.append(speak(model, request(), prompt).samples)
        np.testing.assert_array_equal(speak(model, request(), prompt).samples, takes[-1])
    for one, other in ((0, 1), (0, 2), (1, 2)):
        count = min(takes[one].size, takes[other].size)
        assert np.abs(takes[one][:count] - takes[other][:count]).max() > 1e-3


def test_another_person_sounds_different(model: DotsModel) -> None:
    takes = [
        speak(model, request(), model.restore(model.prepare(recording(seed), "audio"))).samples
        for seed in (1, 2)
    ]
    count = min(take.size for take in takes)
    assert np.abs(takes[0][:count] - takes[1][:count]).max() > 1e-4


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_clone_sounds_as_the_library_makes_it(model: DotsModel, tmp_path: Path) -> None:
    """The prompt holds all that the library takes from a recording."""
    import soundfile
    from dots_tts.models.dots_tts.model import DotsTtsModel
    from dots_tts.runtime import DotsTtsRuntime

    clip = recording(1)
    soundfile.write(tmp_path / "clip.wav", clip.samples, clip.sample_rate_hz, subtype="FLOAT")
    theirs = DotsTtsModel.from_pretrained(model._runtime.pretrained_path)
    with pytest.warns(UserWarning, match="CUDA is not available"):
        runtime = DotsTtsRuntime(theirs, tmp_path, precision="float32", max_generate_length=512)
    runtime.generate(text="Stop!", num_steps=1)  # its first call draws more, for layers that it makes
    for mode, transcript in zip(MODES, (None, clip.transcript), strict=True):
        prompt = model.restore(model.prepare(clip, mode))
        with RandomState(7):
            made = runtime.generate(
                text=TEXT,
                prompt_audio_path=str(tmp_path / "clip.wav"),
                prompt_text=transcript,
                language="en",
                num_steps=1,
            )["audio"]
        np.testing.assert_allclose(speak(model, request(), prompt).samples, made.flatten().numpy(), atol=1e-5)


def test_s12_going_on_from_a_recording_needs_its_transcript(model: DotsModel) -> None:
    clip = recording(1)
    bare = Reference(clip.samples, clip.sample_rate_hz, None, "en")
    with pytest.raises(EngineError, match="transcript"):
        model.prepare(bare, "audio+text")
    assert model.prepare(bare, "audio")


def test_s16_a_tone_seed_is_gone_on_with_in_the_persons_voice(model: DotsModel) -> None:
    person, tone = recording(1), recording(2)
    seeded = Reference(person.samples, person.sample_rate_hz, None, "en", tone)
    prompt = model.restore(model.prepare(seeded, "audio+text"))
    assert torch.equal(prompt.speaker, model.restore(model.prepare(person, "audio")).speaker)
    latents = model.restore(model.prepare(tone, "audio+text")).latents
    assert prompt.latents is not None
    assert latents is not None
    assert torch.equal(prompt.latents, latents)


def test_a_recording_that_cannot_be_used_is_refused(model: DotsModel) -> None:
    with pytest.raises(EngineError, match="empty"):
        model.prepare(Reference(np.zeros(0, np.float32), 24000, "x", "en"), "audio")
    with pytest.raises(EngineError, match="at most 60 s"):
        model.prepare(recording(1, 61, 8000), "audio+text")
    with pytest.raises(EngineError, match="can't be read"):
        model.restore(b"no prompt")


def test_s23_a_prompt_of_a_long_recording_is_the_same_each_time(model: DotsModel) -> None:
    """The library takes ten seconds from anywhere in it."""
    long = recording(1, 12, 16000)
    assert model.prepare(long, "audio") == model.prepare(long, "audio")


def test_s24_nothing_of_a_recording_stays_in_the_library(model: DotsModel) -> None:
    for seed in range(3):
        for mode in MODES:
            prompt = model.restore(model.prepare(recording(seed), mode))
            speak(model, request("Stop!"), prompt)
    assert not model._runtime.model._prompt_feature_cache
    assert not hasattr(model._runtime, "_double_streaming_prompt_g_cond_cache")
    assert len(model._runtime.model._static_generate_workspaces) <= 1


# Many streams ----------------------------------------------------------------------------------------------------


def test_clones_interleave_exactly(model: DotsModel) -> None:
    prompts = [
        None,
        model.restore(model.prepare(recording(1), "audio")),
        model.restore(model.prepare(recording(2), "audio+text")),
    ]
    alone = [speak(model, request(), prompt).samples for prompt in prompts]
    streams = [model.start(request(), prompt) for prompt in prompts]
    made: list[list[np.ndarray]] = [[] for _ in streams]
    while not all(stream.over for stream in streams):
        for stream, pieces in zip(streams, made, strict=True):
            if not stream.over:
                pieces.append(step(model, stream).samples)
    for solo, pieces in zip(alone, made, strict=True):
        np.testing.assert_array_equal(np.concatenate(pieces), solo)


def test_half_a_dozen_at_once_speak_as_they_would_alone(model: DotsModel) -> None:
    requests = [request("Stop!", seed=seed) for seed in range(6)]
    alone = [speak(model, each).samples for each in requests]
    for solo, together in zip(alone, speak_together(model, requests, 1), strict=True):
        np.testing.assert_array_equal(together.samples, solo)


# Options ---------------------------------------------------------------------------------------------------------


def test_s13_every_option_changes_the_sound(model: DotsModel) -> None:
    prompt = model.restore(model.prepare(recording(1), "audio"))
    plain = speak(model, request(), prompt).samples
    for options in (
        DotsOptions(num_steps=3),
        DotsOptions(guidance_scale=3.0),
        DotsOptions(speaker_scale=0.0),
    ):
        other = speak(model, request(options=options), prompt).samples
        count = min(plain.size, other.size)
        assert np.abs(plain[:count] - other[:count]).max() > 1e-5, options


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"num_steps": 0}, "num_steps"),
        ({"num_steps": 33}, "num_steps"),
        ({"num_steps": 2.0}, "num_steps"),
        ({"num_steps": True}, "num_steps"),
        ({"guidance_scale": -0.1}, "guidance_scale"),
        ({"guidance_scale": "1"}, "guidance_scale"),
        ({"speaker_scale": 5.1}, "speaker_scale"),
        ({"speaker_scale": float("nan")}, "speaker_scale"),
    ],
)
def test_s13_an_option_out_of_range_is_refused_by_its_name(options: dict[str, Any], param: str) -> None:
    with pytest.raises(OptionError) as refused:
        DotsOptions(**options)
    assert refused.value.param == param
