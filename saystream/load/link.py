"""A WebSocket client with just enough in it to load a server: no checks, no limits, few microseconds a message.

Not for any other use: it believes what the server sends, and masks with zeros, which costs nothing and which
RFC 6455 wants to be random for the sake of proxies that aren't there.
"""

import asyncio
import base64
import os
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

from protocol.codec import MSGPACK

_BINARY, _CLOSE, _PONG = 0x2, 0x8, 0xA
_NO_MASK = bytes(4)
_UPGRADE_S = 10.0
_HEAD_END = b"\r\n\r\n"


class LinkRefusedError(Exception):
    """The server didn't upgrade; the first line of its answer."""


def frame(payload: bytes, opcode: int = _BINARY) -> bytes:
    """A whole message as a client sends it."""
    size_bytes = len(payload)
    if size_bytes < 126:
        head = bytes((0x80 | opcode, 0x80 | size_bytes))
    elif size_bytes < 1 << 16:
        head = bytes((0x80 | opcode, 0x80 | 126)) + size_bytes.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 0x80 | 127)) + size_bytes.to_bytes(8, "big")
    return head + _NO_MASK + payload


class Link(asyncio.Protocol):
    """Calls `on_message` with each binary message; `send` takes what `frame` made."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url = url
        self._key = key
        self.on_message: Callable[[bytes], None] = _ignore
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self.upgraded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.lost = False
        self.received_bytes = 0

    async def connect(self) -> None:
        """Raises OSError, LinkRefusedError."""
        parts = urlsplit(self._url)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, parts.hostname or "127.0.0.1", parts.port or 80)
        async with asyncio.timeout(_UPGRADE_S):
            await self.upgraded

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self.lost:
            self._transport.write(data)

    def pause(self) -> None:
        """Take no more bytes from the kernel."""
        if self._transport is not None:
            self._transport.pause_reading()

    def socket(self) -> Any:
        """The transport's view of its socket, for options; None: not connected."""
        return None if self._transport is None else self._transport.get_extra_info("socket")

    def close(self) -> None:
        """End it without a WebSocket close."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # uvloop's isn't one by name
        self._transport = transport
        parts = urlsplit(self._url)
        nonce = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {parts.path}{'?' + parts.query if parts.query else ''} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {nonce}",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Protocol: {MSGPACK.subprotocol}",
            *([f"Authorization: Bearer {self._key}"] if self._key else []),
        ]
        transport.write("\r\n".join(lines).encode() + _HEAD_END)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if not self.upgraded.done():
            self.upgraded.set_exception(LinkRefusedError(f"the connection ended before the upgrade: {exc}"))

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self._buffer += data
        if not self.upgraded.done() and not self._take_head():
            return
        self._take_frames()

    def _take_head(self) -> bool:
        end = self._buffer.find(_HEAD_END)
        if end < 0:
            return False
        first = bytes(self._buffer[: self._buffer.find(b"\r\n")])
        del self._buffer[: end + len(_HEAD_END)]
        if b" 101 " not in first:
            self.upgraded.set_exception(LinkRefusedError(first.decode("latin-1")))
            self.abort()
            return False
        self.upgraded.set_result(None)
        return True

    def _take_frames(self) -> None:
        buffer, at = self._buffer, 0
        while len(buffer) - at >= 2:
            size_bytes, head_bytes = buffer[at + 1] & 0x7F, 2
            if size_bytes == 126:
                size_bytes, head_bytes = int.from_bytes(buffer[at + 2 : at + 4], "big"), 4
            elif size_bytes == 127:
                size_bytes, head_bytes = int.from_bytes(buffer[at + 2 : at + 10], "big"), 10
            end = at + head_bytes + size_bytes
            if len(buffer) < end:
                break
            self._take_frame(buffer[at] & 0x0F, bytes(buffer[at + head_bytes : end]))
            at = end
        del buffer[:at]

    def _take_frame(self, opcode: int, payload: bytes) -> None:
        match opcode:
            case 0x2:
                self.on_message(payload)
            case 0x9:
                self.send(frame(payload, _PONG))
            case 0x8:
                self.send(frame(payload, _CLOSE))
                self.abort()
            case _:
                pass


def _ignore(_: bytes) -> None:
    pass
