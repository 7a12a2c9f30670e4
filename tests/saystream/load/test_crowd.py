"""A crowd against the fake server, whose speech is instant: a character is 10 ms of audio."""

import asyncio

import pytest

from protocol.messages import Cancel, Open, Text
from saystream.load.crowd import Plan, Report, listen, percentiles
from saystream.load.link import Link, LinkRefusedError, frame
from saystream.load.listener import Notes, opening
from saystream.ramp import most
from tests.fakes.server import FakeServer


def plan(server: FakeServer, **changes: object) -> Plan:
    settings = {
        "url": f"{server.url}/v1/speak",
        "key": None,
        "opening": opening(voice="hum"),
        "replies": ["Hello big world."],
        "listeners": 3,
        "seconds": 4.0,
        "tokens_per_s": 200,
    }
    return Plan(**{**settings, **changes})  # type: ignore[arg-type]


async def test_everybody_is_heard_reply_after_reply(server: FakeServer) -> None:
    report = await listen(plan(server))
    notes = report.notes
    assert report.held
    assert notes.utterances > 6
    assert (notes.gaps, notes.refused, notes.queued, notes.errors) == (0, 0, 0, [])
    assert len(notes.stats) == notes.utterances
    opens = server.received_of(Open)
    assert opens[0] == Open(id="a", voice="hum", cache=False)
    texts = "".join(message.text for message in server.received if isinstance(message, Text))
    assert texts.count("Hello") in {len(opens), len(opens) - 1, len(opens) - 2, len(opens) - 3}
    assert server.received_of(Cancel) == []
    await server.until(lambda: not server.connections)


async def test_a_refusal_is_counted_and_not_held(server: FakeServer) -> None:
    report = await listen(plan(server, opening=opening(voice="nobody"), seconds=1.0))
    assert not report.held
    assert report.notes.errors[0] == "unknown_voice: no such voice"
    assert "refused" in report.line()


async def test_text_that_is_never_spoken_is_unheard(server: FakeServer) -> None:
    server.silent_at_word = "x"
    report = await listen(plan(server, replies=["x"], listeners=1, seconds=0.3))
    assert report.notes.utterances > 0
    assert report.notes.heard_s == 0


async def test_a_server_that_refuses_the_socket_is_told() -> None:
    from tests.fakes.server import running

    async with running(FakeServer(refuse_handshakes=[(503, b"", {})])) as server:
        with pytest.raises(LinkRefusedError, match="503"):
            await Link(server.url, None).connect()


async def test_messages_of_every_size_pass_the_link(server: FakeServer) -> None:
    got: list[bytes] = []
    link = Link(server.url, None)
    link.on_message = got.append
    await link.connect()
    link.send(frame(b"\x81\xa4type\xa4ping"))
    while len(got) < 1:  # noqa: ASYNC110 - hello
        await asyncio.sleep(0)
    assert b"hello" in got[0]
    link.abort()


def test_a_ramp_finds_the_largest_number_that_holds() -> None:
    tried: list[int] = []

    def holds(number: int) -> bool:
        tried.append(number)
        return number <= 87

    found = most(10, holds)
    assert 83 <= found <= 87
    assert len(tried) < 15
    assert most(10, lambda number: number < 3) == 2
    assert most(10, lambda _: False) == 0


def test_gap_free_is_one_gap_in_ten_thousand_listener_seconds() -> None:
    assert Report(1, Notes(gaps=1, heard_s=10_000), 0, 0).gap_free
    assert not Report(1, Notes(gaps=1, heard_s=9_999), 0, 0).gap_free


def test_percentiles_of_a_hundred_numbers() -> None:
    assert percentiles([float(number) for number in range(100)]) == (50, 95)
    assert percentiles([]) == (0, 0)
