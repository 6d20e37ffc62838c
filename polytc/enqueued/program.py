"""A program on arrays of a device: what is checked before its kernels are enqueued, whichever device it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from polytc import compiler
from polytc.codegen.package import Part
from polytc.codegen.target import Target
from polytc.machine import Machine
from polytc.program.program import Program
from polytc.program.scalars import DType
from polytc.rewrite.unwritten_elements import check_memory
from polytc.runtime.arrays import argument_error

Type: TypeAlias = tuple[tuple[int, ...], DType]


class Buffer(Protocol):
    """Memory of a device."""

    @property
    def size(self) -> int:
        """Bytes."""
        ...


class Queue(Protocol):
    """A queue of the caller's, and what its library calls arrays."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for queues that run the same code."""
        ...

    def type_of(self, name: str, array: Any, declared: Type | None) -> Type:
        """Shape and type of an array; of memory that has none, those that are declared. Raises ArgumentError E402."""
        ...

    def memory(self, name: str, array: Any, written: bool) -> Buffer:
        """The memory behind an array, which the queue's device can use. Raises ArgumentError E402, E407."""
        ...

    def share(self, one: Any, other: Any) -> bool:
        """Do two pieces of memory overlap?"""
        ...

    def begins_at(self, memory: Any, alignment: int) -> bool:
        """Does memory begin at a multiple of so many bytes?"""
        ...

    def target(self) -> Target:
        """The target for the queue's device."""
        ...

    def load(self, part: Part) -> Any:
        """Code on the queue's device."""
        ...

    def enqueue(self, executable: Any, memory: Mapping[str, Any], wait_for: Any) -> Any:
        """Enqueue the kernels, after some events; the event of their end, where the queue has such."""
        ...


@dataclass(frozen=True)
class Enqueued:
    """A program built for a device. arrays: for each argument of the executable, the program's array that it is."""

    program: Program
    executable: Any
    arrays: tuple[str, ...]

    @classmethod
    def load(cls, program: Program, queue: Queue, schedule: Callable[[Machine], str | None]) -> Enqueued:
        """The program for a queue's device. schedule: what is asked for, for a machine. Raises what compiling raises, and
        ArgumentError E410 where indices are to be checked: a run is not over when it has been enqueued."""
        if program.checked and check_memory(program)[1]:
            raise argument_error("E410", "enqueue() cannot tell of indices outside: it returns before the run is over",
                                 "call the op instead, or compile it with checked=False")
        to = queue.target()
        part = compiler.package(program, to, schedule(to.machine)).main
        return cls(program, queue.load(part), tuple(program.arrays[n] for n in part.arrays))

    def __call__(self, queue: Queue, inputs: Mapping[str, Any], outputs: Mapping[str, Any], wait_for: Sequence[Any]) -> Any:
        """Enqueue a run on arrays of the device. Raises ArgumentError E401, E402, E407, E408."""
        given = {**inputs, **outputs}
        missing = [n for n in self.program.arrays if n not in given]
        if missing:
            raise argument_error("E401", f"out= must give an array of the device for {', '.join(missing)}")
        written = {*self.program.inouts, *outputs}
        memory = {n: queue.memory(n, given[n], n in written) for n in self.program.arrays}
        for name, array in outputs.items():
            if name in self.program.inouts and not queue.share(memory[name], queue.memory(name, inputs[name], True)):
                raise argument_error("E407", f"{name} is written in place", f"leave {name} out of out=")
            self._check_result(queue, name, array)
        for name in self.program.arrays:
            self._check_memory(queue, name, memory[name], "E407" if name in outputs else "E402")
        self._check_shared(queue, memory, written)
        named = zip(self.executable.binary.args, self.arrays, strict=True)
        return queue.enqueue(self.executable, {b.name: memory[n] for b, n in named}, wait_for)

    def _check_result(self, queue: Queue, name: str, array: Any) -> None:
        t = self.program.tensor(name)
        found = queue.type_of(name, array, (t.shape, t.dtype))
        if found != (t.shape, t.dtype):
            raise argument_error("E407", f"out for {name} is {found[1]}{list(found[0])}, the result is "
                                         f"{t.dtype}{list(t.shape)}")

    def _check_memory(self, queue: Queue, name: str, memory: Buffer, code: str) -> None:
        """Refuse memory that is too small, or begins where the widest accesses of the kernels cannot."""
        t = self.program.tensor(name)
        size = math.prod(t.shape) * t.dtype.bytes
        alignment = max(t.dtype.bytes, int(self.executable.binary.options.get("alignment", 0)))
        if memory.size < size:
            raise argument_error(code, f"the buffer for {name} has {memory.size} bytes, not {size}")
        if size and not queue.begins_at(memory, alignment):
            raise argument_error(code, f"{name} begins at an address that is no multiple of {alignment} bytes",
                                 f"{name}.clone(), of torch, or its like has an address of its own")

    def _check_shared(self, queue: Queue, memory: Mapping[str, Any], written: set[str]) -> None:
        """Refuse memory that is written and given for another array, too."""
        for name in sorted(written):
            for other, buffer in memory.items():
                if other != name and queue.share(memory[name], buffer):
                    raise argument_error("E408", f"{name} and {other} are the same buffer",
                                         f"polytc may write {name} before it has read all of {other}; give another buffer")


def queue_of(target: str | Target, queue: Any) -> Queue:
    """The caller's queue as the target has it: a stream for CUDA, else a queue of pyopencl. Raises ArgumentError E402."""
    if (target if isinstance(target, str) else target.name) == "cuda":
        from polytc.enqueued.cuda import CudaQueue

        return CudaQueue.of(queue, target)
    from polytc.enqueued.opencl import OpenCLQueue

    return OpenCLQueue.of(queue)
