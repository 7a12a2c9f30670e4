"""Small messages that would have cost the server much: in what it sends back, in time on the loop, in memory."""

import json
import string

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.codec import JSON, MSGPACK
from protocol.errors import BadMessage
from protocol.messages import Audio, Cancel, Done, End, Error, Flush, Flushed, Open, Ping, Pong, Text
from tests.ws_server.conversing import RATE_HZ, SENTENCE, SENTENCE_SAMPLES, serving, until
from tests.ws_server.running import running
from ws_server.auth import OPEN
from ws_server.languages import language_tag, match_language
from ws_server.reading import AHEAD_SEGMENTS, READ_CHARS
from ws_server.session import Session

LONG = "x" * 400_000
ECHO_CHARS = 300


def refusal(**fields: object) -> BadMessage:
    with pytest.raises(BadMessage) as caught:
        MSGPACK.decode_client(msgpack.packb(fields))
    return caught.value


# What is sent back -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "open", "id": "a", "format": LONG},
        {"type": "open", "id": "a", "markup": LONG},
        {"type": "played", "id": "a", "ms": 1, "state": LONG},
        {"type": "ping", "t": LONG},
        {"type": LONG},
        {"type": "open", "id": "a", "options": {LONG: float("nan")}},
    ],
)
def test_a_wrong_value_is_not_sent_back_at_length(fields: dict[str, object]) -> None:
    error = refusal(**fields)
    assert len(error.message) < ECHO_CHARS
    assert len(error.param or "") < ECHO_CHARS


async def test_the_name_of_an_unknown_option_is_not_sent_back_at_length() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a", options={LONG: 1}))
        error = await talk.one(Error)
        assert error.code == "invalid_option"
        assert len(error.message) < ECHO_CHARS
        assert len(error.param or "") < ECHO_CHARS


def test_a_ping_of_the_longest_kind_is_answered_with_the_same() -> None:
    message = Ping(t="x" * 128)
    assert MSGPACK.decode_client(MSGPACK.encode_client(message)) == message


# Options ------------------------------------------------------------------------------------------------------


def test_options_hold_a_thousand_values_and_no_more() -> None:
    few = {"type": "open", "id": "a", "options": {"a": [0] * 1023}}
    opened = MSGPACK.decode_client(msgpack.packb(few))
    assert isinstance(opened, Open)
    error = refusal(type="open", id="a", options={"a": [0] * 1024})
    assert (error.code, error.param) == ("invalid_option", "options.a")
    assert refusal(type="open", id="a", options={"a": [[0] * 1024] * 400}).code == "invalid_option"


def test_options_that_hold_each_other_many_times_are_refused_in_json_too() -> None:
    fields = json.dumps({"type": "open", "id": "a", "options": {"a": [[0] * 2000] * 50}})
    with pytest.raises(BadMessage, match="holds too much"):
        JSON.decode_client(fields)


# Languages ----------------------------------------------------------------------------------------------------


@given(st.text(alphabet=st.characters() | st.sampled_from("\0\x01 -_" + string.ascii_letters), max_size=100))
def test_no_name_of_a_language_is_a_fault(asked: str) -> None:
    match_language(asked, ("en-US", "en"))
    language_tag(asked)


@pytest.mark.parametrize("asked", ["\0g 8c", "v\0wlmtvo", "p\0deis dv\0"])
async def test_a_language_with_a_zero_in_it_is_refused_and_its_connection_lives_on(asked: str) -> None:
    async with running() as server, server.speak() as client:
        await client.send(Open(id="a", language=asked), Ping(t=1))
        *_, pong = messages = await client.receive_until(Pong)
        assert pong == Pong(t=1)
        assert [m.code for m in messages if isinstance(m, Error)] == ["unsupported_language"]
        assert [m.reason for m in messages if isinstance(m, Done)] == ["failed"]


# Text ---------------------------------------------------------------------------------------------------------

SHORT_LINES = "a\n\n" * 33_333
"""Each line is a segment, which costs hundreds of times its three characters."""


async def test_a_long_text_is_cut_only_so_far_ahead_of_the_voice() -> None:
    async with serving() as server, server.connect() as talk:
        server.gate.shut()
        talk.say(Open(id="a"), *(Text(id="a", text=SHORT_LINES) for _ in range(10)))
        await until(lambda: talk.session.utterance("a").tally.segments >= AHEAD_SEGMENTS)  # type: ignore[union-attr]
        await until(lambda: not len(server.services.turns))
        utterance = talk.session.utterance("a")
        assert utterance is not None
        assert utterance.tally.segments < AHEAD_SEGMENTS + READ_CHARS
        assert utterance.chars == 10 * len(SHORT_LINES)
        server.gate.open()


async def test_a_text_longer_than_is_cut_ahead_is_spoken_to_its_end_and_its_flushes_keep_their_places() -> (
    None
):
    lines = "One.\n\n" * (2 * AHEAD_SEGMENTS)
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a", lead_ms=0))
        for mark in range(3):
            talk.say(Text(id="a", text=lines), Flush(id="a", mark=mark))
        talk.say(End(id="a"))
        done = await talk.done()
        word_samples = (4 + 1) * 60 * 24
        assert (done.reason, done.chars) == ("complete", 3 * len(lines))
        assert done.samples == 6 * AHEAD_SEGMENTS * word_samples
        flushed = [m for m in talk.messages if isinstance(m, Flushed)]
        assert [(m.mark, m.at_sample) for m in flushed] == [
            (mark, (mark + 1) * 2 * AHEAD_SEGMENTS * word_samples) for mark in range(3)
        ]


async def test_others_are_answered_before_a_megabyte_of_short_lines_is_read() -> None:
    async with running() as server, server.speak() as flooder, server.speak() as other:
        await flooder.send(Open(id="a"), *(Text(id="a", text="[x" * 50_000) for _ in range(10)), Ping(t=1))
        await flooder.receive_until(Pong)
        await other.send(Ping(t=2))
        await other.receive_until(Pong)
        assert len(server.services.turns) == 1


async def test_a_cancel_of_a_long_text_leaves_nothing_to_be_read() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a"), *(Text(id="a", text="[x" * 50_000) for _ in range(10)))
        talk.say(Cancel(id="a"))
        assert (await talk.done()).reason == "cancelled"
        await until(lambda: not len(server.services.turns))
        await server.until_nothing_is_left()


@pytest.mark.parametrize("depth", [100, 400, 700, 900, 100_000])
async def test_a_deeply_nested_body_is_the_clients_fault(depth: int) -> None:
    body = b'{"text": "a", "options": {"a": ' + b"[" * depth + b"]" * depth + b"}}"
    async with running() as server:
        answer = await server.http.post("/v1/tts", content=body)
        assert answer.status_code in {400, 422}


async def test_a_wait_or_cushion_of_days_counts_as_a_minute() -> None:
    async with serving() as server, server.connect() as talk:
        talk.say(Open(id="a", wait_ms=1e9, cushion_ms=1e9), Text(id="a", text=SENTENCE))
        utterance = talk.session.utterance("a")
        assert utterance is not None
        assert utterance.plan.rules.wait_ms == 60_000
        assert utterance.listener.spec.cushion_s == 60


# Audio --------------------------------------------------------------------------------------------------------


async def test_a_rendering_is_made_only_so_far_ahead_of_a_slow_reader() -> None:
    """One who reads slowly, and so is never blocked for long, let an hour of audio be laid out in memory."""
    lines = 400
    async with serving() as server, Session(server.services, OPEN, peer="test") as session:
        for said in (Open(id="a", lead_ms=0), Text(id="a", text=f"{SENTENCE}\n\n" * lines), End(id="a")):
            session.receive(said)
        utterance = session.utterance("a")
        assert utterance is not None
        entry = utterance.listener.entry
        await until(lambda: entry.blocked)
        made_s = entry.made_s
        assert 20 < made_s < 20 + 10 * SENTENCE_SAMPLES / RATE_HZ
        samples = 0
        while not isinstance(message := await session.next(), Done):
            if isinstance(message, Audio):
                samples += len(message.pcm) // 2
                session.sent(message)
        assert (message.reason, samples) == ("complete", lines * SENTENCE_SAMPLES)
