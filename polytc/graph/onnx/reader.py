"""Bytes on disk to a ModelProto. Refuses what is not a model. External data stay where they are, see external.py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError, Message

from polytc import errors
from polytc.errors import ModelError, fail

errors.register(E601="not an ONNX model", E602="model file cannot be read")


def read_model(source: Any) -> tuple[onnx.ModelProto, Path | None]:
    """The model of a path, of the bytes of a file, or of a ModelProto (which is not changed), and the folder in which its
    external data may lie. Raises ModelError (E60x)."""
    if isinstance(source, onnx.ModelProto):
        return source, None
    if isinstance(source, bytes | bytearray | memoryview):
        return _parse(bytes(source), "the bytes"), None
    if not isinstance(source, str | os.PathLike):
        raise fail("E602", f"a model is a path, bytes or a ModelProto, not {type(source).__name__}", kind=ModelError)
    path = Path(source)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise fail("E602", f"{path}: {error.strerror or error}", kind=ModelError) from None
    return _parse(data, str(path)), path.resolve().parent


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
