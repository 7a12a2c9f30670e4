"""What a decoder does with what strangers send."""

import json
import struct
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.codec import JSON, MSGPACK, Codec, select_subprotocol
from protocol.errors import BadMessage, RefusedOpen
from protocol.messages import Cancel, Open, Ping, Played, Text
from protocol.messages import Error as WireError
from tests.protocol.strategies import CLIENT_MESSAGES, CLIENT_TYPES, JSON_VALUES

BOTH = pytest.mark.parametrize("codec", [MSGPACK, JSON], ids=["msgpack", "json"])


def packed(codec: Codec, values: Any) -> bytes | str:
    """By other libraries than the codec's own encoder."""
    return json.dumps(values) if codec.text_frames else bytes(msgpack.packb(values))


def refusal(codec: Codec, data: bytes | str, **limits: int) -> BadMessage:
    with pytest.raises(BadMessage) as caught:
        codec.decode_client(data, **limits)
    return caught.value


def refused(codec: Codec, values: Any) -> BadMessage:
    return refusal(codec, packed(codec, values))


# Which encoding -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ([], MSGPACK),
        (["saystream.v1.msgpack"], MSGPACK),
        (["saystream.v1.json"], JSON),
        (["saystream.v1.json", "saystream.v1.msgpack"], JSON),
        (["chat", "saystream.v1.json"], JSON),
        (["chat"], None),
    ],
)
def test_the_first_known_sub_protocol_wins(offered: list[str], chosen: Codec | None) -> None:
    assert select_subprotocol(offered) is chosen


def test_a_frame_of_the_other_kind_is_undecodable() -> None:
    assert refusal(MSGPACK, '{"type":"ping"}').undecodable
    assert refusal(JSON, b"\x81\xa4type\xa4ping").undecodable
    assert refusal(JSON, b"\x81\xa4type\xa4ping", message_bytes=3).undecodable


# Bytes that are no map ------------------------------------------------------------------------------------------

NESTED = 100_000
UNDECODABLE = {
    "nothing": b"",
    "reserved byte": b"\xc1",
    "half a map": b"\x82\xa4type",
    "two messages in one": b"\x81\xa4type\xa4ping\x81\xa4type\xa4ping",
    "array of 4 G": b"\xdd\xff\xff\xff\xff",
    "map of 4 G": b"\xdf\xff\xff\xff\xff",
    "text of 4 GB": b"\xdb\xff\xff\xff\xff",
    "bin of 4 GB": b"\xc6\xff\xff\xff\xff",
    "extension of 4 GB": b"\xc9\xff\xff\xff\xff\x05",
    "extension": b"\x82\xa4type\xa4ping\xa1t\xd4\x05\x00",
    "empty extension": b"\x82\xa4type\xa4ping\xa1t\xc7\x00\x05",
    "timestamp": b"\x82\xa4type\xa4ping\xa1t\xd6\xff\x00\x00\x00\x00",
    "nested maps": b"\x81\xa1a" * NESTED + b"\xc0",
    "nested arrays": b"\x91" * NESTED + b"\xc0",
    "nested inside a message": b"\x82\xa4type\xa4ping\xa1x" + b"\x81\xa1a" * NESTED + b"\xc0",
    "a surrogate": b"\x83\xa4type\xa4text\xa2id\xa1a\xa4text\xa3\xed\xa0\xbd",
    "text that isn't UTF-8": b"\x83\xa4type\xa4text\xa2id\xa1a\xa4text\xa1\xff",
    "a number as key": b"\x82\xa4type\xa4ping\x01\x01",
    "a map as key": b"\x82\xa4type\xa4ping\x80\x01",
}
UNDECODABLE_JSON = {
    "nothing": "",
    "half an object": '{"type": "pi',
    "two messages in one": '{"type":"ping"}{"type":"ping"}',
    "NaN": '{"type":"played","id":"a","ms":NaN}',
    "Infinity": '{"type":"played","id":"a","ms":Infinity}',
    "-Infinity": '{"type":"ping","t":-Infinity}',
    "nested objects": '{"a":' * NESTED + "1" + "}" * NESTED,
    "nested arrays": "[" * NESTED + "]" * NESTED,
    "nested inside a message": '{"type":"ping","x":' + "[" * NESTED + "]" * NESTED + "}",
    "a number of 5,000 digits": '{"type":"ping","t":' + "1" * 5000 + "}",
    "a bare control character": '{"type":"ping","t":"\x00"}',
    "single quotes": "{'type':'ping'}",
    "a byte order mark": '\ufeff{"type":"ping"}',
}


@pytest.mark.parametrize("name", UNDECODABLE)
def test_undecodable_bytes_are_a_bad_message_without_id(name: str) -> None:
    error = refusal(MSGPACK, UNDECODABLE[name])
    assert (error.code, error.id, error.type, error.undecodable) == ("bad_message", None, None, True)


@pytest.mark.parametrize("name", UNDECODABLE_JSON)
def test_undecodable_text_is_a_bad_message_without_id(name: str) -> None:
    error = refusal(JSON, UNDECODABLE_JSON[name])
    assert (error.code, error.id, error.type, error.undecodable) == ("bad_message", None, None, True)


def test_headers_that_claim_much_dont_make_memory() -> None:
    claims_all_it_can = b"\xdd\x00\x03\xff\xff" * 50_000
    tracemalloc.start()
    refusal(MSGPACK, claims_all_it_can)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 16 << 20


@BOTH
@pytest.mark.parametrize("values", [None, 1, "text", [], [{"type": "ping"}], True])
def test_what_is_no_map_is_a_bad_message(codec: Codec, values: Any) -> None:
    error = refused(codec, values)
    assert (error.code, error.id, error.undecodable) == ("bad_message", None, False)


@BOTH
@pytest.mark.parametrize("type_", [None, "", "sing", "audio", "Text", 1, ["text"], {"text": 1}])
def test_an_unknown_type_is_a_bad_message_without_id(codec: Codec, type_: Any) -> None:
    error = refused(codec, {"type": type_, "id": "a", "text": "x"})
    assert (error.code, error.id, error.param, error.undecodable) == ("bad_message", None, "type", False)


# Fields ---------------------------------------------------------------------------------------------------------


@BOTH
def test_unknown_keys_are_ignored(codec: Codec) -> None:
    data = packed(codec, {"type": "text", "id": "a", "text": "x", "colour": {"deep": [1, 2.5]}, "id2": 5})
    assert codec.decode_client(data) == Text(id="a", text="x")


@BOTH
def test_null_is_absent(codec: Codec) -> None:
    data = packed(
        codec, {"type": "open", "id": "a", "speed": None, "cache": None, "markup": None, "tag": None}
    )
    assert codec.decode_client(data) == Open(id="a")
    assert codec.decode_client(packed(codec, {"type": "ping", "t": None})) == Ping()
    assert refused(codec, {"type": "text", "id": "a", "text": None}).param == "text"


@BOTH
def test_an_integer_is_a_number_of_milliseconds_too(codec: Codec) -> None:
    assert codec.decode_client(packed(codec, {"type": "played", "id": "a", "ms": 900})) == Played(
        id="a", ms=900.0
    )


@BOTH
@pytest.mark.parametrize("id_", [None, "", "x" * 65, "x" * 10_000, 5, True, ["a"], {"a": 1}])
@pytest.mark.parametrize("type_", ["open", "text", "cancel"])
def test_a_wrong_id_is_a_bad_message_without_id(codec: Codec, type_: str, id_: Any) -> None:
    error = refused(codec, {"type": type_, "id": id_, "text": "x"})
    assert (error.code, error.id, error.param, error.undecodable) == ("bad_message", None, "id", False)


@BOTH
def test_an_id_has_up_to_64_code_points(codec: Codec) -> None:
    assert codec.decode_client(packed(codec, {"type": "end", "id": "😀" * 64})).id == "😀" * 64  # type: ignore[union-attr]


@BOTH
@pytest.mark.parametrize(
    ("values", "param"),
    [
        ({"type": "text", "id": "a"}, "text"),
        ({"type": "text", "id": "a", "text": 5}, "text"),
        ({"type": "text", "id": "a", "text": ["x"]}, "text"),
        ({"type": "flush", "id": "a", "mark": 1.5}, "mark"),
        ({"type": "flush", "id": "a", "mark": "m" * 129}, "mark"),
        ({"type": "cancel", "id": "a", "played_ms": "1"}, "played_ms"),
        ({"type": "cancel", "id": "a", "played_ms": True}, "played_ms"),
        ({"type": "played", "id": "a"}, "ms"),
        ({"type": "played", "id": "a", "ms": -1}, "ms"),
        ({"type": "played", "id": "a", "ms": 5, "state": "stopped"}, "state"),
    ],
)
def test_a_wrong_field_names_the_utterance_and_the_field(
    codec: Codec, values: dict[str, Any], param: str
) -> None:
    error = refused(codec, values)
    assert (error.code, error.id, error.type, error.param) == ("bad_message", "a", values["type"], param)
    assert error.refused_open is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("values", "param"),
    [
        ({"type": "played", "id": "a"}, "ms"),
        ({"type": "cancel", "id": "a"}, "played_ms"),
        ({"type": "open", "id": "a"}, "speed"),
        ({"type": "open", "id": "a"}, "lead_ms"),
        ({"type": "ping"}, "t"),
    ],
)
def test_a_number_that_isnt_finite_is_a_bad_message(values: dict[str, Any], param: str, value: float) -> None:
    error = refused(MSGPACK, {**values, param: value})
    assert (error.code, error.id, error.param) == ("bad_message", values.get("id"), param)


def test_a_json_number_too_large_for_a_float_is_a_bad_message() -> None:
    error = refusal(JSON, '{"type":"played","id":"a","ms":1e999}')
    assert (error.code, error.id, error.param, error.undecodable) == ("bad_message", "a", "ms", False)


@pytest.mark.parametrize("number", [10**30, 10**400, -(10**30)])
def test_a_huge_integer_is_a_bad_message(number: int) -> None:
    for field in ("played", "ping"):
        values = {"type": field, "id": "a", "ms": number, "t": number}
        assert refusal(JSON, json.dumps(values)).code == "bad_message"


def test_not_finite_numbers_in_unknown_keys_are_ignored() -> None:
    data = msgpack.packb({"type": "end", "id": "a", "x": float("nan")})
    assert MSGPACK.decode_client(data).id == "a"  # type: ignore[union-attr]


def test_bin_keys_and_values_arent_text() -> None:
    assert refusal(MSGPACK, msgpack.packb({b"type": "ping"})).code == "bad_message"
    assert refusal(MSGPACK, msgpack.packb({"type": "text", "id": "a", b"text": "x"})).id == "a"
    assert refusal(MSGPACK, msgpack.packb({"type": "text", "id": "a", "text": b"x"})).param == "text"


# open -----------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("value", ["mp3", "S16LE", "", 16, True])
def test_a_format_that_isnt_offered_says_what_is(codec: Codec, value: Any) -> None:
    error = refused(codec, {"type": "open", "id": "a", "format": value})
    assert (error.code, error.id, error.param) == ("unsupported_format", "a", "format")
    assert error.value == ["s16le", "f32le", "mulaw", "alaw"]


@BOTH
@pytest.mark.parametrize("value", [11025, 0, -8000, 8000.5, "8000"])
def test_a_rate_that_isnt_offered_says_what_is(codec: Codec, value: Any) -> None:
    error = refused(codec, {"type": "open", "id": "a", "sample_rate_hz": value})
    assert (error.code, error.id, error.param) == ("unsupported_format", "a", "sample_rate_hz")
    assert error.value == [8000, 16000, 22050, 24000, 44100, 48000]


@BOTH
@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("frame_ms", 9),
        ("frame_ms", 201),
        ("speed", 0),
        ("speed", -1.0),
        ("lead_ms", -1),
        ("wait_ms", -0.5),
        ("markup", "html"),
        ("seed", -1),
        ("tag", "t" * 129),
        ("replaces", ""),
    ],
)
def test_a_value_out_of_range_is_an_invalid_option(codec: Codec, param: str, value: Any) -> None:
    error = refused(codec, {"type": "open", "id": "a", param: value})
    assert (error.code, error.id, error.type, error.param) == ("invalid_option", "a", "open", param)


@BOTH
@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("voice", 5),
        ("engine", ["x"]),
        ("language", True),
        ("frame_ms", "20"),
        ("frame_ms", 20.5),
        ("speed", "fast"),
        ("speed", True),
        ("words", 1),
        ("cache", "no"),
        ("seed", 1.5),
        ("options", [1]),
        ("replaces", 7),
    ],
)
def test_a_value_of_the_wrong_type_is_a_bad_message(codec: Codec, param: str, value: Any) -> None:
    error = refused(codec, {"type": "open", "id": "a", param: value})
    assert (error.code, error.id, error.type, error.param) == ("bad_message", "a", "open", param)


@BOTH
def test_a_wrong_open_still_says_what_it_replaces(codec: Codec) -> None:
    values = {
        "type": "open",
        "id": "b",
        "speed": "fast",
        "replaces": "a",
        "replaced_played_ms": 40,
        "tag": "t",
    }
    assert refused(codec, values).refused_open == RefusedOpen("t", "a", 40.0)
    values |= {"replaces": 5, "replaced_played_ms": -1, "tag": []}
    assert refused(codec, values).refused_open == RefusedOpen(None, None, None)


@BOTH
@given(options=st.dictionaries(st.text(max_size=4), JSON_VALUES, max_size=3))
def test_options_pass_as_they_are(codec: Codec, options: dict[str, Any]) -> None:
    assert codec.decode_client(packed(codec, {"type": "open", "id": "a", "options": options})) == Open(
        id="a", options=options
    )


@pytest.mark.parametrize(
    "value", [float("nan"), [float("inf")], {"deep": [{"deeper": float("-inf")}]}, b"bytes", {"a": {b"b": 1}}]
)
def test_options_hold_only_what_json_holds(value: Any) -> None:
    error = refused(
        MSGPACK, {"type": "open", "id": "a", "options": {"top": 1, "bad": value}, "replaces": "z"}
    )
    assert (error.code, error.id, error.param) == ("invalid_option", "a", "options.bad")
    assert error.refused_open == RefusedOpen(replaces="z")


@BOTH
def test_options_arent_deep(codec: Codec) -> None:
    value: Any = 1
    for _ in range(7):
        value = [value]
    decoded = codec.decode_client(packed(codec, {"type": "open", "id": "a", "options": {"x": value}}))
    assert isinstance(decoded, Open)
    error = refused(codec, {"type": "open", "id": "a", "options": {"x": {"y": value}}})
    assert (error.code, error.param) == ("invalid_option", "options.x")


def test_an_integer_of_more_than_64_bits_is_no_option() -> None:
    error = refused(JSON, {"type": "open", "id": "a", "options": {"n": 2**64}})
    assert (error.code, error.param) == ("invalid_option", "options.n")


# Too long -------------------------------------------------------------------------------------------------------


@BOTH
def test_the_limit_counts_bytes(codec: Codec) -> None:
    data = packed(codec, {"type": "text", "id": "a", "text": "x" * 50})
    assert codec.decode_client(data, message_bytes=len(data)) == Text(id="a", text="x" * 50)
    error = refusal(codec, data, message_bytes=len(data) - 1)
    assert (error.code, error.id, error.type, error.value) == ("message_too_long", "a", "text", len(data) - 1)


def test_json_counts_bytes_of_utf_8() -> None:
    text = json.dumps({"type": "text", "id": "a", "text": "€" * 50}, ensure_ascii=False)
    assert isinstance(JSON.decode_client(text, message_bytes=len(text.encode())), Text)
    assert refusal(JSON, text, message_bytes=len(text.encode()) - 1).code == "message_too_long"


@BOTH
@pytest.mark.parametrize(
    "order", [("type", "id", "text"), ("id", "type", "text"), ("text", "type", "id"), ("type", "text", "id")]
)
def test_a_long_message_says_whose_it_is(codec: Codec, order: tuple[str, ...]) -> None:
    values = {"type": "text", "id": "ä-1", "text": 'long " \\ ' * 20_000}
    error = refusal(codec, packed(codec, {key: values[key] for key in order}), message_bytes=1000)
    assert error.code == "message_too_long"
    assert error.id == "ä-1"


def test_words_in_a_long_text_arent_taken_for_its_id() -> None:
    values = {"text": '","type":"text","id":"b"}' + "x" * 5000, "type": "text", "id": "a"}
    assert refusal(JSON, json.dumps(values), message_bytes=1000).id == "a"
    values = {"text": "x" * 5000 + ',"id":"b"}'}
    assert refusal(JSON, json.dumps(values), message_bytes=1000).id is None


@BOTH
@pytest.mark.parametrize("id_", [5, "", "x" * 65, ["a"]])
def test_a_long_message_with_a_wrong_id_has_none(codec: Codec, id_: Any) -> None:
    error = refusal(codec, packed(codec, {"type": "text", "id": id_, "text": "x" * 5000}), message_bytes=1000)
    assert (error.code, error.id) == ("message_too_long", None)


@pytest.mark.parametrize("data", [b"\xc1" * 5000, b"\xdd\xff\xff\xff\xff" * 1000, b"\x81\xa1a" * 5000])
def test_long_nonsense_is_too_long(data: bytes) -> None:
    error = refusal(MSGPACK, data, message_bytes=1000)
    assert (error.code, error.id) == ("message_too_long", None)


# Torn characters ------------------------------------------------------------------------------------------------


def test_json_text_keeps_its_halves_for_the_conversation() -> None:
    assert JSON.decode_client(r'{"type":"text","id":"a","text":"x\ud83d"}') == Text(id="a", text="x\ud83d")
    assert JSON.decode_client(r'{"type":"text","id":"a","text":"\ude00y"}') == Text(id="a", text="\ude00y")


def test_a_pair_of_escapes_is_one_character() -> None:
    assert JSON.decode_client(r'{"type":"text","id":"a","text":"\ud83d\ude00"}') == Text(id="a", text="😀")


def test_a_half_elsewhere_is_replaced() -> None:
    decoded = JSON.decode_client(
        r'{"type":"open","id":"\ud83d","voice":"\ude00","options":{"\ud83d":["\udfff"]}}'
    )
    assert decoded == Open(id="\ufffd", voice="\ufffd", options={"\ufffd": ["\ufffd"]})


@BOTH
def test_half_a_character_is_never_sent(codec: Codec) -> None:
    assert codec.decode_client(codec.encode_client(Text(id="a", text="x\ud83d"))) == Text(
        id="a", text="x\ufffd"
    )
    error = WireError(code="internal", message="\udcff.wav", retryable=False, value=["\ud83d"])
    decoded = codec.decode_server(codec.encode_server(error))
    assert decoded == WireError(code="internal", message="\ufffd.wav", retryable=False, value=["\ufffd"])


# Anything -------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_any_bytes_give_a_message_or_a_bad_message(data: bytes) -> None:
    for decode in (MSGPACK.decode_client, MSGPACK.decode_server):
        try:
            decode(data)
        except BadMessage:
            pass


@given(st.text(max_size=100) | JSON_VALUES.map(json.dumps))
def test_any_text_gives_a_message_or_a_bad_message(data: str) -> None:
    for decode in (JSON.decode_client, JSON.decode_server):
        try:
            decode(data)
        except BadMessage:
            pass


KNOWN_KEYS = st.sampled_from(
    sorted({name for cls in CLIENT_TYPES for name in cls.__struct_fields__} | {"type"})
)
WILD = (
    JSON_VALUES
    | st.binary(max_size=4)
    | st.floats()
    | st.sampled_from(["a", "open", "text", "played", "cancel"])
)


@given(
    st.dictionaries(KNOWN_KEYS, WILD, max_size=5),
    st.sampled_from([cls.__struct_config__.tag for cls in CLIENT_TYPES]),
    st.integers(1, 200),
)
def test_any_map_of_known_keys_gives_a_message_or_a_bad_message(
    values: dict[str, Any], type_: str, message_bytes: int
) -> None:
    for codec, data in (
        (MSGPACK, bytes(msgpack.packb({"type": type_, **values}))),
        (JSON, json.dumps({"type": type_, **values}, default=str)),
    ):
        for limits in ({}, {"message_bytes": message_bytes}):
            try:
                codec.decode_client(data, **limits)
            except BadMessage as error:
                assert error.id is None or 1 <= len(error.id) <= 64  # noqa: PT017 - it may also decode


@given(CLIENT_MESSAGES, st.data())
def test_a_flipped_bit_gives_a_message_or_a_bad_message(message: Any, data: st.DataObject) -> None:
    packed_message = MSGPACK.encode_client(message)
    assert isinstance(packed_message, bytes)
    position = data.draw(st.integers(0, len(packed_message) - 1))
    flipped = bytearray(packed_message)
    flipped[position] ^= 1 << data.draw(st.integers(0, 7))
    for cut in (bytes(flipped), bytes(flipped[:position])):
        try:
            MSGPACK.decode_client(cut)
        except BadMessage:
            pass


def test_wide_messages_are_refused_or_ignored_in_bounded_time() -> None:
    wide = b"\x82\xa4type\xa4ping\xa1x\xdd" + struct.pack(">I", 500_000) + b"\x90" * 500_000
    assert refusal(MSGPACK, wide).undecodable
    assert JSON.decode_client('{"type":"ping","x":[' + "[]," * 100_000 + "[]]}") == Ping()


@BOTH
def test_cancel_is_small(codec: Codec) -> None:
    assert codec.decode_client(packed(codec, {"type": "cancel", "id": "a"})) == Cancel(id="a")
