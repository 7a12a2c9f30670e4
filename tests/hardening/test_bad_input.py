"""Everything a stranger can send, over real sockets to a real process, while somebody else is being spoken to."""

import json
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import anyio
import httpx
import msgpack
import psutil
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from protocol.codec import JSON, MSGPACK, Codec
from protocol.messages import Cancel, Done, End, Error, Hello, Open, Ping, Pong, ServerMessage, Text
from tests.hardening.raw import Reader, frame, packed, upgraded
from tests.serving import Server, serving

WORDS = "One two three four five six seven eight. "
WORDS_SAMPLES = (33 + 8) * 60 * 24
TONE = json.dumps({"tone": {"cost": 0.005, "step_ms": 200}})
GIGABYTES = 0xFFFF_FFFF


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    flags = (
        "--engine",
        "tone",
        "--engines",
        TONE,
        "--max-streams",
        "1000",
        "--log-level",
        "warning",
        "--ping-s",
        "60",
        # A fast client would pass the rate of messages first; that has tests of its own.
        "--messages-per-s",
        "1000000",
    )
    with serving(*flags) as running:
        yield running


class Talk:
    def __init__(self, socket: ClientConnection, codec: Codec) -> None:
        self.socket = socket
        self.codec = codec

    async def send(self, *messages: Open | Text | End | Ping | Cancel) -> None:
        for message in messages:
            await self.socket.send(self.codec.encode_client(message))

    async def receive(self) -> ServerMessage:
        with anyio.fail_after(30):
            return self.codec.decode_server(await self.socket.recv())

    async def until(self, kind: type[ServerMessage]) -> list[ServerMessage]:
        messages = [await self.receive()]
        while not isinstance(messages[-1], kind):
            messages.append(await self.receive())
        return messages

    async def is_alive(self) -> list[ServerMessage]:
        """What had come before the answer."""
        await self.send(Ping(t="alive?"))
        *before, pong = await self.until(Pong)
        assert pong == Pong(t="alive?")
        return before


@asynccontextmanager
async def talking(server: Server, codec: Codec = MSGPACK) -> AsyncIterator[Talk]:
    options = {
        "compression": None,
        "max_size": None,
        "close_timeout": 1,
        "max_queue": None,
        "ping_interval": None,
    }
    async with connect(
        server.ws_url + "/v1/speak",
        subprotocols=[Subprotocol(codec.subprotocol)],
        **options,  # type: ignore[arg-type]
    ) as socket:
        talk = Talk(socket, codec)
        assert isinstance(await talk.receive(), Hello)
        yield talk


@asynccontextmanager
async def witness(server: Server) -> AsyncIterator[None]:
    """Is spoken to all the while, and must hear every sample without a gap."""
    async with talking(server) as talk:
        await talk.send(Open(id="w"), Text(id="w", text=WORDS), Text(id="w", text=WORDS))
        done: list[Done] = []

        async def listen() -> None:
            *_, last = await talk.until(Done)
            assert isinstance(last, Done)
            done.append(last)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            yield
            await talk.send(End(id="w"))
        assert (done[0].reason, done[0].samples) == ("complete", 2 * WORDS_SAMPLES)
        assert done[0].stats.gaps == 0


def grown_bytes(server: Server, before: int) -> int:
    return resident_bytes(server) - before


def resident_bytes(server: Server) -> int:
    return int(psutil.Process(server.process.pid).memory_info().rss)


# One wrong message ------------------------------------------------------------------------------------------

NESTED = b"\x81\xa1x" * 100_000 + b"\xc0"
UNDECODABLE = {
    "no such byte": b"\xc1",
    "nothing": b"",
    "half a map": b"\x82\xa4type\xa4open\xa2id",
    "something after the map": msgpack.packb({"type": "ping"}) + b"\x00",
    "a map that claims gigabytes": b"\xdf" + struct.pack("!I", GIGABYTES),
    "an array that claims gigabytes": b"\xdd" + struct.pack("!I", GIGABYTES),
    "bytes that claim gigabytes": b"\x81\xa1x\xc6" + struct.pack("!I", GIGABYTES),
    "text that claims gigabytes": b"\x81\xa1x\xdb" + struct.pack("!I", GIGABYTES),
    "an extension that claims gigabytes": b"\x81\xa1x\xc9" + struct.pack("!I", GIGABYTES) + b"\x01",
    "maps nested 100,000 deep": NESTED,
    "text that isn't UTF-8": b"\x82\xa4type\xa4ping\xa1t\xa2\xff\xfe",
    "an extension type": msgpack.packb({"type": "ping", "t": msgpack.ExtType(5, b"x")}),
    "a moment in time": msgpack.packb({"type": "ping", "t": msgpack.Timestamp(1)}),
    "a list": msgpack.packb([1, 2]),
    "a number": msgpack.packb(7),
    "keys that are numbers": msgpack.packb({1: 2}),
    "no type": msgpack.packb({"id": "a"}),
    "an unknown type": msgpack.packb({"type": "shout", "id": "a"}),
    "a type that is a map": msgpack.packb({"type": {}, "id": "a"}),
    "no id": msgpack.packb({"type": "text", "text": "x"}),
    "an id that is a number": msgpack.packb({"type": "text", "id": 7, "text": "x"}),
    "an empty id": msgpack.packb({"type": "text", "id": "", "text": "x"}),
    "an id of 10 kB": msgpack.packb({"type": "open", "id": "i" * 10_240}),
    "an id of bytes": msgpack.packb({"type": "cancel", "id": b"a"}),
    "a played that isn't a number": msgpack.packb({"type": "played", "id": "a", "ms": float("nan")}),
    "a played that never ends": msgpack.packb({"type": "played", "id": "a", "ms": float("inf")}),
    "a negative played": msgpack.packb({"type": "played", "id": "a", "ms": -1}),
    "a huge number": msgpack.packb({"type": "played", "id": "a", "ms": 1e300}),
    "forty thousand keys": msgpack.packb({"type": "ping"} | {str(n): n for n in range(40_000)}),
}


@pytest.mark.parametrize("what", UNDECODABLE)
async def test_one_bad_message_gets_an_error_and_the_connection_lives(server: Server, what: str) -> None:
    async with talking(server) as talk:
        await talk.socket.send(UNDECODABLE[what])
        (error,) = await talk.is_alive()
        assert isinstance(error, Error)
        assert (error.code, error.id, error.retryable) == ("bad_message", None, False)
        assert len(error.message) < 300


JSON_UNDECODABLE = {
    "not JSON": "{",
    "nothing": "",
    "NaN": '{"type": "ping", "t": NaN}',
    "Infinity": '{"type": "played", "id": "a", "ms": Infinity}',
    "a number too large": '{"type": "played", "id": "a", "ms": 1e999}',
    "nested 100,000 deep": '{"x":' * 50_000 + "1" + "}" * 50_000,
    "a list": "[]",
    "two objects": "{}{}",
    "a number of a thousand digits": '{"type": "ping", "t": ' + "9" * 1000 + "}",
}


@pytest.mark.parametrize("what", JSON_UNDECODABLE)
async def test_one_bad_message_in_json_gets_an_error_and_the_connection_lives(
    server: Server, what: str
) -> None:
    async with talking(server, JSON) as talk:
        await talk.socket.send(JSON_UNDECODABLE[what])
        (error,) = await talk.is_alive()
        assert isinstance(error, Error)
        assert (error.code, error.id) == ("bad_message", None)


FIELDS: dict[str, tuple[object, ...]] = {
    "speed": (0, -1, 11, float("nan"), float("inf"), "fast", [], True),
    "seed": (-1, 2**63, 1.5, "x"),
    "format": ("mp3", 7),
    "sample_rate_hz": (11025, "x"),
    "frame_ms": (0, 9, 201, 1.5),
    "lead_ms": (-1, float("inf"), "x", 1e10),
    "markup": ("html",),
    "words": (1, "yes"),
    "tag": ("t" * 129, 7),
    "options": ([], "x", {"fault": "nonsense"}, {"unknown": 1}, {"x": float("nan")}),
    "voice": (7, "v" * 200, "../../etc/passwd"),
    "engine": (7, "nobody", "../tone"),
    "language": (7, "tlh-not-a-language"),
    "replaces": (7, "", "r" * 65),
}


@pytest.mark.parametrize("name", FIELDS)
async def test_an_open_with_a_wrong_field_fails_that_one_and_names_the_field(
    server: Server, name: str
) -> None:
    async with talking(server) as talk:
        for number, value in enumerate(FIELDS[name]):
            await talk.socket.send(msgpack.packb({"type": "open", "id": str(number), name: value}))
            error, done = await talk.until(Done)
            assert isinstance(error, Error)
            assert isinstance(done, Done)
            assert (error.id, done.id, done.reason) == (str(number), str(number), "failed")
            assert (error.param or "").split(".")[0] == name, value
        assert await talk.is_alive() == []


async def test_wrong_text_fails_its_utterance_alone(server: Server) -> None:
    async with talking(server) as talk:
        await talk.send(Open(id="a"), Open(id="b"), Text(id="b", text=WORDS))
        await talk.socket.send(msgpack.packb({"type": "text", "id": "a", "text": 7}))
        await talk.send(End(id="b"))
        messages = [*await talk.until(Done), *await talk.until(Done)]
        errors = [(error.code, error.id, error.param) for error in messages if isinstance(error, Error)]
        assert errors == [("bad_message", "a", "text")]
        ends = {done.id: done.reason for done in messages if isinstance(done, Done)}
        assert ends == {"a": "failed", "b": "complete"}


# Too much ---------------------------------------------------------------------------------------------------


async def test_an_increment_of_a_megabyte_fails_its_utterance_and_nothing_else(server: Server) -> None:
    async with witness(server), talking(server) as talk:
        await talk.send(Open(id="a"), Text(id="a", text="x" * 1_000_000))
        *_, error, done = await talk.until(Done)
        assert isinstance(error, Error)
        assert isinstance(done, Done)
        assert (error.code, error.id, done.reason) == ("message_too_long", "a", "failed")
        await talk.is_alive()


@pytest.mark.alone
async def test_200000_increments_of_one_character_are_all_taken(server: Server) -> None:
    text = "so it goes on and on, " * 10_000
    async with witness(server), upgraded(server.port) as stream:
        before = resident_bytes(server)
        await stream.send(packed(Open(id="a", lead_ms=500.0)))
        async with anyio.create_task_group() as tasks:
            reader = Reader(stream)
            tasks.start_soon(reader.read_until, Done)
            for start in range(0, 200_000, 2000):
                await stream.send(packed(*[Text(id="a", text=char) for char in text[start : start + 2000]]))
            await stream.send(packed(Ping(t=1), Cancel(id="a")))
        done = reader.messages[-1]
        assert isinstance(done, Done)
        assert (done.reason, done.chars) == ("cancelled", 200_000)
        assert grown_bytes(server, before) < 100e6


async def test_thousands_of_opens_are_refused_beyond_the_limit_one_by_one(server: Server) -> None:
    async with witness(server):
        before = resident_bytes(server)
        async with talking(server) as talk:
            refused = []
            for number in range(3000):
                await talk.send(Open(id=str(number)))
                if number >= 256:
                    error, done = await talk.until(Done)
                    assert isinstance(error, Error)
                    refused.append((error.code, error.id == getattr(done, "id", None)))
            assert refused == [("too_many_utterances", True)] * (3000 - 256)
            await talk.is_alive()
        assert grown_bytes(server, before) < 60e6


@pytest.mark.alone
async def test_one_who_floods_and_reads_nothing_is_no_longer_heard(server: Server) -> None:
    async with (
        witness(server),
        httpx.AsyncClient(base_url=server.url) as http,
        upgraded(server.port) as stream,
    ):
        before = resident_bytes(server)
        flood = packed(*[Ping(t="x" * 100)] * 1000)
        sent = 0
        with suppress(anyio.BrokenResourceError, TimeoutError), anyio.fail_after(4):
            while True:
                await stream.send(flood)
                sent += len(flood)
        # What fits into the kernel's buffers, and what was answered before the answers piled up.
        assert sent < 20e6
        assert grown_bytes(server, before) < 30e6
        with anyio.fail_after(20):
            while (await http.get("/health")).json()["connections"] > 1:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.05)


@pytest.mark.alone
async def test_fifty_who_speak_and_read_nothing_cost_little_and_touch_nobody(server: Server) -> None:
    async with witness(server):
        before = resident_bytes(server)
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(speak_to_one_who_reads_nothing, server)
            await anyio.sleep(2)
            # Each has its kernel buffers, one frame and at most a step of samples (0.2 s) in user space.
            assert grown_bytes(server, before) < 50 * 2e6
            tasks.cancel_scope.cancel()


async def speak_to_one_who_reads_nothing(server: Server) -> None:
    async with upgraded(server.port) as stream:
        await stream.send(packed(Open(id="a", lead_ms=0.0, format="f32le", sample_rate_hz=48000)))
        for _ in range(10):
            await stream.send(packed(Text(id="a", text=WORDS * 20)))
        await anyio.sleep_forever()


async def test_frames_that_make_no_sense_close_that_connection_alone(server: Server) -> None:
    nonsense = (
        b"\xff" * 64,
        b"\x00" * 64,
        b"GET / HTTP/1.1\r\n\r\n",
        frame(b"x", opcode=3),
        frame(b"x" * 200, opcode=9),
    )
    async with witness(server):
        for data in nonsense:
            async with upgraded(server.port) as stream:
                await stream.send(data)
                with anyio.fail_after(20):
                    try:
                        while True:
                            await stream.receive()
                    except (anyio.EndOfStream, anyio.BrokenResourceError):
                        pass


async def test_half_a_handshake_from_hundreds_keeps_nobody_out(server: Server) -> None:
    async with witness(server), anyio.create_task_group() as tasks:
        for _ in range(300):
            tasks.start_soon(half_a_handshake, server)
        await anyio.sleep(0.5)
        async with talking(server) as talk:
            await talk.is_alive()
        tasks.cancel_scope.cancel()


async def half_a_handshake(server: Server) -> None:
    async with await anyio.connect_tcp(server.host, server.port) as stream:
        await stream.send(b"GET /v1/speak HTTP/1.1\r\nHost: localhost\r\nUpgrade: web")
        await anyio.sleep_forever()
