"""What can be said of VoxCPM without its library: options, settings, languages, checkpoints."""

import json
from pathlib import Path
from typing import Any

import pytest

from engines.contract import EngineUnavailable, OptionError, Source
from engines.voxcpm import LANGUAGES, engine
from engines.voxcpm_settings import VoxcpmOptions, VoxcpmSettings
from ws_server.accelerators import choose
from ws_server.languages import match_language


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "voxcpm2"}), "utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "anna.wav").write_bytes(b"anna")
    return tmp_path


def source(folder: Path, **settings: Any) -> Source:
    return Source(path=str(folder), settings=settings)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"cfg_value": 0.1}, "cfg_value"),
        ({"cfg_value": "high"}, "cfg_value"),
        ({"cfg_value": float("nan")}, "cfg_value"),
        ({"inference_timesteps": 0}, "inference_timesteps"),
        ({"inference_timesteps": 51}, "inference_timesteps"),
        ({"inference_timesteps": 5.0}, "inference_timesteps"),
        ({"min_len": -1}, "min_len"),
        ({"max_len": 0}, "max_len"),
        ({"max_len": 4097}, "max_len"),
        ({"min_len": 20, "max_len": 10}, "max_len"),
        ({"denoise": 1}, "denoise"),
        ({"instruct": 3}, "instruct"),
        ({"instruct": "a) and more"}, "instruct"),
        ({"instruct": "two\nlines"}, "instruct"),
        ({"instruct": "x" * 201}, "instruct"),
    ],
)
def test_s13_an_option_out_of_range_is_refused_by_its_name(options: dict[str, Any], param: str) -> None:
    with pytest.raises(OptionError) as refused:
        VoxcpmOptions(**options)
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"dtype": "int8"}, "dtype"),
        ({"threads": 0}, "threads"),
        ({"optimize": 1}, "optimize"),
        ({"with_text": "sometimes"}, "with_text"),
        ({"steps_per_token": 0}, "steps_per_token"),
        ({"denoiser": True}, "denoiser"),
        ({"voices": ["anna"]}, "voices"),
        ({"voices": {"anna": "/nowhere.wav"}}, "voices"),
        ({"voices": {"anna": {"text": "hello"}}}, "voices"),
        ({"voices": {"anna": {"audio": "/nowhere.wav", "words": "hello"}}}, "voices"),
        ({"voices": {"anna": {"audio": "/nowhere.wav", "text": " "}}}, "voices"),
        ({"voices": {"design": "/nowhere.wav"}}, "voices"),
        ({"x": 1}, "x"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(settings: dict[str, Any], param: str) -> None:
    with pytest.raises(OptionError) as refused:
        VoxcpmSettings.from_source(Source(settings=settings))
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("asked", "tag"),
    [("en", "en"), ("en-US", "en"), ("English", "en"), ("zh-CN", "zh"), ("Chinese", "zh"), ("pt-BR", "pt")],
)
def test_s11_languages_are_found_by_code_by_tag_and_by_name(asked: str, tag: str) -> None:
    assert match_language(asked, LANGUAGES) == tag


def test_s11_an_unknown_language_is_none_of_them() -> None:
    assert match_language("Icelandic", LANGUAGES) is None
    assert len(LANGUAGES) == 30


def test_s25_the_footprint_is_declared_in_bytes_by_precision(folder: Path) -> None:
    assert engine.identify(source(folder)).footprint_bytes == {"": 5_000_000_000}
    assert engine.identify(source(folder, dtype="float32")).footprint_bytes == {"": 10_000_000_000}


def test_facts_are_those_of_the_hubs_checkpoint_where_its_configuration_says_nothing(folder: Path) -> None:
    facts = engine.identify(source(folder))
    assert (facts.sample_rate_hz, facts.step_s, facts.max_open) == (48000, 0.16, 1)
    assert [voice.voice_id for voice in facts.voices or ()] == ["design"]


def test_s23_whatever_shapes_the_sound_is_another_checkpoint(folder: Path) -> None:
    voices = {"anna": str(folder / "anna.wav")}
    told = {"anna": {"audio": voices["anna"], "text": "hello"}}
    variants: list[dict[str, Any]] = [
        {},
        {"dtype": "float32"},
        {"with_text": "continuation"},
        {"steps_per_token": 3},
        {"denoiser": "/srv/zipenhancer"},
        {"voices": voices},
        {"voices": told},
    ]
    digests = [engine.identify(source(folder, **settings)).checkpoint for settings in variants]
    (folder / "model.safetensors").write_bytes(b"other weights")
    digests.append(engine.identify(source(folder)).checkpoint)
    assert len(set(digests)) == len(digests)
    assert engine.identify(source(folder, threads=4)).checkpoint == digests[-1]


def test_a_checkpoint_that_is_not_there_or_not_voxcpm_2_says_so(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="needs a checkpoint"):
        engine.identify(Source())
    with pytest.raises(EngineUnavailable, match=r"has no config\.json"):
        engine.identify(Source(path=str(tmp_path / "none")))
    (folder / "config.json").write_text("{", "utf-8")
    with pytest.raises(EngineUnavailable, match="can't be read"):
        engine.identify(source(folder))
    (folder / "config.json").write_text('{"architecture": "voxcpm"}', "utf-8")
    with pytest.raises(EngineUnavailable, match="of voxcpm, not of voxcpm2"):
        engine.identify(source(folder))


def test_s1_it_is_not_put_on_a_processor_unless_asked_for() -> None:
    with pytest.raises(EngineUnavailable, match="voxcpm needs cuda or mps"):
        choose("voxcpm", engine.info.devices, "auto", {"cpu"})
    assert choose("voxcpm", engine.info.devices, "cpu", {"cpu"}) == "cpu"
