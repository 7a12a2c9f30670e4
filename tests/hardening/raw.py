"""A client on a bare socket: sends what it is told to, answers nothing, hangs up as rudely as it is asked to."""

import base64
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import anyio
from anyio.abc import SocketAttribute, SocketStream

from protocol.codec import MSGPACK
from protocol.messages import ClientMessage

HangUp = Literal["rst", "fin", "silence"]
BINARY = 2


def frame(payload: bytes, opcode: int = BINARY) -> bytes:
    """As a client sends it (RFC 6455, 5.2), with a mask of zeros."""
    size = len(payload)
    if size < 126:
        head = bytes([0x80 | opcode, 0x80 | size])
    elif size < 1 << 16:
        head = bytes([0x80 | opcode, 0x80 | 126]) + struct.pack("!H", size)
    else:
        head = bytes([0x80 | opcode, 0x80 | 127]) + struct.pack("!Q", size)
    return head + bytes(4) + payload


def packed(*messages: ClientMessage) -> bytes:
    frames = b""
    for message in messages:
        data = MSGPACK.encode_client(message)
        assert isinstance(data, bytes)
        frames += frame(data)
    return frames


@asynccontextmanager
async def upgraded(port: int, host: str = "127.0.0.1") -> AsyncIterator[SocketStream]:
    """A WebSocket after its handshake."""
    async with await anyio.connect_tcp(host, port) as stream:
        key = base64.b64encode(os.urandom(16)).decode()
        await stream.send(
            f"GET /v1/speak HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive(1)
        assert head.startswith(b"HTTP/1.1 101 "), head
        yield stream


async def receive_until(stream: SocketStream, mark: bytes) -> None:
    """Reads until `mark` was in what came, be it anywhere."""
    seen = b""
    with anyio.fail_after(30):
        while mark not in seen:
            seen = seen[-len(mark) :] + await stream.receive()


def reset_on_close(stream: SocketStream) -> None:
    plain = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - no Django here
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
