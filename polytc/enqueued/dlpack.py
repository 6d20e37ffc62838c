"""Arrays that show their memory by DLPack, as those of torch, cupy and jax do: all types, bf16 among them, and their device.

The layout is that of DLManagedTensor of dlpack.h (version 0.8), https://dmlc.github.io/dlpack/latest/c_api.html.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from polytc.program.scalars import DType, named

CUDA, MANAGED = 2, 13
"""Kinds of devices: memory of a CUDA device, and memory that it shares with the host."""
_KINDS = {0: "i", 1: "u", 2: "f", 4: "bf", 5: "c"}
_BOOL = 6
NO_STREAM = -1
"""For `__dlpack__`: whoever asks orders the streams."""


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("number", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


@dataclass(frozen=True)
class Shown:
    """What an array shows. kind, number: of its device; strides: in elements, None where it is contiguous; dtype: None where
    the language has no such type."""

    kind: int
    number: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: DType | None


def shown(array: Any) -> Shown | None:
    """What an array shows by DLPack; None for what does not have it. Raises what its `__dlpack__` raises."""
    ask = getattr(array, "__dlpack__", None)
    where = getattr(array, "__dlpack_device__", None)
    if ask is None or where is None:
        return None
    capsule = ask(stream=NO_STREAM) if int(where()[0]) in (CUDA, MANAGED) else ask()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    t = _Tensor.from_address(pointer(capsule, b"dltensor"))
    strides = tuple(t.strides[:t.rank]) if t.strides else None
    return Shown(t.kind, t.number, (t.data or 0) + t.offset, tuple(t.shape[:t.rank]), strides, _dtype(t))


def _dtype(t: _Tensor) -> DType | None:
    if t.lanes != 1:
        return None
    name = "bool" if t.code == _BOOL else f"{_KINDS.get(t.code, '?')}{t.bits}"
    try:
        return named(name)
    except (KeyError, ValueError):
        return None
