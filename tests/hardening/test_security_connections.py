"""Connections that would have stayed for ever, or have kept megabytes: what they hold is bounded, and they end."""

import socket
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream

from protocol.messages import Ping
from tests.hardening.raw import frame, packed, upgraded
from tests.ws_server.conversing import until
from tests.ws_server.running import Running, running
from ws_server.transport import MAX_WAITING_BYTES, HttpConnection, SocketConnection

MEGABYTE = 1 << 20
READS_BYTES = 256 * 1024
"""What the loop reads in one go."""


def open_connections(server: Running, kind: type[Any]) -> list[Any]:
    return [one for one in server.connections if isinstance(one, kind)]


def read_little(stream: SocketStream) -> None:
    plain = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - no Django here
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


async def is_over(stream: SocketStream) -> bool:
    """Whether the server ends it; what it still says is read."""
    try:
        with anyio.fail_after(20):
            while True:
                await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return True
    except TimeoutError:
        return False


async def test_line_ends_after_an_answer_keep_no_connection_open() -> None:
    async with (
        running(request_head_s=0.3) as server,
        await anyio.connect_tcp("127.0.0.1", server.port) as stream,
    ):
        await stream.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while not (await stream.receive()).endswith(b"}"):
            pass
        await stream.send(b"\r\n")
        assert await is_over(stream)


async def test_a_socket_lives_on_after_the_time_for_a_requests_head() -> None:
    async with running(request_head_s=0.05) as server, server.speak() as client:
        (connection,) = open_connections(server, SocketConnection)
        for _ in range(3):
            await client.receive()
            await client.socket.send(b"\xc0")
            await anyio.sleep(0.05)
        assert not connection.transport.is_closing()


async def test_an_answer_that_nobody_reads_ends_its_connection() -> None:
    async with (
        running(page=True, stalled_reader_s=0.3) as server,
        await anyio.connect_tcp("127.0.0.1", server.port) as stream,
    ):
        read_little(stream)
        await stream.send(b"GET /client.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
        await until(lambda: bool(open_connections(server, HttpConnection)))
        await until(lambda: not open_connections(server, HttpConnection))


async def test_messages_that_wait_to_be_taken_are_bounded_in_bytes() -> None:
    async with running() as server, upgraded(server.port) as stream:
        # Too many unread answers end it, and then nothing is taken any more until its last words are out.
        read_little(stream)
        await stream.send(packed(Ping(t="x" * 128)) * 4000)
        (connection,) = open_connections(server, SocketConnection)
        await until(lambda: not connection.writable.is_set())
        largest = 0

        async def send() -> None:
            try:
                for _ in range(40):
                    await stream.send(frame(bytes(MEGABYTE)))
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            while not connection.transport.is_closing():
                waiting = sum(len(event.get("bytes", b"")) for event in connection.queue._queue)
                largest = max(largest, waiting)
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert largest <= MAX_WAITING_BYTES + MEGABYTE + READS_BYTES
