"""An interruption by one who reads hardly faster than it is spoken: how long until its `done` has come through."""

import asyncio
import base64
import os
import socket
import struct
from urllib.parse import urlsplit

from bench import server, texts
from bench.row import Row
from protocol.codec import MSGPACK
from protocol.messages import Cancel, ClientMessage, Done, End, Open, Text
from saystream.load.crowd import percentiles
from saystream.load.link import frame

_RATE_BYTES_PER_S = 1.5 * 8000
_READ_EVERY_S = 0.02
_BUFFER_BYTES = 2048
"""The reader's own: what lies there has been delivered, and only the reader can hurry it."""
_SPEAK_S = 3.0
_PATIENCE_S = 30.0


async def slow_reader(rounds: int = 10) -> list[Row]:
    text = " ".join(texts.sentences()[:20])
    with server.running() as running:
        took_ms = [1000 * await _interrupt(running.url, text) for _ in range(rounds)]
    p50, p95 = percentiles(took_ms)
    return [
        Row(
            "cancel by a reader limited to 1.5 times real time, mu-law: until `done` was read",
            f"p50 {p50:.0f}, p95 {p95:.0f} ms over {rounds}",
            "≤ 500 ms",
            p95 <= 500,
            {"p50_ms": p50, "p95_ms": p95},
        )
    ]


async def _interrupt(url: str, text: str) -> float:
    loop = asyncio.get_running_loop()
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        plain.setblocking(False)
        await _upgrade(plain, url)
        opening = _packed(Open(id="a", format="mulaw", sample_rate_hz=8000))
        await loop.sock_sendall(plain, opening + _packed(Text(id="a", text=text)) + _packed(End(id="a")))
        buffer = bytearray()
        begin_s = loop.time()
        cancel_s: float | None = None
        while loop.time() < begin_s + _PATIENCE_S:
            if cancel_s is None and loop.time() > begin_s + _SPEAK_S:
                await loop.sock_sendall(plain, _packed(Cancel(id="a")))
                cancel_s = loop.time()
            await asyncio.sleep(_READ_EVERY_S)
            buffer += await loop.sock_recv(plain, int(_RATE_BYTES_PER_S * _READ_EVERY_S))
            if _has_done(buffer) and cancel_s is not None:
                return loop.time() - cancel_s
    raise TimeoutError("no done came")


async def _upgrade(plain: socket.socket, url: str) -> None:
    loop, parts = asyncio.get_running_loop(), urlsplit(url)
    await loop.sock_connect(plain, (parts.hostname, parts.port))
    nonce = base64.b64encode(os.urandom(16)).decode()
    lines = (
        f"GET {parts.path} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {nonce}",
        "Sec-WebSocket-Version: 13",
        "\r\n",
    )
    await loop.sock_sendall(plain, "\r\n".join(lines).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += await loop.sock_recv(plain, 1)


def _has_done(buffer: bytearray) -> bool:
    """Takes the whole frames off."""
    done = False
    while len(buffer) >= 4:
        size, start = buffer[1], 2
        if size == 126:
            size, start = struct.unpack_from("!H", buffer, 2)[0], 4
        if len(buffer) < start + size:
            break
        if buffer[0] == 0x82:
            done = done or isinstance(MSGPACK.decode_server(bytes(buffer[start : start + size])), Done)
        del buffer[: start + size]
    return done


def _packed(message: ClientMessage) -> bytes:
    data = MSGPACK.encode_client(message)
    assert isinstance(data, bytes)
    return frame(data)
