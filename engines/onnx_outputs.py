"""Makes an inner tensor of an ONNX model readable, by bytes alone.

A serialised protobuf message may be followed by more of itself: fields that repeat are appended. So one more
graph output is a few bytes at the end of the file, and finding its name is a walk over the nodes; the `onnx`
package isn't needed. Field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from collections.abc import Iterator

_LENGTH_DELIMITED = 2
_WIDTHS_BYTES = {1: 8, 5: 4}
_MODEL_GRAPH = 7
_GRAPH_NODE = 1
_GRAPH_OUTPUT = 12
_NODE_INPUT = 1
_NODE_OP_TYPE = 4
_VALUE_NAME = 1
_VALUE_TYPE = 2
_TYPE_TENSOR = 1
_TENSOR_OF_INT64 = b"\x08\x07"


def input_of(model: bytes, op_type: str) -> str:
    """The name of the first input of the only node of this type. Raises ValueError if there isn't just one."""
    wanted = op_type.encode()
    found = [
        node_fields[_NODE_INPUT]
        for graph in _fields(memoryview(model), _MODEL_GRAPH)
        for node in _fields(graph, _GRAPH_NODE)
        if (node_fields := _first_fields(node)).get(_NODE_OP_TYPE) == wanted
    ]
    if len(found) != 1:
        raise ValueError(f"the model has {len(found)} {op_type} nodes, not one")
    return found[0].decode()


def with_int64_output(model: bytes, name: str) -> bytes:
    """The same model with the int64 tensor `name` as its last output."""
    tensor = _field(_VALUE_TYPE, _field(_TYPE_TENSOR, _TENSOR_OF_INT64))
    return model + _field(_MODEL_GRAPH, _field(_GRAPH_OUTPUT, _field(_VALUE_NAME, name.encode()) + tensor))


def _first_fields(message: memoryview) -> dict[int, bytes]:
    fields: dict[int, bytes] = {}
    for number, content in _walk(message):
        fields.setdefault(number, bytes(content))
    return fields


def _fields(message: memoryview, wanted: int) -> Iterator[memoryview]:
    return (content for number, content in _walk(message) if number == wanted)


def _walk(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The length-delimited fields of a message: their numbers and contents."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            size, at = _read_varint(message, at)
            yield tag >> 3, message[at : at + size]
            at += size
        elif kind in _WIDTHS_BYTES:
            at += _WIDTHS_BYTES[kind]
        elif kind == 0:
            _, at = _read_varint(message, at)
        else:
            raise ValueError(f"not a serialised ONNX model: wire type {kind} at byte {at}")


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
