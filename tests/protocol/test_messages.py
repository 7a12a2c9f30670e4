"""Every message of the wire, both ways, in both encodings; the expected bytes come from other libraries."""

import base64
import json
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.codec import JSON, MSGPACK, Codec
from protocol.messages import (
    Audio,
    ClientMessage,
    Done,
    Heard,
    HeardText,
    Open,
    Ping,
    Pong,
    ServerMessage,
    Text,
)
from tests.protocol.strategies import (
    CLIENT_MESSAGES,
    CLIENT_TYPES,
    SERVER_MESSAGES,
    SERVER_TYPES,
    messages_of,
)

BOTH = pytest.mark.parametrize("codec", [MSGPACK, JSON], ids=["msgpack", "json"])


@BOTH
@given(message=CLIENT_MESSAGES)
def test_a_client_message_comes_back_as_it_was(codec: Codec, message: ClientMessage) -> None:
    assert codec.decode_client(codec.encode_client(message)) == message


@BOTH
@given(message=SERVER_MESSAGES)
def test_a_server_message_comes_back_as_it_was(codec: Codec, message: ServerMessage) -> None:
    assert codec.decode_server(codec.encode_server(message)) == message


@pytest.mark.parametrize("cls", [*CLIENT_TYPES, *SERVER_TYPES], ids=lambda cls: cls.__name__)
@given(data=st.data())
def test_other_libraries_read_what_is_written(cls: type[Any], data: st.DataObject) -> None:
    message = data.draw(messages_of(cls))
    encode = (
        (MSGPACK.encode_client, JSON.encode_client)
        if cls in CLIENT_TYPES
        else (MSGPACK.encode_server, JSON.encode_server)
    )
    packed, text = encode[0](message), encode[1](message)
    assert isinstance(packed, bytes)
    assert isinstance(text, str)
    from_msgpack, from_json = msgpack.unpackb(packed), json.loads(text)
    if cls is Audio:
        assert isinstance(from_msgpack["pcm"], bytes)
        from_json["pcm"] = base64.b64decode(from_json["pcm"], validate=True)
    assert from_msgpack == from_json
    assert from_msgpack["type"] == cls.__struct_config__.tag


@BOTH
def test_what_isnt_said_isnt_sent(codec: Codec) -> None:
    data = codec.encode_client(Open(id="a"))
    plain = msgpack.unpackb(data) if isinstance(data, bytes) else json.loads(data)
    assert plain == {"type": "open", "id": "a"}


def test_a_message_is_one_map_with_bin_for_pcm() -> None:
    assert MSGPACK.encode_server(Audio(id="a", seq=1, at_sample=2, pcm=b"\0\1")) == (
        b"\x85\xa4type\xa5audio\xa2id\xa1a\xa3seq\x01\xa9at_sample\x02\xa3pcm\xc4\x02\x00\x01"
    )


def test_json_has_padded_base64() -> None:
    assert json.loads(JSON.encode_server(Audio(id="a", seq=0, at_sample=0, pcm=b"\xff")))["pcm"] == "/w=="


@BOTH
def test_an_absent_t_is_absent_in_the_answer(codec: Codec) -> None:
    assert codec.decode_client(codec.encode_client(Ping())) == Ping()
    data = codec.encode_server(Pong())
    assert (msgpack.unpackb(data) if isinstance(data, bytes) else json.loads(data)) == {"type": "pong"}


def test_messages_cant_be_changed() -> None:
    message = Text(id="a", text="b")
    with pytest.raises(AttributeError):
        message.text = "c"  # type: ignore[misc]


def test_heard_says_the_same_alone_and_in_done() -> None:
    alone = {field.name for field in msgspec.structs.fields(Heard)} - {"id"}
    assert alone == {field.name for field in msgspec.structs.fields(HeardText)}
    assert "heard" in Done.__struct_fields__
