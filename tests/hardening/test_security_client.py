"""What a hostile server could do to whoever asks it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from saystream import listing
from saystream.asking import ask
from saystream.cli import main
from saystream.errors import HandshakeRefused

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m"
VOICE = {"voice_id": f"a{ESCAPES}", "name": f"b\n{ESCAPES}", "kind": "uploaded", "engines": []}


class Hostile(BaseHTTPRequestHandler):
    seen: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers["Authorization"])
        if self.path == "/v1/voices":
            self._answer(200, {"voices": [VOICE]})
        elif self.path == "/v1/engines":
            self._answer(503, {"error": {"code": "busy", "message": ESCAPES}})
        else:
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Hostile.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_key_isnt_taken_along_to_where_a_redirect_leads(url: str) -> None:
    with pytest.raises(HandshakeRefused) as refused:
        ask(url, "/moved", "secret")
    assert refused.value.status == 302
    assert Hostile.seen == ["Bearer secret"]


def test_names_of_voices_give_a_terminal_no_commands(url: str) -> None:
    table = listing.voices(url, None, None)
    assert len(table.splitlines()) == 2
    assert all(line.isprintable() for line in table.splitlines())


def test_a_servers_message_gives_a_terminal_no_commands(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engines", "--url", url]) == 1
    said = capsys.readouterr().err
    assert "owned" in said
    assert all(line.isprintable() for line in said.splitlines())
