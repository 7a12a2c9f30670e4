"""What is different about an engine in a process of its own: it can die, hang, and live elsewhere."""

import ast
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from engines import registry
from engines.contract import (
    Engine,
    EngineError,
    EngineFault,
    EngineUnavailable,
    ModelLost,
    ModelStalled,
    OptionError,
    Request,
    Source,
)
from engines.hosted import CHILD, HostedEngine, HostedModel
from engines.tone import ToneEngine
from engines.tone_settings import ToneOptions
from tests.engines.speaking import speak, step
from tests.fakes import hosted as fakes
from voices.reference import Reference

ROOT = Path(__file__).parents[2]


def tone(*, step_s: float = 30.0, load_s: float = 600.0) -> HostedEngine:
    return HostedEngine(ToneEngine(), registry.target("tone"), step_s=step_s, load_s=load_s)


def load(engine: HostedEngine, **settings: Any) -> HostedModel:
    return engine.load(Source(settings=settings), "cpu")


def fake(name: str, monkeypatch: pytest.MonkeyPatch) -> HostedEngine:
    """One of tests/fakes/hosted.py, which the child finds by the path that it inherits."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    inner: Engine = getattr(fakes, name)
    return HostedEngine(inner, f"tests.fakes.hosted:{name}", load_s=20)


def request(text: str = "one two three", **options: Any) -> Request:
    return Request(text=text, language="en", voice="a4", options=ToneOptions(**options))


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid)


def test_it_runs_in_another_process_and_unloading_ends_that() -> None:
    model = load(tone())
    assert model.pid != os.getpid()
    assert not gone(model.pid)
    model.unload()
    assert gone(model.pid)
    model.unload()


def test_it_speaks_exactly_as_it_does_inline() -> None:
    model = load(tone(), step_ms=80)
    there = speak(model, request())
    here = speak(ToneEngine().load(Source(settings={"step_ms": 80}), "cpu"), request())
    np.testing.assert_array_equal(there.samples, here.samples)
    assert there.words == here.words
    assert [chunk.samples.size for chunk in there.chunks] == [chunk.samples.size for chunk in here.chunks]
    model.unload()


def test_prompts_stay_in_the_child_and_are_told_by_handles() -> None:
    model = load(tone())
    seconds = np.arange(24000) / 24000
    recording = Reference(np.sin(2 * np.pi * 330 * seconds).astype(np.float32), 24000, "la", None)
    prompt = model.restore(model.prepare(recording, "audio+text"))
    stream = model.start(request("a" * 30), prompt)
    samples = step(model, stream).samples
    assert np.abs(np.fft.rfft(samples)).argmax() * 24000 / samples.size == pytest.approx(330, abs=1)
    model.close(stream)
    model.unload()


def test_what_an_engine_raises_crosses_with_its_kind() -> None:
    with pytest.raises(OptionError, match="no such setting") as wrong:
        tone().identify(Source(settings={"pitch": 3}))
    assert wrong.value.param == "pitch"
    with pytest.raises(EngineUnavailable, match="told to fail to load"):
        load(tone(), fails_to_load=True)
    model = load(tone(), faults=True)
    with pytest.raises(EngineError, match="fail at the start"):
        model.start(request(fault="raise_at_start"), None)
    failed = model.start(request(fault="raise"), None)
    (result,) = model.step([failed])
    assert isinstance(result, EngineError)
    assert not isinstance(result, ModelLost)
    assert speak(model, request()).samples.size
    model.unload()


def test_a_child_that_is_killed_in_mid_speech_is_lost_with_a_reason_and_the_next_one_speaks() -> None:
    model = load(tone(), step_ms=80)
    stream = model.start(request(), None)
    step(model, stream)
    os.kill(model.pid, signal.SIGKILL)
    with pytest.raises(ModelLost, match="signal 9"):
        model.step([stream])
    with pytest.raises(ModelLost):
        model.start(request(), None)
    model.unload()
    assert gone(model.pid)
    again = load(tone(), step_ms=80)
    assert speak(again, request()).samples.size
    again.unload()


def test_a_step_past_its_deadline_ends_the_child() -> None:
    model = load(tone(step_s=0.5), faults=True)
    stream = model.start(request(fault="stall", stall_s=600.0), None)
    with pytest.raises(ModelStalled, match=r"within 0\.5 s"):
        model.step([stream])
    assert gone(model.pid)
    model.unload()


def test_a_load_past_its_deadline_ends_the_child() -> None:
    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(EngineUnavailable, match=r"within 0\.5 s"):
        load(tone(load_s=0.5), load_s=600.0)
    assert {child.pid for child in psutil.Process().children()} <= before


def test_the_child_ends_when_its_parent_is_killed_even_in_the_middle_of_a_step() -> None:
    script = (
        "import os\n"
        "from engines.contract import Request, Source\n"
        "from engines.hosted import HostedEngine\n"
        "from engines.tone import ToneEngine\n"
        "from engines.tone_settings import ToneOptions\n"
        "engine = HostedEngine(ToneEngine(), 'engines.tone:engine')\n"
        "model = engine.load(Source(settings={'faults': True}), 'cpu')\n"
        "options = ToneOptions(fault='stall', stall_s=600.0)\n"
        "stream = model.start(Request(text='a', language='en', voice='a4', options=options), None)\n"
        "print(model.pid, flush=True)\n"
        "model.step([stream])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    child.wait(20)


def test_an_interpreter_that_is_not_there_says_so_and_nothing_counts_as_installed() -> None:
    engine = HostedEngine(ToneEngine(), registry.target("tone"), python="/nowhere/python")
    with pytest.raises(EngineUnavailable, match=r"/nowhere/python can't be run: No such file"):
        load(engine)
    assert engine.info.version == ""


def test_a_module_that_cannot_be_imported_there_says_which() -> None:
    with pytest.raises(EngineUnavailable, match="No module named 'flute_tts'"):
        load(HostedEngine(ToneEngine(), "flute_tts:engine"))


def test_a_child_that_dies_while_it_starts_tells_its_exit_code() -> None:
    with pytest.raises(EngineUnavailable, match=r"didn't start: exit code 1"):
        load(HostedEngine(ToneEngine(), registry.target("tone"), python=shutil.which("false")))


def test_s5_a_child_of_another_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    # As if an interpreter had been named that runs another program.
    impostor = tmp_path / "python"
    hello = (
        "import json, socket, struct, sys\n"
        "end = socket.socket(fileno=int(sys.argv[2]))\n"
        "header = json.dumps({'$map': [['wire', 99]]}).encode()\n"
        "end.sendall(struct.pack('!II', len(header), 0) + header)\n"
    )
    impostor.write_text(f"#!{sys.executable}\n{hello}")
    impostor.chmod(0o755)
    with pytest.raises(EngineUnavailable, match="it speaks version 99, not 2"):
        load(HostedEngine(ToneEngine(), registry.target("tone"), python=str(impostor)))


def test_a_crash_while_loading_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineUnavailable, match="is gone: exit code 7"):
        load(fake("crashes", monkeypatch))


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("out_of_memory", r"Unable to allocate 1\.00 GiB"),
        ("full_disk", "No space left on device"),
        ("corrupt", "not a checkpoint"),
        ("wrong_revision", "revision"),
    ],
)
def test_what_a_load_fails_of_is_named(name: str, cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineUnavailable, match=cause):
        load(fake(name, monkeypatch))


def test_out_of_memory_while_speaking_is_the_error_of_that_stream_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = load(fake("hungry", monkeypatch))
    with pytest.raises(EngineFault, match=r"Unable to allocate 1\.00 GiB"):
        model.start(request("a huge one"), None)
    assert speak(model, request()).samples.size
    model.unload()


def test_what_a_library_prints_stays_off_the_servers_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    model = load(fake("talkative", monkeypatch))
    model.unload()
    out, err = capfd.readouterr()
    assert out == ""
    assert "loading the weights" in err


def test_handles_that_nobody_holds_are_forgotten_there(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(fake("counting", monkeypatch))
    for _ in range(20):
        stream = model.start(request(), None)
        model.close(stream)
    del stream
    kept = model.start(request(), None)
    assert model.peak_bytes() == 1, "this fake tells the number of its streams that are alive"
    model.close(kept)
    model.unload()


def test_the_childs_memory_is_told() -> None:
    model = load(tone())
    assert 5e6 < model.peak_bytes() < 5e9
    model.unload()


CHILD_SIDE = [
    CHILD,
    CHILD.with_name("hosted_wire.py"),
    CHILD.with_name("contract.py"),
    ROOT / "voices/reference.py",
]


@pytest.mark.parametrize("path", CHILD_SIDE, ids=lambda path: path.name)
def test_the_childs_side_is_written_for_python_3_10_with_numpy_alone(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 10))
    modules = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert modules <= {*sys.stdlib_module_names, "numpy", "engines", "voices"}


def other_python() -> str | None:
    """Another interpreter with numpy, if this machine has one."""
    named = os.environ.get("SAYSTREAM_OTHER_PYTHON")
    for python in [named] if named else [shutil.which(f"python3.{minor}") for minor in (10, 12, 13, 14)]:
        if (
            python
            and subprocess.run([python, "-c", "import numpy"], capture_output=True, check=False).returncode
            == 0
        ):
            return python
    return None


def test_it_runs_under_another_interpreter_with_packages_of_its_own() -> None:
    python = other_python()
    if python is None:
        pytest.skip("no other interpreter with numpy is here; SAYSTREAM_OTHER_PYTHON names one")
    engine = HostedEngine(ToneEngine(), registry.target("tone"), python=python)
    assert engine.info.version == ToneEngine().info.version
    model = load(engine, step_ms=80)
    here = speak(ToneEngine().load(Source(settings={"step_ms": 80}), "cpu"), request())
    np.testing.assert_array_equal(speak(model, request()).samples, here.samples)
    model.unload()
