import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from engines import registry
from engines.contract import EngineUnavailable, Info
from engines.tone import ToneEngine

LIBRARIES = [
    "hibari",
    "kokoro_onnx",
    "mlx",
    "mlx_audio",
    "onnxruntime",
    "pocket_tts",
    "scipy",
    "streaming_vits",
    "torch",
]


def test_the_first_engine_is_the_one_that_a_plain_install_speaks_with() -> None:
    assert registry.names()[0] == "hibari"


def test_every_engine_is_found_by_its_name() -> None:
    for name in registry.names():
        assert registry.describe(name).info.name == name


def test_an_unknown_engine_is_named_with_those_that_there_are() -> None:
    with pytest.raises(registry.UnknownEngine, match=r"'flute'.*hibari.*tone"):
        registry.find("flute")


def test_asking_what_engines_are_like_imports_none_of_their_libraries() -> None:
    script = (
        "import sys\n"
        "from engines import registry\n"
        "for name in registry.names(): registry.describe(name).info\n"
        f"print([name for name in {LIBRARIES} if name in sys.modules])\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=root
    )
    assert done.stdout.strip() == "[]"


class NotInstalled(ToneEngine):
    @property
    def info(self) -> Info:
        return replace(super().info, name="flute", version="", extra="flute")


flute = NotInstalled()


def test_an_engine_of_another_distribution_is_found_by_its_entry_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = EntryPoint("flute", "tests.engines.test_registry:flute", registry.ENTRY_POINT_GROUP)

    def entry_points(**wanted: str) -> list[EntryPoint]:
        return [theirs] if wanted.get("name", "flute") == "flute" else []

    monkeypatch.setattr(registry, "entry_points", entry_points)
    assert registry.names()[-2:] == ["tone", "flute"]
    assert registry.describe("flute").info.extra == "flute"


@pytest.mark.parametrize("value", ["no_such_module:engine", "tests.engines.test_registry:no_such_engine"])
def test_a_broken_entry_point_says_which_it_is(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    theirs = EntryPoint("drum", value, registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda **_: [theirs])
    with pytest.raises(EngineUnavailable, match=r"'drum'.*no_such"):
        registry.describe("drum")


def test_an_engine_whose_library_is_missing_says_how_to_install_it() -> None:
    assert registry.missing(flute) == "pip install 'saystream[flute]'"
    assert registry.missing(ToneEngine()) is None


def test_an_engine_that_cannot_be_installed_here_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    engine = registry.describe("mlx-qwen")
    assert str(getattr(engine, "unsupported", "")).startswith(
        "MLX runs on Apple Silicon and on Linux, not on win32"
    )
    monkeypatch.setattr(NotInstalled, "unsupported", "not on this machine", raising=False)
    assert registry.missing(flute) == "not on this machine"


def test_finding_an_engine_whose_library_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "describe", lambda _: flute)
    with pytest.raises(EngineUnavailable, match=r"pip install 'saystream\[flute\]'"):
        registry.find("flute")
