"""What a target is: a sibling that turns a Loop AST module into source text, and source into something that runs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from polytc.codegen.buffers import Buffer

if TYPE_CHECKING:
    from polytc.codegen.loops import Module
    from polytc.machine import Machine
    from polytc.program.extents import Extent

Types: TypeAlias = Sequence[tuple[tuple[int, ...], np.dtype]]
"""Shapes and dtypes of arrays."""


@dataclass(frozen=True)
class Repeat:
    """A loop of the host around launches: for var in lower:upper:step. The ends are numbers, or formulas of sizes and of the
    variables of loops outside."""

    var: str
    lower: Extent
    upper: Extent
    step: int = 1

    def __str__(self) -> str:
        return f"for {self.var} in {self.lower}:{self.upper}{'' if self.step == 1 else f':{self.step}'}"


@dataclass(frozen=True)
class Launch:
    """One kernel of a source: its entry point, the names of its arguments in order, and for OpenCL the NDRange
    (sizes in work-items, axis 0 first; empty for CPUs). Where sizes are not fixed, those that the kernel reads follow its
    arrays, and the NDRange is made of formulas of them.

    loops: of the host around it, outermost first, whose variables that the kernel reads are its last arguments. Launches in a
    row whose first loops are the same share them: each iteration launches them one after another."""

    entry: str
    args: tuple[str, ...]
    global_size: tuple[Extent, ...] = ()
    local_size: tuple[int, ...] = ()
    loops: tuple[Repeat, ...] = ()


@dataclass(frozen=True)
class Source:
    """Generated code and how to call it. text: LLVM IR, OpenCL C, or the printed Loop AST for the interpreter.
    module: the Loop AST it came from, after this target's passes."""

    target: str
    text: str
    launches: tuple[Launch, ...]
    module: Module
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Binary:
    """A built source as plain data: all that `load` needs, here or in another process on such a machine (see package.py).

    name: of the module; args, outputs, scratch: its buffers; launches: its kernels. code: an object file, OpenCL C or Python,
    as the target has it; options: what else the target wants to know.
    """

    name: str
    args: tuple[Buffer, ...]
    outputs: tuple[str, ...]
    scratch: tuple[Buffer, ...]
    launches: tuple[Launch, ...]
    code: bytes
    options: dict[str, str]

    @classmethod
    def of(cls, source: Source, code: bytes, **options: str) -> Binary:
        """What the source says about itself, with its code; options are added to the source's."""
        m = source.module
        return cls(m.name, m.args, m.outputs, m.scratch, source.launches, code, {**source.options, **options})


class Executable(Protocol):
    """Loaded code of one module."""

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on arrays for `binary.args` (C-contiguous, of their types and numbers of elements, checked by the caller; any
        shape): inputs are only read, outputs are overwritten. Scratch is the executable's own affair."""
        ...

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """`run` on these arrays as a function, which keeps them alive."""
        ...


@runtime_checkable
class FastPath(Protocol):
    """An executable that recognises the arrays of a call by itself."""

    def fast_path(self, inputs: Types, outputs: Types) -> Callable[..., bool] | None:
        """A function of the arrays, inputs then outputs: whether they are numpy arrays of just these shapes and dtypes that
        kernels may use as they are; then it has run on them, else nothing has happened. None: there is no such function."""
        ...


@runtime_checkable
class Timed(Protocol):
    """An executable of a device that has a clock."""

    def timed(self, buffers: Sequence[np.ndarray]) -> list[tuple[str, float]]:
        """`run`; each kernel's name and its seconds on the device, in order."""
        ...


class Bound(Protocol):
    """Code fixed to arrays. Not to be called, or moved, by two threads at once."""

    def __call__(self) -> None:
        ...

    def move(self, position: int, array: np.ndarray) -> None:
        """From now on use another array as argument `position`: of the same type and shape, and C-contiguous. The caller keeps
        it alive as long as calls follow."""
        ...


@runtime_checkable
class Native(Protocol):
    """A Bound that is one native function, which other native code can call.

    needs: bytes of scratch memory that it wants. words: of its table.
    """

    needs: int
    words: int

    def lend(self, memory: np.ndarray) -> tuple[int, int, int, int]:
        """From now on use this memory, on a cache line and of at least `needs` bytes, as scratch; whoever lends it to several
        runs one at a time. The addresses of `entry(table, arena, launch, pool, threads)`, of its table of arrays and of its
        arena, and the number of threads."""
        ...

    def slot(self, position: int) -> ctypes.c_int64:
        """The place in the table that has the address of argument `position`."""
        ...


class DeviceSession(Protocol):
    """A device in use, and its queue."""

    @property
    def lock(self) -> AbstractContextManager[None]:
        """Who holds it may enqueue."""
        ...

    def finish(self) -> None:
        """Wait for all that was enqueued."""
        ...

    def replay(self) -> Callable[[Sequence[Any]], None]:
        """A function that enqueues the kernels of prepared executables, one after another; often the same ones."""
        ...


class Prepared(Protocol):
    """Kernels whose arguments are set."""

    def move(self, name: str, buffer: Any) -> None:
        """Use another buffer for an argument."""
        ...


class DeviceExecutable(Protocol):
    """Loaded code of a device, whose memory holds what it hands on. The session's lock is held where buffers are given."""

    binary: Binary

    @property
    def session(self) -> DeviceSession:
        """The device in use."""
        ...

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """See Executable."""
        ...

    def prepared(self, memory: Mapping[str, Any]) -> Prepared:
        """Its kernels on these buffers, one for each of binary.args by name, until others are given."""
        ...

    def shared(self, array: np.ndarray) -> Any:
        """The array's own memory as a buffer, where the device can use it; else None."""
        ...

    def made(self, array: np.ndarray, read: bool) -> Any:
        """A buffer for an array, which stays; with its contents, if it is read. It has a `size` in bytes."""
        ...

    def upload(self, array: np.ndarray, buffer: Any) -> None:
        """Copy an array, which may change when this returns, to a buffer."""
        ...

    def to_host(self, array: np.ndarray, buffer: Any) -> None:
        """Make an array have the buffer's contents, when the session has finished at the latest."""
        ...

    def reporting(self) -> AbstractContextManager[None]:
        """Where errors of the driver are raised as TargetError."""
        ...


@runtime_checkable
class Queued(Protocol):
    """A Bound of a device, which runs in a queue: what one writes there the next can read (see runtime/device_chains.py).

    session: the same for those of one queue. buffers: the arrays that it is bound to; moved: positions of those that others
    took the place of.
    """

    executable: DeviceExecutable
    buffers: list[np.ndarray]
    moved: set[int]

    @property
    def session(self) -> DeviceSession:
        """The device and its queue."""
        ...


class BoundQueued:
    """The code of a device on arrays, which it keeps alive."""

    def __init__(self, executable: DeviceExecutable, buffers: Sequence[np.ndarray]) -> None:
        self.executable, self.buffers, self.moved = executable, list(buffers), set[int]()

    def __call__(self) -> None:
        self.executable.run(self.buffers)

    @property
    def session(self) -> DeviceSession:
        """See Queued."""
        return self.executable.session

    def move(self, position: int, array: np.ndarray) -> None:
        """Use another array."""
        self.buffers[position] = array
        self.moved.add(position)


@runtime_checkable
class Resizable(Protocol):
    """Code for all sizes that makes itself executables for given ones."""

    def at(self, sizes: Mapping[str, int]) -> Executable:
        """The code for these values of the sizes, in the order in which the program names them."""
        ...


class BoundRun:
    """A Bound that calls `run` on a list of arrays."""

    def __init__(self, run: Callable[[Sequence[np.ndarray]], None], buffers: Sequence[np.ndarray]) -> None:
        self._run, self._buffers = run, list(buffers)

    def __call__(self) -> None:
        self._run(self._buffers)

    def move(self, position: int, array: np.ndarray) -> None:
        """Use another array."""
        self._buffers[position] = array


@runtime_checkable
class DescribedTarget(Protocol):
    """A target that makes code for machines which are described."""

    def described(self, machine: Machine) -> Target:
        """The target for that machine. Raises TargetError E541 where it has none for such a machine."""
        ...


@runtime_checkable
class Loader(Protocol):
    """What makes binaries run."""

    def load(self, binary: Binary, threads: int) -> Executable:
        """Code on the device. threads: how many may run a parallel loop."""
        ...


@runtime_checkable
class Target(Loader, Protocol):
    """A row of the target registry. Equal ones make the same code."""

    def __hash__(self) -> int:
        ...

    @property
    def name(self) -> str:
        ...

    @property
    def machine(self) -> Machine:
        ...

    @property
    def takes_sizes(self) -> bool:
        """Are sizes that are not fixed variables of the modules that it emits? Else they come in an array
        (codegen.size_binding)."""
        ...

    def here(self) -> Target:
        """The same target for the device that `load` would use: better code there. Raises TargetError without a device."""
        ...

    def emit(self, module: Module) -> Source:
        """Pure: needs no device."""
        ...

    def build(self, source: Source) -> Binary:
        """Pure: the slow part of making code, whose result can be kept."""
        ...


@runtime_checkable
class Forkable(Protocol):
    """A target that may build in forks of this process."""

    @property
    def forkable(self) -> bool:
        """Does it build without a driver, whose state a fork would share?"""
        ...


@runtime_checkable
class MultiDeviceTarget(Target, Protocol):
    """A target that has several devices to choose from."""

    def on(self, device: str) -> Target:
        """The target for another device: a number in the order of `polytc devices`, or a part of a name."""
        ...

    def driven(self) -> Target:
        """The same target, which leaves out what the driver of the device that `load` would use compiles wrongly. Raises
        TargetError without a device."""
        ...
