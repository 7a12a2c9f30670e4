"""Words are spoken while their sentence is still being written, where the engine can: `tone` with `grows`."""

from itertools import pairwise
from typing import Any

import anyio.lowlevel
import numpy as np
import pytest

from pcm_cache.cache import PcmCache
from protocol.messages import Audio, Cancel, Done, End, Flush, Flushed, Open, Segment, Text, Words
from tests.ws_server.conversing import RATE_HZ, Conversing, Server, serving, until
from tests.ws_server.running import running

TEXT = "**One** two three four five six. Seven eight nine, ten eleven! Stop. It is 3.5 today"
GROWS: dict[str, Any] = {"tone": {"grows": True, "step_ms": 80}}
GROWS_AT_ONCE: dict[str, Any] = {"tone": {"grows": True}}
LETTER = RATE_HZ * 60 // 1000


async def say(talk: Conversing, increments: list[str], id: str, **fields: Any) -> Done:  # noqa: A002 - the wire's
    talk.say(Open(id=id, lead_ms=0, **fields))
    for increment in increments:
        talk.say(Text(id=id, text=increment))
        await anyio.lowlevel.checkpoint()
    talk.say(End(id=id))
    return await talk.done(id)


def sound(talk: Conversing, id: str) -> bytes:  # noqa: A002 - the wire's name
    return b"".join(bytes(frame.pcm) for frame in talk.heard(Audio, id=id))


def announced(talk: Conversing, id: str) -> list[Any]:  # noqa: A002 - the wire's name
    segments = {
        one.index: (one.start_char, one.end_char, one.at_sample) for one in talk.heard(Segment, id=id)
    }
    return [segments, [word for message in talk.heard(Words, id=id) for word in message.words]]


def grown(talk: Conversing, index: int = 0) -> list[int]:
    return [one.end_char for one in talk.heard(Segment, index=index)]


async def until_waiting_for_text(server: Server) -> None:
    """All that is there has been made: the lane rests."""
    last = -1
    while last != server.gate.steps:
        last = server.gate.steps
        await anyio.sleep(0.05)


@pytest.mark.parametrize("engines", [GROWS, GROWS_AT_ONCE], ids=["small steps", "all there is a step"])
@pytest.mark.parametrize("words", [True, False])
async def test_the_same_samples_and_words_however_the_text_came(engines: dict[str, Any], words: bool) -> None:
    ways = [[TEXT], list(TEXT), [*[each + " " for each in TEXT.split(" ")][:-1], "today"]]
    ways.append([TEXT[at : at + 7] for at in range(0, len(TEXT), 7)])
    async with serving(engines=engines) as server, server.connect() as talk:
        for number, way in enumerate(ways):
            done = await say(talk, way, str(number), words=words)
            assert (done.reason, done.chars) == ("complete", len(TEXT))
            assert sound(talk, str(number)) == sound(talk, "0") != b""
            assert announced(talk, str(number)) == announced(talk, "0")
        await server.until_nothing_is_left()


async def test_words_are_heard_before_their_sentence_is_complete() -> None:
    async with serving(engines=GROWS) as server, server.connect() as talk:
        talk.say(Open(id="a"), Text(id="a", text="One two thr"))
        await until(lambda: talk.samples() >= 8 * LETTER)
        assert grown(talk) == [7]
        talk.say(Text(id="a", text="ee four "))
        await until(lambda: talk.samples() >= 19 * LETTER)
        talk.say(Text(id="a", text="five. "), End(id="a"))
        done = await talk.done()
        assert (done.reason, done.stats.segments) == ("complete", 1)
        assert grown(talk)[0] == 7
        assert grown(talk)[-1] == 24
        assert all(early < late for early, late in pairwise(grown(talk)))
        # The last gap of 60 ms stays, as silence within a pause does.
        assert talk.samples() == (20 + 5) * LETTER
        await server.until_nothing_is_left()


async def test_word_times_of_a_growing_segment_are_those_of_its_words() -> None:
    async with serving(engines=GROWS) as server, server.connect() as talk:
        talk.say(Open(id="a", words=True, lead_ms=0), Text(id="a", text="*One* two "))
        await talk.some(Words, 1)
        await until_waiting_for_text(server)
        talk.say(Text(id="a", text="[three](http://x.y) four."), End(id="a"))
        await talk.done()
        words = [word for message in talk.heard(Words) for word in message.words]
        source = "*One* two [three](http://x.y) four."
        assert [source[start:end] for start, end, _, _ in words] == ["One", "two", "three", "four."]
        assert [start for _, _, start, _ in words] == [0, 4 * LETTER, 8 * LETTER, 14 * LETTER]


@pytest.mark.parametrize("max_open", [1, 8])
async def test_a_hang_up_or_a_cancel_in_the_middle_leaves_nothing(max_open: int) -> None:
    engines = {"tone": {"grows": True, "step_ms": 80, "max_open": max_open}}
    async with serving(engines=engines) as server:
        async with server.connect() as talk:
            talk.say(Open(id="a"), Text(id="a", text="One two three"))
            await until(lambda: talk.samples() > 0)
        await server.until_nothing_is_left()
        async with server.connect() as talk:
            talk.say(Open(id="a", words=True), Text(id="a", text="One two three"))
            await until(lambda: talk.samples() >= 8 * LETTER)
            talk.say(Cancel(id="a", played_ms=200))
            done = await talk.done()
            assert done.reason == "cancelled"
            assert done.heard is not None
            assert (done.heard.end_char, done.heard.exact) == (3, True)
            await server.until_nothing_is_left()


async def test_text_that_stalls_ends_its_segment_and_more_begins_another() -> None:
    async with serving(engines=GROWS) as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=0, wait_ms=20), Text(id="a", text="One two thr"))
        await until(lambda: talk.samples() >= 8 * LETTER)
        await server_has_ended_segment(server)
        talk.say(Text(id="a", text="ee four."), End(id="a"))
        done = await talk.done()
        assert (done.reason, done.stats.segments) == ("complete", 2)
        assert [grown(talk, index)[-1] for index in (0, 1)] == [7, 19]


async def server_has_ended_segment(server: Server) -> None:
    """Half the words were enough for the engine, and it has been told that no more will come."""
    await until(lambda: server.services.dispatcher.open_streams == 0)


async def test_a_flush_ends_what_grows_exactly_there() -> None:
    async with serving(engines=GROWS) as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=0), Text(id="a", text="One two thr"))
        await until(lambda: talk.samples() >= 8 * LETTER)
        talk.say(Flush(id="a", mark=1), Text(id="a", text=" four"), End(id="a"))
        done = await talk.done()
        assert done.stats.segments == 2
        (flushed,) = talk.heard(Flushed)
        # One two thr, then the next segment's four.
        assert flushed.at_sample == talk.heard(Segment, index=1)[0].at_sample == 12 * LETTER
        await server.until_nothing_is_left()


async def test_one_whose_text_stalls_keeps_nobody_from_speaking() -> None:
    async with serving(engines=GROWS) as server, server.connect() as talk:
        talk.say(Open(id="slow"), Text(id="slow", text="One two thr"))
        await until(lambda: bool(talk.heard(Audio, id="slow")))
        done = await say(talk, ["Four five."], "quick")
        assert done.reason == "complete"
        assert not talk.heard(Done, id="slow")
        talk.say(Text(id="slow", text="ee."), End(id="slow"))
        assert (await talk.done("slow")).stats.segments == 1


async def test_where_one_speaks_at_a_time_a_stalled_one_makes_room_and_no_word_is_lost() -> None:
    engines = {"tone": {"grows": True, "step_ms": 80, "max_open": 1}}
    async with serving(engines=engines) as server, server.connect() as talk:
        talk.say(Open(id="slow", words=True, lead_ms=0), Text(id="slow", text="One two thr"))
        await until(lambda: len(talk.heard(Words, id="slow")) >= 2)
        await until_waiting_for_text(server)
        done = await say(talk, ["Four five."], "quick")
        assert done.reason == "complete"
        assert not talk.heard(Done, id="slow")
        talk.say(Text(id="slow", text="ee four five. Six"), End(id="slow"))
        assert (await talk.done("slow")).reason == "complete"
        source = "One two three four five. Six"
        words = [word for message in talk.heard(Words, id="slow") for word in message.words]
        assert [source[start:end] for start, end, _, _ in words] == source.split()
        assert [one.start_char for one in talk.heard(Segment, id="slow")][-1] == 25
        await server.until_nothing_is_left()


@pytest.mark.parametrize("verb", ["end", "flush", "silence"])
async def test_one_that_stalls_after_white_space_and_made_room_loses_nothing(verb: str) -> None:
    engines = {"tone": {"grows": True, "step_ms": 80, "max_open": 1}}
    stall_ms = 500 if verb == "silence" else 60_000
    async with serving(engines=engines, stall_ms=stall_ms) as server, server.connect() as talk:
        talk.say(Open(id="slow", words=True, lead_ms=0), Text(id="slow", text="One two three "))
        await until(lambda: len(talk.heard(Words, id="slow")) >= 2)
        await until_waiting_for_text(server)
        assert (await say(talk, ["Four five."], "quick")).reason == "complete"
        source = "One two three "
        if verb == "flush":
            talk.say(Flush(id="slow"))
        if verb == "silence":
            await anyio.sleep(stall_ms / 1000 + 0.1)
        if verb != "end":
            talk.say(Text(id="slow", text="Six seven is it. "))
            source += "Six seven is it. "
        talk.say(End(id="slow"))
        assert (await talk.done("slow")).reason == "complete"
        words = [word for message in talk.heard(Words, id="slow") for word in message.words]
        assert [source[start:end] for start, end, _, _ in words] == source.split()
        await server.until_nothing_is_left()


async def test_many_who_write_and_stall_share_an_engine_that_takes_one() -> None:
    engines = {"tone": {"grows": True, "step_ms": 80, "max_open": 1}}
    words = ["One ", "two ", "three ", "four ", "five. ", "Six ", "seven"]

    async def write(talk: Conversing, number: int) -> None:
        talk.say(Open(id=str(number), words=True, lead_ms=0))
        for word in words:
            talk.say(Text(id=str(number), text=word))
            await anyio.sleep(0.003 * (1 + (number * 7) % 5))
        talk.say(End(id=str(number)))
        assert (await talk.done(str(number))).reason == "complete"

    async with serving(engines=engines) as server, server.connect() as talk:
        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(write, talk, number)
        source = "".join(words)
        for number in range(6):
            said = [word for message in talk.heard(Words, id=str(number)) for word in message.words]
            assert [source[start:end] for start, end, _, _ in said] == source.split()
        await server.until_nothing_is_left()


async def test_what_grew_is_found_again_by_its_whole_text() -> None:
    cache = PcmCache(memory_bytes=1 << 30, folder=None, disk_bytes=0)
    async with serving(engines=GROWS) as server, cache:
        server.services.cache = cache
        async with server.connect() as talk:
            text = "One two three four five."
            first = await say(talk, list(text), "first", words=True, cache=True)
            await cache.settled()
            again = await say(talk, [text], "again", words=True, cache=True)
            assert (first.stats.cache_hits, again.stats.cache_hits) == (0, 1)
            assert sound(talk, "again") == sound(talk, "first")
            assert announced(talk, "again") == announced(talk, "first")


async def test_letters_that_it_cannot_speak_do_not_begin_a_stream() -> None:
    async with serving(engines=GROWS) as server, server.connect() as talk:
        done = await say(talk, ["... ", "👍 ", "!"], "a")
        assert (done.reason, done.samples) == ("complete", 0)
        await server.until_nothing_is_left()


def test_over_a_real_socket_words_come_back_as_they_are_written() -> None:
    async def talk() -> None:
        async with running(engine="tone", engines=GROWS, cache=False) as server, server.speak() as client:
            await client.send(Open(id="a", voice="a4", format="f32le", lead_ms=0.0))
            heard: list[Any] = []
            for word in ("One ", "two ", "three ", "four"):
                await client.send(Text(id="a", text=word))
                heard += await client.receive_until(Audio)
            await client.send(End(id="a"))
            heard += await client.receive_until(Done)
        segments = [one for one in heard if isinstance(one, Segment)]
        assert {one.index for one in segments} == {0}
        assert [one.end_char for one in segments][-1] == 18
        samples = np.concatenate([np.frombuffer(one.pcm, "<f4") for one in heard if isinstance(one, Audio)])
        assert samples.size == (15 + 4) * LETTER

    anyio.run(talk)
