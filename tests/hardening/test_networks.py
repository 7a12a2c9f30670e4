"""Bad networks: late, lossy, narrow, gone. Everything arrives in order, or its end is found."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import ByteReceiveStream, ByteSendStream, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from protocol.messages import Audio, Cancel, ClientMessage, Done, End, Open, Text
from tests.hardening.network import Network, network
from tests.hardening.raw import Reader, packed, upgraded
from tests.ws_server.conversing import SENTENCE, SENTENCE_SAMPLES
from tests.ws_server.running import Running, running

TELEPHONE = Open(id="a", format="mulaw", sample_rate_hz=8000)
TELEPHONE_SAMPLES = SENTENCE_SAMPLES // 3
NARROW = ("tbf", "rate", "96kbit", "burst", "2kb", "latency", "400ms")
"""One and a half times what 8 kHz mu-law needs."""


async def hear(stream: SocketStream, *messages: ClientMessage) -> tuple[Done, int]:
    """The end, and the bytes of audio before it; the client checks the order of frames."""
    await stream.send(packed(*messages))
    reader = Reader(stream)
    with anyio.fail_after(60):
        done = await reader.read_until(Done)
    assert isinstance(done, Done)
    frames = [message for message in reader.messages if isinstance(message, Audio)]
    assert [frame.seq for frame in frames] == list(range(len(frames)))
    return done, sum(len(frame.pcm) for frame in frames)


@asynccontextmanager
async def there(net: Network, **changes: Any) -> AsyncIterator[tuple[Running, SocketStream]]:
    """A server, and a WebSocket from the far side of the link."""
    async with (
        running(host="0.0.0.0", allow_open=True, **changes) as server,
        upgraded(server.port, net.server_host, net.socket()) as stream,
    ):
        yield server, stream


@pytest.mark.parametrize(
    "shape",
    [
        NARROW,
        ("netem", "delay", "120ms", "30ms"),
        ("netem", "loss", "3%"),
        ("netem", "delay", "80ms", "20ms", "loss", "1%", "reorder", "5%", "duplicate", "1%"),
    ],
    ids=["1.5 times real time", "latency", "loss", "all of it"],
)
async def test_everything_arrives_through_a_bad_link(shape: tuple[str, ...]) -> None:
    with network(*shape) as net:
        async with there(net) as (_, stream):
            done, sent_bytes = await hear(stream, TELEPHONE, Text(id="a", text=SENTENCE), End(id="a"))
        assert (done.reason, sent_bytes) == ("complete", TELEPHONE_SAMPLES)
        assert done.stats.gaps == 0


async def test_a_cancel_comes_through_a_link_that_is_full() -> None:
    with network(*NARROW) as net:
        async with there(net) as (_, stream):
            # As fast as the link takes it: there is always more.
            opening = Open(id="a", format="mulaw", sample_rate_hz=8000, lead_ms=0.0)
            await stream.send(packed(opening, Text(id="a", text=f"{SENTENCE} " * 20), End(id="a")))
            reader = Reader(stream)
            await reader.read_until(Audio)
            await stream.send(packed(Cancel(id="a")))
            received = len(reader.messages)
            done = await reader.read_until(Done)
            assert isinstance(done, Done)
            assert done.reason == "cancelled"
            late = [message for message in reader.messages[received:] if isinstance(message, Audio)]
            # What the socket's buffers of 64 kB held, not all of 131.
            assert sum(len(frame.pcm) for frame in late) < 70_000


async def test_a_pulled_cable_is_found_and_all_behind_it_freed() -> None:
    with network() as net:
        async with there(net, ping_s=0.4) as (server, stream):
            await stream.send(packed(TELEPHONE, Text(id="a", text=f"{SENTENCE} " * 20)))
            await Reader(stream).read_until(Audio)
            net.cut()
            await until_nothing_is_left(server)


async def test_a_cable_pulled_while_the_socket_is_blocked_is_found_too() -> None:
    with network() as net:
        async with there(net, ping_s=0.4, stalled_reader_s=0.5) as (server, stream):
            opening = Open(id="a", format="f32le", sample_rate_hz=48000, lead_ms=0.0)
            await stream.send(packed(opening, Text(id="a", text=f"{SENTENCE} " * 20)))
            await Reader(stream).read_until(Audio)
            net.cut()
            await until_nothing_is_left(server)


async def until_nothing_is_left(server: Running) -> None:
    device = server.services.dispatcher
    with anyio.fail_after(30):
        while len(server.services.sessions) or device.open_listeners or device.in_flight:  # noqa: ASYNC110
            await anyio.sleep(0.02)


# Without root: a relay that is late and stutters ----------------------------------------------------------------


@asynccontextmanager
async def stuttering_relay(server: Running, seed: int) -> AsyncIterator[int]:
    """Passes bytes on in odd pieces, each late, now and then much later; yields its port."""
    chance = random.Random(seed)

    async def pump(source: ByteReceiveStream, sink: ByteSendStream) -> None:
        buffered = BufferedByteReceiveStream(source)
        with anyio.move_on_after(60):
            try:
                while True:
                    data = await buffered.receive(chance.randint(1, 3000))
                    await anyio.sleep(chance.choice((0, 0, 0.001, 0.002, 0.05)))
                    await sink.send(data)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async def relay(near: SocketStream) -> None:
        async with (
            near,
            await anyio.connect_tcp("127.0.0.1", server.port) as far,
            anyio.create_task_group() as both,
        ):
            both.start_soon(pump, near, far)
            await pump(far, near)
            both.cancel_scope.cancel()

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, relay)
        yield int(listener.extra(SocketAttribute.local_port))  # noqa: S610 - no Django here
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("seed", range(5))
async def test_everything_arrives_in_order_through_a_relay_that_stutters(seed: int) -> None:
    async with running() as server, stuttering_relay(server, seed) as port, upgraded(port) as stream:
        text = f"{SENTENCE} {SENTENCE}"
        done, sent_bytes = await hear(
            stream, TELEPHONE, *(Text(id="a", text=char) for char in text), End(id="a")
        )
        assert (done.reason, done.chars, sent_bytes) == ("complete", len(text), 2 * TELEPHONE_SAMPLES)
