"""What users of such servers have met while streaming, by name, each with the right outcome."""

import logging
import unicodedata
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress

import anyio
import numpy as np
import psutil
import pytest

from protocol.messages import (
    Audio,
    Cancel,
    Done,
    End,
    Error,
    Heard,
    HeardText,
    Open,
    Ping,
    Pong,
    Queued,
    Segment,
    Started,
    Text,
)
from saystream import Client, ClientError
from tests.hardening.raw import frame, packed, receive_until, upgraded
from tests.serving import Server
from tests.serving import serving as serving_apart
from tests.ws_server.conversing import SENTENCE, SENTENCE_SAMPLES, Conversing, serving, until
from tests.ws_server.running import running

CLOSE, PING = 8, 9
"""RFC 6455, 5.2"""


def pcm(talk: Conversing, id: str = "a") -> bytes:  # noqa: A002 - the wire's name
    return b"".join(frame.pcm for frame in talk.heard(Audio, id=id))


async def spoken(*increments: str) -> tuple[bytes, list[tuple[int, int]]]:
    """The samples and the segments of a text that came in these pieces."""
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a", voice="a4", lead_ms=0.0))
        talk.say(*(Text(id="a", text=piece) for piece in increments), End(id="a"))
        assert (await talk.done()).reason == "complete"
        return pcm(talk), [(segment.start_char, segment.end_char) for segment in talk.heard(Segment)]


@pytest.mark.parametrize("grapheme", ["👩‍🚀", "🇩🇪", "é", "👍🏽"])
async def test_s1_a_grapheme_split_over_increments_is_never_torn(grapheme: str) -> None:
    text = f"We saw one {grapheme} today. It was far {grapheme} away."
    whole = await spoken(text)
    assert await spoken(*text) == whole
    inside = {text.index(grapheme) + n for n in range(1, len(grapheme))}
    assert not inside & {edge for segment in whole[1] for edge in segment}


async def test_s2_increments_of_one_character_sound_like_the_text_in_one_piece() -> None:
    text = unicodedata.normalize("NFC", f"{SENTENCE} Is it 3.5, or 4? Dr. Who knows (really).")
    assert await spoken(*text) == await spoken(text)


async def test_s3_the_last_token_without_an_end_is_spoken_after_the_wait() -> None:
    async with serving(wait_ms=10) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text="That is all."))
        assert (await talk.one(Segment)).end_char == len("That is all.")


async def test_s4_pauses_between_tokens_repeat_nothing_and_end_nothing() -> None:
    async with serving(wait_ms=1, stall_ms=1) as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=0.0))
        for number, word in enumerate(("One. ", "Two. ", "Three. "), 1):
            talk.say(Text(id="a", text=word))
            await talk.some(Segment, number)
        talk.say(End(id="a"))
        done = await talk.done()
        # 3, 3 and 5 letters, each with its full stop, at 60 ms, and 60 ms after each word.
        assert (done.reason, done.samples) == ("complete", (4 + 4 + 6 + 3) * 60 * 24)


@pytest.mark.alone
async def test_s5_a_short_first_segment_and_a_long_one_after_it_leave_no_gap_under_load() -> None:
    engines = {"tone": {"cost": 0.1}}
    async with running(engines=engines) as server, server.speak() as client, server.speak() as other:
        for each in (client, other):
            await each.receive()
            await each.send(
                Open(id="a"), Text(id="a", text=f"Huh? Really? {SENTENCE} {SENTENCE}"), End(id="a")
            )
        for each in (client, other):
            done = await each.receive_done()
            assert (done.reason, done.stats.gaps) == ("complete", 0)


@pytest.mark.parametrize("moment", ["at once after open", "in mid-sentence", "after end", "twice"])
async def test_s7_a_cancel_gives_one_done_and_nothing_after_it(moment: str) -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="beside"), Text(id="beside", text=SENTENCE), End(id="beside"))
        talk.say(Open(id="a"))
        if moment != "at once after open":
            talk.say(Text(id="a", text=f"{SENTENCE} {SENTENCE}"))
            await talk.one(Audio, id="a")
        if moment == "after end":
            talk.say(End(id="a"))
        talk.say(Cancel(id="a"))
        if moment == "twice":
            talk.session.receive(Cancel(id="a"))
        assert (await talk.done("a")).reason == "cancelled"
        assert (await talk.done("beside")).samples == SENTENCE_SAMPLES
        ended_at = talk.messages.index(talk.heard(Done, id="a")[0])
        assert not [
            message for message in talk.messages[ended_at + 1 :] if getattr(message, "id", None) == "a"
        ]


async def test_s8_after_a_cancel_a_new_utterance_on_the_same_socket_speaks() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE), Cancel(id="a"))
        talk.say(Open(id="b"), Text(id="b", text=SENTENCE), End(id="b"))
        assert (await talk.done("b")).samples == SENTENCE_SAMPLES


async def test_s9_after_a_disconnect_the_device_is_free_within_a_step() -> None:
    async with serving(engines={"tone": {"step_ms": 100}}) as server, server.connect() as other:
        async with server.connect() as talk:
            talk.say(Open(id="a", lead_ms=0.0), Text(id="a", text=f"{SENTENCE} " * 10), End(id="a"))
            await talk.one(Audio)
            server.gate.shut()
            await until(lambda: server.gate.held == 1)
        steps = server.gate.steps
        other.say(Open(id="a"), Text(id="a", text="One."), End(id="a"))
        server.gate.open()
        await other.done()
        # The one that was in progress is counted already; "One." is three steps of 100 ms.
        assert server.gate.steps - steps == 3
        await server.until_nothing_is_left()


async def test_s11_a_reader_that_stops_holds_no_more_than_a_step_and_hinders_nobody() -> None:
    engines = {"tone": {"step_ms": 100}}
    async with serving(engines=engines) as server, server.connect() as slow, server.connect() as other:
        slow.stop_reading(after=Audio)
        slow.say(Open(id="a", lead_ms=0.0), Text(id="a", text=f"{SENTENCE} " * 10), End(id="a"))
        await until(lambda: slow.session._watch.blocked)
        steps = server.gate.steps
        other.say(Open(id="a", lead_ms=0.0), Text(id="a", text=SENTENCE), End(id="a"))
        assert (await other.done()).samples == SENTENCE_SAMPLES
        assert server.gate.steps - steps <= SENTENCE_SAMPLES // 2400 + 2


async def test_s12_a_half_open_peer_is_found_and_all_of_it_freed() -> None:
    async with running(ping_s=0.2) as server, upgraded(server.port) as silent:
        with anyio.fail_after(20):
            while len(server.services.sessions):  # noqa: ASYNC110 - nobody tells of it
                await anyio.sleep(0.02)
        del silent


async def test_s13_while_the_engine_works_the_loop_answers() -> None:
    async with serving() as server, server.connect() as talk:
        server.gate.shut()
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE), End(id="a"))
        await until(lambda: server.gate.held == 1)
        for number in range(100):
            talk.say(Ping(t=number))
        assert len(await talk.some(Pong, 100)) == 100
        assert server.gate.held == 1


@pytest.fixture
def apart() -> Iterator[Server]:
    with serving_apart("--engine", "tone", "--log-level", "warning") as server:
        yield server


async def test_s14_each_of_hundreds_of_idle_sockets_costs_kilobytes(apart: Server) -> None:
    process = psutil.Process(apart.process.pid)
    async with AsyncExitStack() as sockets:
        # What the first ones bring along is there once.
        for _ in range(20):
            await sockets.enter_async_context(upgraded(apart.port))
        before_bytes = process.memory_info().rss
        for _ in range(300):
            await sockets.enter_async_context(upgraded(apart.port))
        grown_bytes = process.memory_info().rss - before_bytes
    assert grown_bytes / 300 < 128 * 1024


async def test_s15_a_full_server_says_busy_and_the_same_socket_can_try_again() -> None:
    async with serving(max_streams=1, queue=1) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text=SENTENCE))
        await talk.one(Audio)
        talk.say(Open(id="waits"), Text(id="waits", text="One."), End(id="waits"))
        await talk.one(Queued, id="waits")
        talk.say(Open(id="b"), Text(id="b", text="One."), End(id="b"))
        assert (await talk.failed("b")).code == "busy"
        talk.say(Cancel(id="a"))
        await talk.done("waits")
        talk.messages.clear()
        talk.say(Open(id="b"), Text(id="b", text="One."), End(id="b"))
        assert (await talk.done("b")).reason == "complete"


async def test_s18_four_callers_on_a_serial_device_all_begin_before_any_has_ended() -> None:
    async with serving(engines={"tone": {"step_ms": 200}}) as server, server.connect() as talk:
        server.gate.shut()
        for id_ in "abcd":
            talk.say(Open(id=id_), Text(id=id_, text=f"{SENTENCE} {SENTENCE}"), End(id=id_))
        await until(lambda: server.gate.held == 1)
        server.gate.open()
        for id_ in "abcd":
            await talk.done(id_)
        kinds = [message for message in talk.messages if isinstance(message, Started | Done)]
        assert [type(message) for message in kinds[:4]] == [Started] * 4


@pytest.mark.parametrize("after", ["text", "pings", "another close", "nonsense"])
async def test_s19_whatever_comes_after_a_close_leaves_no_trace(
    after: str, caplog: pytest.LogCaptureFixture
) -> None:
    close = frame((1000).to_bytes(2, "big"), CLOSE)
    more = {
        "text": packed(Text(id="a", text=SENTENCE)) * 100,
        "pings": frame(b"x", PING) * 100,
        "another close": close * 2,
        "nonsense": b"\xff" * 100,
    }[after]
    async with running() as server:
        async with upgraded(server.port) as stream:
            await stream.send(packed(Open(id="a"), Text(id="a", text=SENTENCE)))
            await receive_until(stream, b"started")
            await stream.send(close + more)
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    await stream.receive()
        await until(lambda: server.services.dispatcher.in_flight == len(server.services.sessions) == 0)
        async with server.speak() as client:
            await client.receive()
            await client.send(Open(id="a"), Text(id="a", text="One."), End(id="a"))
            assert (await client.receive_done()).reason == "complete"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_s19_a_client_that_is_left_and_then_fed_says_so() -> None:
    async with running() as server:
        async with Client(server.url) as client, client.utterance() as utterance:
            await utterance.feed("One.")
        for _ in range(2):
            with pytest.raises(ClientError):
                await utterance.feed("Two.")
            with pytest.raises(ClientError):
                await utterance.cancel()
        await until(lambda: len(server.services.sessions) == 0)


async def test_s20_an_interruption_says_which_words_were_heard() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=0.0), Text(id="a", text="One two three four."), End(id="a"))
        await talk.done()
        # One: 180 ms, a gap of 60, two: until 420 ms, three: from 480 to 780 ms.
        talk.say(Cancel(id="a", played_ms=700))
        assert await talk.one(Heard) == Heard(id="a", end_char=len("One two"), exact=True, played_ms=700)
        talk.say(Open(id="b"), Cancel(id="b"))
        assert (await talk.done("b")).heard == HeardText(end_char=0, exact=True, played_ms=0)


@pytest.mark.parametrize("changed", [{"voice": "a5"}, {"format": "mulaw"}, {"sample_rate_hz": 8000}])
async def test_s21_a_change_in_the_middle_of_an_utterance_is_refused_clearly(
    changed: dict[str, object],
) -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a", voice="a4", lead_ms=0.0), Text(id="a", text=SENTENCE))
        talk.session.receive(Open(id="a", **changed))  # type: ignore[arg-type]
        assert (await talk.one(Error)).code == "duplicate_id"
        talk.say(End(id="a"))
        assert (await talk.done()).samples == SENTENCE_SAMPLES
        sound = np.frombuffer(pcm(talk), "<i2")[:4320].astype(float)
        assert np.argmax(np.abs(np.fft.rfft(sound))) * 24000 / 4320 == pytest.approx(440, abs=10)
