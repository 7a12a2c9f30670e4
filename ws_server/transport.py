"""uvicorn's two connection protocols, with this server's bounds on memory and time.

`send` returns when the kernel has taken all bytes: the session's idea of "blocked" and its playout clock rest on
that. Nothing is written to a client that doesn't read, and one that reads nothing for long is cut.
"""

import asyncio
import socket
from collections import deque
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame

from ws_server.http_connection import HttpConnection
from ws_server.reader_watch import ReaderWatch, WatchedReader

NOTSENT_LOWAT_BYTES = 2 * 1024
"""What waits in the kernel can't be taken back by a cancel: for a slow reader of mu-law these are 0.2 s."""
MAX_FRAGMENTS = 4096
"""Of one message: empty ones cost a list entry each and no byte of the message's limit."""
MAX_WAITING_MESSAGES = 64
MAX_WAITING_BYTES = 1 << 20
"""Of messages that wait to be taken: one can have 4 MiB."""
SLICE_BYTES = 8 * 1024
"""Parsed in one go: a read can bring 256 kB, thousands of messages, and the loop has others to serve."""
_TCP_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", 25 if hasattr(socket, "SO_PEERSEC") else None)


class SocketConnection(WatchedReader, WebSocketsSansIOProtocol):
    """A WebSocket whose sends are true and whose buffers are small."""

    _waiting_bytes = 0

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._unparsed: deque[bytes] = deque()
        self._parse_soon: asyncio.Handle | None = None

    # Writing ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # `pause_writing` comes as soon as the kernel doesn't take everything, `resume_writing` when it has. Not 0,
        # which asyncio's TLS takes for always full. Its own transport below keeps up to 64 kB all the same.
        self.transport.set_write_buffer_limits(high=1, low=0)
        self._watch = ReaderWatch(self.transport, self.loop, self.stalled_reader_s)
        raw: socket.socket | None = transport.get_extra_info("socket")
        if raw is not None and _TCP_NOTSENT_LOWAT is not None:
            try:
                raw.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, NOTSENT_LOWAT_BYTES)
            except OSError:
                pass  # A Unix socket, or a kernel without it: SO_SNDBUF alone bounds then.

    async def send(self, message: Any) -> None:
        """Returns when the kernel has taken the message. Cancelled: it may have been sent.

        Raises ClientDisconnected once the connection has been closed from here, without the application's doing.
        """
        await self.writable.wait()
        if self.close_sent:
            raise ClientDisconnected
        await super().send(message)
        if not self.writable.is_set():
            await self.writable.wait()

    # Reading ----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if len(data) <= SLICE_BYTES and not self._unparsed:
            super().data_received(data)
            return
        self._unparsed.extend(data[at : at + SLICE_BYTES] for at in range(0, len(data), SLICE_BYTES))
        self._stop_reading()
        self._parse_slice()

    def _parse_slice(self) -> None:
        self._parse_soon = None
        if self.transport.is_closing():
            self._unparsed.clear()
        elif self._unparsed:
            super().data_received(self._unparsed.popleft())
            self._go_on()

    def _go_on(self) -> None:
        """Parse what is there, read more when nothing is; neither while many messages wait."""
        if self._unparsed:
            if self._parse_soon is None and not self._is_full:
                self._parse_soon = self.loop.call_soon(self._parse_slice)
        elif self.read_paused and self.queue.empty() and not self.transport.is_closing():
            self.read_paused = False
            self.transport.resume_reading()

    async def receive(self) -> Any:
        message = await self.queue.get()
        self._waiting_bytes -= _length(message)
        self._go_on()
        return message

    @property
    def _is_full(self) -> bool:
        return self.queue.qsize() >= MAX_WAITING_MESSAGES or self._waiting_bytes >= MAX_WAITING_BYTES

    def _stop_reading(self) -> None:
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self._fail(1008, "too many fragments")
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        # uvicorn stops reading after each message. Ours are a few bytes and taken at once, so a burst of them
        # shouldn't cost two system calls each.
        data = bytes(self.frames[0]) if len(self.frames) == 1 else b"".join(self.frames)
        self.frames = []
        if self.close_sent:
            return
        event: Any = {"type": "websocket.receive"}
        if self.curr_msg_data_type == "bytes":
            event["bytes"] = data
        else:
            try:
                event["text"] = data.decode()
            except UnicodeDecodeError:
                self._fail(1007, "not UTF-8")
                return
        self._waiting_bytes += _length(event)
        self.queue.put_nowait(event)
        if self._is_full:
            self._stop_reading()

    def handle_ping(self) -> None:
        pong = self.conn.data_to_send()
        # A client that floods pings and reads no answer grows nothing here.
        if self.writable.is_set():
            self.transport.write(b"".join(pong))

    def eof_received(self) -> None:
        # Half closed: nothing that is still buffered will be missed, and waiting for it could take for ever.
        if not self.writable.is_set():
            self.transport.abort()

    # Keeping alive, ending --------------------------------------------------------------------------------

    def send_keepalive_ping(self) -> None:
        if self.writable.is_set():
            super().send_keepalive_ping()
        else:
            self.ping_timer = None
            self.schedule_ping()

    def keepalive_timeout(self) -> None:
        if not self.writable.is_set():
            # The answer can't be asked for while the ping is stuck; the reader's own watch decides.
            self.pong_timer = None
            self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_reader()
        self._unparsed.clear()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The process ends now; every session that could end well has."""
        self.stop_keepalive()
        if self.handshake_complete and not self.close_sent:
            self._fail(1001, "the server stops")
        elif not self.handshake_complete:
            self.send_500_response()
        self.transport.close()

    def _fail(self, code: int, reason: str) -> None:
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.conn.fail(code, reason)
        self.close_sent = True
        if self.writable.is_set():
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()
        else:
            self.transport.abort()


def _length(event: Any) -> int:
    """In bytes, or in characters, which are no more."""
    return len(event.get("bytes") or event.get("text") or b"")


def connection_classes(
    *, request_head_s: float, stalled_reader_s: float
) -> tuple[type[asyncio.Protocol], type[asyncio.Protocol]]:
    """The (HTTP, WebSocket) protocols for uvicorn's `http` and `ws`, which takes classes and no arguments."""
    http = type(
        "HttpConnection",
        (HttpConnection,),
        {"head_s": request_head_s, "stalled_reader_s": stalled_reader_s},
    )
    ws = type("SocketConnection", (SocketConnection,), {"stalled_reader_s": stalled_reader_s})
    return cast("type[asyncio.Protocol]", http), cast("type[asyncio.Protocol]", ws)
