"""Hypothesis strategies made from the message types themselves, so that a new field is tested without a word."""

import math
from typing import Any, get_args

import msgspec
from hypothesis import strategies as st
from msgspec import inspect as facts

from protocol.messages import ClientMessage, ServerMessage

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def values_of(info: facts.Type) -> st.SearchStrategy[Any]:
    match info:
        case facts.AnyType():
            return JSON_VALUES
        case facts.NoneType():
            return st.none()
        case facts.BoolType():
            return st.booleans()
        case facts.IntType():
            low = -(2**63) if info.ge is None else info.ge
            return st.integers(low, 2**63 - 1 if info.le is None else info.le)
        case facts.FloatType():
            return st.floats(
                info.gt if info.ge is None else info.ge,
                info.le,
                exclude_min=info.gt is not None,
                allow_nan=False,
                allow_infinity=False,
            )
        case facts.StrType():
            return st.text(min_size=info.min_length or 0, max_size=min(info.max_length or 12, 128))
        case facts.BytesType():
            return st.binary(max_size=64)
        case facts.LiteralType():
            return st.sampled_from(info.values)
        case facts.ListType():
            return st.lists(values_of(info.item_type), max_size=4)
        case facts.TupleType():
            return st.tuples(*(values_of(part) for part in info.item_types))
        case facts.DictType():
            return st.dictionaries(values_of(info.key_type), values_of(info.value_type), max_size=3)
        case facts.UnionType():
            return st.one_of(*(values_of(part) for part in info.types))
        case facts.StructType():
            return structs_of(info)
        case _:
            raise NotImplementedError(info)


def structs_of(info: facts.StructType) -> st.SearchStrategy[Any]:
    required = {f.name: values_of(f.type) for f in info.fields if f.required}
    optional = {f.name: values_of(f.type) for f in info.fields if not f.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: info.cls(**values))


def messages_of(cls: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    info = facts.type_info(cls)
    assert isinstance(info, facts.StructType)
    return structs_of(info)


CLIENT_TYPES: tuple[type[msgspec.Struct], ...] = get_args(ClientMessage)
SERVER_TYPES: tuple[type[msgspec.Struct], ...] = get_args(ServerMessage)
CLIENT_MESSAGES: st.SearchStrategy[ClientMessage] = st.one_of(*map(messages_of, CLIENT_TYPES))
SERVER_MESSAGES: st.SearchStrategy[ServerMessage] = st.one_of(*map(messages_of, SERVER_TYPES))
NOT_FINITE = (math.nan, math.inf, -math.inf)
