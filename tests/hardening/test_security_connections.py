"""Connections that would have stayed for ever, or have kept megabytes: what they hold is bounded, and they end."""

from contextlib import suppress
from typing import Any

import anyio
import uvicorn
from anyio import to_thread
from anyio.abc import SocketStream

from tests.hardening.raw import frame, read_little, upgraded
from tests.ws_server.conversing import until
from tests.ws_server.running import Running, running
from ws_server.binding import bind
from ws_server.http_connection import HttpConnection
from ws_server.serve import Server
from ws_server.settings import Settings
from ws_server.transport import MAX_WAITING_BYTES, SocketConnection, connection_classes

MEGABYTE = 1 << 20


def open_connections(server: Running, kind: type[Any]) -> list[Any]:
    return [one for one in server.connections if isinstance(one, kind)]


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


async def takes_nothing(_scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    with suppress(anyio.get_cancelled_exc_class()):
        await anyio.sleep_forever()


async def test_messages_that_wait_to_be_taken_are_bounded_in_bytes() -> None:
    http, ws = connection_classes(request_head_s=10, stalled_reader_s=10)
    config = uvicorn.Config(
        takes_nothing,
        http=http,
        ws=ws,
        lifespan="off",
        log_config=None,
        ws_max_size=4 * MEGABYTE,
        timeout_graceful_shutdown=0,
    )
    server = Server(config)
    listening = await to_thread.run_sync(bind, Settings(port=0))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [listening])
        async with upgraded(listening.getsockname()[1]) as stream:
            connection: Any = next(iter(server.server_state.connections))
            tasks.start_soon(send_megabytes, stream, 40)

            def waiting_bytes() -> int:
                return sum(len(event["bytes"]) for event in connection.queue._queue)

            def is_held_up() -> bool:
                return bool(connection._unparsed) and connection._parse_soon is None

            await until(lambda: is_held_up() or waiting_bytes() == 40 * MEGABYTE)
            assert waiting_bytes() <= MAX_WAITING_BYTES + MEGABYTE
        server.should_exit = True


async def send_megabytes(stream: SocketStream, count: int) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        for _ in range(count):
            await stream.send(frame(bytes(MEGABYTE)))
