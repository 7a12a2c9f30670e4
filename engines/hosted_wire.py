"""What goes over the socket pair between a hosted engine's two ends: length, JSON header, raw bytes.

Needs only the standard library and numpy, and runs on Python 3.10 with numpy 1.26: the child's environment is the
engine's own.
"""

import json
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from engines.contract import (
    BuiltinVoice,
    Chunk,
    EngineError,
    EngineFault,
    EngineUnavailable,
    Facts,
    Info,
    ModelLost,
    OptionError,
    Request,
    Source,
    VoiceUnavailable,
)
from engines.downloads import Download
from voices.reference import Reference

VERSION = 2
"""Both ends say it; they don't talk to another one."""
_LENGTHS = struct.Struct("!II")
_MOST_HEADER_BYTES = 16 << 20
_MOST_BODY_BYTES = 1 << 30
_PIECE_BYTES = 1 << 20

_VALUES: Mapping[str, Callable[..., Any]] = {
    kind.__name__: kind for kind in (BuiltinVoice, Chunk, Download, Facts, Info, Reference, Request, Source)
}
_ERRORS: Mapping[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (VoiceUnavailable, ModelLost, EngineFault, EngineError, EngineUnavailable, OptionError)
}
"""The closest first."""


class Closed(ConnectionError):  # noqa: N818 - named by situation
    """The other end is gone."""


class Broken(ConnectionError):  # noqa: N818 - named by situation
    """The other end doesn't speak this."""


class Wire:
    """One end. A message is one value of JSON's kinds, the contract's dataclasses, bytes or float32 arrays."""

    def __init__(self, end: socket.socket, *, options: type | None = None) -> None:
        self._end = end
        self.options = options
        """What `Request.options` are an instance of."""

    def send(self, value: Any, deadline_s: float | None = None) -> None:
        """Raises Closed, or TimeoutError past `deadline_s` (of the monotonic clock)."""
        body: list[bytes] = []
        header = json.dumps(_encode(value, body), separators=(",", ":")).encode()
        lengths = _LENGTHS.pack(len(header), sum(map(len, body)))
        try:
            self._end.settimeout(_left_s(deadline_s))
            self._end.sendall(b"".join((lengths, header, *body)))
        except TimeoutError:
            raise
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self, deadline_s: float | None = None) -> Any:
        """Raises Closed, Broken, or TimeoutError past `deadline_s`."""
        header_bytes, body_bytes = _LENGTHS.unpack(self._read(_LENGTHS.size, deadline_s))
        if header_bytes > _MOST_HEADER_BYTES or body_bytes > _MOST_BODY_BYTES:
            raise Broken(f"a message of {header_bytes} and {body_bytes} bytes")
        header, body = self._read(header_bytes, deadline_s), self._read(body_bytes, deadline_s)
        try:
            return _Decoder(body, self.options).decode(json.loads(header))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise Broken(f"a message that can't be read: {error}") from error

    def close(self) -> None:
        self._end.close()

    def _read(self, size_bytes: int, deadline_s: float | None) -> bytearray:
        read = bytearray()
        while len(read) < size_bytes:
            try:
                self._end.settimeout(_left_s(deadline_s))
                piece = self._end.recv(min(size_bytes - len(read), _PIECE_BYTES))
            except TimeoutError:
                raise
            except OSError as error:
                raise Closed(str(error)) from error
            if not piece:
                raise Closed("end of file")
            read += piece
        return read


def _left_s(deadline_s: float | None) -> float | None:
    if deadline_s is None:
        return None
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


# What JSON doesn't know is an object with one key that begins with a dollar sign; a plain mapping is one, too.


def _encode(value: Any, body: list[bytes]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_encode(item, body) for item in value]
    if isinstance(value, tuple):
        return {"$tuple": [_encode(item, body) for item in value]}
    if isinstance(value, (frozenset, set)):
        return {"$set": sorted(value)}
    if isinstance(value, Mapping):
        return {"$map": [[_encode(key, body), _encode(item, body)] for key, item in value.items()]}
    if isinstance(value, (bytes, bytearray)):
        body.append(bytes(value))
        return {"$bytes": len(value)}
    if isinstance(value, np.ndarray):
        raw = np.ascontiguousarray(value, np.float32).tobytes()
        body.append(raw)
        return {"$samples": len(raw)}
    if isinstance(value, Exception):
        return {"$error": _described(value)}
    if is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__
        content = {item.name: _encode(_plain(value, item.name), body) for item in fields(value)}
        return {f"${name}" if name in _VALUES else "$options": content}
    raise TypeError(f"{type(value).__name__} can't cross to another process")


def _plain(value: Any, name: str) -> Any:
    """The options' type is the one thing of an engine that can't cross; both ends have it."""
    return None if isinstance(value, Info) and name == "options" else getattr(value, name)


def _described(error: Exception) -> list[str]:
    for name, kind in _ERRORS.items():
        if isinstance(error, kind):
            return [name, str(error), *([error.param] if isinstance(error, OptionError) else [])]
    return ["other", f"{type(error).__name__}: {error}"]


class _Decoder:
    def __init__(self, body: bytearray, options: type | None) -> None:
        self._body = memoryview(body)
        self._at = 0
        self._options = options

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        ((tag, content),) = value.items()
        if tag == "$tuple":
            return tuple(self.decode(content))
        if tag == "$set":
            return frozenset(content)
        if tag == "$map":
            return {self.decode(key): self.decode(item) for key, item in content}
        if tag == "$bytes":
            return self._take(content).tobytes()
        if tag == "$samples":
            return np.frombuffer(self._take(content), np.float32).copy()
        if tag == "$error":
            return _error(*content)
        return self._instance(tag, content)

    def _instance(self, tag: str, content: Mapping[str, Any]) -> Any:
        values = {name: self.decode(item) for name, item in content.items()}
        if tag != "$options":
            return _VALUES[tag[1:]](**values)
        if self._options is None:
            raise TypeError("options of an engine that has none")
        return self._options(**values)

    def _take(self, size_bytes: int) -> memoryview:
        piece = self._body[self._at : self._at + size_bytes]
        if len(piece) != size_bytes:
            raise ValueError("a body that is too short")
        self._at += size_bytes
        return piece


def _error(name: str, message: str, param: str = "") -> Exception:
    if name == OptionError.__name__:
        return OptionError(param, message)
    return _ERRORS.get(name, EngineFault)(message)
