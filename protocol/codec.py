"""The two encodings of a message, and which one a connection speaks."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Never, cast

import msgpack
import msgspec

from protocol.checking import check_client, check_server, valid_id
from protocol.errors import BadMessage
from protocol.messages import ClientMessage, ServerMessage
from protocol.surrogates import has_surrogates, mend

_CLIENT_ITEMS: Final = 1024
"""Of an array or a map. msgpack allocates what an array's header claims, once for each of up to 1024 levels."""
_SERVER_ITEMS: Final = 16_384
_PEEK_KEYS: Final = 8
"""How many keys of a message that is too long are looked at for its id."""
_PEEK_CHARS: Final = 512

Message = ClientMessage | ServerMessage
Peeked = tuple[object, object]
"""The type and the id, where they can be read cheaply."""


class Codec:
    """Stateless; one for all connections. Decoding raises BadMessage and nothing else, in bounded time."""

    def __init__(
        self,
        *,
        subprotocol: str,
        text_frames: bool,
        encode: Callable[[Message | Any], bytes | str],
        unpack: Callable[[bytes | str, int], object],
        peek: Callable[[bytes | str], Peeked],
    ) -> None:
        self.subprotocol = subprotocol
        self.text_frames = text_frames
        self._encode = encode
        self._unpack = unpack
        self._peek = peek

    def __repr__(self) -> str:
        return f"<Codec {self.subprotocol}>"

    def encode_server(self, message: ServerMessage) -> bytes | str:
        try:
            return self._encode(message)
        except UnicodeEncodeError:
            return self._encode(_mended(message))

    def encode_client(self, message: ClientMessage) -> bytes | str:
        """Half a character becomes U+FFFD; ClientConversation.send joins those that an increment tore apart."""
        try:
            return self._encode(message)
        except UnicodeEncodeError:
            return self._encode(_mended(message))

    def decode_client(self, data: bytes | str, *, message_bytes: int | None = None) -> ClientMessage:
        """In JSON, `text` may still hold half a character at either end; ServerConversation.receive joins them."""
        self._check_kind(data)
        if message_bytes is not None and _longer(data, message_bytes):
            type_, id_ = self._peek(data)
            fault = f"a message has at most {message_bytes} bytes"
            known = type_ if isinstance(type_, str) else None
            raise BadMessage("message_too_long", fault, id=valid_id(id_), type=known, value=message_bytes)
        return check_client(self._plain(data, _CLIENT_ITEMS))

    def decode_server(self, data: bytes | str) -> ServerMessage:
        self._check_kind(data)
        return check_server(self._plain(data, _SERVER_ITEMS))

    def _check_kind(self, data: bytes | str) -> None:
        if isinstance(data, str) is not self.text_frames:
            kind = "text" if self.text_frames else "binary"
            raise BadMessage("bad_message", f"{self.subprotocol} uses {kind} frames", undecodable=True)

    def _plain(self, data: bytes | str, items: int) -> object:
        try:
            return self._unpack(data, items)
        except (ValueError, RecursionError) as error:
            reason = str(error)[:200] or type(error).__name__
            raise BadMessage("bad_message", f"can't be decoded: {reason}", undecodable=True) from None


def _longer(data: bytes | str, limit_bytes: int) -> bool:
    if isinstance(data, bytes) or data.isascii() or len(data) > limit_bytes:
        return len(data) > limit_bytes
    return 4 * len(data) > limit_bytes and len(data.encode("utf-8", "surrogatepass")) > limit_bytes


def _mended(message: Message) -> Any:
    return _mend_all(msgspec.to_builtins(message, builtin_types=(bytes,)))


def _mend_all(value: Any) -> Any:
    match value:
        case str():
            return mend(value)
        case dict():
            return {_mend_all(key): _mend_all(part) for key, part in value.items()}
        case list() | tuple():
            return [_mend_all(part) for part in value]
        case _:
            return value


# MessagePack ----------------------------------------------------------------------------------------------------


def _unpack_msgpack(data: bytes | str, items: int) -> object:
    return msgpack.unpackb(
        data,
        strict_map_key=True,
        ext_hook=_refuse_ext,
        max_ext_len=0,
        max_array_len=items,
        max_map_len=items,
    )


def _refuse_ext(code: int, data: bytes) -> Never:
    del data
    raise ValueError(f"extension type {code}")


def _peek_msgpack(data: bytes | str) -> Peeked:
    found: dict[str, Any] = {}
    unpacker = msgpack.Unpacker(max_buffer_size=len(data), ext_hook=_refuse_ext, max_ext_len=0)
    try:
        unpacker.feed(data)
        for _ in range(min(unpacker.read_map_header(), _PEEK_KEYS)):
            key = unpacker.unpack()
            if key in ("type", "id"):
                found[key] = unpacker.unpack()
            else:
                unpacker.skip()
    except (ValueError, RecursionError, TypeError, msgpack.OutOfData):
        return None, None
    return found.get("type"), found.get("id")


# JSON -----------------------------------------------------------------------------------------------------------


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} isn't JSON")


_JSON_ENCODER = msgspec.json.Encoder()
_JSON_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _encode_json(message: Message | Any) -> str:
    return _JSON_ENCODER.encode(message).decode()


def _unpack_json(data: bytes | str, items: int) -> object:
    del items
    text = cast("str", data)
    values = _JSON_DECODER.decode(text)
    if not has_surrogates(text):
        return values
    if isinstance(values, dict) and values.get("type") == "text" and isinstance(values.get("text"), str):
        return {**_mend_all(values), "text": values["text"]}
    return _mend_all(values)


_PAIR = r'"(type|id)"\s*:\s*"((?:[^"\\]|\\.){1,384})"\s*'
_HEAD = re.compile(rf"\s*\{{\s*{_PAIR},\s*(?:{_PAIR},)?")
_TAIL = re.compile(rf",\s*{_PAIR}(?:,\s*{_PAIR})?\}}\s*$")


def _peek_json(data: bytes | str) -> Peeked:
    """From the first and the last two keys; inside a string there is no bare quote."""
    text = cast("str", data)
    found: dict[str, str] = {}
    for match in (_TAIL.search(text[-_PEEK_CHARS:]), _HEAD.match(text[:_PEEK_CHARS])):
        for key, value in () if match is None else (match.group(1, 2), match.group(3, 4)):
            if key is not None:
                try:
                    found[key] = mend(_JSON_DECODER.decode(f'"{value}"'))
                except ValueError:
                    return None, None
    return found.get("type"), found.get("id")


MSGPACK: Final = Codec(
    subprotocol="saystream.v1.msgpack",
    text_frames=False,
    encode=msgspec.msgpack.Encoder().encode,
    unpack=_unpack_msgpack,
    peek=_peek_msgpack,
)
JSON: Final = Codec(
    subprotocol="saystream.v1.json",
    text_frames=True,
    encode=_encode_json,
    unpack=_unpack_json,
    peek=_peek_json,
)
CODECS: Final = {codec.subprotocol: codec for codec in (MSGPACK, JSON)}


def select_subprotocol(offered: Sequence[str]) -> Codec | None:
    """The first known one that a client offers, MessagePack if it offers none; None: it offers only unknown ones."""
    if not offered:
        return MSGPACK
    return next((CODECS[name] for name in offered if name in CODECS), None)
