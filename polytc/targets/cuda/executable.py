"""CUDA C, compiled for a device, callable on arrays of the host."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from polytc.codegen import launch_order, size_names
from polytc.codegen.buffers import Buffer
from polytc.codegen.target import Binary, Bound, BoundRun
from polytc.program import extents
from polytc.program import sizes as formulas
from polytc.targets.cuda import nvrtc
from polytc.targets.cuda.devices import Device, call

_LOCK = threading.RLock()
"""Runs follow one another: they are all on the default stream of one context."""


class CudaExecutable:
    """Kernels of one module on a device. Arrays are copied to it and results back."""

    def __init__(self, binary: Binary, device: Device, numbers: Mapping[str, int] | None = None) -> None:
        """numbers: values of the sizes that are not fixed, by all their names, see `Open`. Raises TargetError E524 to E526."""
        self.binary, self._numbers = binary, dict(numbers or {})
        self._driver = driver = nvrtc.bindings("driver")
        code = _code(binary, device)
        with _LOCK:
            self._context = call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(device.number))))
            call(driver.cuCtxSetCurrent(self._context))
            self._module = call(driver.cuModuleLoadData(code))
            self._kernels = [call(driver.cuModuleGetFunction(self._module, x.entry.encode())) for x in binary.launches]
            self._memory: dict[str, Any] = {}
            weakref.finalize(self, _release, driver, self._context, self._module, self._memory)
            for b in (*binary.args, *binary.scratch):
                self._memory[b.name] = call(driver.cuMemAlloc(self._bytes(b)))

    def _bytes(self, b: Buffer) -> int:
        return max(1, prod(formulas.at(n, self._numbers) for n in b.shape)) * b.dtype.bytes

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on arrays that match binary.args: C-contiguous, right types and sizes. Outputs are overwritten."""
        driver = self._driver
        named = list(zip((b.name for b in self.binary.args), buffers, strict=True))
        with _LOCK:
            call(driver.cuCtxSetCurrent(self._context))
            for name, array in named:  # outputs too: elements that no statement writes keep the caller's values
                if array.nbytes:
                    call(driver.cuMemcpyHtoD(self._memory[name], array.ctypes.data, array.nbytes))
            for made in launch_order.in_order(self.binary.launches, self._numbers):
                self._launch(made.number, made.values)
            for name, array in named:
                if name in self.binary.outputs and array.nbytes:
                    call(driver.cuMemcpyDtoH(array.ctypes.data, self._memory[name], array.nbytes))
            call(driver.cuCtxSynchronize())

    def _launch(self, number: int, counters: Mapping[str, int]) -> None:
        launch = self.binary.launches[number]
        block = (*launch.local_size, 1, 1)[:3]
        total = (*(extents.at(n, self._numbers) for n in launch.global_size), 1, 1)[:3]
        grid = [n // k for n, k in zip(total, block, strict=True)]
        if 0 in grid:
            return
        numbers = {**self._numbers, **counters}
        values = [np.array([numbers[a]], np.int32) if a in numbers else np.array([int(self._memory[a])], np.uint64)
                  for a in launch.args]
        places = np.array([v.ctypes.data for v in values], np.uint64)
        call(self._driver.cuLaunchKernel(self._kernels[number], *grid, *block, 0, 0, places.ctypes.data, 0))

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """A function that runs on these arrays, which it keeps alive."""
        return BoundRun(self.run, buffers)


def _release(driver: Any, context: Any, module: Any, memory: Mapping[str, Any]) -> None:
    """Give the memory back, and the code."""
    with _LOCK:
        driver.cuCtxSetCurrent(context)
        for pointer in memory.values():
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

