"""The client against a real socket, and a server that keeps to the conversation's rules."""

import asyncio
import gc
import json
from contextlib import suppress

import pytest
from websockets.utils import accept_key

from protocol.codec import MSGPACK
from protocol.errors import LocalProtocolError
from protocol.limits import Limits
from protocol.messages import Cancel, Flushed, HeardText, Open, Played, Segment, Text
from saystream import (
    CannotConnect,
    Client,
    ClientError,
    ConnectionLost,
    HandshakeRefused,
    Refused,
    SlowConsumer,
    Utterance,
    UtteranceFailed,
    UtteranceOver,
)
from tests.fakes.server import MS_PER_CHAR, RATE_HZ, SAMPLES_PER_CHAR, FakeServer, hum, make_hello, running


async def everything(utterance: Utterance) -> bytes:
    return b"".join([frame.pcm async for frame in utterance])


async def test_text_goes_in_and_audio_comes_out(server: FakeServer) -> None:
    async with Client(server.url) as client, client.utterance(voice="hum", tag="t") as u:
        await u.feed("Hello ")
        await u.feed("world.")
        await u.end()
        frames = [frame async for frame in u]
        done = await u.done

    assert b"".join(frame.pcm for frame in frames) == hum(0, 12 * SAMPLES_PER_CHAR)
    assert [frame.at_sample for frame in frames] == [0, 6 * SAMPLES_PER_CHAR]
    assert {(frame.format, frame.sample_rate_hz) for frame in frames} == {("s16le", RATE_HZ)}
    assert (done.reason, done.samples, done.chars, done.tag) == ("complete", 960, 12, "t")
    assert server.received_of(Open) == [Open(id=u.id, voice="hum", tag="t")]


async def test_the_json_encoding_carries_the_same(server: FakeServer) -> None:
    async with Client(server.url, json=True) as client, client.utterance() as u:
        await u.feed("Grüße 😀")
        await u.end()
        assert await everything(u) == hum(0, 7 * SAMPLES_PER_CHAR)


async def test_events_are_every_message_in_order(server: FakeServer) -> None:
    async with Client(server.url) as client, client.utterance() as u:
        await u.feed("One.")
        await u.flush("mark")
        await u.feed("Two.")
        await u.end()
        events = [event async for event in u.events()]

    assert [type(event).__name__ for event in events] == [
        *("Started", "Segment", "Audio", "Flushed", "Segment", "Audio", "Done"),
    ]
    assert isinstance(events[3], Flushed)
    assert events[3].mark == "mark"
    assert isinstance(events[4], Segment)
    assert (events[4].start_char, events[4].end_char) == (4, 8)


async def test_one_task_feeds_while_another_hears(server: FakeServer) -> None:
    heard: asyncio.Queue[int] = asyncio.Queue()

    async def listen(u: Utterance) -> None:
        async for frame in u:
            heard.put_nowait(frame.at_sample)

    async with Client(server.url) as client, client.utterance() as u, asyncio.TaskGroup() as tasks:
        tasks.create_task(listen(u))
        positions = []
        for word in ("a", "b", "c"):
            await u.feed(word)
            positions.append(await heard.get())
        await u.end()
    assert positions == [0, 80, 160]


async def test_two_tasks_cannot_iterate_one_utterance(server: FakeServer) -> None:
    async with Client(server.url) as client, client.utterance() as u:
        await u.feed("x")
        frames = aiter(u)
        await anext(frames)
        with pytest.raises(RuntimeError, match="one task at a time"):
            await anext(aiter(u))


async def test_surrogates_torn_over_increments_are_joined(server: FakeServer) -> None:
    async with Client(server.url) as client, client.utterance() as u:
        await u.feed("a\ud83d")
        await u.feed("\ude00")
        await u.feed("\ud83d")
        await u.end()
        await u.done
    texts = [message.text for message in server.received if isinstance(message, Text)]
    assert texts == ["a", "😀", "\ufffd"]


async def test_a_long_text_travels_in_parts_the_server_takes() -> None:
    async with (
        running(FakeServer(limits=Limits(text_chars=10))) as server,
        Client(server.url) as client,
        client.utterance() as u,
    ):
        await u.feed("0123456789" * 2 + "x")
        await u.end()
        assert (await u.done).chars == 21
        assert [len(m.text) for m in server.received if isinstance(m, Text)] == [10, 10, 1]


async def test_an_utterance_is_cancelled_by_leaving_it_unended(server: FakeServer) -> None:
    async with Client(server.url) as client:
        async with client.utterance() as u:
            await u.feed("Hello")
        done = await u.done
        assert done.reason == "cancelled"
        assert server.received_of(Cancel) == [Cancel(id=u.id)]
        assert await everything(u) == b""


async def test_leaving_after_done_cancels_nothing(server: FakeServer) -> None:
    async with Client(server.url) as client:
        async with client.utterance() as u:
            await u.feed("Hello")
            await u.end()
            await u.done
        assert await everything(u) == hum(0, 5 * SAMPLES_PER_CHAR)
    assert server.received_of(Cancel) == []


async def test_cancel_says_what_was_heard_and_ends_the_audio(server: FakeServer) -> None:
    async with Client(server.url) as client, client.utterance() as u:
        await u.feed("Hello world")
        frames = aiter(u)
        await anext(frames)
        assert await u.cancel(played_ms=5 * MS_PER_CHAR) == HeardText(end_char=5, exact=False, played_ms=50)
        assert [frame async for frame in frames] == []
        assert (await u.done).reason == "cancelled"
        with pytest.raises(UtteranceOver):
            await u.feed("more")
        assert (await u.cancel()).end_char == 5


async def test_cancel_after_the_last_frame_gets_the_receipt(server: FakeServer) -> None:
    async with Client(server.url) as client, client.utterance() as u:
        await u.feed("Hello world")
        await u.end()
        await u.done
        assert await u.cancel(played_ms=20) == HeardText(end_char=2, exact=False, played_ms=20)
        assert await u.cancel() == HeardText(end_char=2, exact=False, played_ms=20)


async def test_cancel_after_the_receipt_time_means_that_all_was_heard() -> None:
    async with (
        running(FakeServer(limits=Limits(receipt_s=0))) as server,
        Client(server.url) as client,
        client.utterance() as u,
    ):
        await u.feed("Hello")
        await u.end()
        await u.done
        assert await u.cancel(played_ms=0) == HeardText(end_char=5, exact=False, played_ms=50)
        assert server.received_of(Cancel) == []


async def test_replacing_is_one_message_and_tells_what_was_heard(server: FakeServer) -> None:
    async with Client(server.url) as client, client.utterance() as old:
        await old.feed("Hello world")
        async with client.utterance(replaces=old, replaced_played_ms=30) as new:
            await new.feed("Yes?")
            await new.end()
            assert await everything(new) == hum(0, 4 * SAMPLES_PER_CHAR)
        done = await old.done
        assert done.reason == "replaced"
        assert done.heard is not None
        assert done.heard.end_char == 3
    assert server.received_of(Cancel) == []


async def test_replacing_a_complete_one_brings_its_receipt(server: FakeServer) -> None:
    async with Client(server.url) as client, client.utterance() as old:
        await old.feed("Hello world")
        await old.end()
        await old.done
        async with client.utterance(replaces=old, replaced_played_ms=30) as new:
            await new.end()
            await new.done
        assert (await old.cancel()).end_char == 3


async def test_a_refusal_is_raised_with_its_code(server: FakeServer) -> None:
    async with Client(server.url) as client:
        async with client.utterance(voice="nobody") as u:
            with pytest.raises(Refused) as refused:
                await u.done
            assert (refused.value.code, refused.value.param, refused.value.retryable) == (
                *("unknown_voice", "voice", False),
            )
            with pytest.raises(Refused):
                await u.feed("x")
            with pytest.raises(Refused):
                await everything(u)
        async with client.utterance() as other:  # the connection lives on
            await other.feed("x")
            await other.end()
            assert await everything(other)


async def test_a_failure_after_audio_is_not_taken_for_an_end(server: FakeServer) -> None:
    async with Client(server.url) as client, client.utterance() as u:
        await u.feed("Hello")
        await u.feed(server.fail_at_word)
        frames = aiter(u)
        assert (await anext(frames)).pcm == hum(0, 5 * SAMPLES_PER_CHAR)
        with pytest.raises(UtteranceFailed, match="the engine broke") as failed:
            await anext(frames)
        assert not isinstance(failed.value, Refused)
        assert failed.value.code == "engine_failed"


async def test_a_lost_connection_says_what_was_heard_and_sends_no_text_again(server: FakeServer) -> None:
    async with Client(server.url) as client:
        async with client.utterance() as u:
            await u.feed("Hello big world")
            await u.feed(" and more")
            frames = aiter(u)
            await anext(frames)
            await anext(frames)
            u.played(ms=8 * MS_PER_CHAR, state="paused")
            await u.feed(server.cut_at_word)
            with pytest.raises(ConnectionLost) as lost:
                async for _ in frames:
                    pass
            # 80 of 150 ms: "Hello bi"; the last whole word is "Hello".
            assert lost.value.heard == HeardText(end_char=5, exact=False, played_ms=80)
            with pytest.raises(ConnectionLost):
                await u.feed("more")
            with pytest.raises(ConnectionLost):
                await u.cancel()
        texts_before = server.received_of(Text)
        async with client.utterance() as new:  # over a new connection
            await new.feed("Again")
            await new.end()
            assert await everything(new) == hum(0, 5 * SAMPLES_PER_CHAR)
        assert server.connected == 2
        assert server.received_of(Text) == [*texts_before, Text(id=new.id, text="Again")]


async def test_utterances_that_come_at_once_share_the_new_connection(server: FakeServer) -> None:
    async def speak(client: Client) -> int:
        async with client.utterance() as u:
            await u.feed("x")
            await u.end()
            return (await u.done).samples

    async with Client(server.url) as client:
        async with client.utterance() as u:
            await u.feed(server.cut_at_word)
            with pytest.raises(ConnectionLost):
                await u.done
        async with asyncio.TaskGroup() as tasks:
            speeches = [tasks.create_task(speak(client)) for _ in range(5)]
        assert [speech.result() for speech in speeches] == [SAMPLES_PER_CHAR] * 5
    assert server.connected == 2


async def test_a_server_that_breaks_the_protocol_loses_the_connection(server: FakeServer) -> None:
    async with Client(server.url) as client, client.utterance() as u:
        await u.feed(server.nonsense_at_word)
        with pytest.raises(ConnectionLost, match="broke the protocol"):
            await u.done


async def test_new_utterances_go_elsewhere_once_the_server_says_bye(server: FakeServer) -> None:
    async with Client(server.url) as client, client.utterance() as old:
        await old.feed("Hello")
        frames = aiter(old)
        await anext(frames)
        await server.say_bye()
        await old.feed(" you")  # goes on where it began
        assert (await anext(frames)).at_sample == 5 * SAMPLES_PER_CHAR
        assert not client.usable
        async with client.utterance() as new:
            await new.feed("Yes")
            await new.end()
            assert await everything(new) == hum(0, 3 * SAMPLES_PER_CHAR)
            await old.end()
            assert (await old.done).reason == "complete"
    assert server.connected == 2


async def test_a_refused_handshake_tells_status_code_and_when_to_come_back() -> None:
    body = json.dumps({"error": {"code": "busy", "message": "full", "retry_after_ms": 1500}}).encode()
    async with running(FakeServer(refuse_handshakes=[(503, body, {"Retry-After": "2"})])) as server:
        with pytest.raises(HandshakeRefused) as refused:
            async with Client(server.url):
                pass
    assert (
        refused.value.status,
        refused.value.code,
        refused.value.retry_after_s,
        refused.value.retryable,
    ) == (*(503, "busy", 1.5, True),)


async def test_a_refusal_by_something_else_is_told_as_well() -> None:
    async with running(FakeServer(refuse_handshakes=[(401, b"<html>", {})])) as server:
        with pytest.raises(HandshakeRefused, match="HTTP 401") as refused:
            async with Client(server.url):
                pass
    assert not refused.value.retryable


async def test_a_new_connection_is_tried_again_while_the_server_says_later(server: FakeServer) -> None:
    async with Client(server.url) as client:
        async with client.utterance() as u:
            await u.feed(server.cut_at_word)
            with pytest.raises(ConnectionLost):
                await u.done
        server.refuse_handshakes = [(503, b"", {}), (503, b"", {})]
        async with client.utterance() as new:
            await new.feed("x")
            await new.end()
            assert await everything(new)
    assert server.refuse_handshakes == []


async def test_a_new_connection_is_not_tried_again_after_a_final_no(server: FakeServer) -> None:
    async with Client(server.url) as client:
        async with client.utterance() as u:
            await u.feed(server.cut_at_word)
            with pytest.raises(ConnectionLost):
                await u.done
        server.refuse_handshakes = [(401, b"", {}), (401, b"", {})]
        with pytest.raises(HandshakeRefused):
            async with client.utterance():
                pass
    assert len(server.refuse_handshakes) == 1


async def test_nobody_listening_cannot_connect(unused_port: int) -> None:
    with pytest.raises(CannotConnect, match="no connection to"):
        async with Client(f"ws://127.0.0.1:{unused_port}"):
            pass


async def test_the_key_travels_in_the_header_and_the_token_in_the_query(server: FakeServer) -> None:
    tokens = iter(["one", "two"])

    async def fresh_token() -> str:
        return next(tokens)

    async with Client(server.url, key="secret"):
        pass
    async with Client(server.url, token=fresh_token):
        pass
    assert server.requests[0].headers["Authorization"] == "Bearer secret"
    assert server.requests[1].path == "/v1/speak?token=one"
    assert "Authorization" not in server.requests[1].headers


async def test_a_slow_consumer_is_paused_and_then_goes_on(server: FakeServer) -> None:
    async with Client(server.url, buffer_ms=100) as client, client.utterance() as u:
        await u.feed("x" * 15)
        await server.until(lambda: bool(server.received_of(Played)))
        assert server.received_of(Played) == [Played(id=u.id, ms=0, state="paused")]
        await u.end()
        assert await everything(u) == hum(0, 15 * SAMPLES_PER_CHAR)


async def test_reports_keep_the_pause_until_enough_was_taken(server: FakeServer) -> None:
    async with Client(server.url, buffer_ms=100) as client, client.utterance() as u:
        await u.feed("x" * 15)
        await server.until(lambda: bool(server.received_of(Played)))
        u.played(40)
        await server.until(lambda: len(server.received_of(Played)) == 2)
        frames = aiter(u)
        await anext(frames)
        await server.until(lambda: len(server.received_of(Played)) == 3)
        assert server.received_of(Played)[1:] == [
            Played(id=u.id, ms=40, state="paused"),
            Played(id=u.id, ms=40, state="playing"),
        ]


async def test_a_slow_consumer_holds_up_nobody_else(server: FakeServer) -> None:
    async with Client(server.url) as client, client.utterance() as slow, client.utterance() as quick:
        await slow.feed("x" * 20_000)  # 3.2 MB of audio that nobody takes
        await quick.feed("y")
        await quick.end()
        assert await everything(quick) == hum(0, SAMPLES_PER_CHAR)


async def test_a_consumer_that_takes_nothing_is_bounded(server: FakeServer) -> None:
    async with Client(server.url, buffer_bytes=1000) as client, client.utterance() as u:
        await u.feed("x" * 7)
        with pytest.raises(SlowConsumer) as slow:
            await u.done
        assert slow.value.waiting_bytes == 7 * SAMPLES_PER_CHAR * 2
        await server.until(lambda: bool(server.received_of(Cancel)))


async def test_awaiting_done_without_hearing_is_not_held_back_for_ever(server: FakeServer) -> None:
    async with Client(server.url, buffer_ms=100) as client, client.utterance() as u:
        await u.feed("x" * 1000)
        await u.end()
        assert (await u.done).reason == "complete"


async def test_an_error_of_the_body_passes_as_it_is(server: FakeServer) -> None:
    with pytest.raises(ZeroDivisionError):
        async with Client(server.url) as client, client.utterance():
            1 / 0  # noqa: B018


async def test_cancelling_the_task_cancels_the_utterance_and_closes_the_connection(
    server: FakeServer,
) -> None:
    async def speak() -> None:
        async with Client(server.url) as client, client.utterance() as u:
            await u.feed("Hello")
            async for _ in u:
                pass

    async with asyncio.TaskGroup() as tasks:
        speaking = tasks.create_task(speak())
        await server.until(lambda: bool(server.received_of(Text)))
        speaking.cancel()
    assert speaking.cancelled()
    await server.until(lambda: not server.connections)


async def test_leaving_the_client_ends_what_is_open(server: FakeServer) -> None:
    async with Client(server.url) as client:
        u = client.utterance()
        await u.__aenter__()
        await u.feed("Hello")
        await anext(aiter(u))
    with pytest.raises(ConnectionLost, match="closed"):
        await u.done
    with pytest.raises(ClientError):
        async with client.utterance():
            pass
    await asyncio.sleep(0)
    gc.collect()
    assert not server.connections


async def test_misuse_is_told_apart_from_failures(server: FakeServer) -> None:
    async with Client(server.url) as client:
        unopened = client.utterance()
        with pytest.raises(UtteranceOver, match="not open"):
            await unopened.feed("x")
        async with client.utterance(utterance_id="mine") as u:
            await u.end()
            with pytest.raises(UtteranceOver):
                await u.feed("x")
        async with client.utterance(utterance_id="same"):
            with pytest.raises(LocalProtocolError, match="open"):
                async with client.utterance(utterance_id="same"):
                    pass


async def test_a_server_that_falls_silent_does_not_keep_a_client_from_leaving() -> None:
    left = asyncio.Event()

    async def accept_and_ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        key = next(line.split(": ")[1] for line in request.decode().split("\r\n") if "-Key" in line)
        hello = MSGPACK.encode_server(make_hello(Limits()))
        assert isinstance(hello, bytes)
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + f"Sec-WebSocket-Accept: {accept_key(key)}\r\n\r\n".encode()
            + bytes((0x82, 126, *len(hello).to_bytes(2, "big")))
            + hello
        )
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        left.set()

    async with await asyncio.start_server(accept_and_ignore, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        async with asyncio.timeout(10):
            async with Client(f"ws://127.0.0.1:{port}") as client, client.utterance() as u:
                await u.feed("Hello")
        with pytest.raises(ConnectionLost):
            await u.done
        await left.wait()
