"""Tensors whose data lie in a file beside the model: mapped into memory, never copied, from the model's folder only."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from polytc import errors
from polytc.errors import ModelError, fail
from polytc.lang.scalars import from_numpy

errors.register(E603="external data is missing or too short", E604="external data outside of the model's folder")


def array_of(tensor: onnx.TensorProto, folder: Path | None) -> np.ndarray:
    """The array of a tensor with external data. folder: of the model, None if it came without one.

    Raises ModelError E603, E604; ValueError and the like for what onnx cannot unpack.
    """
    entries = {e.key: e.value for e in tensor.external_data}
    path = _file(tensor.name, entries.get("location", ""), folder)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    plain = from_numpy(dtype) is not None and sys.byteorder == "little"
    count = math.prod(tensor.dims)
    try:
        offset, length = int(entries.get("offset", 0)), int(entries["length"]) if "length" in entries else None
        if offset < 0 or (length or 0) < 0:
            raise ValueError(f"offset {offset}, length {length}")
        there = max(os.stat(path).st_size - offset, 0)
        needed = count * dtype.itemsize if plain else length if length is not None else there
        if there < max(needed, length or 0):
            raise fail("E603", f"{path.name!r} ends before the data of {tensor.name!r}", kind=ModelError,
                       notes=[f"{max(needed, length or 0)} bytes from offset {offset} are needed, {there} are there"])
        if length is not None and length != needed:
            raise fail("E607", f"the tensor {tensor.name!r} has {length} bytes of external data", kind=ModelError,
                       notes=[f"its shape {list(tensor.dims)} needs {needed}"])
        if plain and needed:
            return np.memmap(path, dtype, "r", offset, tuple(tensor.dims)).view(np.ndarray)
        with path.open("rb") as file:
            file.seek(offset)
            return _unpacked(tensor, file.read(needed))
    except (OSError, ValueError, OverflowError) as error:
        raise fail("E603", f"the data of {tensor.name!r} in {path.name!r} cannot be read: {error}", kind=ModelError) from None


def _file(name: str, location: str, folder: Path | None) -> Path:
    """The file of a tensor's data, if it is one that may be read."""
    if folder is None:
        raise fail("E603", f"the data of {name!r} is in {location!r}, and there is no folder to look in", kind=ModelError,
                   notes=["load the model from its path"])
    named = bool(location) and "\0" not in location and not os.path.isabs(location)
    path = (folder / location).resolve() if named else folder
    if not named or not path.is_relative_to(folder):
        raise fail("E604", f"the data of {name!r} is said to be in {location!r}, outside of the model's folder",
                   kind=ModelError, notes=["external data is only read from the folder of the model and those below it"])
    return path


def _unpacked(tensor: onnx.TensorProto, data: bytes) -> np.ndarray:
    """Types of less than a byte, and tensors without elements."""
    inner = onnx.TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type, raw_data=data)
    return numpy_helper.to_array(inner)
