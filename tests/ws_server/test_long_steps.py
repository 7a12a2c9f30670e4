"""Engines whose step makes a whole segment: while others wait, no piece takes the device for long."""

import anyio

from protocol.messages import Done, End, Open, Segment, Text
from tests.ws_server.running import Speaker, running

LONG = " ".join(["one two three four five six seven eight nine ten"] * 6) + "."
"""About 300 characters: 20 s of tone, two seconds of the device."""
SLOW = {"cost": 0.1}


async def segments_of(speaker: Speaker, id: str) -> tuple[list[int], Done]:  # noqa: A002 - the wire's name
    """Their lengths in characters."""
    lengths = []
    while True:
        message = await speaker.receive()
        if isinstance(message, Segment) and message.id == id:
            lengths.append(message.end_char - message.start_char)
        if isinstance(message, Done) and message.id == id:
            return lengths, message


async def test_a_lone_listener_hears_whole_sentences() -> None:
    async with running(engine="tone", engines={"tone": SLOW}) as server, server.speak() as speaker:
        await speaker.send(Open(id="a", lead_ms=0), Text(id="a", text=f"Hello. {LONG}"), End(id="a"))
        lengths, done = await segments_of(speaker, "a")
        assert max(lengths) == len(LONG)
        assert done.stats.forced_cuts == 0


async def test_with_others_its_sentences_come_in_pieces_that_the_device_is_quick_with() -> None:
    async with (
        running(engine="tone", engines={"tone": SLOW}, max_load=4, max_step_ms=400) as server,
        server.speak() as one,
        server.speak() as other,
    ):
        await one.send(Open(id="a"), Text(id="a", text=f"Hello. {LONG}"))
        await other.send(Open(id="b", lead_ms=30_000), Text(id="b", text="Hello. "))
        with anyio.fail_after(20):
            while server.services.dispatcher.in_flight < 2:  # noqa: ASYNC110 - nothing tells
                await anyio.sleep(0.01)
        await other.send(Text(id="b", text=LONG), End(id="b"))
        lengths, done = await segments_of(other, "b")
        # 400 ms of the device are 4 s of tone, some 60 characters.
        assert max(lengths) <= 80
        assert done.stats.forced_cuts > 0
        assert done.reason == "complete"
