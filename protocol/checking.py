"""From plain values, as they come out of an encoding, to typed messages."""

import math
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct

from protocol.errors import BadMessage, ErrorCode, RefusedOpen
from protocol.messages import ClientMessage, Format, Id, Ms, Open, SampleRate, ServerMessage, Tag

MAX_OPTIONS_DEPTH: Final = 8
MAX_OPTIONS_VALUES: Final = 1024
"""In all."""
_MAX_REASON_CHARS: Final = 200
"""msgspec quotes a wrong value, however long; what is sent back doesn't."""
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_OFFERED: Mapping[str, tuple[object, ...]] = MappingProxyType(
    {"format": get_args(Format), "sample_rate_hz": get_args(SampleRate)}
)
T = TypeVar("T")


def _by_tag(union: Any) -> Mapping[str, type[Struct]]:
    return MappingProxyType({cls.__struct_config__.tag: cls for cls in get_args(union)})


CLIENT_TYPES = _by_tag(ClientMessage)
SERVER_TYPES = _by_tag(ServerMessage)


def check_client(values: object) -> ClientMessage:
    """Raises BadMessage."""
    message: ClientMessage = _check(values, CLIENT_TYPES)
    if isinstance(message, Open) and message.options:
        _check_options(message)
    return message


def check_server(values: object) -> ServerMessage:
    """Raises BadMessage."""
    message: ServerMessage = _check(values, SERVER_TYPES)
    return message


def valid_id(value: object) -> str | None:
    return _valid(value, Id)


def _check(values: object, types: Mapping[str, type[Struct]]) -> Any:
    if not isinstance(values, dict):
        raise BadMessage("bad_message", "a message is a map")
    tag = values.get("type")
    cls = types.get(tag) if isinstance(tag, str) else None
    if cls is None:
        raise BadMessage(
            "bad_message", "the type isn't known" if tag else "a message has a type", param="type"
        )
    if None in values.values():
        values = {name: value for name, value in values.items() if value is not None}
    try:
        message = msgspec.convert(values, cls)
    except (msgspec.ValidationError, RecursionError, OverflowError) as error:
        raise _explain(values, cls, str(error)) from None
    for name in _float_fields(cls):
        if not _finite(values.get(name)):
            raise _bad(values, cls, "bad_message", f"{name} isn't a finite number", name)
    return message


@cache
def _float_fields(cls: type[Struct]) -> tuple[str, ...]:
    """The fields that a float can hide in. msgspec lets NaN and infinity pass."""
    return tuple(
        field.name
        for field in msgspec.structs.fields(cls)
        if field.name != "options" and any(part is float or part is Any for part in _parts(field.type))
    )


def _parts(hint: Any) -> Iterator[Any]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        for field in msgspec.structs.fields(hint):
            yield from _parts(field.type)
    elif get_origin(hint) is None:
        yield hint
    elif get_origin(hint) is not Literal:
        for part in get_args(hint):
            yield from _parts(part)


def _finite(value: object) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(_finite(part) for part in value.values())
        case list():
            return all(_finite(part) for part in value)
        case _:
            return True


# What is wrong, for the one who sent it ------------------------------------------------------------------------


def _explain(values: dict[Any, Any], cls: type[Struct], reason: str) -> BadMessage:
    for field in msgspec.structs.fields(cls):
        if field.name not in values:
            if field.default is NODEFAULT and field.default_factory is NODEFAULT:
                return _bad(values, cls, "bad_message", f"{field.name} is missing", field.name)
            continue
        value = values[field.name]
        try:
            msgspec.convert(value, field.type)
        except (msgspec.ValidationError, RecursionError, OverflowError) as error:
            code = _code(cls, field.name, field.type, value)
            return _bad(values, cls, code, f"{field.name}: {error}", field.name)
    return _bad(values, cls, "bad_message", reason, None)


def _code(cls: type[Struct], name: str, hint: Any, value: object) -> ErrorCode:
    if cls is not Open or name == "id":
        return "bad_message"
    if name in _OFFERED:
        return "unsupported_format"
    right_type = _finite(value) and _valid(value, _without_bounds(hint)) is not None
    return "invalid_option" if right_type else "bad_message"


def _bad(
    values: dict[Any, Any], cls: type[Struct], code: ErrorCode, reason: str, param: str | None
) -> BadMessage:
    id_ = valid_id(values.get("id"))
    refused = None
    if cls is Open and id_ is not None:
        refused = RefusedOpen(
            tag=_valid(values.get("tag"), Tag),
            replaces=valid_id(values.get("replaces")),
            replaced_played_ms=_valid(values.get("replaced_played_ms"), Ms),
        )
    return BadMessage(
        code,
        reason[:_MAX_REASON_CHARS],
        id=id_,
        type=str(cls.__struct_config__.tag),
        param=param,
        value=list(_OFFERED[param]) if code == "unsupported_format" and param is not None else None,
        refused_open=refused,
    )


def _valid(value: object, hint: type[T]) -> T | None:
    """None if it isn't; hint is never optional."""
    try:
        converted = msgspec.convert(value, hint)
    except (msgspec.ValidationError, RecursionError, OverflowError):
        return None
    return converted if _finite(converted) else None


def _without_bounds(hint: Any) -> Any:
    """The same type, any value of it: for `Annotated[int, ...]`, int."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _without_bounds(get_args(hint)[0])
    if origin is Literal:
        return type(get_args(hint)[0])
    if origin in (Union, UnionType):
        return Union[tuple(_without_bounds(part) for part in get_args(hint) if part is not NoneType)]  # noqa: UP007 - built at run time
    return hint


def _check_options(message: Open) -> None:
    """The engine judges its options; here only that they are plain, finite and not deep."""
    options = message.options or {}
    left = MAX_OPTIONS_VALUES - len(options)
    for name, option in options.items():
        fault, left = _option_fault(option, left)
        if fault is not None:
            raise BadMessage(
                "invalid_option",
                f"option {name[:64]} {fault}",
                id=message.id,
                type="open",
                param=f"options.{name[:64]}",
                refused_open=RefusedOpen(message.tag, message.replaces, message.replaced_played_ms),
            )


def _option_fault(option: object, left: int) -> tuple[str | None, int]:
    """What is wrong with it, and how many values there may still be after it."""
    level: list[object] = [option]
    for _ in range(MAX_OPTIONS_DEPTH):
        below: list[object] = []
        for value in level:
            match value:
                case None | bool() | str():
                    pass
                case int():
                    if not _INT_MIN <= value <= _INT_MAX:
                        return "has a number of more than 64 bits", left
                case float():
                    if not math.isfinite(value):
                        return "isn't a finite number", left
                case list():
                    below.extend(value)
                case dict():
                    if not all(isinstance(key, str) for key in value):
                        return "has a key that isn't text", left
                    below.extend(value.values())
                case _:
                    return "is of a type that JSON doesn't know", left
        left -= len(below)
        if left < 0:
            return "holds too much", left
        if not below:
            return None, left
        level = below
    return "is nested too deep", left
