"""Queues, events, arrays, buffers and shared virtual memory of pyopencl."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.codegen.package import Part
from polytc.enqueued.program import Type
from polytc.runtime.arrays import argument_error, dtype_of
from polytc.targets.opencl.driver import devices
from polytc.targets.opencl.driver.session import Session
from polytc.targets.opencl.executable import OpenCLExecutable
from polytc.targets.opencl.target import OpenCLTarget


@dataclass(frozen=True)
class Place:
    """Memory of the device. argument: what a kernel takes for it; whole: the buffer that it is a part of, 0 for shared virtual
    memory; first: where it begins there, or its address; size: bytes."""

    argument: Any
    whole: int
    first: int
    size: int


@dataclass(frozen=True)
class OpenCLQueue:
    """A queue of pyopencl."""

    queue: Any

    @classmethod
    def of(cls, queue: Any) -> OpenCLQueue:
        """Raises ArgumentError E402 for what is no queue of pyopencl."""
        if not isinstance(queue, devices.pyopencl().CommandQueue):
            raise argument_error("E402", f"the queue is a {type(queue).__name__}, not a pyopencl.CommandQueue",
                                 "the queue comes first: op.enqueue(queue, A, ..., out=C)")
        return cls(queue)

    @property
    def key(self) -> tuple[Any, ...]:
        """The context and the device."""
        return self.queue.context.int_ptr, self.queue.device.int_ptr

    def type_of(self, name: str, array: Any, declared: Type | None) -> Type:
        """Shape and type of a pyopencl array; a buffer has those that are declared. Raises ArgumentError E402."""
        if hasattr(array, "dtype") and hasattr(array, "base_data"):
            if not array.flags.c_contiguous:
                raise argument_error("E402", f"{name} is not C-contiguous")
            return tuple(array.shape), dtype_of(name, np.dtype(array.dtype))
        if (mapped := _shared(array)) is not None:
            if not mapped.flags.c_contiguous:
                raise argument_error("E402", f"{name} is not C-contiguous")
            return tuple(mapped.shape), dtype_of(name, mapped.dtype)
        if isinstance(array, devices.pyopencl().MemoryObject):
            if declared is None:
                raise argument_error("E402", f"{name} is a buffer, which has neither shape nor type",
                                     f"pass a pyopencl.array.Array, or say shapes={{{name!r}: ...}} and dtypes= in compile()")
            return declared
        raise argument_error("E402", f"{name} is a {type(array).__name__}, not an array or buffer of pyopencl",
                             "pyopencl.array.to_device(queue, array) makes one; calling the program takes numpy arrays")

    def memory(self, name: str, array: Any, written: bool) -> Place:
        """The memory behind an array; of a view that begins inside of its buffer, a buffer that begins there. Raises
        ArgumentError E402 where it lies elsewhere or cannot begin there, E407 for a result in memory that may only be read."""
        cl = devices.pyopencl()
        if (mapped := _shared(array)) is not None:
            if not mapped.flags.c_contiguous:
                raise argument_error("E402", f"{name} is not C-contiguous")
            argument = array if isinstance(array, cl.SVMPointer) else cl.SVM(array)
            return Place(argument, 0, mapped.ctypes.data, mapped.nbytes)
        given, offset = (array.base_data, array.offset) if hasattr(array, "base_data") else (array, 0)
        if isinstance(given, cl.SVMPointer):
            raise argument_error("E402", f"{name} is a pyopencl array in shared virtual memory",
                                 f"pass cl.SVM of the numpy array, or {name}.get()")
        if given.context.int_ptr != self.queue.context.int_ptr:
            raise argument_error("E402", f"{name} lies in another context than the queue's",
                                 "an array belongs to the context of the queue that made it")
        whole = given.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)
        flags = given.flags | (whole.flags if whole else 0)
        if written and flags & cl.mem_flags.READ_ONLY:
            raise argument_error("E407", f"{name} is written, and its buffer may only be read",
                                 "make the buffer with cl.mem_flags.READ_WRITE")
        if not written and flags & cl.mem_flags.WRITE_ONLY:
            raise argument_error("E402", f"{name} is read, and its buffer may only be written",
                                 "make the buffer with cl.mem_flags.READ_WRITE")
        if offset:
            given, whole = self._region(name, given, whole, offset, array.nbytes), given
        size = array.nbytes if hasattr(array, "base_data") else given.size
        return Place(given, (whole or given).int_ptr, given.get_info(cl.mem_info.OFFSET), size)

    def _region(self, name: str, buffer: Any, whole: Any, offset: int, size: int) -> Any:
        """A part of a buffer. Raises ArgumentError E402 where the device has no buffer that begins there."""
        step = self.queue.device.mem_base_addr_align // 8
        if whole or offset % step:
            raise argument_error("E402", f"{name} begins {offset} bytes into its buffer, which is no multiple of {step}"
                                 if not whole else f"{name} is a view into a part of a buffer", f"pass {name}.copy()")
        return buffer.get_sub_region(offset, max(1, size))

    def share(self, one: Place, other: Place) -> bool:
        """Do they overlap?"""
        return one.whole == other.whole and one.first < other.first + other.size and other.first < one.first + one.size

    def begins_at(self, memory: Place, alignment: int) -> bool:
        """Buffers, and parts of them, begin at multiples of what any vector takes; shared virtual memory where it was asked
        for."""
        return bool(memory.whole) or memory.first % alignment == 0

    def target(self) -> OpenCLTarget:
        """The target for the queue's device."""
        return OpenCLTarget().made_for(devices.of(self.queue.device))

    def load(self, part: Part) -> OpenCLExecutable:
        """Code on the queue's device, in its context."""
        device = devices.of(self.queue.device)
        return OpenCLExecutable(part.binary, device, on=Session(device, self.queue.context))

    def enqueue(self, executable: OpenCLExecutable, memory: Mapping[str, Place], wait_for: Any) -> Any:
        """Enqueue the kernels after some events; the event of their end."""
        return executable.enqueue(self.queue, {n: place.argument for n, place in memory.items()}, _events(wait_for))


def _shared(array: Any) -> np.ndarray | None:
    """The array of the host that shows shared virtual memory: of cl.SVM, or one that pyopencl allocated (cl.svm_empty)."""
    cl = devices.pyopencl()
    if isinstance(array, cl.SVM) and isinstance(array.mem, np.ndarray):
        return array.mem
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    return array if isinstance(array, np.ndarray) and isinstance(base, cl.SVMAllocation) else None


def _events(wait_for: Any) -> list[Any]:
    """The events to wait for, of one or several. Raises ArgumentError E402."""
    event = devices.pyopencl().Event
    given = [wait_for] if isinstance(wait_for, event) else list(wait_for or ())
    wrong = next((e for e in given if not isinstance(e, event)), None)
    if wrong is not None:
        raise argument_error("E402", f"wait_for has a {type(wrong).__name__} in it, not a pyopencl.Event",
                             "enqueue() returns an event, as the functions of pyopencl do")
    return given
