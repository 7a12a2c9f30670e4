"""Tables of what a server offers."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from saystream import CannotConnect, HandshakeRefused, listing

ENGINES = {
    "engines": [
        {
            "name": "hibari",
            "installed": True,
            "state": "ready",
            "policy": "SOFT_PIN",
            "footprint_bytes": 200_000_000,
            "device": "cpu",
            "sample_rate_hz": 24000,
            "speed_x_realtime": 145.3,
            "languages": ["en"],
            "voices": ["a", "b"],
        },
        {
            "name": "vits",
            "installed": True,
            "state": "loading",
            "download": {"file": "a/b.onnx", "done_bytes": 31_000_000, "total_bytes": 63_000_000},
            "languages": [],
            "voices": [],
        },
        {
            "name": "kokoro",
            "installed": False,
            "missing_extra": "kokoro",
            "state": "unloaded",
            "languages": ["en", "ja"],
            "voices": [],
        },
        {"name": "cosyvoice", "installed": False, "state": "failed", "languages": [], "voices": []},
    ]
}
VOICES = {
    "voices": [{"voice_id": "a", "name": "Anna", "kind": "builtin", "engines": ["hibari"], "language": "en"}]
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.headers.get("Authorization") != "Bearer k":
            return self._answer(401, {"error": {"code": "unauthorized", "message": "a key is needed"}})
        return self._answer(200, ENGINES if self.path == "/v1/engines" else VOICES | {"path": self.path})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is overridden
        pass

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_engines_say_what_is_missing_or_on_its_way(url: str) -> None:
    assert listing.engines(url, "k").splitlines() == [
        "ENGINE     STATE                         POLICY    DEVICE  RATE   SPEED  MEMORY  LANGUAGES  VOICES",
        "hibari     ready                         SOFT_PIN  cpu     24000  145x   0.2 GB  en         2",
        "vits       loading, 31 of 63 MB fetched  -         -       -      -      -                  0",
        "kokoro     needs saystream[kokoro]       -         -       -      -      -       en ja      0",
        "cosyvoice  not installed                 -         -       -      -      -                  0",
    ]


def test_voices_are_listed(url: str) -> None:
    assert listing.voices(url, "k", None).splitlines()[1].split() == ["a", "Anna", "builtin", "en", "hibari"]


def test_a_missing_key_is_told(url: str) -> None:
    with pytest.raises(HandshakeRefused, match="a key is needed"):
        listing.engines(url, None)


def test_no_server_is_told(unused_port: int) -> None:
    with pytest.raises(CannotConnect):
        listing.engines(f"127.0.0.1:{unused_port}", None)
