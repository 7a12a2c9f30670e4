"""What can be asked of Qwen3-TTS, by a request and by an operator; nothing is loaded."""

import json
from pathlib import Path
from typing import Any

import pytest

from engines.contract import EngineUnavailable, OptionError, Source, info_of
from engines.qwen import engine, footprint_bytes
from engines.qwen_options import QwenOptions
from ws_server.languages import match_language

TONGUES = ["english", "chinese", "german", "french", "spanish", "italian", "portuguese", "russian"]
CONFIG: dict[str, Any] = {
    "model_type": "qwen3_tts",
    "tts_model_type": "base",
    "tts_model_size": "1b7",
    "talker_config": {
        "codec_language_id": dict.fromkeys([*TONGUES, "japanese", "korean", "beijing_dialect"], 1),
        "spk_id": {},
    },
}


@pytest.fixture
def source(tmp_path: Path) -> Source:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), "utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "anna.wav").write_bytes(b"a recording")
    return Source(path=str(tmp_path), settings={"voices": {"anna": str(tmp_path / "anna.wav")}})


def rewritten(source: Source, **changes: Any) -> None:
    (Path(str(source.path)) / "config.json").write_text(json.dumps(CONFIG | changes), "utf-8")


# Options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_k": -1}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.01}, "top_p"),
        ({"repetition_penalty": 0.9}, "repetition_penalty"),
        ({"subtalker_temperature": 3}, "subtalker_temperature"),
        ({"subtalker_top_k": "all"}, "subtalker_top_k"),
        ({"subtalker_top_p": -1}, "subtalker_top_p"),
        ({"max_new_tokens": 1}, "max_new_tokens"),
        ({"max_new_tokens": 8193}, "max_new_tokens"),
        ({"do_sample": 1}, "do_sample"),
        ({"subtalker_dosample": "yes"}, "subtalker_dosample"),
        ({"non_streaming_mode": 0}, "non_streaming_mode"),
        ({"instruct": 5}, "instruct"),
        ({"instruct": "x" * 2001}, "instruct"),
    ],
)
def test_s13_an_option_out_of_range_is_refused_by_its_name(options: dict[str, Any], param: str) -> None:
    with pytest.raises(OptionError) as refused:
        QwenOptions(**options)
    assert refused.value.param == param


def test_s13_the_ends_of_each_range_are_in_it() -> None:
    QwenOptions(temperature=0, top_k=0, top_p=0.01, repetition_penalty=1, max_new_tokens=2)
    QwenOptions(temperature=2, top_k=2048, top_p=1, repetition_penalty=2, max_new_tokens=8192)
    QwenOptions(do_sample=False, non_streaming_mode=True, instruct="")


# Languages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("en", "english"),
        ("en-US", "english"),
        ("English", "english"),
        ("zh-CN", "chinese"),
        ("zh-Hant-TW", "chinese"),
        ("cmn", "chinese"),
        ("Chinese", "chinese"),
        ("de-AT", "german"),
        ("pt-BR", "portuguese"),
        ("ja", "japanese"),
        ("Korean", "korean"),
        ("ru-RU", "russian"),
        ("und", "Auto"),
    ],
)
def test_s11_whatever_a_language_is_called_the_library_knows_its_name(
    source: Source, asked: str, wanted: str
) -> None:
    languages = engine.identify(source).languages or {}
    found = match_language(asked, languages)
    assert found is not None
    assert languages[found] == wanted


@pytest.mark.parametrize("asked", ["sv", "yue", "klingon", "", "beijing_dialect", "Auto"])
def test_s11_an_unknown_language_is_none_of_them(source: Source, asked: str) -> None:
    assert match_language(asked, engine.identify(source).languages or {}) is None


def test_without_a_language_the_model_finds_it_out(source: Source) -> None:
    assert next(iter((engine.identify(source).languages or {}).values())) == "Auto"


# Settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"dtype": "int8"}, "dtype"),
        ({"threads": 0}, "threads"),
        ({"frames_per_step": 0}, "frames_per_step"),
        ({"frames_per_step": 17}, "frames_per_step"),
        ({"max_open": 0}, "max_open"),
        ({"max_batch": 1.5}, "max_batch"),
        ({"voices": ["anna"]}, "voices"),
        ({"voices": {"anna": "/nowhere.wav"}}, "voices"),
        ({"voices": {"anna": {"text": "no recording"}}}, "voices"),
        ({"voices": {"anna": {"audio": "/a.wav", "tune": "x"}}}, "voices"),
        ({"voices": {}}, "voices"),
        ({"hub": "Qwen/Qwen3-TTS-12Hz-1.7B-Base"}, "revision"),
        ({"hub": "Qwen/Qwen3-TTS-12Hz-1.7B-Base", "revision": "main"}, "revision"),
        ({"hub": 5}, "hub"),
        ({"x": 1}, "x"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(source: Source, settings: dict[str, Any], param: str) -> None:
    with pytest.raises(OptionError) as refused:
        engine.identify(Source(path=source.path, settings={**source.settings, **settings}))
    assert refused.value.param == param


def test_there_is_no_checkpoint_to_fetch_unless_a_setting_says_which() -> None:
    with pytest.raises(OptionError) as refused:
        engine.identify(Source())
    assert refused.value.param == "path"


def test_voices_are_of_the_kind_that_the_checkpoint_takes(source: Source) -> None:
    rewritten(source, tts_model_type="custom_voice", talker_config={"spk_id": {"ryan": 1}})
    with pytest.raises(OptionError, match="has its own"):
        engine.identify(source)
    rewritten(source, tts_model_type="voice_design")
    with pytest.raises(OptionError, match="description"):
        engine.identify(Source(path=source.path, settings={"voices": {"anna": {"audio": "/a.wav"}}}))
    plain = engine.identify(Source(path=source.path))
    assert [voice.voice_id for voice in plain.voices or ()] == ["design"]


def test_the_kind_decides_about_clones(source: Source) -> None:
    assert info_of(engine.info, engine.identify(source)).clones == {"audio", "audio+text"}
    rewritten(source, tts_model_type="voice_design")
    assert not info_of(engine.info, engine.identify(Source(path=source.path))).clones


def test_what_is_no_checkpoint_says_so(source: Source, tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="isn't there"):
        engine.identify(Source(path=str(tmp_path / "none"), settings=source.settings))
    for content in ("{", "[]", '{"model_type": "qwen3"}'):
        (tmp_path / "config.json").write_text(content, "utf-8")
        with pytest.raises(EngineUnavailable, match=r"config\.json"):
            engine.identify(source)
    rewritten(source, tts_model_type="singing")
    with pytest.raises(EngineUnavailable, match="'singing'"):
        engine.identify(source)


def test_the_checkpoint_is_what_shapes_the_sound(source: Source, tmp_path: Path) -> None:
    first = engine.identify(source).checkpoint
    more = {"max_open": 3, "frames_per_step": 2, "threads": 1}
    assert engine.identify(Source(path=source.path, settings={**source.settings, **more})).checkpoint == first
    half = {**source.settings, "dtype": "bfloat16"}
    seen = {first, engine.identify(Source(path=source.path, settings=half)).checkpoint}
    (tmp_path / "anna.wav").write_bytes(b"another recording")
    seen.add(engine.identify(source).checkpoint)
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    seen.add(engine.identify(source).checkpoint)
    words = {"anna": {"audio": str(tmp_path / "anna.wav"), "text": "words"}}
    seen.add(engine.identify(Source(path=source.path, settings={"voices": words})).checkpoint)
    assert len(seen) == 5


def test_s25_the_larger_model_is_taken_to_need_what_it_was_seen_to_need(source: Source) -> None:
    facts = engine.identify(source)
    assert set(facts.footprint_bytes) == {"", "audio", "audio+text"}
    assert footprint_bytes(4_500_000_000, doubled=False) == 8_700_000_000
    assert footprint_bytes(4_500_000_000, doubled=True) == 13_200_000_000
    assert footprint_bytes(1_000_000, doubled=False) == 3_000_000


def test_s1_it_is_for_accelerators_and_the_cpu_is_only_taken_when_it_is_named() -> None:
    assert engine.info.devices == {"cuda", "mps"}


def test_a_batch_is_no_larger_than_what_can_be_open(source: Source) -> None:
    few = engine.identify(Source(path=source.path, settings={**source.settings, "max_open": 3}))
    assert (few.max_open, few.max_batch) == (3, 3)
