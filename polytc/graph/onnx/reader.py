"""Bytes on disk to a ModelProto whose tensors are all in memory. Refuses what is not a model, and unsafe external data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError, Message

from polytc import errors
from polytc.errors import ModelError, fail

errors.register(E601="not an ONNX model", E602="model file cannot be read", E603="external data is missing or too short",
                E604="external data outside of the model's folder")


def read_model(source: Any) -> onnx.ModelProto:
    """The model of a path, of the bytes of a file, or of a ModelProto (which is not changed). Raises ModelError (E60x)."""
    if isinstance(source, onnx.ModelProto):
        return _with_data(source, None, "the model")
    if isinstance(source, bytes | bytearray | memoryview):
        return _with_data(_parse(bytes(source), "the bytes"), None, "the bytes")
    if not isinstance(source, str | os.PathLike):
        raise fail("E602", f"a model is a path, bytes or a ModelProto, not {type(source).__name__}", kind=ModelError)
    path = Path(source)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise fail("E602", f"{path}: {error.strerror or error}", kind=ModelError) from None
    return _with_data(_parse(data, str(path)), path.resolve().parent, str(path))


def _parse(data: bytes, what: str) -> onnx.ModelProto:
    if not data:
        raise fail("E601", f"{what}: empty", kind=ModelError)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise fail("E601", f"{what}: not an ONNX model, or cut short", kind=ModelError, notes=[
            f"{len(data)} bytes were read; a complete file parses as an onnx.ModelProto"]) from None
    _check_texts(model, what)
    if not model.graph.node and not model.graph.output:
        raise fail("E601", f"{what}: it has no graph", kind=ModelError,
                   notes=["any short file may look like an empty protobuf message; this one holds no nodes and no outputs"])
    return model


def _check_texts(message: Any, what: str) -> None:
    """All names are text: protobuf hands out the bytes of a string that is no UTF-8 as they are."""
    fields = message.ListFields() if not isinstance(message, onnx.TensorProto) else [
        (f, getattr(message, f.name)) for f in message.DESCRIPTOR.fields if f.name in ("name", "doc_string", "external_data")]
    for field, value in fields:
        values = [value] if isinstance(value, str | bytes | Message) else value
        if field.type == field.TYPE_MESSAGE:
            for each in values:
                _check_texts(each, what)
        elif field.type == field.TYPE_STRING and not all(isinstance(v, str) for v in values):
            raise fail("E601", f"{what}: not an ONNX model: a field {field.name!r} is no text", kind=ModelError)


def _with_data(model: onnx.ModelProto, folder: Path | None, what: str) -> onnx.ModelProto:
    """The model with its external data loaded; a copy where that changes anything."""
    if not any(t.data_location == onnx.TensorProto.EXTERNAL for t in _tensors(model)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in _tensors(copy):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _load(tensor, folder, what)
    return copy


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        yield from graph.initializer
        for attribute in (a for node in graph.node for a in node.attribute):
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            graphs += [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else list(attribute.graphs)


def _load(tensor: onnx.TensorProto, folder: Path | None, what: str) -> None:
    entries = {e.key: e.value for e in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise fail("E603", f"{what}: the data of {tensor.name!r} is in {location!r}, and there is no folder to look in",
                   kind=ModelError, notes=["load the model from its path"])
    named = bool(location) and "\0" not in location and not os.path.isabs(location)
    path = (folder / location).resolve() if named else folder
    if not named or not path.is_relative_to(folder):
        raise fail("E604", f"{what}: the data of {tensor.name!r} is said to be in {location!r}, outside of the model's folder",
                   kind=ModelError, notes=["external data is only read from the folder of the model and those below it"])
    try:
        offset, length = int(entries.get("offset", 0)), int(entries["length"]) if "length" in entries else None
        if offset < 0 or (length or 0) < 0:
            raise ValueError(f"offset {offset}, length {length}")
        with path.open("rb") as file:
            there = max(os.fstat(file.fileno()).st_size - offset, 0)
            file.seek(offset)
            data = file.read() if length is None else file.read(min(length, there))
    except (OSError, ValueError) as error:
        raise fail("E603", f"{what}: the data of {tensor.name!r} in {location!r} cannot be read: {error}",
                   kind=ModelError) from None
    if length is not None and len(data) < length:
        raise fail("E603", f"{what}: {location!r} ends before the data of {tensor.name!r}", kind=ModelError,
                   notes=[f"{length} bytes from offset {offset} are needed, {len(data)} are there"])
    tensor.raw_data = data
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]
