"""An ONNX file without the data of its large tensors, which stay where they are: little is parsed, and nothing is copied.

A file is a message of protobuf: fields, each a key (number and wire type) and a value, which for a message, a text or bytes is
its length and then the bytes themselves (protobuf.dev/programming-guides/encoding). Only messages on the way to large tensors
are looked into. All else stays as it is, and a file that is not written in the usual way is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

LARGE = 1 << 12
"""Bytes: of data that stay in the file, and of messages that are looked into."""

_INSIDE: Mapping[type, Mapping[int, type]] = {
    ModelProto: {ModelProto.GRAPH_FIELD_NUMBER: GraphProto, ModelProto.FUNCTIONS_FIELD_NUMBER: FunctionProto},
    GraphProto: {GraphProto.NODE_FIELD_NUMBER: NodeProto, GraphProto.INITIALIZER_FIELD_NUMBER: TensorProto,
                 GraphProto.SPARSE_INITIALIZER_FIELD_NUMBER: SparseTensorProto},
    FunctionProto: {FunctionProto.NODE_FIELD_NUMBER: NodeProto},
    NodeProto: {NodeProto.ATTRIBUTE_FIELD_NUMBER: AttributeProto},
    AttributeProto: {AttributeProto.T_FIELD_NUMBER: TensorProto, AttributeProto.TENSORS_FIELD_NUMBER: TensorProto,
                     AttributeProto.G_FIELD_NUMBER: GraphProto, AttributeProto.GRAPHS_FIELD_NUMBER: GraphProto},
    SparseTensorProto: {SparseTensorProto.VALUES_FIELD_NUMBER: TensorProto,
                        SparseTensorProto.INDICES_FIELD_NUMBER: TensorProto},
    TensorProto: {},
}
"""Message -> the fields of it that may hold tensors, with the message that each is."""

_DATA = TensorProto.RAW_DATA_FIELD_NUMBER

_ONCE = {(ModelProto, ModelProto.GRAPH_FIELD_NUMBER), (AttributeProto, AttributeProto.T_FIELD_NUMBER),
         (AttributeProto, AttributeProto.G_FIELD_NUMBER), (SparseTensorProto, SparseTensorProto.VALUES_FIELD_NUMBER),
         (SparseTensorProto, SparseTensorProto.INDICES_FIELD_NUMBER), (TensorProto, _DATA)}
"""Fields of which a message has one. Of several, protobuf merges the contents, which cannot be done if they are elsewhere."""

_DEPTH = 100
"""Of messages in messages; protobuf itself refuses more."""


class Unusual(ValueError):
    """The file is broken, or written in a way that no writer uses."""


def outline(data: memoryview, place: str) -> bytes:
    """The model in the bytes of a file, its large raw data replaced by a reference: as external data in the file `place`, whose
    offsets are those of `data`. Raises Unusual."""
    return b"".join(_message(data, 0, len(data), ModelProto, place, 0))


def _message(data: memoryview, start: int, stop: int, kind: type, place: str, depth: int) -> list[bytes | memoryview]:
    """The pieces of a message."""
    if depth > _DEPTH:
        raise Unusual("too deep")
    inside, pieces, last, kept = _INSIDE[kind], list[bytes | memoryview](), list[bytes](), start
    once = set[int]()
    for number, begin, first, end in _fields(data, start, stop):
        if (kind, number) in _ONCE:
            if number in once:
                raise Unusual(f"field {number} of {kind.__name__} twice")
            once.add(number)
        if first < 0 or end - first < LARGE:
            continue
        if number in inside:
            inner = _message(data, first, end, inside[number], place, depth + 1)
            new = [_key(number), _varint(sum(map(len, inner))), *inner]
        elif kind is TensorProto and number == _DATA:
            new, last = [], [_reference(place, first, end - first)]  # last, as the file may say that the data are here
        else:
            continue
        pieces += [data[kept:begin], *new]
        kept = end
    return [*pieces, data[kept:stop], *last]


def _fields(data: memoryview, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Of each field its number, where it begins, where its contents begin (-1 if they have no length of their own) and end."""
    while at < stop:
        begin = at
        key, at = _read(data, at, stop)
        first, wire = -1, key & 7
        if wire == 0:
            _, at = _read(data, at, stop)
        elif wire == 2:
            length, first = _read(data, at, stop)
            at = first + length
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise Unusual(f"wire type {wire}")
        if at > stop:
            raise Unusual("cut short")
        yield key >> 3, begin, first, at


def _read(data: memoryview, at: int, stop: int) -> tuple[int, int]:
    """A number of variable length, and where it ends: seven bits a byte, the lowest first; the eighth says that more follow."""
    value = shift = 0
    while at < stop and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise Unusual("cut short")


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _key(number: int) -> bytes:
    """Of a field whose value has a length."""
    return _varint(number << 3 | 2)


def _reference(place: str, offset: int, length: int) -> bytes:
    """The fields of a tensor that say where its data are."""
    tensor = TensorProto(data_location=TensorProto.EXTERNAL)
    for key, value in (("location", place), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return bytes(tensor.SerializeToString())
