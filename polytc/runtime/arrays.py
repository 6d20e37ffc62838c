"""Arrays of a call: the one place where what a caller passes becomes numpy arrays that kernels may trust.

Accepted: numpy arrays and scalars, Python numbers, and whatever speaks DLPack, the buffer protocol or `__array__`. Inputs that
are not C-contiguous and aligned are copied; everything that could give a wrong number is refused with the name of the argument.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from polytc import errors
from polytc.errors import ArgumentError, CompileError, fail
from polytc.program import scalars
from polytc.program.scalars import DType
from polytc.runtime.libraries import bits_of_bf16

errors.register(E402="argument is not an array", E403="element type is not supported", E404="byte order is not the machine's",
                E407="output array cannot be used", E408="output overlaps another argument")


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not a system of POSIX, or it does not say
        return None


MEMORY = _physical()
"""Bytes of memory of this machine, if it tells."""


SEARCHED = 10_000
"""Candidates among which an element that two arrays in strides share is looked for."""


def allocate(name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array for a tensor. Raises ArgumentError E209 where the machine has not the memory for it."""
    if MEMORY is None or math.prod(shape) * dtype.itemsize <= MEMORY:
        try:
            return np.empty(shape, dtype)
        except (MemoryError, ValueError):  # numpy's word for more than it can address is ValueError
            pass
    raise too_large(name, shape, dtype)


def too_large(name: str, shape: tuple[int, ...], dtype: np.dtype) -> CompileError:
    """The exception for a tensor that memory cannot hold."""
    here = f"this machine has {MEMORY} bytes of memory" if MEMORY is not None else ""
    return argument_error("E209", f"{name} has shape {shape}: {math.prod(shape) * dtype.itemsize} bytes of {dtype}",
                          *[here] * bool(here), "compute it in parts, or give out= an array that lies elsewhere (numpy.memmap)")


def argument_error(code: str, message: str, *notes: str) -> CompileError:
    """The exception for one bad argument."""
    return fail(code, message, notes=notes, kind=ArgumentError)


def as_input(name: str, value: Any) -> np.ndarray:
    """`value` as a C-contiguous numpy array of a supported type, without a copy where possible.

    A Python int becomes i64, a float f64, a bool bool. Raises ArgumentError: E402, E403, E404.
    """
    return contiguous(as_array(name, value))


def as_array(name: str, value: Any) -> np.ndarray:
    """`value` as a numpy array of a supported type, without a copy. Raises ArgumentError: E402, E403, E404."""
    array = _view(name, value)
    dtype_of(name, array.dtype)
    return array


def contiguous(array: np.ndarray) -> np.ndarray:
    """The array, or a copy that is C-contiguous and aligned."""
    return array if array.flags.c_contiguous and array.flags.aligned else np.array(array, order="C")


def dtype_of(name: str, dtype: np.dtype) -> DType:
    """The scalar type of the argument's elements. Raises ArgumentError: E403, E404."""
    found = scalars.from_numpy(dtype)
    if found is not None:
        return found
    if not dtype.isnative and scalars.from_numpy(dtype.newbyteorder("=")) is not None:
        raise argument_error("E404", f"{name} has elements of type {dtype.str!r}, which are not in this machine's byte order",
                             f"convert it once: {name}.astype({name}.dtype.newbyteorder('='))")
    known = ", ".join(scalars.DTYPES)
    raise argument_error("E403", f"{name} has elements of type {dtype}, which polytc cannot compute", f"supported: {known}")


def output_buffers(names: Sequence[str], given: Sequence[Any], types: Sequence[tuple[tuple[int, ...], np.dtype]],
                   others: Sequence[str], inputs: Sequence[np.ndarray]
                   ) -> tuple[list[np.ndarray], list[tuple[np.ndarray, ...]]]:
    """The arrays that kernels write, and what is to be copied then, with the array that it comes from. They are those that
    `out=` gave, None for none; in place of one that lies in strides is a new one.

    Raises ArgumentError E407, E408. others: names of the inputs.
    """
    buffers, copies = list[np.ndarray](), list[tuple[np.ndarray, ...]]()
    shared, strided = list[tuple[str, np.ndarray]](), list[tuple[str, np.ndarray]]()
    for name, value, (shape, dtype) in zip(names, given, types, strict=True):
        array = as_output(name, value, shape, dtype, strided=True) if value is not None else allocate(name, shape, dtype)
        if array.flags.c_contiguous and array.flags.aligned:
            shared += [(name, array)] if value is not None else []
            buffers.append(array)
        else:
            buffers.append(allocate(name, shape, dtype))
            copies.append((array, buffers[-1]))
            strided.append((name, array))
    _check_strided(strided, shared)
    check_overlap(others, inputs, [name for name, _ in shared], [array for _, array in shared])
    return buffers, copies


def _check_strided(strided: Sequence[tuple[str, np.ndarray]], others: Sequence[tuple[str, np.ndarray]]) -> None:
    """Refuse outputs in strides of which two elements, or one and one of another output, share memory (E407, E408)."""
    for n, (name, array) in enumerate(strided):
        reach = array.itemsize
        for stride, extent in sorted((abs(s), e) for s, e in zip(array.strides, array.shape, strict=True) if e > 1):
            if stride < reach and array.size:
                raise argument_error("E407", f"out for {name} has elements that share memory (strides {array.strides})")
            reach += stride * (extent - 1)
        for other_name, other in (*others, *strided[:n]):
            if np.may_share_memory(array, other) and _shared(array, other):
                raise argument_error("E408", f"out for {name} overlaps out for {other_name} in memory", "give another array")


def _shared(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=SEARCHED)  # type: ignore[arg-type]  # the stubs know -1 and 0 alone
    except np.exceptions.TooHardError:
        return False


def as_output(name: str, value: Any, shape: tuple[int, ...], dtype: np.dtype, strided: bool = False) -> np.ndarray:
    """The array that `out=` gave for the tensor `name`, viewed by numpy; kernels write into it. bf16 may go to uint16.

    strided: it is copied to, and need not be contiguous. Raises ArgumentError E407 if it has another shape or type, is not
    C-contiguous, or is read-only.
    """
    if isinstance(value, (int, float, complex, np.generic, list, tuple)):
        raise argument_error("E407", f"out for {name} is {_kind(value)}, which cannot be written into",
                             f"give an array: np.empty({shape}, np.{dtype})")
    array = _view(f"out for {name}", value)
    if array.dtype == np.uint16 and scalars.from_numpy(dtype) == scalars.BF16:
        array = array.view(dtype)
    if array.shape != shape or array.dtype != dtype:
        raise argument_error("E407", f"out for {name} has shape {array.shape} and type {array.dtype}",
                             f"the result has shape {shape} and type {dtype}")
    if not array.flags.c_contiguous and not strided:
        raise argument_error("E407", f"out for {name} is not C-contiguous (strides {array.strides})",
                             "leave out= away and copy the result, or give a contiguous array")
    if not array.flags.aligned and not strided:
        raise argument_error("E407", f"out for {name} is not aligned: its address is no multiple of {dtype.alignment}")
    if not array.flags.writeable:
        raise argument_error("E407", f"out for {name} is read-only")
    return array


def check_overlap(names: Sequence[str], inputs: Sequence[np.ndarray], out_names: Sequence[str],
                  outputs: Sequence[np.ndarray]) -> None:
    """Refuse outputs that share memory with an input or with one another (E408); all arrays are C-contiguous."""
    others = list(zip(names, inputs))
    for name, array in zip(out_names, outputs):
        for other_name, other in others:
            # For contiguous arrays the comparison of address ranges is exact.
            if np.may_share_memory(array, other):
                raise argument_error("E408", f"out for {name} overlaps {other_name} in memory",
                                     f"polytc may write {name} before it has read all of {other_name}; give another array")
        others.append((f"out for {name}", array))


def is_masked(value: object) -> bool:
    """Is it an array with a mask? Without numpy.ma, which takes a while to import, there is none."""
    kind = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return kind is not None and isinstance(value, kind)


def _view(name: str, value: Any) -> np.ndarray:
    if is_masked(value):
        raise argument_error("E402", f"{name} is a masked array, and its mask would be ignored", f"pass {name}.filled(value)")
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return _number(name, value)
    if isinstance(value, (list, tuple)):
        raise argument_error("E402", f"{name} is {_kind(value)}: its element type would have to be guessed",
                             f"pass np.array({name}, dtype=np.float32)")
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(name, value)
    if any(hasattr(value, protocol) for protocol in ("__array__", "__array_interface__", "__buffer__")) or _has_buffer(value):
        try:
            array = np.asarray(value)
        except Exception as error:
            raise argument_error("E402", f"{name} is {_kind(value)} that numpy cannot view", str(error)) from error
        if array.dtype != object:
            return array
    raise argument_error("E402", f"{name} is {_kind(value)}, not an array",
                         "op.enqueue(queue, ...) takes what is on a device" if hasattr(value, "base_data") else
                         "pass a numpy array, or an object with DLPack or __array__")


def _number(name: str, value: complex | np.generic) -> np.ndarray:
    if isinstance(value, int) and not -2**63 <= value < 2**63:
        raise argument_error("E403", f"{name} = {value} does not fit into 64 bits")
    return np.asarray(value)


def _from_dlpack(name: str, value: Any) -> np.ndarray:
    try:
        bits = bits_of_bf16(value)
        return np.from_dlpack(value) if bits is None else bits
    except Exception as error:
        raise argument_error("E402", f"{name} is {_kind(value)} that cannot be shared with numpy", str(error),
                             "it must be a dense tensor in the CPU's memory, without gradient",
                             "a bf16 tensor needs the package ml_dtypes") from error


def _has_buffer(value: Any) -> bool:
    try:
        memoryview(value).release()
    except TypeError:
        return False
    return True


def _kind(value: Any) -> str:
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
