"""The process, from outside: exit codes, signals, what it prints."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from protocol.codec import MSGPACK
from protocol.messages import Audio, Bye, ClientMessage, Done, End, Error, Hello, Open, ServerMessage, Text
from tests.ws_server.running import ADMIN_KEY, SPEAK_KEY

COMMAND = [sys.executable, "-c", "import sys; from ws_server.serve import main; sys.exit(main(sys.argv[1:]))"]
SLOW_TONE = '{"tone": {"cost": 0.05, "step_ms": 100}}'
PATIENCE_S = 30


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SAYSTREAM_")}


@contextmanager
def process(*flags: str, port: int = 0) -> Iterator["Process"]:
    """With `tone`, on a free port; killed at the end if it is still there."""
    command = [*COMMAND, "--engine", "tone", "--engines", SLOW_TONE, "--no-page", "--max-streams", "50"]
    with subprocess.Popen(
        [*command, "--port", str(port), "--no-cache", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as child:
        try:
            yield Process(child)
        finally:
            child.kill()


class Process:
    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child
        assert child.stdout is not None
        self.ready_line = child.stdout.readline()
        self.port = int(self.ready_line.partition("ws://127.0.0.1:")[2].partition("/")[0] or 0)
        self.http = f"http://127.0.0.1:{self.port}"

    @contextmanager
    def connect(self, *, close_timeout: float = 10) -> Iterator[ClientConnection]:
        with connect(
            f"ws://127.0.0.1:{self.port}/v1/speak",
            subprotocols=[Subprotocol("saystream.v1.msgpack")],
            compression=None,
            close_timeout=close_timeout,
        ) as client:
            yield client

    def signal(self, number: int) -> None:
        self.child.send_signal(number)

    def end(self) -> tuple[int, str]:
        """The exit code and the log."""
        _, errors = self.child.communicate(timeout=PATIENCE_S)
        return self.child.returncode, errors


def send(socket: ClientConnection, *messages: ClientMessage) -> None:
    for message in messages:
        socket.send(MSGPACK.encode_client(message))


def receive_until(socket: ClientConnection, kind: type[ServerMessage]) -> list[ServerMessage]:
    messages: list[ServerMessage] = []
    while not messages or not isinstance(messages[-1], kind):
        messages.append(MSGPACK.decode_server(socket.recv(timeout=PATIENCE_S)))
    return messages


def start_long_utterance(socket: ClientConnection) -> None:
    """It goes on for as long as text comes."""
    receive_until(socket, Hello)
    send(socket, Open(id="a"), Text(id="a", text="One sentence. Another sentence. "))
    receive_until(socket, Audio)


def test_when_it_can_speak_it_says_so_in_one_line_with_the_address() -> None:
    with process() as server:
        assert server.ready_line.startswith("saystream ")
        assert f"with tone (tone) at ws://127.0.0.1:{server.port}/v1/speak" in server.ready_line
        assert httpx.get(f"{server.http}/readyz").status_code == 200
        server.signal(signal.SIGTERM)
        assert server.end()[0] == 0
        assert server.child.stdout is not None


def test_s2_a_taken_port_ends_the_process_with_a_code_and_the_way_to_find_out_who() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with process(port=port) as server:
            code, errors = server.end()
    assert code == 69
    assert f"lsof -nP -iTCP:{port} -sTCP:LISTEN" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--host", "0.0.0.0"], "no keys are set"),
        (["--host", "::"], "no keys are set"),
        (["--keys", "web:king:0123456789abcdef"], "the role is speak or admin"),
        (["--voice", "nobody"], "tone has no 'nobody'"),
        (["--engine", "nothing"], "there is no 'nothing'"),
        (["--config", "/nonexistent.toml"], "there is no such file"),
    ],
)
def test_what_cant_be_meant_is_refused_with_a_line_and_a_code(flags: list[str], reason: str) -> None:
    with process(*flags) as server:
        code, errors = server.end()
    assert code == 78
    assert reason in errors
    assert "Traceback" not in errors


def test_a_wide_bind_is_allowed_with_keys_or_when_it_is_asked_for() -> None:
    for flags in (["--keys", f"web:speak:{SPEAK_KEY}"], ["--allow-open"]):
        with process("--host", "0.0.0.0", *flags) as server:
            assert "0.0.0.0" in server.ready_line
            server.signal(signal.SIGTERM)
            assert server.end()[0] == 0


def test_sigterm_says_goodbye_lets_the_last_utterance_end_and_exits_with_0() -> None:
    with process("--drain-s", "20") as server, server.connect() as client:
        start_long_utterance(client)
        server.signal(signal.SIGTERM)
        bye = receive_until(client, Bye)[-1]
        assert isinstance(bye, Bye)
        assert bye.reason == "draining"
        assert bye.deadline_ms is not None
        assert 15_000 < bye.deadline_ms <= 20_000
        assert httpx.get(f"{server.http}/readyz").json() == {"reason": "draining"}
        refused = httpx.get(f"{server.http}/v1/speak")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        send(client, Open(id="b"), Text(id="a", text="The last one."), End(id="a"))
        messages = receive_until(client, Done)
        assert any(
            isinstance(each, Error) and each.id == "b" and each.code == "shutting_down" for each in messages
        )
        ends = [each for each in messages if isinstance(each, Done)]
        if ends[-1].id == "b":
            ends += [each for each in receive_until(client, Done) if isinstance(each, Done)]
        assert {(each.id, each.reason) for each in ends} == {("a", "complete"), ("b", "failed")}
        with pytest.raises(ConnectionClosed):
            client.recv(timeout=PATIENCE_S)
        assert client.close_code == 1001
        assert server.end()[0] == 0


def test_at_the_deadline_of_a_drain_the_rest_is_told_and_the_process_ends_with_0() -> None:
    with process("--drain-s", "0.3") as server, server.connect() as client:
        start_long_utterance(client)
        server.signal(signal.SIGTERM)
        *_, error, done = receive_until(client, Done)
        assert isinstance(error, Error)
        assert isinstance(done, Done)
        assert (error.code, done.reason) == ("shutting_down", "failed")
        assert done.heard is not None
        assert server.end()[0] == 0


def test_a_second_sigterm_ends_it_at_once() -> None:
    with process("--drain-s", "600") as server, server.connect() as client:
        start_long_utterance(client)
        server.signal(signal.SIGTERM)
        receive_until(client, Bye)
        server.signal(signal.SIGTERM)
        code, errors = server.end()
        assert code == 1
        assert "Traceback" not in errors
        with pytest.raises(ConnectionClosed):
            receive_until(client, Hello)
        assert client.close_code in {1001, 1006}


def test_post_drain_ends_the_process_too() -> None:
    with process("--keys", f"ops:admin:{ADMIN_KEY}") as server:
        answer = httpx.post(f"{server.http}/drain", headers={"authorization": f"Bearer {ADMIN_KEY}"})
        assert answer.status_code == 202
        assert server.end()[0] == 0


def test_sighup_reads_the_keys_again_and_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"ops:admin:{ADMIN_KEY}\n")

    def status(key: str) -> int:
        return httpx.get(f"{server.http}/health", headers={"authorization": f"Bearer {key}"}).status_code

    def wait_for(key: str, expected: int) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while status(key) != expected:
            assert time.monotonic() < deadline_s

    with process("--keys-file", str(keys)) as server:
        assert (status(ADMIN_KEY), status("another-secret-for-ops")) == (200, 401)
        keys.write_text("ops:admin:another-secret-for-ops\n")
        server.signal(signal.SIGHUP)
        wait_for("another-secret-for-ops", 200)
        assert status(ADMIN_KEY) == 401
        keys.unlink()
        os.mkfifo(keys)  # who opens it to write waits for the one who reads it
        server.signal(signal.SIGHUP)
        keys.write_text("nonsense\n")
        keys.unlink()
        keys.write_text("ops:admin:a-third-secret-for-ops\n")
        server.signal(signal.SIGHUP)
        wait_for("a-third-secret-for-ops", 200)
        server.signal(signal.SIGTERM)
        code, errors = server.end()
        assert code == 0
        assert "keys not read" in errors


def test_a_keys_file_that_cant_be_read_to_its_end_keeps_nobody_from_stopping_it(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"ops:admin:{ADMIN_KEY}\n")
    with process("--keys-file", str(keys)) as server:
        keys.unlink()
        os.mkfifo(keys)
        server.signal(signal.SIGHUP)
        with keys.open("w"):  # it reads now, and waits for more
            server.signal(signal.SIGTERM)
            assert server.end()[0] == 0


def test_neither_token_nor_key_nor_text_is_ever_logged() -> None:
    with process("--keys", f"ops:admin:{ADMIN_KEY}", "--log-level", "debug") as server:
        key = {"authorization": f"Bearer {ADMIN_KEY}"}
        token = httpx.post(f"{server.http}/v1/tokens", headers=key).json()["token"]
        httpx.get(f"{server.http}/v1/speak?token={token}")
        address = f"ws://127.0.0.1:{server.port}/v1/speak?token={token}"
        with connect(address, compression=None) as client:
            send(client, Open(id="a", tag="job-7"), Text(id="a", text="Confidential."), End(id="a"))
            receive_until(client, Done)
        server.signal(signal.SIGTERM)
        code, errors = server.end()
    assert code == 0
    assert "done" in errors
    assert "tag=job-7" in errors
    assert token not in errors
    assert ADMIN_KEY not in errors
    assert "Confidential" not in errors


def test_what_is_spoken_is_logged_where_that_is_asked_for() -> None:
    with process("--log-text") as server:
        with server.connect() as client:
            send(client, Open(id="a"), Text(id="a", text="Not a **secret**."), End(id="a"))
            receive_until(client, Done)
        server.signal(signal.SIGTERM)
        assert 'id=a text="Not a secret."' in server.end()[1]


def test_a_client_that_vanishes_or_misbehaves_leaves_no_traceback() -> None:
    with process() as server:
        for _ in range(3):
            with server.connect(close_timeout=0) as client:
                start_long_utterance(client)
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.socket.shutdown(socket.SHUT_RDWR)
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(b"\x16\x03\x01nonsense\r\n\r\n")
            raw.recv(1000)
        server.signal(signal.SIGTERM)
        code, errors = server.end()
    assert code == 0
    assert "Traceback" not in errors
