"""uvicorn's HTTP connection, with this server's bounds on memory and time.

A client chooses how much it sends, how slowly, and whether it reads the answers; none of it may grow here.
"""

import asyncio
import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ws_server.binding import SEND_BUFFER_BYTES
from ws_server.reader_watch import ReaderWatch, WatchedReader

MAX_HEAD_BYTES = 32 * 1024
BODY_S = 300.0
"""A request's whole body has to arrive within; what takes a body has its own, closer bounds."""
MAX_PIPELINED = 16
"""Requests of one connection that wait for the answers before theirs: each takes kilobytes, for 30 bytes sent."""
HTTP_SEND_BUFFER_BYTES = 128 * 1024
"""Nobody barges in on an HTTP answer, and with less than the 64 kB of a loopback packet each one waits for a timer."""


class HttpConnection(WatchedReader, HttpToolsProtocol):
    """Bounds the size of a request's head, the time that head and body take to arrive (slow loris), and the time
    for which nothing of an answer is taken.
    """

    head_s = 10.0
    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _in_head = True
    _in_body = False
    _goes_on = False
    """What is being parsed has ended a head or brought a piece of a body."""
    _bodiless_bytes = 0
    """Of a body, since its last piece: the sizes of chunks, their extensions, trailers."""
    _refused = False
    _upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        set_send_buffer(transport, HTTP_SEND_BUFFER_BYTES)
        transport.set_write_buffer_limits(high=1, low=0)
        self._watch = ReaderWatch(transport, self.loop, self.stalled_reader_s)
        self._arm(self.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._forget_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._in_head:
            self._head_bytes += len(data)
        self._goes_on = False
        super().data_received(data)
        self._bodiless_bytes = self._bodiless_bytes + len(data) if self._in_body and not self._goes_on else 0
        if self._refused:
            return
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse()
        elif self._bodiless_bytes > MAX_HEAD_BYTES:
            self._drop()
        elif self._deadline is None and not self._is_answering and not self._upgraded:
            # Line ends alone begin no request, but have ended uvicorn's wait for one.
            self._arm(self.head_s)

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def handle_websocket_upgrade(self) -> None:
        if self._refused or self._is_answering:
            # What still answers on this connection would never learn of its end, and wait for it.
            self._drop()
            return
        self._upgraded = True
        self._disarm()
        self._forget_reader()
        set_send_buffer(self.transport, SEND_BUFFER_BYTES)
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        if not self._refused:
            self._arm(self.head_s)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._in_body = self._goes_on = True
        if self._refused:
            return
        if len(self.pipeline) >= MAX_PIPELINED:
            self._drop()
            return
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD_BYTES:
            self._refuse()
            return
        self._arm(BODY_S)
        super().on_headers_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        # What trails a body could say otherwise than the head, by which the request is already being judged.
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._goes_on = True
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        self._disarm()
        if not self._refused:
            super().on_message_complete()

    def _refuse(self) -> None:
        self._refused = True
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
        self.transport.close()

    def _drop(self) -> None:
        self._refused = True
        self._disarm()
        self.transport.abort()

    def _arm(self, after_s: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(after_s, self._too_slow)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        self.transport.abort()


def set_send_buffer(transport: asyncio.BaseTransport, size_bytes: int) -> None:
    raw: socket.socket | None = transport.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size_bytes)
