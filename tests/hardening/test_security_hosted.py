"""An engine's own process: what it can't learn from the server, and what it can't do to it by what it says."""

import json
import socket
import stat
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.contract import EngineUnavailable, Source
from engines.hosted import HostedEngine
from engines.hosted_wire import VERSION, Broken, Closed, Wire
from engines.tone import ToneEngine

GREETING = json.dumps({"$map": [["wire", VERSION], ["python", "3.11.0"], ["pid", 1]]})
SAID = """#!{python}
import socket, sys
end = socket.socket(fileno=int(sys.argv[2]))
end.sendall(bytes.fromhex("{said}"))
end.recv(1)
"""


def message(header: str, body: bytes = b"") -> bytes:
    return struct.pack("!II", len(header.encode()), len(body)) + header.encode() + body


def interpreter(folder: Path, text: str) -> str:
    program = folder / "python"
    program.write_text(text)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def load(python: str) -> None:
    HostedEngine(ToneEngine(), "engines.tone:engine", python=python).load(Source(), "cpu")


def test_the_servers_keys_arent_in_the_childs_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAYSTREAM_KEYS", "ops:admin:a-secret-of-the-server")
    monkeypatch.setenv("HF_HOME", "/somewhere")
    seen = tmp_path / "seen"
    python = interpreter(tmp_path, f"#!/bin/sh\nenv > {seen}\nls /proc/self/fd > {seen}.fds\nexit 3\n")
    with pytest.raises(EngineUnavailable, match="exit code 3"):
        load(python)
    assert "a-secret-of-the-server" not in seen.read_text()
    assert "HF_HOME=/somewhere" in seen.read_text()


def test_no_socket_of_the_server_is_open_in_the_child(tmp_path: Path) -> None:
    """But its end of the pair; of the others one could listen on in the server's name."""
    seen = tmp_path / "seen"
    python = interpreter(tmp_path, f"#!/bin/sh\nls -l /proc/$$/fd > {seen}\nexit 3\n")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        with pytest.raises(EngineUnavailable):
            load(python)
        inode = f"socket:[{Path(f'/proc/self/fd/{listening.fileno()}').readlink().name.strip('socket:[]')}]"
    assert seen.read_text().count("socket:[") == 1
    assert inode not in seen.read_text()


@pytest.mark.parametrize(
    "said",
    [
        message("1"),
        message("[]"),
        message("{}"),
        message("[" * 100_000),
        message("not JSON"),
        message(json.dumps({"$map": [["wire", "other"]]})),
        message(GREETING) + message("1"),
        message(GREETING) + message("[1]"),
        message(GREETING) + message("[false, 3]"),
        message(GREETING) + message("[null, null]"),
        message(GREETING) + message('[true, null, "more"]'),
        message(GREETING) + message('{"$Facts": {"nothing": 1}}'),
        message(GREETING) + message('{"$Source": []}'),
        message(GREETING) + message('{"$options": {}}'),
        message(GREETING) + message('{"$samples": 400}', b"1234"),
        message(GREETING) + message('{"$bytes": -1}', b"1234"),
        struct.pack("!II", 2**32 - 1, 0),
        struct.pack("!II", 2, 2**32 - 1),
    ],
)
def test_a_child_that_talks_nonsense_is_an_engine_that_cant_be_used(said: bytes, tmp_path: Path) -> None:
    python = interpreter(tmp_path, SAID.format(python=sys.executable, said=said.hex()))
    with pytest.raises(EngineUnavailable):
        load(python)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "$tuple",
                    "$set",
                    "$map",
                    "$bytes",
                    "$samples",
                    "$error",
                    "$options",
                    "$Source",
                    "$Request",
                    "$no",
                ]
            ),
            inner,
            max_size=2,
        )
    ),
    max_leaves=12,
)


@given(value=VALUES, body=st.binary(max_size=24))
def test_whatever_is_said_is_a_value_or_broken(value: Any, body: bytes) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(message(json.dumps(value), body))
        theirs.shutdown(socket.SHUT_WR)
        wire = Wire(ours)
        try:
            wire.receive()
        except Broken:
            pass
        with pytest.raises((Closed, Broken)):
            wire.receive()
        wire.close()
