"""What a hostile server could do to whoever asks it."""

import json
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from anyio import to_thread
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from saystream import Client, address, listing
from saystream.asking import ask
from saystream.cli import main
from saystream.dial import Access
from saystream.errors import CannotConnect, ClientError, HandshakeRefused

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


# Whom it trusts -----------------------------------------------------------------------------------------------


@pytest.fixture
def unvouched(tmp_path: Path) -> Iterator[tuple[str, list[bytes]]]:
    """A server with a certificate of its own making: its address, and what it was told."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*make.split(), *names, "-keyout", key, "-out", cert], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    told: list[bytes] = []

    class Listener(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), context.wrap_socket(self.request, server_side=True) as safe:
                told.append(safe.recv(4096))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Listener) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}", told
        server.shutdown()
        thread.join()


async def test_a_server_that_nobody_vouches_for_is_told_no_key(unvouched: tuple[str, list[bytes]]) -> None:
    where, told = unvouched
    with pytest.raises(CannotConnect):
        await to_thread.run_sync(ask, f"https://{where}", "/v1/voices", "secret")
    with pytest.raises(CannotConnect):
        async with Client(f"wss://{where}", key="secret"):
            pass
    assert not any(told)


async def test_a_key_isnt_taken_along_to_where_a_socket_is_sent() -> None:
    seen: list[str | None] = []

    def thief(_: ServerConnection, request: Request) -> None:
        seen.append(request.headers.get("Authorization"))

    async with serve(lambda socket: socket.close(), "127.0.0.1", 0, process_request=thief) as stolen:
        port = stolen.sockets[0].getsockname()[1]

        def send_away(socket: ServerConnection, _: Request) -> Response:
            answer = socket.respond(302, "")
            answer.headers["Location"] = f"ws://127.0.0.1:{port}/v1/speak"
            return answer

        async with serve(lambda socket: socket.close(), "127.0.0.1", 0, process_request=send_away) as asked:
            url = f"ws://127.0.0.1:{asked.sockets[0].getsockname()[1]}"
            with pytest.raises(ClientError):
                async with Client(url, key="secret"):
                    pass
    assert not any(seen)


def test_a_trace_that_shows_what_a_client_was_made_of_shows_no_key() -> None:
    access = Access(address.parse("localhost"), "secret-key", "secret-token", None, False, 1)
    assert "secret" not in repr(access)
