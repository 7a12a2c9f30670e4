"""The browser client's MessagePack against Python's, in a real browser, in both directions."""

from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page

from protocol.codec import MSGPACK
from protocol.messages import Audio, Cancel, Error, Flush, Open, Played, Text
from tests.serving import Server

pytestmark = pytest.mark.browser

# A surrogate can't be in a Python string that is to be sent.
strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | strings
    | st.binary(max_size=80)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.dictionaries(strings.filter(lambda key: key != "__proto__"), inner, max_size=20)
    ),
    max_leaves=40,
)

# Where MessagePack's sizes change.
EDGES: list[Any] = [
    *(n + d for n in (0, 2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**53, 2**63) for d in (-1, 0, 1)),
    *(-n + d for n in (2**5, 2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**53) for d in (-1, 0, 1)),
    -(2**63),
    2**64 - 1,
    *("x" * n for n in (0, 31, 32, 255, 256, 65535, 65536)),
    *(bytes(n) for n in (0, 255, 256, 65535, 65536)),
    *([0] * n for n in (0, 15, 16, 65535, 65536)),
    *({str(k): k for k in range(n)} for n in (0, 15, 16, 65536)),
    "é€😀\u0000\ufeff",
    1.5,
    -0.25,
    5e-324,
    1.7976931348623157e308,
]


@pytest.fixture(scope="module")
def there(browser: Browser, server: Server) -> Iterator[Page]:
    page = browser.new_page()
    page.goto(server.url)
    page.evaluate(
        """async () => {
          const { decode, encode } = await import("/client.js");
          const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
          const hex = (all) => Array.from(all, (byte) => byte.toString(16).padStart(2, "0")).join("");
          globalThis.echo = (text) => hex(encode(decode(bytes(text))));
          globalThis.encoded = (value) => hex(encode(value));
          globalThis.decoded = (text) => decode(bytes(text));
        }"""
    )
    yield page
    page.context.close()


def through_browser(there: Page, value: Any) -> Any:
    return msgpack.unpackb(bytes.fromhex(there.evaluate("(text) => echo(text)", msgpack.packb(value).hex())))


def same(a: Any, b: Any) -> bool:
    """Equal, and of one kind but for whole floats, which JavaScript doesn't tell from integers."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b) and isinstance(a, bool | str | bytes | None) == isinstance(
        b, bool | str | bytes | None
    )


@given(value=values)
def test_what_python_sends_is_understood_and_sent_back_unchanged(there: Page, value: Any) -> None:
    assert same(through_browser(there, value), value)


@pytest.mark.parametrize("value", EDGES, ids=lambda value: f"{type(value).__name__}-{str(value)[:20]}")
def test_the_edges_of_every_size_survive(there: Page, value: Any) -> None:
    assert same(through_browser(there, value), value)


def test_python_reads_what_the_browser_writes(there: Page) -> None:
    text = there.evaluate("""() => encoded({
      none: null, yes: true, no: false, small: 7, negative: -1, byte: 200, word: 40000, long: 3000000000,
      far: Number.MAX_SAFE_INTEGER, low: -70000, big: 2n ** 63n - 1n, half: 0.5,
      text: "naïve 😀", list: [1, [2, []]], map: { deep: { er: 1 } }, raw: new Uint8Array([0, 255]),
      left: undefined })""")
    assert msgpack.unpackb(bytes.fromhex(text)) == {
        "none": None, "yes": True, "no": False, "small": 7, "negative": -1, "byte": 200, "word": 40000,
        "long": 3_000_000_000, "far": 2**53 - 1, "low": -70000, "big": 2**63 - 1, "half": 0.5,
        "text": "naïve 😀", "list": [1, [2, []]], "map": {"deep": {"er": 1}}, "raw": b"\x00\xff",
    }  # fmt: skip


def test_whole_numbers_are_written_as_integers_in_their_shortest_form(there: Page) -> None:
    for number in (0, 127, 128, 255, 256, 65535, 65536, -1, -32, -33, -128, -129, 2**40, -(2**40)):
        assert bytes.fromhex(there.evaluate("(n) => encoded(n)", number)) == msgpack.packb(number)


def test_half_a_character_is_sent_as_the_replacement_character(there: Page) -> None:
    written = there.evaluate(r"() => encoded('a\ud83d')")
    assert msgpack.unpackb(bytes.fromhex(written)) == "a\ufffd"


def test_the_server_takes_the_messages_of_the_browser_for_its_own(there: Page) -> None:
    messages = [
        ({"type": "open", "id": "1", "words": True, "speed": 1.5, "seed": 7, "cushion_ms": 140},
         Open(id="1", words=True, speed=1.5, seed=7, cushion_ms=140)),
        ({"type": "text", "id": "1", "text": "Hé 😀"}, Text(id="1", text="Hé 😀")),
        ({"type": "flush", "id": "1"}, Flush(id="1")),
        ({"type": "played", "id": "1", "ms": 12.25, "state": "paused"}, Played(id="1", ms=12.25, state="paused")),
        ({"type": "cancel", "id": "1", "played_ms": 900}, Cancel(id="1", played_ms=900)),
    ]  # fmt: skip
    for sent, meant in messages:
        assert MSGPACK.decode_client(bytes.fromhex(there.evaluate("(m) => encoded(m)", sent))) == meant


def test_the_browser_takes_the_messages_of_the_server_for_what_they_are(there: Page) -> None:
    error = Error(code="busy", message="full", retryable=True, id="1", retry_after_ms=1200.5)
    audio = Audio(id="1", seq=3, at_sample=4800, pcm=bytes(range(6)))
    for message in (error, audio):
        data = MSGPACK.encode_server(message)
        assert isinstance(data, bytes)
        got = there.evaluate(
            "(t) => { const m = decoded(t); if (m.pcm) m.pcm = Array.from(m.pcm); return m; }", data.hex()
        )
        expected = {key: list(v) if isinstance(v, bytes) else v for key, v in msgpack.unpackb(data).items()}
        assert got == expected
