"""What can be said of CosyVoice without PyTorch, here and under the interpreter that it is made for."""

import ast
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from engines import registry
from engines.contract import EngineUnavailable, ModelLost, OptionError, Request, Source
from engines.cosyvoice import engine
from engines.cosyvoice_settings import CosyvoiceOptions, CosyvoiceSettings
from engines.hosted import HostedEngine
from engines.tone import ToneEngine
from tests.engines.cosyvoice_folders import make_folders
from tests.engines.speaking import speak, step
from tests.engines.test_hosted import other_python
from ws_server.entries import read_entry
from ws_server.languages import match_language
from ws_server.settings import BadSettings, Settings

ENGINES = Path(__file__).parents[2] / "engines"
HOSTED_ALONE = ("cosyvoice", "nano-vllm-voxcpm")


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return make_folders(tmp_path, 2)


@pytest.mark.parametrize(
    "options", [{"instruct": 3}, {"instruct": "x" * 201}, {"instruct": "a<|en|>"}, {"instruct": "a\nb"}]
)
def test_s13_an_instruction_out_of_range_is_refused_by_its_name(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as refused:
        CosyvoiceOptions(**options)
    assert refused.value.param == "instruct"


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"checkout": "/nowhere"}, "checkout"),
        ({"checkout": 3}, "checkout"),
        ({"speakers": "anna"}, "speakers"),
        ({"speakers": [""]}, "speakers"),
        ({"sentences_per_chunk": -1}, "sentences_per_chunk"),
        ({"silence_ms": 5001}, "silence_ms"),
        ({"text_frontend": 1}, "text_frontend"),
        ({"fp16": 1}, "fp16"),
        ({"jit": 1}, "jit"),
        ({"trt": 1}, "trt"),
        ({"voices": {"ben": "/nowhere.wav"}}, "voices"),
        ({"voices": {"anna": "/nowhere.wav"}}, "voices"),
        ({"x": 1}, "x"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(source: Source, settings: dict[str, Any], param: str) -> None:
    with pytest.raises(OptionError) as refused:
        CosyvoiceSettings.from_source(Source(settings={**source.settings, **settings}))
    assert refused.value.param == param


def test_the_checkout_and_a_voice_have_to_be_named(source: Source) -> None:
    for name in ("checkout", "voices"):
        settings = {key: value for key, value in source.settings.items() if key not in {name, "speakers"}}
        with pytest.raises(OptionError) as refused:
            engine.identify(replace(source, settings=settings))
        assert refused.value.param == name


@pytest.mark.parametrize(("generation", "step_s"), [(1, 2.0), (2, 1.0), (3, 1.0)])
def test_facts_follow_the_generation(tmp_path: Path, generation: int, step_s: float) -> None:
    facts = engine.identify(make_folders(tmp_path, generation, rate_hz=22050))
    assert (facts.sample_rate_hz, facts.step_s, facts.max_open) == (22050, step_s, 1)
    assert facts.footprint_bytes == {"": 3_000_000_000}, "S25"
    assert ("de" in (facts.languages or {})) == (generation == 3)


def test_s11_languages_are_found_by_code_by_tag_and_by_name(source: Source) -> None:
    languages = engine.identify(source).languages or {}
    found = [match_language(asked, languages) for asked in ("en-US", "zh-CN", "Japanese", "yue", "de")]
    assert found == ["en", "zh", "ja", "yue", None]


def test_s23_whatever_shapes_the_sound_is_another_checkpoint(source: Source) -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"fp16": True},
        {"text_frontend": False},
        {"sentences_per_chunk": 2},
        {"silence_ms": 100},
    ]
    digests = [
        engine.identify(replace(source, settings={**source.settings, **each})).checkpoint for each in variants
    ]
    (Path(source.settings["checkout"]) / "cosyvoice" / "cli" / "cosyvoice.py").write_text("# newer", "utf-8")
    digests.append(engine.identify(source).checkpoint)
    assert len(set(digests)) == len(digests)


def test_s19_sentences_in_one_go_are_told_to_who_cuts_the_text(source: Source) -> None:
    settings = {**source.settings, "sentences_per_chunk": 2}
    assert engine.identify(replace(source, settings=settings)).max_sentences == 2


def test_a_checkpoint_that_is_not_there_or_is_hollow_says_so(source: Source, tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="needs a checkpoint"):
        engine.identify(replace(source, path=None))
    with pytest.raises(EngineUnavailable, match=r"has none of cosyvoice\.yaml"):
        engine.identify(replace(source, path=str(tmp_path)))
    (Path(str(source.path)) / "cosyvoice2.yaml").write_text("x: 1\n", "utf-8")
    with pytest.raises(EngineUnavailable, match="names no sample_rate"):
        engine.identify(source)


def test_a_checkout_without_its_submodules_says_what_to_do(source: Source) -> None:
    (Path(source.settings["checkout"]) / "third_party" / "Matcha-TTS" / "matcha").rmdir()
    with pytest.raises(EngineUnavailable, match="git submodule update"):
        engine.load(source, "cpu")


# In a process of its own ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTED_ALONE)
def test_it_is_not_put_into_the_servers_own_process(name: str) -> None:
    entry = read_entry(name, Settings(), {"cpu", "cuda"})
    assert not entry.installed
    assert entry.problem is not None
    assert f'engines.{name}.process = "hosted"' in entry.problem
    with pytest.raises(BadSettings, match="no such setting"):
        read_entry(name, Settings(engines={name: {"process": "hosted", "x": 1, "checkout": "/"}}), {"cuda"})


def interpreters() -> list[str]:
    """Ours, and the other one of this machine: with Python 3.10 and numpy 1.26 it is as the checkout wants it."""
    other = other_python()
    return [sys.executable, *([other] if other else [])]


@pytest.mark.parametrize("python", interpreters())
def test_it_is_identified_by_a_child_under_its_own_interpreter(source: Source, python: str) -> None:
    hosted = HostedEngine(engine, registry.target("cosyvoice"), python=python)
    assert hosted.info.version == engine.info.version
    assert hosted.identify(source) == engine.identify(source)
    with pytest.raises(EngineUnavailable, match="No module named"):
        hosted.load(source, "cpu")


@pytest.mark.parametrize("python", interpreters())
def test_with_tone_behind_it_such_a_child_speaks_is_killed_and_speaks_again(python: str) -> None:
    if subprocess.run([python, "-c", "import regex"], capture_output=True, check=False).returncode:
        pytest.skip("tone needs regex, which that interpreter doesn't have; the checkout has it")
    hosted = HostedEngine(ToneEngine(), registry.target("tone"), python=python)
    request = Request(text="one two three", language="en", voice="a4")
    for _ in range(2):
        model = hosted.load(Source(settings={"step_ms": 80}), "cpu")
        assert speak(model, request).samples.size
        stream = model.start(request, None)
        step(model, stream)
        os.kill(model.pid, signal.SIGKILL)
        with pytest.raises(ModelLost, match="signal 9"):
            model.step([stream])
        model.unload()
        assert not psutil.pid_exists(model.pid)


CHILD_SIDE = sorted(
    {
        *ENGINES.glob("cosyvoice*.py"),
        *ENGINES.glob("nano_vllm*.py"),
        *(
            ENGINES / f"{name}.py"
            for name in (
                "accelerator",
                "async_library",
                "digest",
                "option_checks",
                "recordings",
                "torch_device",
                "voxcpm",
                "voxcpm_settings",
                "voxcpm_text",
            )
        ),
    }
)
_SINCE_3_11 = {"Self", "StrEnum", "assert_never", "tomllib", "UTC", "ExceptionGroup", "BaseExceptionGroup"}
_OF_MODULES_SINCE_3_11 = {"file_digest", "TaskGroup", "timeout", "Runner", "UTC"}


@pytest.mark.parametrize("path", CHILD_SIDE, ids=lambda path: path.name)
def test_what_runs_there_is_written_for_python_3_10(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"), feature_version=(3, 10))
    nodes = list(ast.walk(tree))
    imported = {
        alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
    }
    assert not imported & _SINCE_3_11
    assert (
        not {
            node.attr
            for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        & _OF_MODULES_SINCE_3_11
    )
