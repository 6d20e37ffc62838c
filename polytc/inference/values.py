"""What sessions tell of models, and values that are given to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polytc.errors import ArgumentError, fail
from polytc.graph.ir import Value
from polytc.program.scalars import DTYPES, from_numpy

_TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float", "f64": "double", "bool": "bool",
          **{f"{sign}{bits}": f"{name}{bits}" for sign, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)}}
"""polytc's name of an element type -> onnx's."""
_NUMBERS = {"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9,
            "float16": 10, "double": 11, "uint32": 12, "uint64": 13, "bfloat16": 16}
"""onnx's name -> its number."""


@dataclass(frozen=True)
class NodeArg:
    """An input or output. type: e.g. 'tensor(float)'; shape: numbers, names of sizes, and None for what is not known."""

    name: str
    type: str
    shape: list[int | str | None]

    @staticmethod
    def of(value: Value) -> NodeArg:
        """As the graph has it."""
        if value.dtype is None and value.kind:
            return NodeArg(value.name, value.kind, list(value.shape or ()))
        kind = _TYPES[value.dtype.name] if value.dtype is not None else "string"
        return NodeArg(value.name, f"tensor({kind})" if value.tensor else f"seq(tensor({kind}))", list(value.shape or ()))


@dataclass(frozen=True)
class ModelMetadata:
    """What a model's file says about itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


class OrtValue:
    """An array in memory that stays where it is between runs."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(array: Any, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        """A value of its own. Raises ArgumentError E610 for another device."""
        _check_device(device_type)
        return OrtValue(np.array(array, order="C"))

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
                                     ) -> OrtValue:
        """One whose contents are not given yet. element_type: numpy's, or onnx's number."""
        _check_device(device_type)
        return OrtValue(np.empty(tuple(shape), numpy_type(element_type)))

    def numpy(self) -> np.ndarray:
        """The array."""
        return self._array

    def update_inplace(self, array: Any) -> None:
        """Other contents of the same type and shape. Raises ArgumentError E610."""
        given = np.asarray(array)
        if given.shape != self._array.shape or given.dtype != self._array.dtype:
            raise fail("E610", f"the value is {self._array.dtype}{list(self._array.shape)}, what is given "
                       f"{given.dtype}{list(given.shape)}", kind=ArgumentError)
        np.copyto(self._array, given)

    def shape(self) -> list[int]:
        return list(self._array.shape)

    def data_type(self) -> str:
        """E.g. 'tensor(float)'."""
        return f"tensor({_kind(self._array.dtype)})"

    def element_type(self) -> int:
        """onnx's number."""
        return _NUMBERS[_kind(self._array.dtype)]

    def data_ptr(self) -> int:
        """The address."""
        return self._array.ctypes.data

    def tensor_size_in_bytes(self) -> int:
        return self._array.nbytes

    def device_name(self) -> str:
        return "cpu"

    def has_value(self) -> bool:
        return True

    def is_tensor(self) -> bool:
        return True

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array, dtype) if copy or dtype not in (None, self._array.dtype) else self._array


def numpy_type(element_type: Any) -> np.dtype:
    """numpy's type of an element type of either kind. Raises ArgumentError E610."""
    if isinstance(element_type, int):
        names = {number: name for name, number in _NUMBERS.items()}
        ours = {onnx: name for name, onnx in _TYPES.items()}
        name = ours.get(names.get(element_type, ""))
        if name is None:
            raise fail("E610", f"{element_type} is no number of an element type that polytc has", kind=ArgumentError)
        return DTYPES[name].numpy
    return np.dtype(element_type)


def _kind(dtype: np.dtype) -> str:
    found = from_numpy(dtype)
    return _TYPES[found.name] if found is not None else "string"


def _check_device(name: str) -> None:
    if name.lower() != "cpu":
        raise fail("E610", f"values lie in the memory of the processor, not on {name!r}", kind=ArgumentError,
                   notes=["polytc copies to devices where it runs there: providers=['OpenCLExecutionProvider']"])
