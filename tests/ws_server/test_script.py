"""What was said before is said again from the cache: the same messages and samples, no slot, no engine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pcm_cache.cache import PcmCache
from protocol.messages import Audio, Cancel, Done, End, Error, Flush, Flushed, Open, Segment, Text, Words
from tests.ws_server.conversing import SENTENCE, Conversing, Server, serving, until

MUCH = 1 << 30
ONE, TWO, THREE = "This is the first sentence. ", "Here comes the second one. ", "And now the third of them. "


@asynccontextmanager
async def caching(
    folder: Path | None = None, *, memory_bytes: int = MUCH, **changes: Any
) -> AsyncIterator[Server]:
    async with serving(**changes) as server:
        cache = PcmCache(memory_bytes=memory_bytes, folder=folder, disk_bytes=MUCH if folder else 0)
        async with cache:
            server.services.cache = cache
            yield server


async def say(talk: Conversing, text: str, id: str = "a", **fields: Any) -> Done:  # noqa: A002 - the wire's name
    talk.say(Open(id=id, lead_ms=0, **fields), Text(id=id, text=text), End(id=id))
    return await talk.done(id)


def sound(talk: Conversing, id: str) -> bytes:  # noqa: A002 - the wire's name
    return b"".join(bytes(frame.pcm) for frame in talk.heard(Audio, id=id))


def announced(talk: Conversing, id: str) -> list[Any]:  # noqa: A002 - the wire's name
    """What the client knows of its text, wherever the messages begin and end."""
    segments = {
        one.index: (one.start_char, one.end_char, one.at_sample) for one in talk.heard(Segment, id=id)
    }
    words = [word for message in talk.heard(Words, id=id) for word in message.words]
    return [segments, words]


def harm(paths: list[Path]) -> None:
    for path in paths:
        data = bytearray(path.read_bytes())
        data[-5] ^= 255
        path.write_bytes(data)


@pytest.mark.parametrize("engine", [{}, {"step_ms": 80}], ids=["a segment a step", "small steps"])
@pytest.mark.parametrize(
    "form",
    [{}, {"format": "f32le"}, {"format": "mulaw"}, {"sample_rate_hz": 44100, "frame_ms": 20}],
    ids=["s16le", "f32le", "mulaw", "resampled"],
)
async def test_what_is_said_again_is_the_same_to_the_last_bit(
    engine: dict[str, Any], form: dict[str, Any]
) -> None:
    """S17"""
    async with caching(engines={"tone": engine}) as server, server.connect() as talk:
        first = await say(talk, ONE + TWO, "first", words=True, **form)
        await server.services.cache.settled()
        again = await say(talk, ONE + TWO, "again", words=True, **form)
        assert (first.stats.cache_hits, again.stats.cache_hits) == (0, 2)
        assert sound(talk, "again") == sound(talk, "first") != b""
        assert announced(talk, "again") == announced(talk, "first")
        assert (again.samples, again.chars) == (first.samples, first.chars)
        assert (first.stats.compute_ms > 0, again.stats.compute_ms) == (True, 0)


async def test_another_format_of_what_was_said_is_a_hit_too() -> None:
    async with caching() as server, server.connect() as talk:
        await say(talk, ONE, "first")
        await server.services.cache.settled()
        again = await say(talk, ONE, "again", format="f32le", sample_rate_hz=24000)
        assert again.stats.cache_hits == 1
        pcm16 = np.frombuffer(sound(talk, "first"), "<i2").astype(float) / 32768
        assert np.abs(np.frombuffer(sound(talk, "again"), "<f4") - pcm16).max() < 1 / 32000


async def test_hits_and_segments_that_are_made_keep_their_order_and_their_marks() -> None:
    async with caching() as server, server.connect() as talk:
        await say(talk, TWO, "two")
        await say(talk, THREE, "three")
        await server.services.cache.settled()
        talk.say(
            Open(id="mix", words=True, lead_ms=0), Text(id="mix", text=ONE + TWO), Flush(id="mix", mark=1)
        )
        talk.say(Text(id="mix", text=THREE), Flush(id="mix", mark=2), Text(id="mix", text=ONE), End(id="mix"))
        mixed = await talk.done("mix")
        plain = await say(talk, ONE + TWO + THREE + ONE, "plain", words=True, cache=False)
        assert (mixed.stats.cache_hits, plain.stats.cache_hits) == (2, 0)
        assert sound(talk, "mix") == sound(talk, "plain")
        assert announced(talk, "mix") == announced(talk, "plain")
        two_and_mark = [one.at_sample for one in talk.heard(Flushed, id="mix")]
        starts = {one.index: one.at_sample for one in talk.heard(Segment, id="mix")}
        assert two_and_mark == [starts[2], starts[3]]


async def test_hits_need_no_slot_and_no_engine() -> None:
    """S7"""
    async with caching(max_streams=1, queue=0) as server, server.connect() as talk:
        await say(talk, ONE, "first")
        await server.services.cache.settled()
        server.gate.shut()
        talk.say(Open(id="busy"), Text(id="busy", text=TWO), End(id="busy"))
        await until(lambda: server.gate.held == 1)
        assert (await say(talk, ONE, "again")).stats.cache_hits == 1
        talk.say(Open(id="other"), Text(id="other", text=THREE), End(id="other"))
        assert (await talk.failed("other")).code == "busy"
        assert server.services.dispatcher.in_flight == 1


async def test_hits_load_no_engine(tmp_path: Path) -> None:
    async with caching(tmp_path) as server, server.connect() as talk:
        await say(talk, ONE)
    async with (
        caching(tmp_path, loaded=False, engines={"tone": {"load_s": 1}}) as server,
        server.connect() as talk,
    ):
        assert (await say(talk, ONE)).reason == "complete"
        assert server.services.dispatcher.status("tone").state == "loading"


async def test_what_was_said_before_a_restart_comes_from_the_disk(tmp_path: Path) -> None:
    """S22"""
    async with caching(tmp_path) as server, server.connect() as talk:
        await say(talk, ONE + TWO, words=True)
        first = (sound(talk, "a"), announced(talk, "a"))
    async with caching(tmp_path) as server, server.connect() as talk:
        again = await say(talk, ONE + TWO, words=True)
        assert again.stats.cache_hits == 2
        assert (sound(talk, "a"), announced(talk, "a")) == first


async def test_a_harmed_file_is_made_again_in_its_place(tmp_path: Path) -> None:
    """C3"""
    async with caching(tmp_path) as server, server.connect() as talk:
        await say(talk, ONE + TWO + THREE, words=True)
        first = (sound(talk, "a"), announced(talk, "a"))
    harm(sorted(tmp_path.rglob("*.clip"))[:2])  # noqa: ASYNC240 - a folder of three files
    async with caching(tmp_path) as server, server.connect() as talk:
        again = await say(talk, ONE + TWO + THREE, words=True)
        assert (again.reason, again.stats.cache_hits) == ("complete", 1)
        assert (sound(talk, "a"), announced(talk, "a")) == first
        await server.services.cache.settled()
        assert (await say(talk, ONE + TWO + THREE, "b")).stats.cache_hits == 3


async def test_without_cache_nothing_is_looked_up_and_nothing_is_kept() -> None:
    async with caching() as server, server.connect() as talk:
        await say(talk, ONE, "a", cache=False)
        await server.services.cache.settled()
        assert server.services.cache.entries == 0
        await say(talk, ONE, "b")
        await server.services.cache.settled()
        assert (await say(talk, ONE, "c", cache=False)).stats.cache_hits == 0
        counters = server.services.cache.counters
        assert (counters.hits, counters.misses, counters.stored) == (0, 1, 1)


@pytest.mark.parametrize(
    "changed",
    [{"voice": "a5"}, {"speed": 1.5}, {"seed": 5}, {"options": {"at_step": 1}}, {"language": "en"}],
    ids=lambda changed: next(iter(changed)),
)
async def test_another_voice_speed_seed_option_or_language_is_another_entry(changed: dict[str, Any]) -> None:
    """C1, fault 9"""
    async with caching() as server, server.connect() as talk:
        await say(talk, ONE, "a")
        await server.services.cache.settled()
        assert (await say(talk, ONE, "b", **changed)).stats.cache_hits == 0
        assert (await say(talk, ONE, "c")).stats.cache_hits == 1


async def test_what_was_cancelled_is_not_kept_and_what_was_complete_before_it_is() -> None:
    """S21, C4"""
    async with caching(engines={"tone": {"step_ms": 100}}) as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=100), Text(id="a", text=ONE + TWO), End(id="a"))
        await talk.one(Audio, id="a")
        talk.say(Cancel(id="a"))
        await talk.done("a")
        await server.until_nothing_is_left()
        await server.services.cache.settled()
        assert server.services.cache.entries == 0


@pytest.mark.parametrize("fault", ["nan", "nothing", "collapse", "raise", "raise_at_start", "runaway"])
async def test_what_has_failed_is_not_kept(fault: str) -> None:
    """S18, S21, C4, A10, fault 11"""
    async with caching() as server, server.connect() as talk:
        done = await say(talk, SENTENCE, "a", options={"fault": fault})
        assert done.reason == "failed"
        await server.services.cache.settled()
        assert server.services.cache.entries == 0


async def test_what_came_out_clamped_is_not_kept() -> None:
    """S21"""
    async with caching() as server, server.connect() as talk:
        assert (await say(talk, SENTENCE, "a", options={"fault": "beyond"})).reason == "complete"
        await server.services.cache.settled()
        assert (server.services.cache.entries, server.services.cache.counters.refused) == (0, 1)


async def test_an_hour_of_stored_speech_is_not_laid_out_in_memory() -> None:
    async with caching() as server, server.connect() as talk:
        await say(talk, ONE, "a")
        await server.services.cache.settled()
        talk.stop_reading()
        talk.say(Open(id="b", lead_ms=0), *[Text(id="b", text=ONE)] * 500, End(id="b"))
        await until(lambda: len(talk.heard(Audio, id="b")) == 0)
        utterance = talk.session._utterances["b"]
        waiting = len(utterance.outgoing._items)
        assert waiting < 20
        talk.read_again()
        done = await talk.done("b")
        assert (done.reason, done.stats.cache_hits) == ("complete", 500)
        assert sound(talk, "b") == sound(talk, "a") * 500


async def test_a_live_listener_is_not_sent_more_than_its_lead_from_the_cache() -> None:
    async with caching() as server, server.connect() as talk:
        await say(talk, ONE * 4, "a")
        await server.services.cache.settled()
        talk.say(Open(id="b", lead_ms=500), Text(id="b", text=ONE * 4), End(id="b"))
        await talk.one(Audio, id="b")
        utterance = talk.session._utterances["b"]
        sent_s = utterance.listener.clock.sent_s
        assert sent_s < 1
        # The device knows how much is there: it would not be asked to hurry.
        assert utterance.listener.entry.made_s >= sent_s
        talk.say(Cancel(id="b"))
        assert (await talk.done("b")).reason == "cancelled"


async def test_a_hit_does_not_hide_that_the_next_segment_fails() -> None:
    async with caching() as server, server.connect() as talk:
        fields: dict[str, Any] = {"options": {"fault": "raise", "only_seed": 7}}
        await say(talk, ONE, "a", **fields)
        await server.services.cache.settled()
        server.services.cache.counters.hits = 0
        talk.say(Open(id="b", seed=7, lead_ms=0, **fields), Text(id="b", text=ONE), End(id="b"))
        assert (await talk.done("b")).reason == "failed"
        assert talk.heard(Error, id="b")[0].code == "engine_failed"


async def test_what_is_made_twice_is_the_same_so_that_the_cache_is_honest() -> None:
    """S17: without a seed of the client's own the server derives one, whatever the connection."""
    async with caching(engines={"tone": {"sampling": True}}) as server:
        async with server.connect() as one:
            await say(one, ONE + TWO, cache=False)
        async with server.connect() as other:
            await say(other, ONE + TWO, cache=False)
        assert sound(one, "a") == sound(other, "a") != b""


async def test_a_take_that_collapsed_and_was_taken_again_is_kept_as_it_was_heard() -> None:
    """S18: the second take is a sound one, and the same each time."""
    async with caching(engines={"tone": {"sampling": True}}) as server, server.connect() as talk:
        fields: dict[str, Any] = {"seed": 7, "options": {"fault": "collapse", "only_seed": 7}}
        assert (await say(talk, SENTENCE, "a", **fields)).reason == "complete"
        await server.services.cache.settled()
        again = await say(talk, SENTENCE, "b", **fields)
        assert again.stats.cache_hits == 1
        assert len(sound(talk, "a")) > 24000 * 2
        assert sound(talk, "b") == sound(talk, "a")


async def test_while_what_is_stored_is_played_no_slot_is_held_for_what_comes_after_it() -> None:
    async with caching() as server, server.connect() as talk:
        await say(talk, ONE * 8, "a")
        await server.services.cache.settled()
        talk.say(Open(id="b", lead_ms=500), Text(id="b", text=ONE * 8 + TWO), End(id="b"))
        await talk.one(Audio, id="b")
        assert server.services.dispatcher.in_flight == 0
        talk.say(Cancel(id="b"))
        await talk.done("b")
        await server.until_nothing_is_left()
