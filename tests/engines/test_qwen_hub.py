"""Qwen3-TTS from a hub: fetched beside the lanes, told of, and spoken with, by a process of its own."""

from pathlib import Path

import pytest

WHY = "the extra qwen isn't installed here; make test-engines has it"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("transformers", reason=WHY)

from engines import downloads, registry  # noqa: E402 - after what it may be skipped for
from engines.contract import Fetching, Request, Source  # noqa: E402
from engines.downloads import Download  # noqa: E402
from engines.hosted import HostedEngine  # noqa: E402
from engines.qwen import engine  # noqa: E402
from tests.engines.tiny_qwen import make_checkpoint  # noqa: E402
from tests.fakes.hub import COMMIT, REPO, hub_here  # noqa: E402


def test_a_checkpoint_is_fetched_before_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_checkpoint(tmp_path / "made", "voice_design")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    source = Source(settings={"hub": REPO, "revision": COMMIT, "threads": 1})
    hosted = HostedEngine(engine, registry.target("qwen"))
    assert isinstance(hosted, Fetching)
    with hub_here() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        hub.content |= {
            file.relative_to(made).as_posix(): file.read_bytes() for file in made.rglob("*") if file.is_file()
        }
        assert hosted.identify(source).sample_rate_hz == 24000
        told: list[Download] = []
        with downloads.watched(told.append):
            hosted.fetch(source)
        assert f"{REPO}/model.safetensors" in {one.file for one in told}
        asked = len(hub.asked)
        model = hosted.load(source, "cpu")
        try:
            assert len(hub.asked) == asked
            stream = model.start(Request(text="Good morning.", language="en", voice="design", seed=7), None)
            chunk = model.step([stream])[0]
            assert not isinstance(chunk, Exception)
            assert len(chunk.samples)
        finally:
            model.unload()
