"""Programs on arrays that are in a device's memory already: enqueued on the caller's queue, without copies, asynchronously."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc import compiler
from polytc.machine import Machine
from polytc.program.program import Program
from polytc.program.scalars import DType
from polytc.rewrite.unwritten_elements import check_memory
from polytc.runtime.arrays import argument_error, dtype_of
from polytc.targets.opencl.driver import devices
from polytc.targets.opencl.driver.session import Session
from polytc.targets.opencl.executable import OpenCLExecutable
from polytc.targets.opencl.target import OpenCLTarget

Type = tuple[tuple[int, ...], DType]


@dataclass(frozen=True)
class Enqueued:
    """A program built for one context. arrays: for each argument of the executable, the program's array that it is."""

    program: Program
    executable: OpenCLExecutable
    arrays: tuple[str, ...]

    def __call__(self, queue: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], wait_for: Sequence[Any]) -> Any:
        """Enqueue a run on pyopencl arrays or buffers; its event. Raises ArgumentError E401, E402, E407, E408."""
        given = dict(inputs)
        for name, array in outputs.items():
            if name in self.program.inouts and buffer_of(name, array) != buffer_of(name, inputs[name]):
                raise argument_error("E407", f"{name} is written in place", f"leave {name} out of out=")
            given[name] = array
        missing = [n for n in self.program.arrays if n not in given]
        if missing:
            raise argument_error("E401", f"out= must give an array of the device for {', '.join(missing)}")
        memory = {}
        for b, name in zip(self.executable.binary.args, self.arrays, strict=True):
            memory[b.name] = buffer_of(name, given[name])
            t = self.program.tensor(name)
            size = math.prod(t.shape) * t.dtype.bytes
            if name in outputs and hasattr(given[name], "dtype"):
                found = type_of(name, given[name], None)
                if found != (t.shape, t.dtype):
                    raise argument_error("E407", f"out for {name} is {found[1]}{list(found[0])}, the result is "
                                                 f"{t.dtype}{list(t.shape)}")
            if memory[b.name].size < size:
                raise argument_error("E407" if name in outputs else "E402",
                                     f"the buffer for {name} has {memory[b.name].size} bytes, not {size}")
        self._check_shared({n: buffer_of(n, given[n]) for n in self.program.arrays}, outputs)
        _check_contexts(memory, queue)
        return self.executable.enqueue(queue, memory, events(wait_for))

    def _check_shared(self, memory: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Refuse a buffer that is written and given for another array, too."""
        for name in (*self.program.inouts, *outputs):
            for other, buffer in memory.items():
                if other != name and buffer == memory[name]:
                    raise argument_error("E408", f"{name} and {other} are the same buffer",
                                         f"polytc may write {name} before it has read all of {other}; give another buffer")


def load(program: Program, queue: Any, schedule: Callable[[Machine], str | None]) -> Enqueued:
    """The program for a queue's device and context. schedule: what is asked for, for a machine. Raises what compiling for
    OpenCL raises, and ArgumentError E410 where indices are to be checked: a run is not over when it has been enqueued."""
    if program.checked and check_memory(program)[1]:
        raise argument_error("E410", "enqueue() cannot tell of indices outside: it returns before the run is over",
                             "call the op instead, or compile it with checked=False")
    device = devices.of(queue.device)
    to = OpenCLTarget().made_for(device)
    part = compiler.package(program, to, schedule(to.machine)).main
    executable = OpenCLExecutable(part.binary, device, on=Session(device, queue.context))
    return Enqueued(program, executable, tuple(program.arrays[n] for n in part.arrays))


def check_queue(queue: Any) -> None:
    """Raises ArgumentError E402 for what is no queue of pyopencl."""
    if not isinstance(queue, devices.pyopencl().CommandQueue):
        raise argument_error("E402", f"the queue is a {type(queue).__name__}, not a pyopencl.CommandQueue",
                             "the queue comes first: op.enqueue(queue, A, ..., out=C)")


def events(wait_for: Any) -> list[Any]:
    """The events to wait for, of one or several. Raises ArgumentError E402."""
    event = devices.pyopencl().Event
    given = [wait_for] if isinstance(wait_for, event) else list(wait_for or ())
    wrong = next((e for e in given if not isinstance(e, event)), None)
    if wrong is not None:
        raise argument_error("E402", f"wait_for has a {type(wrong).__name__} in it, not a pyopencl.Event",
                             "enqueue() returns an event, as the functions of pyopencl do")
    return given


def _check_contexts(memory: Mapping[str, Any], queue: Any) -> None:
    """Raises ArgumentError E402 for a buffer that the queue's device does not know."""
    mine = queue.context.int_ptr
    for name, buffer in memory.items():
        if buffer.context.int_ptr != mine:
            raise argument_error("E402", f"{name} lies in another context than the queue's",
                                 "an array belongs to the context of the queue that made it")


def type_of(name: str, array: Any, declared: Type | None) -> Type:
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


def buffer_of(name: str, array: Any) -> Any:
    """The buffer behind an array. Raises ArgumentError E402 where the array begins inside of it."""
    if not hasattr(array, "base_data"):
        return array
    if array.offset:
        raise argument_error("E402", f"{name} begins {array.offset} bytes into its buffer", f"pass {name}.copy()")
    return array.base_data
