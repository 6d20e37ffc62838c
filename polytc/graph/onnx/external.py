"""Tensors whose data lie in a file, that of the model or one beside it: parts of its bytes, from the model's folder only.

Who writes a model decides what its tensors call the files of their data; who loads it decides which files that may be:

    the location, as a text,  is relative and has no `..`: it stays in the folder of the path that was loaded
    the file that it names,   links followed, is in that folder or below it, or in one of the folders of `Places`: that in which
                              the model's own bytes are, if the path that was loaded is a link, and those of the caller

So a hub's layout, links beside each other into one folder of blobs, is read; a link out of an unpacked archive is not.
"""

from __future__ import annotations

import math
import os
import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath

import numpy as np
import onnx
from onnx import numpy_helper

from polytc import errors
from polytc.disk.mapped import release
from polytc.disk.weights import contents
from polytc.errors import ModelError, fail
from polytc.program.scalars import from_numpy

errors.register(E603="external data is missing or too short", E604="external data outside of the model's folder")


@dataclass(frozen=True)
class Files:
    """Where the data of a model's tensors may lie. folder: of the model, None if it came without one. own: the bytes of the
    model's own file, and name: what tensors call it, which no writer of a file can know. beside: other files met so far, by
    the path that was looked at, links not followed. trusted, in_place: see Places."""

    folder: Path | None = None
    own: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8), repr=False)
    name: str = field(default_factory=lambda: secrets.token_hex(16))
    beside: dict[Path, np.ndarray] = field(default_factory=dict, repr=False)
    trusted: tuple[Path, ...] = ()
    in_place: bool = False

    def bytes_of(self, tensor: str, location: str) -> tuple[np.ndarray, str]:
        """The bytes of the file at a location, and how messages call it. Raises ModelError E603, E604, and OSError."""
        if location == self.name:
            return self.own, "the model"
        path = _file(tensor, location, self)
        if path not in self.beside:
            self.beside[path] = contents(path, self.in_place)
        return self.beside[path], repr(path.name)

    def release(self) -> None:
        """Give back the memory of what was read of mapped files; what is needed again is read again."""
        for data in (self.own, *self.beside.values()):
            release(data)


def array_of(tensor: onnx.TensorProto, files: Files) -> np.ndarray:
    """The array of a tensor with external data, not to be written.

    Raises ModelError E603, E604, E607; ValueError and the like for what onnx cannot unpack.
    """
    entries = {e.key: e.value for e in tensor.external_data}
    location = entries.get("location", "")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    plain = from_numpy(dtype) is not None and sys.byteorder == "little"
    count = math.prod(tensor.dims)
    try:
        offset, length = int(entries.get("offset", 0)), int(entries["length"]) if "length" in entries else None
        if offset < 0 or (length or 0) < 0:
            raise ValueError(f"offset {offset}, length {length}")
        data, name = files.bytes_of(tensor.name, location)
        there = max(data.size - offset, 0)
        needed = count * dtype.itemsize if plain else length if length is not None else there
        if there < max(needed, length or 0):
            raise fail("E603", f"{name} ends before the data of {tensor.name!r}", kind=ModelError,
                       notes=[f"{max(needed, length or 0)} bytes from offset {offset} are needed, {there} are there"])
        if length is not None and length != needed:
            raise fail("E607", f"the tensor {tensor.name!r} has {length} bytes of data", kind=ModelError,
                       notes=[f"its shape {list(tensor.dims)} needs {needed}"])
        found = data[offset:offset + needed]
        return found.view(dtype).reshape(tuple(tensor.dims)) if plain and needed else _unpacked(tensor, found.tobytes())
    except (OSError, ValueError, OverflowError) as error:
        raise fail("E603", f"the data of {tensor.name!r} in {location!r} cannot be read: {error}", kind=ModelError) from None


def _file(name: str, location: str, files: Files) -> Path:
    """The file of a tensor's data, if it is one that may be read: see the head of this file."""
    if files.folder is None:
        raise fail("E603", f"the data of {name!r} is in {location!r}, and there is no folder to look in", kind=ModelError,
                   notes=["load the model from its path"])
    parts = PureWindowsPath(location).parts  # these are parted by both kinds of slashes
    if not location or "\0" in location or ".." in parts or PureWindowsPath(location).anchor or os.path.isabs(location):
        raise fail("E604", f"the data of {name!r} is said to be in {location!r}, outside of the model's folder",
                   kind=ModelError, notes=["external data is only read from the folder of the model and those below it"])
    path = files.folder / location
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(folder) for folder in (files.folder.resolve(), *files.trusted)):
        raise fail("E604", f"the data of {name!r} is in {location!r}, a link that leads out of the model's folder",
                   kind=ModelError, notes=[f"it leads to {real}", "if you trust the model: "
                                           f"load_onnx(path, folders=[{str(real.parent)!r}])"])
    return path


def _unpacked(tensor: onnx.TensorProto, data: bytes) -> np.ndarray:
    """Types of less than a byte, and tensors without elements."""
    inner = onnx.TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type, raw_data=data)
    return numpy_helper.to_array(inner)
