"""CUDA C, compiled for a device, callable on arrays of the host."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from polytc.codegen import launch_order, size_names
from polytc.codegen.buffers import Buffer
from polytc.codegen.target import Binary, Bound, BoundRun, Launch
from polytc.program import extents
from polytc.program import sizes as formulas
from polytc.targets.cuda import nvrtc
from polytc.targets.cuda.devices import Device, call

_LOCK = threading.RLock()
"""Runs follow one another: they are all on the default stream of one context."""


class CudaExecutable:
    """Kernels of one module on a device."""

    def __init__(self, binary: Binary, device: Device, numbers: Mapping[str, int] | None = None) -> None:
        """numbers: values of the sizes that are not fixed, by all their names, see `Open`. Raises TargetError E524 to E526."""
        self.binary, self._numbers = binary, dict(numbers or {})
        self._driver = driver = nvrtc.bindings("driver")
        code = _code(binary, device)
        with _LOCK:
            self._context = call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(device.number))))
            call(driver.cuCtxSetCurrent(self._context))
            self._module = call(driver.cuModuleLoadData(code))
            self._launches = [self._prepared(x) for x in binary.launches]
            self._scratch: dict[str, Any] = {}
            self._copies: dict[str, Any] = {}
            weakref.finalize(self, _release, driver, self._context, self._module, (self._scratch, self._copies))
            self._allocate(binary.scratch, self._scratch)

    def _prepared(self, launch: Launch) -> _Prepared:
        block = (*launch.local_size, 1, 1)[:3]
        total = (*(extents.at(n, self._numbers) for n in launch.global_size), 1, 1)[:3]
        grid = tuple(max(0, n) // k for n, k in zip(total, block, strict=True))
        return _Prepared(call(self._driver.cuModuleGetFunction(self._module, launch.entry.encode())), launch, grid, block)

    def _allocate(self, some: Sequence[Buffer], into: dict[str, Any]) -> None:
        for b in some:
            if b.name not in into:
                into[b.name] = call(self._driver.cuMemAlloc(max(1, self.size(b))))

    def size(self, b: Buffer) -> int:
        """Bytes of an argument."""
        return prod(formulas.at(n, self._numbers) for n in b.shape) * b.dtype.bytes

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on arrays of the host that match binary.args: C-contiguous, right types and sizes. They are copied to the device,
        and outputs back; elements of these that no statement writes keep the caller's values."""
        with self._on_copies(buffers) as memory:
            self._enqueue(0, memory, lambda name: None)

    def timed(self, buffers: Sequence[np.ndarray]) -> list[tuple[str, float]]:
        """Run on arrays as `run` does; each kernel's name and its seconds by events before and after it, which see some
        microseconds of the launch, too."""
        driver, events = self._driver, list[tuple[str, Any]]()

        def stamp(name: str) -> None:
            events.append((name, call(driver.cuEventCreate(0))))
            call(driver.cuEventRecord(events[-1][1], 0))
        with self._on_copies(buffers) as memory:
            stamp("")
            self._enqueue(0, memory, stamp)
            call(driver.cuCtxSynchronize())
            spent = {x.launch.entry: 0.0 for x in self._launches}
            for (_, before), (name, after) in itertools.pairwise(events):
                spent[name] += call(driver.cuEventElapsedTime(before, after)) * 1e-3
            for _, e in events:
                call(driver.cuEventDestroy(e))
        return list(spent.items())

    @contextmanager
    def _on_copies(self, buffers: Sequence[np.ndarray]) -> Iterator[dict[str, Any]]:
        """Memory of the device with the contents of the arrays, and theirs from it afterwards."""
        driver = self._driver
        named = list(zip((b.name for b in self.binary.args), buffers, strict=True))
        with _LOCK:
            call(driver.cuCtxSetCurrent(self._context))
            self._allocate(self.binary.args, self._copies)
            for name, array in named:
                if array.nbytes:
                    call(driver.cuMemcpyHtoD(self._copies[name], array.ctypes.data, array.nbytes))
            yield self._copies
            for name, array in named:
                if name in self.binary.outputs and array.nbytes:
                    call(driver.cuMemcpyDtoH(array.ctypes.data, self._copies[name], array.nbytes))
            call(driver.cuCtxSynchronize())

    def enqueue(self, stream: int, memory: Mapping[str, int]) -> None:
        """Enqueue the kernels on a stream of the device's primary context, on addresses of the device, one for each of
        binary.args by name. Nothing is copied or waited for."""
        with _LOCK:
            call(self._driver.cuCtxSetCurrent(self._context))
            self._enqueue(stream, memory, lambda name: None)

    def _enqueue(self, stream: int, memory: Mapping[str, Any], after: Callable[[str], None]) -> None:
        """after: called with the name of each kernel when it has been launched."""
        known = {n: int(v) for n, v in {**self._scratch, **memory, **self._numbers}.items()}
        for x in self._launches:
            x.set(known)
        for made in launch_order.in_order(self.binary.launches, self._numbers):
            prepared = self._launches[made.number]
            prepared.set(made.values)
            if 0 not in prepared.grid:
                call(self._driver.cuLaunchKernel(prepared.kernel, *prepared.grid, *prepared.block, 0, stream,
                                                 prepared.places.ctypes.data, 0))
                after(prepared.launch.entry)

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """A function that runs on these arrays, which it keeps alive."""
        return BoundRun(self.run, buffers)


class _Prepared:
    """A launch with its arguments: addresses and 32-bit numbers, each in 64 bits of `values`, and where these lie."""

    def __init__(self, kernel: Any, launch: Launch, grid: Sequence[int], block: Sequence[int]) -> None:
        self.kernel, self.launch, self.grid, self.block = kernel, launch, tuple(grid), tuple(block)
        self._values = np.zeros(len(launch.args), np.uint64)
        self.places = self._values.ctypes.data + 8 * np.arange(len(launch.args), dtype=np.uint64)

    def set(self, values: Mapping[str, int]) -> None:
        """Give the arguments of these names their values."""
        for n, name in enumerate(self.launch.args):
            if name in values:
                self._values[n] = values[name] & (1 << 64) - 1


def _release(driver: Any, context: Any, module: Any, memory: Sequence[Mapping[str, Any]]) -> None:
    """Give the memory back, and the code."""
    with _LOCK:
        driver.cuCtxSetCurrent(context)
        for pointer in (p for some in memory for p in some.values()):
            driver.cuMemFree(pointer)
        driver.cuModuleUnload(module)


class Open:
    """Code for all sizes."""

    def __init__(self, binary: Binary, device: Device) -> None:
        self.binary, self._device = binary, device

    def at(self, sizes: Mapping[str, int]) -> CudaExecutable:
        """Kernels for these values of the sizes."""
        known = (names(self.binary.options, sizes) for names in (size_names.named, size_names.spelled))
        return CudaExecutable(self.binary, self._device, {n: v for each in known for n, v in each.items()})


def _code(binary: Binary, device: Device) -> bytes:
    """Code of the device; PTX of the newest architecture before it, where the compiler is older than the device."""
    known = nvrtc.architectures()
    options = binary.options["build"].split()
    text = binary.code.decode()
    if device.architecture in known:
        return nvrtc.compiled(text, f"sm_{device.architecture}", options, ptx=False)
    older = [n for n in known if n < device.architecture]
    return nvrtc.compiled(text, f"compute_{max(older or known)}", options)

