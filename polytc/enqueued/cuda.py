"""Streams of CUDA, and arrays of torch, cupy, numba and others that say where they lie (`__cuda_array_interface__`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from polytc.codegen.package import Part
from polytc.codegen.target import Target
from polytc.enqueued.program import Type
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
class CudaQueue:
    """A stream of the device's primary context, which torch, cupy and the runtime use, too."""

    stream: int
    wanted: str | Target

    @classmethod
    def of(cls, stream: Any, target: str | Target) -> CudaQueue:
        """stream: of torch, cupy, numba or cuda-core, a handle, or None for the default one. Raises ArgumentError E402."""
        return cls(_handle(stream), target)

    @property
    def key(self) -> tuple[Any, ...]:
        """There is one device."""
        return ("cuda",)

    def type_of(self, name: str, array: Any, declared: Type | None) -> Type:
        """Shape and type of an array. Raises ArgumentError E402."""
        known = _interface(name, array)
        shape, dtype = tuple(known["shape"]), np.dtype(known["typestr"])
        steps = tuple(dtype.itemsize * prod(shape[n + 1:]) for n in range(len(shape)))
        given = known.get("strides")
        if given is not None and any(a != b for a, b, n in zip(given, steps, shape, strict=True) if n > 1) and prod(shape):
            raise argument_error("E402", f"{name} is not C-contiguous", f"pass {name}.contiguous(), of torch, or its like")
        return shape, dtype_of(name, dtype)

    def memory(self, name: str, array: Any, written: bool) -> Address:
        """Where an array lies. Raises ArgumentError E402, E407 for one to be written that may only be read."""
        known = _interface(name, array)
        address, only_read = known["data"]
        if written and only_read:
            raise argument_error("E407", f"{name} may only be read")
        return Address(int(address or 0), prod(known["shape"]) * np.dtype(known["typestr"]).itemsize)

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


def _interface(name: str, array: Any) -> Mapping[str, Any]:
    """What an array says of its memory. Raises ArgumentError E402 where it is not on a device."""
    try:
        found = getattr(array, "__cuda_array_interface__", None)
    except (TypeError, RuntimeError) as e:  # torch: requires_grad, types that numpy does not have
        raise argument_error("E402", f"{name} cannot be read as an array of CUDA: {e}", f"pass {name}.detach()") from None
    if not isinstance(found, Mapping):
        raise argument_error("E402", f"{name} is a {type(array).__name__}, not an array of a CUDA device",
                             "tensors of torch on 'cuda' and arrays of cupy are; calling the program takes numpy arrays")
    return found
