"""VoxCPM's voices: cloned in every way as the library would, prompts kept and restored, and what is refused."""

import importlib.util
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WHY = "the extra voxcpm isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
if importlib.util.find_spec("voxcpm") is None:
    pytest.skip(WHY, allow_module_level=True)

import safetensors.torch  # noqa: E402 - after what it may be skipped for
import soundfile  # noqa: E402
import torch  # noqa: E402

from engines.contract import EngineError, EngineUnavailable, OptionError, Request, Source  # noqa: E402
from engines.voxcpm import engine  # noqa: E402
from engines.voxcpm_model import VoxcpmModel  # noqa: E402
from engines.voxcpm_settings import DESIGN, VoxcpmOptions  # noqa: E402
from tests.engines.speaking import finish, speak, step  # noqa: E402
from tests.engines.tiny_voxcpm import change, make_checkpoint  # noqa: E402
from tests.engines.voxcpm_library import official  # noqa: E402
from voices.reference import Reference  # noqa: E402

TEXT = "Good morning, everyone."
SAID = "hello there"
RATE_HZ = 24000


def recording(number: int, transcript: str | None = None, seconds: float = 1.0) -> Reference:
    draw = np.random.default_rng(number)
    samples = draw.standard_normal(round(RATE_HZ * seconds)).astype(np.float32) * 0.1
    return Reference(samples, RATE_HZ, transcript, None)


def write(path: Path, recorded: Reference) -> str:
    soundfile.write(path, recorded.samples, recorded.sample_rate_hz, subtype="FLOAT")
    return str(path)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = make_checkpoint(tmp_path_factory.mktemp("voxcpm"))
    files = tmp_path_factory.mktemp("recordings")
    voices = {
        "anna": write(files / "anna.wav", recording(1)),
        "ben": {"audio": write(files / "ben.wav", recording(2)), "text": SAID},
    }
    return Source(path=str(folder), settings={"voices": voices})


@pytest.fixture(scope="module")
def model(source: Source) -> Iterator[VoxcpmModel]:
    model = engine.load(source, "cpu")
    yield model
    model.unload()


@pytest.fixture(scope="module")
def library(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return official(str(source.path), tmp_path_factory.mktemp("theirs"))


def request(**changes: Any) -> Request:
    values: dict[str, Any] = {"voice": "clip", "seed": 7, "options": VoxcpmOptions(max_len=6)}
    return Request(text=TEXT, language="en", **(values | changes))


def theirs(library: Any, **paths: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return library.generate(text=TEXT, max_len=6, retry_badcase=False, **paths)


def cloned(model: VoxcpmModel, recorded: Reference, mode: Any) -> Any:
    return speak(model, request(), model.restore(model.prepare(recorded, mode))).samples


# As the library would ---------------------------------------------------------------------------------------------


def test_a_recording_alone_is_the_reference(model: VoxcpmModel, library: Any, tmp_path: Path) -> None:
    wanted = theirs(library, reference_wav_path=write(tmp_path / "a.wav", recording(3, SAID)))
    np.testing.assert_allclose(cloned(model, recording(3, SAID), "audio"), wanted, atol=1e-5)


def test_with_its_transcript_it_is_gone_on_from_as_well(
    model: VoxcpmModel, library: Any, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.wav", recording(3))
    wanted = theirs(library, reference_wav_path=path, prompt_wav_path=path, prompt_text=SAID)
    np.testing.assert_allclose(cloned(model, recording(3, SAID), "audio+text"), wanted, atol=1e-5)


def test_by_a_setting_it_is_only_gone_on_from(source: Source, library: Any, tmp_path: Path) -> None:
    other = Source(path=source.path, settings={"with_text": "continuation"})
    model = engine.load(other, "cpu")
    path = write(tmp_path / "a.wav", recording(3))
    wanted = theirs(library, prompt_wav_path=path, prompt_text=SAID)
    np.testing.assert_allclose(cloned(model, recording(3, SAID), "audio+text"), wanted, atol=1e-5)
    model.unload()
    assert engine.identify(other).checkpoint != engine.identify(replace(source, settings={})).checkpoint


@pytest.mark.parametrize("mode", ["audio", "audio+text"])
def test_s16_a_tone_seed_locks_the_tone_and_the_recording_gives_the_voice(
    model: VoxcpmModel, library: Any, tmp_path: Path, mode: Any
) -> None:
    wanted = theirs(
        library,
        reference_wav_path=write(tmp_path / "voice.wav", recording(3)),
        prompt_wav_path=write(tmp_path / "tone.wav", recording(4)),
        prompt_text="softly now",
    )
    toned = replace(recording(3, SAID), tone=recording(4, "softly now"))
    np.testing.assert_allclose(cloned(model, toned, mode), wanted, atol=1e-5)
    assert np.abs(cloned(model, toned, mode) - cloned(model, recording(3), "audio")).max() > 0


def test_voices_of_the_settings_speak_as_clones_of_their_recordings(model: VoxcpmModel) -> None:
    for name, number, mode in (("anna", 1, "audio"), ("ben", 2, "audio+text")):
        own = speak(model, request(voice=name)).samples
        np.testing.assert_array_equal(own, cloned(model, recording(number, SAID), mode))


def test_the_first_voice_is_the_default_and_that_without_a_recording_the_last(source: Source) -> None:
    voices = engine.identify(source).voices or ()
    assert [voice.voice_id for voice in voices] == ["anna", "ben", DESIGN]


# Prompts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["audio", "audio+text"])
def test_s23_a_prompt_is_computed_once_and_restored_elsewhere_without_the_recording(
    model: VoxcpmModel, source: Source, mode: Any
) -> None:
    stored = model.prepare(recording(5, SAID), mode)
    assert stored == model.prepare(recording(5, SAID), mode)
    assert stored != model.prepare(recording(6, SAID), mode)
    assert set(safetensors.torch.load(stored)) == (
        {"ref_audio_feat"} if mode == "audio" else {"ref_audio_feat", "audio_feat", "prompt_text"}
    )
    here = speak(model, request(), model.restore(stored)).samples
    other = engine.load(source, "cpu")
    np.testing.assert_array_equal(speak(other, request(), other.restore(stored)).samples, here)
    other.unload()


def test_a_prompt_can_be_used_many_times(model: VoxcpmModel) -> None:
    prompt = model.restore(model.prepare(recording(7, SAID), "audio+text"))
    first, again = (speak(model, request(), prompt).samples for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_a_prompt_that_is_made_or_restored_beside_a_stream_leaves_no_trace_in_it(model: VoxcpmModel) -> None:
    alone = speak(model, request(voice="ben")).samples
    stored = model.prepare(recording(7, SAID), "audio+text")
    stream = model.start(request(voice="ben"), None)
    pieces = []
    for _ in range(3):
        pieces.append(step(model, stream).samples)
        model.restore(stored)
        model.prepare(recording(7, SAID), "audio+text")
    pieces.append(finish(model, stream).samples)
    np.testing.assert_array_equal(np.concatenate(pieces), alone)


def test_a_recording_has_no_copy_on_disk_afterwards(
    model: VoxcpmModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model.prepare(recording(8), "audio")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damaged", [b"", b"{}", b"\x00" * 64])
def test_a_damaged_prompt_is_an_engine_error(model: VoxcpmModel, damaged: bytes) -> None:
    with pytest.raises(EngineError, match="can't be read"):
        model.restore(damaged)


def test_a_prompt_of_another_kind_of_checkpoint_is_an_engine_error(model: VoxcpmModel) -> None:
    for tensors in (
        {"x": torch.zeros(1)},
        {"ref_audio_feat": torch.zeros(3, 4, 64)},
        {"audio_feat": torch.zeros(3, 4, 16)},
    ):
        with pytest.raises(EngineError, match="isn't one of this checkpoint"):
            model.restore(safetensors.torch.save(tensors))


# Refused ----------------------------------------------------------------------------------------------------------


def test_s12_audio_and_text_without_a_transcript_is_refused(model: VoxcpmModel) -> None:
    with pytest.raises(EngineError, match="needs the transcript"):
        model.prepare(recording(1), "audio+text")
    with pytest.raises(EngineError, match="whose tone is to be kept"):
        model.prepare(replace(recording(1), tone=recording(2)), "audio")


def test_what_cannot_be_cloned_is_refused(model: VoxcpmModel) -> None:
    with pytest.raises(EngineError, match="empty"):
        model.prepare(Reference(np.zeros(0, np.float32), RATE_HZ, None, None), "audio")
    with pytest.raises(EngineError, match="60 s at the most"):
        model.prepare(recording(1, SAID, seconds=61), "audio+text")


def test_s13_denoising_is_refused_by_name_unless_the_model_was_loaded_so(model: VoxcpmModel) -> None:
    with pytest.raises(OptionError, match="loaded without a denoiser") as refused:
        model.start(request(voice=DESIGN, options=VoxcpmOptions(denoise=True)), None)
    assert refused.value.param == "denoise"
    assert speak(model, request(voice=DESIGN, options=VoxcpmOptions(denoise=False, max_len=2))).samples.size


def test_s13_an_instruction_is_refused_by_name_where_it_would_be_read_out(model: VoxcpmModel) -> None:
    whispering = VoxcpmOptions(instruct="whispering", max_len=4)
    with pytest.raises(OptionError, match="takes no instruction") as refused:
        model.start(request(voice="ben", options=whispering), None)
    assert refused.value.param == "instruct"
    plain, instructed = (
        speak(model, request(voice="anna", options=options)).samples
        for options in (VoxcpmOptions(max_len=4), whispering)
    )
    assert np.abs(plain - instructed).max() > 0


# Checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({"stop_proj__bias": None}, r"1 tensors are missing \(stop_proj.bias"),
        ({"layers__9__x": torch.zeros(1)}, r"1 tensors aren't the network's \(layers.9.x"),
        ({"stop_proj__bias": torch.zeros(5)}, "size mismatch for stop_proj.bias"),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_not_left_random(
    source: Source, tmp_path: Path, tensors: dict[str, Any], reason: str
) -> None:
    shutil.copytree(str(source.path), tmp_path, dirs_exist_ok=True)
    change(tmp_path, **tensors)
    with pytest.raises(EngineUnavailable, match=reason):
        engine.load(Source(path=str(tmp_path)), "cpu")


def test_a_voice_that_is_no_recording_says_so(source: Source, tmp_path: Path) -> None:
    (tmp_path / "anna.wav").write_bytes(b"no recording")
    broken = Source(path=source.path, settings={"voices": {"anna": str(tmp_path / "anna.wav")}})
    with pytest.raises(EngineUnavailable, match=r"'anna' can't be read"):
        engine.load(broken, "cpu")


def test_precision_is_as_set_and_float32_on_a_processor_else(source: Source, model: VoxcpmModel) -> None:
    assert {value.dtype for value in model._library.parameters()} == {torch.float32}
    half = engine.load(Source(path=source.path, settings={"dtype": "bfloat16"}), "cpu")
    assert half._library.stop_head.weight.dtype == torch.bfloat16
    assert speak(half, request(voice=DESIGN)).samples.size
    half.unload()


def test_optimising_is_for_cuda_alone(source: Source) -> None:
    with pytest.raises(EngineUnavailable, match="on CUDA alone"):
        engine.load(Source(path=source.path, settings={"optimize": True}), "cpu")


def test_a_denoiser_that_cannot_be_loaded_says_so(source: Source, tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"denoiser .* can't be loaded"):
        engine.load(Source(path=source.path, settings={"denoiser": str(tmp_path)}), "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_s1_cuda_without_a_device_says_so(source: Source) -> None:
    with pytest.raises(EngineUnavailable, match=r"PyTorch .* sees no GPU; CUDA_VISIBLE_DEVICES"):
        engine.load(source, "cuda")
