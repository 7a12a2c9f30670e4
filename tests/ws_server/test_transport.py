"""What strangers and bad networks do to a connection, done over raw sockets."""

import base64
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from websockets.exceptions import ConnectionClosed

from protocol.codec import MSGPACK
from protocol.messages import Done, End, Open, Ping, Pong, Text
from tests.ws_server.running import Running, running
from ws_server.http_connection import MAX_HEAD_BYTES
from ws_server.transport import MAX_FRAGMENTS, SLICE_BYTES

TEXT, BINARY, PING = 1, 2, 9


def frame(opcode: int, payload: bytes, *, fin: bool = True) -> bytes:
    """As a client sends it (RFC 6455, 5.2), with a mask of zeros."""
    head = bytes([0x80 * fin | opcode])
    if len(payload) < 126:
        head += bytes([0x80 | len(payload)])
    elif len(payload) < 1 << 16:
        head += bytes([0x80 | 126]) + struct.pack("!H", len(payload))
    else:
        head += bytes([0x80 | 127]) + struct.pack("!Q", len(payload))
    return head + bytes(4) + payload


@asynccontextmanager
async def raw(server: Running) -> AsyncIterator[SocketStream]:
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        yield stream


@asynccontextmanager
async def upgraded(
    server: Running, *, receive_buffer_bytes: int | None = None
) -> AsyncIterator[SocketStream]:
    """A WebSocket after its handshake, without a client that answers or reads by itself."""
    plain = socket.socket()
    if receive_buffer_bytes is not None:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    plain.setblocking(False)
    try:
        plain.connect(("127.0.0.1", server.port))
    except BlockingIOError:
        await anyio.wait_writable(plain)
    async with await SocketStream.from_socket(plain) as stream:
        key = base64.b64encode(os.urandom(16)).decode()
        await stream.send(
            f"GET /v1/speak HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive(1)
        assert head.startswith(b"HTTP/1.1 101 ")
        yield stream


async def receive_to_end(stream: SocketStream) -> bytes:
    data = b""
    with anyio.fail_after(20):
        try:
            while True:
                data += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return data


async def trickle(stream: SocketStream) -> bytes:
    """A byte of a request now and then; returns what came back before the end."""
    answer = b""
    try:
        await stream.send(b"GET / HTTP/1.1\r\nX: ")
        while True:
            await stream.send(b"x")
            with anyio.move_on_after(0.05):
                answer += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return answer


async def wait_for_no_sessions(server: Running) -> None:
    with anyio.fail_after(20):
        while len(server.services.sessions) or server.services.dispatcher.open_listeners:  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def still_serves(server: Running) -> None:
    async with server.speak() as client:
        await client.receive()
        await client.send(Ping(t=7))
        assert await client.receive() == Pong(t=7)


# HTTP ---------------------------------------------------------------------------------------------------------


async def test_a_million_bytes_of_headers_are_refused_unread() -> None:
    async with running() as server:
        async with raw(server) as stream:
            try:
                await stream.send(b"GET / HTTP/1.1\r\nX: ")
                for _ in range(100):
                    await stream.send(b"x" * 10_000)
            except anyio.BrokenResourceError:
                pass
            answer = await receive_to_end(stream)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")
        await still_serves(server)


async def test_a_head_just_over_the_limit_in_one_piece_is_refused() -> None:
    async with running() as server, raw(server) as stream:
        await stream.send(
            b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n"
        )
        assert (await receive_to_end(stream)).startswith(b"HTTP/1.1 431 ")


async def test_a_head_that_trickles_in_is_cut() -> None:
    async with running(request_head_s=0.3) as server:
        async with raw(server) as stream:
            with anyio.fail_after(20):
                assert await trickle(stream) == b""
        await still_serves(server)


async def test_a_connection_that_says_nothing_is_cut() -> None:
    async with running(request_head_s=0.2) as server, raw(server) as stream:
        assert await receive_to_end(stream) == b""


async def test_a_second_request_on_a_connection_has_its_own_time() -> None:
    async with running(request_head_s=0.5) as server:
        for _ in range(3):
            assert (await server.http.get("/livez")).status_code == 200
            await anyio.sleep(0.3)


# Reading ------------------------------------------------------------------------------------------------------


async def test_text_that_isnt_utf8_closes_with_1007() -> None:
    async with running() as server, upgraded(server) as stream:
        await stream.send(frame(TEXT, b"\xff\xfe"))
        assert struct.pack("!H", 1007) in await receive_to_end(stream)
        await wait_for_no_sessions(server)


async def test_a_frame_without_a_mask_closes_with_1002() -> None:
    async with running() as server, upgraded(server) as stream:
        await stream.send(bytes([0x82, 1]) + b"x")
        assert struct.pack("!H", 1002) in await receive_to_end(stream)


async def test_a_header_that_claims_gigabytes_closes_with_1009() -> None:
    async with running() as server, upgraded(server) as stream:
        await stream.send(bytes([0x82, 0x80 | 127]) + struct.pack("!Q", 1 << 33) + bytes(4))
        assert struct.pack("!H", 1009) in await receive_to_end(stream)


async def test_a_message_in_endless_empty_fragments_closes_with_1008() -> None:
    async with running() as server, upgraded(server) as stream:
        await stream.send(frame(BINARY, b"", fin=False))
        await stream.send(frame(0, b"", fin=False) * (MAX_FRAGMENTS + 1))
        assert struct.pack("!H", 1008) in await receive_to_end(stream)


async def test_a_message_in_fragments_is_one_message() -> None:
    async with running() as server, upgraded(server) as stream:
        data = MSGPACK.encode_client(Ping(t="whole"))
        assert isinstance(data, bytes)
        for at in range(len(data) - 1):
            await stream.send(frame(0 if at else BINARY, data[at : at + 1], fin=False))
        await stream.send(frame(0, data[-1:]))
        answer = b""
        with anyio.fail_after(10):
            while b"whole" not in answer:
                answer += await stream.receive()


async def test_a_read_of_thousands_of_messages_is_all_of_them_in_order() -> None:
    async with running() as server, upgraded(server) as stream:
        messages = [MSGPACK.encode_client(Ping(t=number)) for number in range(3000)]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                stream.send, b"".join(frame(BINARY, each) for each in messages if isinstance(each, bytes))
            )
            received = b""
            expected = MSGPACK.encode_server(Pong(t=2999))
            assert isinstance(expected, bytes)
            with anyio.fail_after(20):
                while not received.endswith(expected):
                    received += await stream.receive()
        places = [received.index(MSGPACK.encode_server(Pong(t=n))) for n in (1000, 1500, 2000, 2500)]  # type: ignore[arg-type]
        assert places == sorted(places)


async def test_a_flood_of_pings_by_one_who_reads_no_answer_grows_nothing() -> None:
    async with running() as server, upgraded(server, receive_buffer_bytes=4096) as stream:
        sent_pings = 60_000
        with anyio.fail_after(60):
            for _ in range(sent_pings // 1000):
                await stream.send(frame(PING, b"x" * 125) * 1000)
        connection = only_connection(server)
        assert connection.transport.get_write_buffer_size() < 2 * SLICE_BYTES
        await still_serves(server)


# Writing ------------------------------------------------------------------------------------------------------


def only_connection(server: Running) -> Any:
    (connection,) = [each for each in server.connections if hasattr(each, "writable")]
    return connection


async def make_it_speak_without_reading(stream: SocketStream) -> None:
    messages = (
        Open(id="a", lead_ms=0, format="f32le", sample_rate_hz=48000),
        Text(id="a", text="Many words follow one another here. " * 500),
        End(id="a"),
    )
    for message in messages:
        data = MSGPACK.encode_client(message)
        assert isinstance(data, bytes)
        await stream.send(frame(BINARY, data))


async def wait_until_blocked(server: Running) -> None:
    with anyio.fail_after(20):
        while only_connection(server).writable.is_set():  # noqa: ASYNC110 - uvicorn has no event for it
            await anyio.sleep(0.01)


async def test_what_a_client_doesnt_read_is_bounded_by_one_frame() -> None:
    async with running() as server, upgraded(server, receive_buffer_bytes=4096) as stream:
        await make_it_speak_without_reading(stream)
        await wait_until_blocked(server)
        await anyio.sleep(0.3)
        assert not only_connection(server).writable.is_set()
        assert only_connection(server).transport.get_write_buffer_size() < 65_536
        await still_serves(server)


async def test_a_client_that_reads_nothing_for_long_is_cut_and_all_is_freed() -> None:
    async with running(stalled_reader_s=0.3) as server, upgraded(server, receive_buffer_bytes=4096) as stream:
        await make_it_speak_without_reading(stream)
        await wait_for_no_sessions(server)
        await receive_to_end(stream)


async def test_a_slow_reader_isnt_a_stalled_one() -> None:
    async with running(stalled_reader_s=0.3) as server, upgraded(server, receive_buffer_bytes=4096) as stream:
        await make_it_speak_without_reading(stream)
        for _ in range(20):
            await anyio.sleep(0.05)
            assert await stream.receive(65_536)
        assert len(server.services.sessions) == 1


async def test_a_half_close_by_one_who_doesnt_read_frees_all() -> None:
    async with running() as server, upgraded(server, receive_buffer_bytes=4096) as stream:
        await make_it_speak_without_reading(stream)
        await wait_until_blocked(server)
        await stream.send_eof()
        await wait_for_no_sessions(server)


async def test_a_peer_that_vanished_is_found_by_the_pings() -> None:
    async with running(ping_s=0.2) as server, upgraded(server) as stream:
        assert len(server.services.sessions) == 1
        await wait_for_no_sessions(server)
        del stream


async def test_a_peer_that_answers_pings_stays() -> None:
    async with running(ping_s=0.1) as server, server.speak(ping_interval=None) as client:
        await client.receive()
        with anyio.move_on_after(1):
            await client.receive()
        await client.send(Ping(t=1))
        assert await client.receive() == Pong(t=1)


async def test_a_blocked_socket_isnt_pinged_to_death() -> None:
    async with running(ping_s=0.1) as server, upgraded(server, receive_buffer_bytes=4096) as stream:
        await make_it_speak_without_reading(stream)
        await wait_until_blocked(server)
        await anyio.sleep(0.6)
        assert len(server.services.sessions) == 1


@pytest.mark.parametrize("how", ["reset", "close", "eof"])
async def test_a_hang_up_while_speaking_frees_all(how: str) -> None:
    async with running(engines={"tone": {"cost": 0.05, "step_ms": 100}}) as server:
        for _ in range(5):
            async with upgraded(server) as stream:
                await make_it_speak_without_reading(stream)
                await stream.receive()
                if how == "reset":
                    linger = struct.pack("ii", 1, 0)
                    plain = stream.extra(anyio.abc.SocketAttribute.raw_socket)  # noqa: S610 - no Django here
                    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                elif how == "eof":
                    await stream.send_eof()
                    await receive_to_end(stream)
            await wait_for_no_sessions(server)
        assert server.services.dispatcher.in_flight == 0
        await still_serves(server)


async def test_after_a_close_nothing_is_sent_and_nothing_breaks() -> None:
    async with running() as server, server.speak() as client:
        await client.receive()
        await client.send(Open(id="a"), Text(id="a", text="Some words to say."), End(id="a"))
        await client.socket.close()
        with pytest.raises(ConnectionClosed):
            await client.receive_until(Done)
        await wait_for_no_sessions(server)
