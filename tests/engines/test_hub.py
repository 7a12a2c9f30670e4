"""Files from the hub: the real client, against a hub of our own on this machine."""

import hashlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from engines import hub
from engines.contract import EngineUnavailable

constants = pytest.importorskip(
    "huggingface_hub.constants",
    reason="no extra that uses the hub is installed here; make test-engines has them",
)

REPO, REVISION = "someone/voices", "v1"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Files:
    content: dict[str, bytes] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)
    """Named by their SHA-256, the others by git's digest."""
    damaged: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def digest(self, name: str) -> str:
        content = self.content[name]
        if name in self.large:
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Files]:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    known = Files()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            name = self.path.removeprefix(f"/{REPO}/resolve/{REVISION}/")
            known.asked.append(f"{self.command} {name}")
            if name not in known.content:
                self.send_response(404)
                self.send_header("X-Error-Code", "EntryNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content = known.content[name]
            self.send_response(200)
            self.send_header("ETag", f'"{known.digest(name)}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(b"?" * len(content) if name in known.damaged else content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    known.url = f"http://127.0.0.1:{server.server_port}"
    yield known
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("large", [True, False])
def test_a_file_is_fetched_once(files: Files, large: bool) -> None:
    files.content["a/b.onnx"] = b"network" * 1000
    if large:
        files.large.add("a/b.onnx")
    assert hub.cached(REPO, "a/b.onnx", REVISION) is None
    for _ in range(2):
        path = hub.fetch(REPO, "a/b.onnx", REVISION, engine="fake", endpoint=files.url)
        assert path.read_bytes() == files.content["a/b.onnx"]
    assert files.asked.count("GET a/b.onnx") == 1
    assert hub.cached(REPO, "a/b.onnx", REVISION) == path


@pytest.mark.parametrize("large", [True, False])
def test_a_file_that_arrives_damaged_is_refused_and_not_kept(files: Files, large: bool) -> None:
    files.content["b.onnx"] = b"network" * 1000
    files.damaged.add("b.onnx")
    if large:
        files.large.add("b.onnx")
    with pytest.raises(EngineUnavailable, match="is damaged"):
        hub.fetch(REPO, "b.onnx", REVISION, engine="fake", endpoint=files.url)
    assert hub.cached(REPO, "b.onnx", REVISION) is None
    files.damaged.clear()
    assert (
        hub.fetch(REPO, "b.onnx", REVISION, engine="fake", endpoint=files.url).read_bytes()
        == files.content["b.onnx"]
    )


def test_a_file_that_is_not_there_is_named(files: Files) -> None:
    with pytest.raises(EngineUnavailable, match=r"someone/voices/none\.onnx couldn't be fetched"):
        hub.fetch(REPO, "none.onnx", REVISION, engine="fake", endpoint=files.url)


def test_progress_is_lines_in_the_log(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="engines.hub")
    files.content["c.onnx"] = b"n" * 2_500_000
    hub.fetch(REPO, "c.onnx", REVISION, engine="fake", endpoint=files.url)
    lines = [record.getMessage() for record in caplog.records if record.name == "engines.hub"]
    assert lines
    assert lines[0].startswith("fetching someone/voices/c.onnx: ")
    assert lines[-1].endswith(" of 2 MB")
