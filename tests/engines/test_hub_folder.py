"""A whole checkpoint from the hub: the real client, against a hub of our own on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engines import downloads
from engines.contract import EngineUnavailable
from engines.downloads import Download
from engines.hub_folder import fetch_folder
from tests.fakes.hub import COMMIT, REPO, Hub, hub_here

WHY = "no extra that uses the hub is installed here; make test-engines has them"
constants = pytest.importorskip("huggingface_hub.constants", reason=WHY)

WANTED = ("*.json", "*.safetensors")
FILES = {
    "config.json": b"{}",
    "codec/config.json": b"{1}",
    "codec/model.safetensors": b"codec",
    "model.safetensors": b"weights" * 1000,
    "README.md": b"# read me",
    "model.onnx": b"another export",
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with hub_here() as here:
        here.content |= FILES
        here.large |= {"model.safetensors", "codec/model.safetensors"}
        yield here


def fetch(hub: Hub, *, repo: str = REPO, revision: str = COMMIT) -> Path:
    return fetch_folder(repo, revision, WANTED, engine="fake", endpoint=hub.url)


def test_what_is_wanted_of_it_is_fetched_once_and_told_of(hub: Hub) -> None:
    told: list[Download] = []
    with downloads.watched(told.append):
        for _ in range(2):
            folder = fetch(hub)
            here = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.*")}
            assert here == {name: FILES[name] for name in FILES if name.endswith((".json", ".safetensors"))}
    assert sorted(one for one in hub.asked if one.startswith("GET")) == sorted(f"GET {name}" for name in here)
    assert {one.file for one in told if one.over} == {f"{REPO}/{name}" for name in here}


def test_what_was_fetched_is_used_when_the_hub_cannot_be_asked(hub: Hub) -> None:
    folder = fetch(hub)
    hub.gated = True
    assert fetch(hub) == folder


@pytest.mark.parametrize(
    ("repo", "revision", "cause"),
    [
        ("some/other", COMMIT, "the hub can't be asked for some/other"),
        (REPO, "v9", "the hub can't be asked for"),
    ],
)
def test_what_is_not_there_is_unavailable(hub: Hub, repo: str, revision: str, cause: str) -> None:
    with pytest.raises(EngineUnavailable, match=cause):
        fetch(hub, repo=repo, revision=revision)


def test_a_repository_without_a_configuration_is_no_checkpoint(hub: Hub) -> None:
    del hub.content["config.json"]
    with pytest.raises(EngineUnavailable, match="is no checkpoint"):
        fetch(hub)


def test_a_file_that_arrives_damaged_makes_all_of_it_unavailable(hub: Hub) -> None:
    hub.damaged.add("codec/model.safetensors")
    with pytest.raises(EngineUnavailable, match="is damaged"):
        fetch(hub)
    hub.damaged.clear()
    assert (fetch(hub) / "codec" / "model.safetensors").read_bytes() == FILES["codec/model.safetensors"]
