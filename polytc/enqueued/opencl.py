"""Queues, events, arrays and buffers of pyopencl."""

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
        if isinstance(array, devices.pyopencl().MemoryObject):
            if declared is None:
                raise argument_error("E402", f"{name} is a buffer, which has neither shape nor type",
                                     f"pass a pyopencl.array.Array, or say shapes={{{name!r}: ...}} and dtypes= in compile()")
            return declared
        raise argument_error("E402", f"{name} is a {type(array).__name__}, not an array or buffer of pyopencl",
                             "pyopencl.array.to_device(queue, array) makes one; calling the program takes numpy arrays")

    def memory(self, name: str, array: Any, written: bool) -> Any:
        """The buffer behind an array. Raises ArgumentError E402 where the array begins inside of it, or it lies elsewhere."""
        if hasattr(array, "base_data"):
            if array.offset:
                raise argument_error("E402", f"{name} begins {array.offset} bytes into its buffer", f"pass {name}.copy()")
            array = array.base_data
        if array.context.int_ptr != self.queue.context.int_ptr:
            raise argument_error("E402", f"{name} lies in another context than the queue's",
                                 "an array belongs to the context of the queue that made it")
        return array

    def share(self, one: Any, other: Any) -> bool:
        """Are they the same buffer?"""
        return bool(one == other)

    def begins_at(self, memory: Any, alignment: int) -> bool:
        """Always: arrays begin where their buffers do, see `memory`, and these at multiples of what any vector takes."""
        return True

    def target(self) -> OpenCLTarget:
        """The target for the queue's device."""
        return OpenCLTarget().made_for(devices.of(self.queue.device))

    def load(self, part: Part) -> OpenCLExecutable:
        """Code on the queue's device, in its context."""
        device = devices.of(self.queue.device)
        return OpenCLExecutable(part.binary, device, on=Session(device, self.queue.context))

    def enqueue(self, executable: OpenCLExecutable, memory: Mapping[str, Any], wait_for: Any) -> Any:
        """Enqueue the kernels after some events; the event of their end."""
        return executable.enqueue(self.queue, memory, _events(wait_for))


def _events(wait_for: Any) -> list[Any]:
    """The events to wait for, of one or several. Raises ArgumentError E402."""
    event = devices.pyopencl().Event
    given = [wait_for] if isinstance(wait_for, event) else list(wait_for or ())
    wrong = next((e for e in given if not isinstance(e, event)), None)
    if wrong is not None:
        raise argument_error("E402", f"wait_for has a {type(wrong).__name__} in it, not a pyopencl.Event",
                             "enqueue() returns an event, as the functions of pyopencl do")
    return given
