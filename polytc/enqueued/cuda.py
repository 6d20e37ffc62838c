"""Streams of CUDA, and arrays of torch, cupy, numba and others that say where they lie (`__cuda_array_interface__`, DLPack)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

import numpy as np

from polytc.codegen.package import Part
from polytc.codegen.target import Target
from polytc.enqueued import dlpack
from polytc.enqueued.program import Type
from polytc.program.scalars import DType
from polytc.runtime.arrays import argument_error, dtype_of
from polytc.targets import registry
from polytc.targets.cuda import devices
from polytc.targets.cuda.executable import CudaExecutable


@dataclass(frozen=True)
class Address:
    """Memory of the device: where it begins, and bytes."""

    address: int
    size: int

    def __int__(self) -> int:
        return self.address


@dataclass(frozen=True)
class Known:
    """What an array says of itself. strides: of its dimensions, in elements, None where it is contiguous."""

    address: int
    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] | None = None
    only_read: bool = False

    @property
    def size(self) -> int:
        """Bytes."""
        return prod(self.shape) * self.dtype.bytes


@dataclass(frozen=True)
class CudaQueue:
    """A stream of the device's primary context, which torch, cupy and the runtime use, too."""

    stream: int
    wanted: str | Target

    @classmethod
    def of(cls, stream: Any, target: str | Target) -> CudaQueue:
        """stream: of torch, cupy, numba or cuda-core, a handle, or None for the default one. Raises ArgumentError E402."""
        handle = _handle(stream)
        number = next((n for name in ("device_index", "device_id") if isinstance(n := getattr(stream, name, None), int)), None)
        if number is not None and devices.choose().among > 1 and number != devices.choose().number:
            raise argument_error("E402", f"the stream is one of device {number}, the op's device is {devices.choose().number}",
                                 _CHOOSE)
        return cls(handle, target)

    @property
    def key(self) -> tuple[Any, ...]:
        """There is one device."""
        return ("cuda",)

    def type_of(self, name: str, array: Any, declared: Type | None) -> Type:
        """Shape and type of an array. Raises ArgumentError E402."""
        known = _known(name, array)
        given, shape = known.strides, known.shape
        steps = tuple(int(np.prod(shape[n + 1:], dtype=np.int64)) for n in range(len(shape)))
        if given is not None and 0 not in shape and any(a != b for a, b, n in zip(given, steps, shape, strict=True) if n > 1):
            raise argument_error("E402", f"{name} is not C-contiguous", f"pass {name}.contiguous(), of torch, or its like")
        return shape, known.dtype

    def memory(self, name: str, array: Any, written: bool) -> Address:
        """Where an array lies. Raises ArgumentError E402 where that is no memory of the op's device, E407 for one to be written
        that may only be read."""
        known = _known(name, array)
        if written and known.only_read:
            raise argument_error("E407", f"{name} may only be read")
        if known.size and devices.choose().among > 1:
            _check_device(name, known.address)
        return Address(known.address, known.size)

    def share(self, one: Address, other: Address) -> bool:
        """Do they overlap?"""
        return one.address < other.address + other.size and other.address < one.address + one.size

    def begins_at(self, memory: Address, alignment: int) -> bool:
        """Is the address a multiple of so many bytes? Those of views often are not."""
        return memory.address % alignment == 0

    def target(self) -> Target:
        """The target for the device that is here."""
        return registry.here(self.wanted)

    def load(self, part: Part) -> CudaExecutable:
        """Code on the device."""
        return CudaExecutable(part.binary, devices.choose())

    def enqueue(self, executable: CudaExecutable, memory: Mapping[str, Address], wait_for: Any) -> None:
        """Enqueue the kernels on the stream, in whose order they run. Raises ArgumentError E402 for events to wait for."""
        if wait_for:
            raise argument_error("E402", "a stream of CUDA waits for events by itself", "stream.wait_event(event), of torch")
        executable.enqueue(self.stream, memory)


def _handle(stream: Any) -> int:
    if stream is None or isinstance(stream, int) and not isinstance(stream, bool):
        return int(stream or 0)
    if hasattr(stream, "__cuda_stream__"):
        found = stream.__cuda_stream__
        return int((found() if callable(found) else found)[1])
    for name in ("cuda_stream", "ptr", "handle"):  # of torch, cupy, numba
        if hasattr(stream, name):
            found = getattr(stream, name)
            return int(getattr(found, "value", found) or 0)
    raise argument_error("E402", f"the stream is a {type(stream).__name__}, not a stream of CUDA",
                         "the stream comes first, None is the default one: op.enqueue(None, A, ..., out=C)")


def _known(name: str, array: Any) -> Known:
    """What an array says of its memory. Raises ArgumentError E402 where it is not on a device, E403 and E404 for its type."""
    try:
        found = getattr(array, "__cuda_array_interface__", None)
    except (TypeError, RuntimeError) as e:  # torch: requires_grad, types that numpy does not have
        return _by_dlpack(name, array, e)
    if not isinstance(found, Mapping):
        return _by_dlpack(name, array, None)
    dtype, strides, (address, only_read) = np.dtype(found["typestr"]), found.get("strides"), found["data"]
    if strides is not None:
        strides = tuple(n // dtype.itemsize if n % dtype.itemsize == 0 else -1 for n in strides)
    return Known(int(address or 0), tuple(found["shape"]), dtype_of(name, dtype), strides, bool(only_read))


def _by_dlpack(name: str, array: Any, before: Exception | None) -> Known:
    """The same by DLPack. before: why the array does not say it otherwise."""
    try:
        found = dlpack.shown(array)
    except (TypeError, RuntimeError, BufferError) as e:
        _refuse(name, array, before or e)
    if found is None or found.kind not in (dlpack.CUDA, dlpack.MANAGED):
        _refuse(name, array, before)
    if found.dtype is None:
        raise argument_error("E403", f"{name} has elements of a type which polytc cannot compute")
    return Known(found.address, found.shape, found.dtype, found.strides)


def _refuse(name: str, array: Any, why: Exception | None) -> NoReturn:
    if why is not None:
        raise argument_error("E402", f"{name} cannot be read as an array of CUDA: {why}", f"pass {name}.detach()") from None
    raise argument_error("E402", f"{name} is a {type(array).__name__}, not an array of a CUDA device",
                         "tensors of torch on 'cuda' and arrays of cupy are; calling the program takes numpy arrays")


_CHOOSE = "POLYTC_CUDA_DEVICE chooses the op's device by number, in the order of the driver; one process has one"


def _check_device(name: str, address: int) -> None:
    """Raises ArgumentError E402 for memory of another device, or of none."""
    own, number = devices.choose().number, devices.holder(address)
    if number is None:
        raise argument_error("E402", f"{name} lies in no memory of a CUDA device")
    if number not in (own, devices.ANY):
        raise argument_error("E402", f"{name} lies on device {number}, the op's device is {own}", _CHOOSE,
                             f"{name}.to('cuda:{own}'), of torch, copies it there")
