"""A client on a bare socket: sends what it is told to, answers nothing, hangs up as rudely as it is asked to."""

import asyncio
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
from protocol.messages import ClientMessage, ServerMessage

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
async def upgraded(
    port: int, host: str = "127.0.0.1", plain: socket.socket | None = None
) -> AsyncIterator[SocketStream]:
    """A WebSocket after its handshake; `plain`: the socket to use, not connected yet."""
    if plain is None:
        plain = socket.socket()
        plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, (host, port))
    async with await SocketStream.from_socket(plain) as stream:
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


def read_little(stream: SocketStream) -> None:
    plain = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - no Django here
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


def reset_on_close(stream: SocketStream) -> None:
    plain = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - no Django here
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Reader:
    """Takes frames apart as they come, without a library that would answer."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self.messages: list[ServerMessage] = []

    async def read_until(self, kind: type[ServerMessage]) -> ServerMessage:
        while not self.messages or not isinstance(self.messages[-1], kind):
            self._buffer += await self._stream.receive()
            self._take()
        return self.messages[-1]

    def _take(self) -> None:
        buffer = self._buffer
        while len(buffer) >= 4:
            size, start = buffer[1], 2
            if size == 126:
                size, start = struct.unpack_from("!H", buffer, 2)[0], 4
            if len(buffer) < start + size:
                return
            if buffer[0] == 0x82:
                self.messages.append(MSGPACK.decode_server(bytes(buffer[start : start + size])))
            del buffer[: start + size]
