"""One connection's requests, as many and as long as a client likes: bounded, and read in one way alone."""

import anyio
import pytest
from anyio.abc import SocketStream

from tests.hardening.raw import read_little
from tests.ws_server.conversing import until
from tests.ws_server.running import ADMIN_KEY, KEYS, Running, running
from ws_server.http_connection import MAX_HEAD_BYTES, MAX_PIPELINED, HttpConnection

GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"POST /v1/tts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
UPGRADE = (
    b"GET /v1/speak HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


async def sent_until_cut(stream: SocketStream, data: bytes, most_bytes: int) -> int:
    """How much of it went out before the connection was cut."""
    sent_bytes = 0
    with anyio.fail_after(30):
        try:
            while sent_bytes < most_bytes:
                await stream.send(data)
                sent_bytes += len(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
    return sent_bytes


def http_connections(server: Running) -> list[HttpConnection]:
    return [one for one in server.connections if isinstance(one, HttpConnection)]


# Many at once ---------------------------------------------------------------------------------------------------


async def test_a_hundred_thousand_requests_before_the_first_answer_is_read_end_their_connection() -> None:
    async with running() as server, await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        read_little(stream)
        assert await sent_until_cut(stream, GET * 1000, 100_000 * len(GET)) < 100_000 * len(GET)
        await until(lambda: not http_connections(server))
        assert (await server.http.get("/livez")).status_code == 200


async def test_as_many_requests_at_once_as_may_wait_are_all_answered() -> None:
    async with running() as server, await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(GET * MAX_PIPELINED)
        answers = b""
        with anyio.fail_after(30):
            while answers.count(b"HTTP/1.1 200 OK") < MAX_PIPELINED:
                answers += await stream.receive()


async def test_hundreds_of_requests_one_after_the_other_keep_their_connection() -> None:
    async with running() as server, await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        padded = GET.replace(b"\r\n\r\n", b"\r\nX: " + b"x" * 1000 + b"\r\n\r\n")
        for _ in range(2 * MAX_HEAD_BYTES // len(padded)):
            await stream.send(padded)
            answer = b""
            while not answer.endswith(b"}"):
                answer += await stream.receive()
            assert answer.startswith(b"HTTP/1.1 200 ")


async def test_a_socket_asked_for_before_the_answers_were_read_leaves_nothing_that_waits_for_ever() -> None:
    """It would take the connection over, and whoever still answered on it would wait until the process ends."""
    async with running(page=True) as server:
        before = len(server.tasks)
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            read_little(stream)
            await stream.send(GET.replace(b"/livez", b"/client.js") * MAX_PIPELINED)
            (connection,) = http_connections(server)
            await until(lambda: connection.flow.write_paused)
            await sent_until_cut(stream, UPGRADE, len(UPGRADE))
            await until(lambda: not server.connections)
        await until(lambda: len(server.tasks) == before)


# What trails a body ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("endless", [b"3\r\nabc\r\n0\r\nX: ", b"3;"], ids=["trailer", "extension"])
async def test_what_is_no_body_in_a_body_has_an_end(endless: bytes) -> None:
    async with running() as server, await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(CHUNKED + endless)
        assert await sent_until_cut(stream, b"x" * 65_536, 100 << 20) < 100 << 20
        assert (await server.http.get("/livez")).status_code == 200


async def test_a_body_in_chunks_of_a_byte_is_a_body() -> None:
    async with running() as server, await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        body = b'{"text": "' + b" one" * 5000 + b'", "engine": "nobody"}'
        await stream.send(CHUNKED)
        await stream.send(b"".join(b"1\r\n%c\r\n" % byte for byte in body))
        await stream.send(b"0\r\n\r\n")
        assert (await stream.receive()).startswith(b"HTTP/1.1 404 ")


async def test_a_key_that_trails_the_body_opens_nothing() -> None:
    async with running(keys=KEYS) as server, await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(
            CHUNKED.replace(b"/v1/tts", b"/drain")
            + b"0\r\nAuthorization: Bearer "
            + ADMIN_KEY.encode()
            + b"\r\n\r\n"
        )
        assert (await stream.receive()).startswith(b"HTTP/1.1 401 ")
        assert not server.services.sessions.draining


# Two readings of one request ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /v1/tts HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/tts HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST /v1/tts HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/tts HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"POST /v1/tts HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
        b"POST /v1/tts HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nX: b\r\n Content-Length: 9\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nX: b\rContent-Length: 9\r\n\r\n",
        b"GET /livez HTTP/1.1\nHost: a\n\n",
    ],
)
async def test_a_request_that_a_proxy_could_read_otherwise_is_refused_and_nothing_after_it_is_read(
    request_: bytes,
) -> None:
    async with running() as server, await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(request_ + GET)
        answers = b""
        with anyio.fail_after(20):
            try:
                while True:
                    answers += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
        assert answers.startswith(b"HTTP/1.1 400 ")
        assert answers.count(b"HTTP/1.1 ") == 1
