"""A hub on this machine for the real client: slow, cut off, damaged or full of refusals, as a test wants it."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REPO, TAG = "someone/voices", "v1"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
NEXT_COMMIT = "89abcdef0123456789abcdef0123456789abcdef"


@dataclass
class Hub:
    content: dict[str, bytes] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=lambda: {TAG: COMMIT, COMMIT: COMMIT})
    large: set[str] = field(default_factory=set)
    """Named by their SHA-256, the others by git's digest."""
    damaged: set[str] = field(default_factory=set)
    gated: bool = False
    cut: bool = False
    """It hangs up after half of each file."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Half of each file comes when it is open."""
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self.gate.set()

    def digest(self, name: str) -> str:
        content = self.content[name]
        if name in self.large:
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@contextmanager
def hub_here() -> Iterator[Hub]:
    hub = Hub()

    class Handler(_Handler):
        here = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        hub.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    here: Hub

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/"):
            self._list()
        else:
            self._answer(body=True)

    def _list(self) -> None:
        repo, _, revision = self.path.removeprefix("/api/models/").partition("?")[0].partition("/tree/")
        self.here.asked.append(f"LIST {revision}")
        if (refusal := self._refusal(repo, revision, None)) is not None:
            self._refuse(*refusal)
            return
        rows = [
            {"type": "file", "path": name, "size": len(content), "oid": self.here.digest(name)}
            for name, content in self.here.content.items()
        ]
        told = json.dumps(rows).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def _answer(self, *, body: bool) -> None:
        repo, _, place = self.path.removeprefix("/").partition("/resolve/")
        revision, _, name = place.partition("/")
        self.here.asked.append(f"{self.command} {name or self.path}")
        if (refusal := self._refusal(repo, revision, name)) is not None:
            self._refuse(*refusal)
            return
        content = self.here.content[name]
        self.send_response(HTTPStatus.OK)
        self.send_header("ETag", f'"{self.here.digest(name)}"')
        self.send_header("X-Repo-Commit", self.here.revisions[revision])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self._send(b"?" * len(content) if name in self.here.damaged else content)

    def _refuse(self, status: HTTPStatus, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _refusal(self, repo: str, revision: str, name: str | None) -> tuple[HTTPStatus, str] | None:
        if repo != REPO:
            return HTTPStatus.NOT_FOUND, "RepoNotFound"
        if self.here.gated:
            return HTTPStatus.FORBIDDEN, "GatedRepo"
        if revision not in self.here.revisions:
            return HTTPStatus.NOT_FOUND, "RevisionNotFound"
        known = name is None or name in self.here.content
        return None if known else (HTTPStatus.NOT_FOUND, "EntryNotFound")

    def _send(self, content: bytes) -> None:
        half = len(content) // 2
        try:
            self.wfile.write(content[:half])
            self.wfile.flush()
            self.here.gate.wait()
            if not self.here.cut:
                self.wfile.write(content[half:])
        except ConnectionError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass
