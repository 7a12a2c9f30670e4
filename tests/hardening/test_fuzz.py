"""Whatever comes, in whatever order: an answer, never a fault of ours, and nothing left behind."""

import json
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import anyio
import httpx
import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from protocol.codec import JSON, MSGPACK
from protocol.errors import LocalProtocolError
from protocol.messages import (
    Cancel,
    CancelAll,
    ClientMessage,
    Done,
    End,
    Flush,
    Hello,
    Open,
    Ping,
    Played,
    Pong,
    Text,
)
from tests.serving import Server, serving
from tests.ws_server import conversing

IDS = st.sampled_from("abc")
MS = st.floats(0, 5000)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--engine", "tone", "--log-level", "warning", "--no-page") as running:
        yield running
        assert "Traceback" not in running.log.read_text()


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=20) as client:
        yield client


# HTTP bodies --------------------------------------------------------------------------------------------------

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = {
    "/v1/tokens": ("utterances", "total_chars", "voice"),
    "/v1/tts": (
        "voice",
        "engine",
        "language",
        "format",
        "sample_rate_hz",
        "speed",
        "seed",
        "options",
        "markup",
    ),
    "/v1/tts/stream": (
        "voice",
        "format",
        "sample_rate_hz",
        "max_chars_per_gen",
        "max_sentences_per_gen",
        "cache",
    ),
}


def bodies(path: str) -> st.SearchStrategy[bytes]:
    nearly = st.fixed_dictionaries(
        {}, optional={"text": st.text(max_size=30), **dict.fromkeys(FIELDS[path], PLAIN)}
    )
    return (
        st.binary(max_size=200)
        | PLAIN.map(lambda value: json.dumps(value).encode())
        | nearly.map(lambda value: json.dumps(value).encode())
    )


@pytest.mark.parametrize("path", FIELDS)
@given(data=st.data())
def test_any_body_gets_an_answer_that_is_no_fault_of_ours(
    path: str, data: st.DataObject, http: httpx.Client
) -> None:
    answer = http.post(path, content=data.draw(bodies(path)))
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        error = answer.json()["error"]
        assert error["code"]
        assert error["message"]


@given(
    body=st.binary(max_size=300),
    kind=st.sampled_from(("multipart/form-data; boundary=x", "multipart/form-data", "text/plain", "")),
    frame=st.booleans(),
)
def test_any_upload_gets_an_answer_that_is_no_fault_of_ours(
    body: bytes, kind: str, frame: bool, http: httpx.Client
) -> None:
    if frame:
        head = b'--x\r\nContent-Disposition: form-data; name="audio"; filename="a.wav"\r\n\r\n'
        body = head + body + b"\r\n--x--\r\n"
    answer = http.post("/v1/voices", content=body, headers={"content-type": kind})
    assert 400 <= answer.status_code < 500
    assert answer.json()["error"]["code"]


PRINTABLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)


@given(
    rest=PRINTABLE, start=st.sampled_from(("/", "//", "/v1/voices/", "/v1/speak?token=", "/v1/engines?", ""))
)
def test_any_path_gets_an_answer_that_is_no_fault_of_ours(start: str, rest: str, server: Server) -> None:
    connection = HTTPConnection(server.host, server.port, timeout=20)
    try:
        connection.request("GET", f"{start}{rest}" or "*")
        assert connection.getresponse().status < 500
    finally:
        connection.close()


# The decoder, over a socket -----------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[MSGPACK, JSON], ids=["msgpack", "json"])
def socket(server: Server, request: pytest.FixtureRequest) -> Iterator[tuple[ClientConnection, Any]]:
    codec = request.param
    with connect(
        server.ws_url + "/v1/speak", subprotocols=[Subprotocol(codec.subprotocol)], compression=None
    ) as connection:
        assert isinstance(codec.decode_server(connection.recv()), Hello)
        yield connection, codec


KINDS = st.sampled_from(("open", "text", "flush", "end", "cancel", "cancel_all", "played", "ping", "x"))
NEARLY = st.fixed_dictionaries(
    {"type": KINDS},
    optional={
        "id": IDS | PLAIN,
        "text": st.text(max_size=20) | PLAIN,
        "mark": PLAIN,
        "ms": MS | PLAIN,
        "state": st.sampled_from(("playing", "paused")) | PLAIN,
        "t": PLAIN,
        "options": PLAIN,
        "speed": PLAIN,
        "lead_ms": MS | PLAIN,
        "replaces": IDS | PLAIN,
        "voice": st.sampled_from(("a3", "a4")) | PLAIN,
        "words": st.booleans() | PLAIN,
    },
)


@given(messages=st.lists(NEARLY | PLAIN, max_size=3), noise=st.binary(max_size=60))
def test_any_message_leaves_the_connection_alive(
    messages: list[Any], noise: bytes, socket: tuple[ClientConnection, Any]
) -> None:
    connection, codec = socket
    for message in [*messages, noise]:
        connection.send(encoded(message, text=codec is JSON))
    connection.send(codec.encode_client(CancelAll()))
    connection.send(codec.encode_client(Ping(t="there?")))
    # Four bad ones in a row at most: the fifth would close.
    while codec.decode_server(connection.recv(timeout=20)) != Pong(t="there?"):
        pass


def encoded(message: Any, *, text: bool) -> bytes | str:
    if text:
        return message.decode("latin-1") if isinstance(message, bytes) else json.dumps(message)
    if isinstance(message, bytes):
        return message
    try:
        packed = msgpack.packb(message)
    except (OverflowError, ValueError, UnicodeEncodeError):
        return b"\xc1"
    assert isinstance(packed, bytes)
    return packed


# The conversation, with a real session and a real device --------------------------------------------------------

MESSAGES: st.SearchStrategy[ClientMessage] = st.one_of(
    st.builds(
        Open,
        id=IDS,
        lead_ms=st.sampled_from((0.0, 100.0, 3000.0)),
        words=st.booleans(),
        replaces=st.none() | IDS,
        replaced_played_ms=st.none() | MS,
        voice=st.sampled_from((None, "a4", "nobody")),
        options=st.sampled_from((None, None, None, {"fault": "raise"}, {"fault": "nan", "at_step": 2})),
    ),
    st.builds(
        Text,
        id=IDS,
        text=st.sampled_from(("One ", "two. ", "Three, four", "!", "", "3.", "5 ", "🙂", "中文。")),
    ),
    st.builds(Flush, id=IDS, mark=st.none() | st.integers(0, 3)),
    st.builds(End, id=IDS),
    st.builds(Cancel, id=IDS, played_ms=st.none() | MS),
    st.just(CancelAll()),
    st.builds(Played, id=IDS, ms=MS, state=st.sampled_from(("playing", "paused"))),
    st.builds(Ping),
)


CROWDED: dict[str, Any] = {"max_streams": 2, "queue": 1, "engines": {"tone": {"step_ms": 100}}}
SCRIPTS = st.lists(MESSAGES | st.none(), max_size=40)


@settings(max_examples=30)
@given(script=SCRIPTS)
async def test_a_client_that_keeps_to_the_rules_gets_everything_in_order(
    script: list[ClientMessage | None],
) -> None:
    async with conversing.serving(**CROWDED) as server, server.connect() as talk:
        await play(script, server, talk)


@settings(max_examples=30)
@given(script=SCRIPTS)
async def test_a_client_that_keeps_to_no_rule_gets_one_done_for_each_open(
    script: list[ClientMessage | None],
) -> None:
    async with conversing.serving(**CROWDED) as server, server.connect() as talk:
        talk.client = None
        await play(script, server, talk)


async def play(
    script: list[ClientMessage | None], server: conversing.Server, talk: conversing.Conversing
) -> None:
    opened: Counter[str] = Counter()
    for message in script:
        if message is None:
            await anyio.sleep(0.002)
        elif say(message, talk) and isinstance(message, Open):
            opened[message.id] += 1
    talk.say(CancelAll())
    await conversing.until(lambda: Counter(done.id for done in talk.heard(Done)) == opened)
    await server.until_nothing_is_left()
    talk.say(Ping(t="end"))
    await talk.one(Pong, t="end")
    assert talk.closed is None


def say(message: ClientMessage, talk: conversing.Conversing) -> bool:
    """Whether it was said, and isn't an `open` of an id that is open and isn't replaced by it."""
    opens = not isinstance(message, Open) or (
        message.id not in talk.session._conversation.open_ids or message.replaces == message.id
    )
    try:
        talk.say(message)
    except LocalProtocolError:
        return False
    return opens
