"""Bytes on disk to a ModelProto. Refuses what is not a model. The data of large tensors stay in the file, see outline.py, and
external data in theirs, see external.py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message

from polytc import errors
from polytc.disk.weights import contents
from polytc.errors import ModelError, fail
from polytc.graph.onnx.external import Files
from polytc.graph.onnx.outline import Unusual, outline
from polytc.graph.weight_sources import USUAL, Places

errors.register(E601="not an ONNX model", E602="model file cannot be read")


def read_model(source: Any, places: Places = USUAL) -> tuple[onnx.ModelProto, Files]:
    """The model of a path, of the bytes of a file, or of a ModelProto (which is not changed), and where the data of its tensors
    may lie. Raises ModelError (E60x)."""
    if isinstance(source, onnx.ModelProto):
        return source, Files()
    if isinstance(source, bytes | bytearray | memoryview):
        return _parse(Files(None, np.frombuffer(bytes(source), np.uint8)), "the bytes")
    if not isinstance(source, str | os.PathLike):
        raise fail("E602", f"a model is a path, bytes or a ModelProto, not {type(source).__name__}", kind=ModelError)
    path = Path(source)
    try:
        data = contents(path, places.in_place) if path.is_file() else np.frombuffer(path.read_bytes(), np.uint8)
    except (OSError, ValueError) as error:
        raise fail("E602", f"{path}: {getattr(error, 'strerror', None) or error}", kind=ModelError) from None
    return _parse(Files(path.absolute().parent, data, trusted=places.trusted(path), in_place=places.in_place), str(path))


def _parse(files: Files, what: str) -> tuple[onnx.ModelProto, Files]:
    if not files.own.size:
        raise fail("E601", f"{what}: empty", kind=ModelError)
    model = onnx.ModelProto()
    try:
        try:
            model.ParseFromString(outline(files.own.data, files.name))
        except Unusual:
            model.ParseFromString(files.own.tobytes())
    except DecodeError:
        raise fail("E601", f"{what}: not an ONNX model, or cut short", kind=ModelError, notes=[
            f"{files.own.size} bytes were read; a complete file parses as an onnx.ModelProto"]) from None
    _check_texts(model, what)
    if not model.graph.node and not model.graph.output:
        raise fail("E601", f"{what}: it has no graph", kind=ModelError,
                   notes=["any short file may look like an empty protobuf message; this one holds no nodes and no outputs"])
    return model, files


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
