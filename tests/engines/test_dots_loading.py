"""What dots is told and refuses before it speaks, how it is loaded, and what stays of it."""

import importlib.metadata
import json
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WHY = "the extra dots isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("torchdiffeq", reason=WHY)

import torch  # noqa: E402 - after what it may be skipped for

from engines import torch_audio  # noqa: E402
from engines.contract import EngineError, EngineUnavailable, OptionError, Request, Source  # noqa: E402
from engines.dots import DotsOptions, engine  # noqa: E402
from tests.engines.speaking import speak  # noqa: E402
from tests.engines.tiny_dots import make_checkpoint  # noqa: E402
from ws_server.accelerators import choose  # noqa: E402
from ws_server.languages import match_language  # noqa: E402

SETTINGS = {"optimize": False, "steps": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("dots"))


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made for two steps without guidance, as the released ones that end in 2steps."""
    return make_checkpoint(tmp_path_factory.mktemp("fixed"), fixed=True)


def request(text: str = "Stop!", **changes: Any) -> Request:
    values: dict[str, Any] = {"language": "en", "voice": "any", "seed": 7}
    return Request(text=text, **(values | changes))


def changed_config(folder: Path, to: Path, **changes: Any) -> Source:
    shutil.copytree(folder, to)
    config = json.loads((to / "config.json").read_text("utf-8"))
    (to / "config.json").write_text(json.dumps(config | changes), "utf-8")
    return Source(path=str(to))


# Settings --------------------------------------------------------------------------------------------------------


def test_s20_steps_and_optimisation_are_always_explicit(folder: Path, fixed: Path, tmp_path: Path) -> None:
    def steps(source: Source) -> int:
        from engines.dots import _config, _folder, _sampling

        return _sampling(_config(_folder(source)), engine_settings(source)).num_steps

    assert steps(Source(path=str(folder))) == 10
    assert steps(Source(path=str(folder), settings={"steps": 4})) == 4
    assert steps(Source(path=str(fixed))) == 2
    assert steps(changed_config(folder, tmp_path / "mf", meanflow={"enabled": True})) == 4
    assert engine_settings(Source(path=str(folder))).optimize is True


def engine_settings(source: Source) -> Any:
    from engines.dots import DotsSettings

    return DotsSettings.from_source(source)


def test_compiled_it_has_one_stream_and_longer_steps(folder: Path) -> None:
    compiled = engine.identify(Source(path=str(folder)))
    plain = engine.identify(Source(path=str(folder), settings=SETTINGS))
    assert (compiled.max_open, compiled.step_s) == (1, 0.64)
    assert (plain.max_open > 1000, plain.step_s) == (True, 0.16)


def test_s25_footprints_are_those_that_were_measured(folder: Path) -> None:
    footprints = engine.identify(Source(path=str(folder))).footprint_bytes
    assert footprints["audio"] == 6.3e9
    assert footprints["audio+text"] == 8e9
    assert max(footprints.values()) == 8e9


def test_the_checkpoint_is_known_by_all_that_shapes_its_sound(folder: Path, fixed: Path) -> None:
    def checkpoint(path: Path, **settings: Any) -> str:
        return engine.identify(Source(path=str(path), settings=settings)).checkpoint

    digests = {
        checkpoint(folder),
        checkpoint(folder, steps=4),
        checkpoint(folder, optimize=False),
        checkpoint(folder, dtype="float32"),
        checkpoint(fixed),
    }
    assert len(digests) == 5
    assert checkpoint(folder, threads=2) in digests


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": "4"}, "steps"),
        ({"optimize": 1}, "optimize"),
        ({"dtype": "int8"}, "dtype"),
        ({"threads": 0}, "threads"),
        ({"x": 1}, "x"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(folder: Path, settings: dict[str, Any], param: str) -> None:
    with pytest.raises(OptionError) as refused:
        engine.identify(Source(path=str(folder), settings=settings))
    assert refused.value.param == param


def test_a_checkpoint_made_for_a_number_of_steps_takes_no_other(fixed: Path) -> None:
    with pytest.raises(OptionError, match="made for 2 alone") as refused:
        engine.identify(Source(path=str(fixed), settings={"steps": 4}))
    assert refused.value.param == "steps"
    model = engine.load(Source(path=str(fixed), settings={"optimize": False}), "cpu")
    try:
        for options, param in (
            (DotsOptions(num_steps=3), "num_steps"),
            (DotsOptions(guidance_scale=1.0), "guidance_scale"),
        ):
            with pytest.raises(OptionError) as at_start:
                model.start(request(options=options), None)
            assert at_start.value.param == param
        own = speak(model, request(options=DotsOptions(num_steps=2, guidance_scale=0))).samples
        np.testing.assert_array_equal(own, speak(model, request()).samples)
    finally:
        model.unload()


@pytest.mark.parametrize("asked", ["en", "en-US", "English", "zh-CN", "Chinese", "pt-BR", "yue", "Cantonese"])
def test_s11_whatever_a_language_is_called_the_library_knows_its_tag(asked: str) -> None:
    from engines.dots_library import import_library

    import_library()
    from dots_tts.utils.text import attach_language_tag

    tag = match_language(asked, engine.info.languages)
    assert tag is not None
    expected = {"en": "[EN]x", "zh": "[ZH]x", "pt": "[PT]x", "yue": "[口音:粤语]x"}
    assert attach_language_tag("x", engine.info.languages[tag]) == expected[tag]


# Devices and versions --------------------------------------------------------------------------------------------


def test_s1_a_processor_has_to_be_asked_for() -> None:
    with pytest.raises(EngineUnavailable, match=r"dots needs cuda.*CUDA_VISIBLE_DEVICES"):
        choose("dots", engine.info.devices, "auto", {"cpu"})
    assert choose("dots", engine.info.devices, "cpu", {"cpu"}) == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_s1_cuda_that_is_not_there_is_said_with_what_pytorch_was_built_for(folder: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"PyTorch 2\..*sees no GPU; CUDA_VISIBLE_DEVICES"):
        engine.load(Source(path=str(folder), settings=SETTINGS), "cuda")


def test_s5_versions_that_do_not_belong_together_are_said_at_load(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where torchaudio's own code runs; without it the versions don't matter."""
    told = importlib.metadata.version
    other = {"torch": "2.13.0+cu130", "torchaudio": "2.11.1"}
    monkeypatch.setattr(importlib.metadata, "version", lambda name: other.get(name) or told(name))
    monkeypatch.setattr(torch_audio, "_import_torchaudio", lambda: True)
    with pytest.raises(EngineUnavailable, match=r"2\.13\.0\+cu130 and torchaudio 2\.11\.1 don't belong"):
        engine.load(Source(path=str(folder), settings=SETTINGS), "cpu")


def test_threads_are_set_for_it_and_given_back(folder: Path) -> None:
    before = torch.get_num_threads()
    model = engine.load(Source(path=str(folder), settings=SETTINGS | {"threads": before + 1}), "cpu")
    assert torch.get_num_threads() == before + 1
    model.unload()
    assert torch.get_num_threads() == before


def test_its_normalisers_are_not_imported(folder: Path) -> None:
    engine.load(Source(path=str(folder), settings=SETTINGS), "cpu").unload()
    assert "pynini" not in sys.modules
    assert "tn" not in sys.modules


def test_no_text_of_a_client_is_written_to_the_log(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = engine.load(Source(path=str(folder), settings=SETTINGS), "cpu")
    speak(model, request("Confidential"))
    model.unload()
    written = "".join(capfd.readouterr())
    assert "Confidential" not in written


# Checkpoints -----------------------------------------------------------------------------------------------------


class _Payload:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (exec, ("import sys; sys.modules['dots_has_run_it'] = sys",))


def test_code_in_a_checkpoint_is_not_run(folder: Path, tmp_path: Path) -> None:
    """The library unpickles whatever is in this file."""
    shutil.copytree(folder, tmp_path / "bad")
    torch.save({"mean": torch.zeros(16), "var": _Payload()}, tmp_path / "bad" / "latent_stats.pt")
    with pytest.raises(EngineUnavailable, match=r"latent_stats\.pt; it isn't run"):
        engine.load(Source(path=str(tmp_path / "bad"), settings=SETTINGS), "cpu")
    (tmp_path / "bad" / "latent_stats.pt").write_bytes(pickle.dumps({"mean": _Payload()}))
    with pytest.raises(EngineUnavailable, match=r"latent_stats\.pt; it isn't run"):
        engine.load(Source(path=str(tmp_path / "bad"), settings=SETTINGS), "cpu")
    assert "dots_has_run_it" not in sys.modules


def test_a_folder_that_is_no_checkpoint_says_what_is_wrong(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="hf download"):
        engine.identify(Source())
    with pytest.raises(EngineUnavailable, match=r"has no config\.json"):
        engine.identify(Source(path=str(tmp_path)))
    (tmp_path / "config.json").write_text("[]", "utf-8")
    with pytest.raises(EngineUnavailable, match="can't be read"):
        engine.identify(Source(path=str(tmp_path)))
    shutil.copytree(folder, tmp_path / "part")
    (tmp_path / "part" / "vocoder.safetensors").unlink()
    with pytest.raises(EngineUnavailable, match=r"missing required files.*vocoder\.safetensors"):
        engine.load(Source(path=str(tmp_path / "part"), settings=SETTINGS), "cpu")


def test_weights_of_another_shape_are_refused(folder: Path, tmp_path: Path) -> None:
    source = changed_config(folder, tmp_path / "other", latent_dim=8)
    with pytest.raises(EngineUnavailable, match="couldn't be loaded"):
        engine.load(source, "cpu")


# Compiled --------------------------------------------------------------------------------------------------------


def test_merged_steps_speak_the_same_and_a_second_stream_is_refused(folder: Path) -> None:
    """The compiled paths with their own buffers; what compiles them isn't run on a processor."""
    with torch.compiler.set_stance("force_eager"):
        model = engine.load(Source(path=str(folder), settings={"steps": 1}), "cpu")
        plain = engine.load(Source(path=str(folder), settings=SETTINGS), "cpu")
        try:
            merged = speak(model, request("Good morning, everyone."))
            assert [chunk.samples.size for chunk in merged.chunks[:3]] == [3840, 7680, 4 * 7680]
            single = speak(plain, request("Good morning, everyone."))
            np.testing.assert_allclose(merged.samples, single.samples, atol=1e-4)
            stream = model.start(request(), None)
            with pytest.raises(EngineError, match="one text at a time"):
                model.start(request(), None)
            model.close(stream)
            np.testing.assert_array_equal(speak(model, request()).samples, speak(model, request()).samples)
        finally:
            model.unload()
            plain.unload()
