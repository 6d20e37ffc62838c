"""CUDA C, compiled for a device, callable on arrays of the host and of the device."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from math import prod
from typing import Any, SupportsInt

import numpy as np

from polytc.codegen import launch_order, size_names
from polytc.codegen.buffers import Buffer
from polytc.codegen.target import Binary, Bound, BoundQueued, Launch
from polytc.program import extents
from polytc.program import sizes as formulas
from polytc.targets.cuda import nvrtc
from polytc.targets.cuda.devices import Device, call
from polytc.targets.cuda.session import Memory, Session, session


class CudaExecutable:
    """Kernels of one module on a device. Several Python threads may call it; their runs follow one another."""

    def __init__(self, binary: Binary, device: Device, numbers: Mapping[str, int] | None = None) -> None:
        """numbers: values of the sizes that are not fixed, by all their names, see `Open`. Raises TargetError E524 to E526."""
        self.binary, self._numbers = binary, dict(numbers or {})
        code = binary.code if binary.options.get("compute") == str(device.architecture) else nvrtc.for_device(
            binary.code.decode(), device.architecture, binary.options["build"].split())
        self._session = on = session(device.number)
        with on.lock:
            self._module = call(on.driver.cuModuleLoadData(code))
            weakref.finalize(self, _unload, on, self._module)
            self.launches = [self._launched(x) for x in binary.launches]
            self._scratch = {b.name: Memory(on, self.size(b)) for b in binary.scratch}
        self._copies: dict[str, Memory] = {}
        self._own, self._lent = Prepared(self, {}), Prepared(self, {})

    def _launched(self, launch: Launch) -> Launched:
        block = (*launch.local_size, 1, 1)[:3]
        total = (*(extents.at(n, self._numbers) for n in launch.global_size), 1, 1)[:3]
        grid = tuple(max(0, n) // k for n, k in zip(total, block, strict=True))
        kernel = call(self._session.driver.cuModuleGetFunction(self._module, launch.entry.encode()))
        return Launched(kernel, launch, grid, block)

    def size(self, b: Buffer) -> int:
        """Bytes of an argument."""
        return prod(formulas.at(n, self._numbers) for n in b.shape) * b.dtype.bytes

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on arrays of the host that match binary.args: C-contiguous, right types and sizes. They are copied to the device,
        and outputs back; elements of these that no statement writes keep the caller's values."""
        with self._on_copies(buffers):
            self._own.enqueue(self._session.stream)

    def timed(self, buffers: Sequence[np.ndarray]) -> list[tuple[str, float]]:
        """Run on arrays as `run` does; each kernel's name and its seconds, by events before and after it, which see some
        microseconds of the launch, too."""
        driver, stream, events = self._session.driver, self._session.stream, list[tuple[str, Any]]()

        def stamp(name: str) -> None:
            events.append((name, call(driver.cuEventCreate(0))))
            call(driver.cuEventRecord(events[-1][1], stream))
        with self._on_copies(buffers):
            stamp("")
            self._own.enqueue(stream, stamp)
            self._session.finish()
            spent = {x.launch.entry: 0.0 for x in self.launches}
            for (_, before), (name, after) in itertools.pairwise(events):
                spent[name] += call(driver.cuEventElapsedTime(before, after)) * 1e-3
            for _, e in events:
                call(driver.cuEventDestroy(e))
        return list(spent.items())

    @contextmanager
    def _on_copies(self, buffers: Sequence[np.ndarray]) -> Iterator[None]:
        """Memory of the device with the contents of the arrays, and theirs from it afterwards."""
        on = self._session
        with on.lock:
            for b, array in zip(self.binary.args, buffers, strict=True):
                if b.name not in self._copies:
                    self._copies[b.name] = Memory(on, self.size(b))
                    self._own.move(b.name, self._copies[b.name])
                on.upload(array, int(self._copies[b.name]))
            yield
            on.finish()
            for b, array in zip(self.binary.args, buffers, strict=True):
                if b.name in self.binary.outputs:
                    on.download(array, int(self._copies[b.name]))

    def enqueue(self, stream: int, memory: Mapping[str, SupportsInt]) -> None:
        """Enqueue the kernels on a stream of the device's primary context, on addresses of the device, one for each of
        binary.args by name. Nothing is copied or waited for."""
        with self._session.lock:
            for name, address in memory.items():
                self._lent.move(name, address)
            self._lent.enqueue(stream)

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """A function that runs on these arrays, which it keeps alive."""
        return BoundQueued(self, buffers)

    # ---- memory of the device, for runs of several executables (see codegen.target.Queued)

    @property
    def session(self) -> Session:
        """The device in use."""
        return self._session

    @property
    def scratch(self) -> Mapping[str, Memory]:
        """Memory between the kernels, by name."""
        return self._scratch

    @property
    def numbers(self) -> Mapping[str, int]:
        """Values of the sizes that are not fixed."""
        return self._numbers

    def prepared(self, memory: Mapping[str, SupportsInt]) -> Prepared:
        """Kernels on these addresses until others are given."""
        return Prepared(self, memory)

    def shared(self, array: np.ndarray) -> None:
        """The host's memory is not the device's."""

    def made(self, array: np.ndarray, read: bool) -> Memory:
        """Memory of the device for an array; with its contents, if it is read."""
        found = Memory(self._session, array.nbytes)
        if read:
            self.upload(array, found)
        return found

    def upload(self, array: np.ndarray, buffer: SupportsInt) -> None:
        """Copy an array, which may change when this returns."""
        self._session.upload(array, int(buffer))

    def to_host(self, array: np.ndarray, buffer: SupportsInt) -> None:
        """Copy what has been computed to an array."""
        self._session.download(array, int(buffer))

    def reporting(self) -> nullcontext[None]:
        """Where the driver's errors become ours: each call has told of its own."""
        return nullcontext()


class Launched:
    """A kernel, and how it is launched."""

    def __init__(self, kernel: Any, launch: Launch, grid: Sequence[int], block: Sequence[int]) -> None:
        self.kernel, self.launch, self.grid, self.block = kernel, launch, tuple(grid), tuple(block)


class Prepared:
    """The kernels of an executable with arguments that stay set: addresses and 32-bit numbers, each in 64 bits."""

    def __init__(self, executable: CudaExecutable, memory: Mapping[str, SupportsInt]) -> None:
        self._executable, self.version = executable, 0
        self._values = [np.zeros(len(x.launch.args), np.uint64) for x in executable.launches]
        self._places = [v.ctypes.data + 8 * np.arange(len(v), dtype=np.uint64) for v in self._values]
        self._memory: dict[str, SupportsInt] = {**executable.scratch, **executable.numbers, **memory}
        for n in range(len(self._values)):
            self._set(n, self._memory)

    def _set(self, number: int, values: Mapping[str, SupportsInt]) -> None:
        for n, name in enumerate(self._executable.launches[number].launch.args):
            if name in values:
                self._values[number][n] = int(values[name]) & (1 << 64) - 1

    def move(self, name: str, buffer: SupportsInt) -> None:
        """Use another address for an argument."""
        before = self._memory.get(name)
        self._memory[name] = buffer
        if before is None or int(before) != int(buffer):
            self.version += 1
            for n in range(len(self._values)):
                self._set(n, {name: buffer})

    def enqueue(self, stream: int, after: Callable[[str], None] = lambda name: None) -> None:
        """Launch them; the session's lock is held. after: called with the name of each kernel when it has been launched."""
        e = self._executable
        driver = e.session.driver
        for made in launch_order.in_order(e.binary.launches, e.numbers):
            x, places = e.launches[made.number], self._places[made.number].ctypes.data
            self._set(made.number, made.values)
            if 0 not in x.grid:
                call(driver.cuLaunchKernel(x.kernel, *x.grid, *x.block, 0, stream, places, 0))
                after(x.launch.entry)


def _unload(on: Session, module: Any) -> None:
    with on.lock:
        on.driver.cuModuleUnload(module)


class Open:
    """Code for all sizes."""

    def __init__(self, binary: Binary, device: Device) -> None:
        self.binary, self._device = binary, device

    def at(self, sizes: Mapping[str, int]) -> CudaExecutable:
        """Kernels for these values of the sizes."""
        known = (names(self.binary.options, sizes) for names in (size_names.named, size_names.spelled))
        return CudaExecutable(self.binary, self._device, {n: v for each in known for n, v in each.items()})
