"""The device of a target: programs on its memory, and its clock."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

import polytc
from polytc import decisions
from polytc.codegen.buffers import Buffer
from polytc.runtime.arrays import dtype_of
from polytc.targets import registry
from polytc.targets.cuda import devices as cuda_devices
from polytc.targets.cuda import nvrtc
from polytc.targets.cuda.devices import call
from polytc.targets.opencl.driver import devices as cl_devices
from polytc.targets.opencl.driver.session import session

COPY_BYTES = 1 << 30
COPIES = 10


class CudaDevice:
    """That of target="cuda"."""

    target = "cuda"

    def __init__(self) -> None:
        found = cuda_devices.choose()
        self.name, self._driver = found.name, nvrtc.bindings("driver")
        version = call(self._driver.cuDriverGetVersion())
        self.driver = f"for CUDA {version // 1000}.{version % 1000 // 10}"
        handle = call(self._driver.cuDeviceGet(found.number))
        call(self._driver.cuCtxSetCurrent(call(self._driver.cuDevicePrimaryCtxRetain(handle))))

    def made(self, contents: np.ndarray) -> Any:
        """Memory with the contents of an array."""
        place = call(self._driver.cuMemAlloc(max(contents.nbytes, 1)))
        if contents.nbytes:
            call(self._driver.cuMemcpyHtoD(place, contents.ctypes.data, contents.nbytes))
        return place

    def read(self, place: Any, into: np.ndarray) -> None:
        """Copy memory to an array."""
        call(self._driver.cuMemcpyDtoH(into.ctypes.data, place, into.nbytes))

    def free(self, place: Any) -> None:
        """Give memory back."""
        call(self._driver.cuMemFree(place))

    def copy(self, to: Any, source: Any, size: int) -> None:
        """Enqueue a copy in the device's memory."""
        call(self._driver.cuMemcpyDtoDAsync(to, source, size, 0))

    def enqueue(self, executable: Any, memory: Mapping[str, Any]) -> None:
        """Enqueue a program's kernels."""
        executable.enqueue(executable.session.stream, memory)

    def seconds(self, some: Callable[[], object]) -> float:
        """Of the device, for what a function enqueues."""
        d = self._driver
        start, end = (call(d.cuEventCreate(0)) for _ in range(2))
        call(d.cuEventRecord(start, 0))
        some()
        call(d.cuEventRecord(end, 0))
        call(d.cuEventSynchronize(end))
        found = call(d.cuEventElapsedTime(start, end)) * 1e-3
        for e in (start, end):
            call(d.cuEventDestroy(e))
        return float(found)


class OpenCLDevice:
    """That of target="opencl"."""

    target = "opencl"

    def __init__(self) -> None:
        found = cl_devices.choose()
        if found.kind != "gpu":
            raise LookupError(f"{found} is none")
        self._cl, self._session = cl_devices.pyopencl(), session(found)
        self.name, self.driver = found.handle.name, found.handle.driver_version
        timed = self._cl.command_queue_properties.PROFILING_ENABLE
        self._queue = self._cl.CommandQueue(self._session.context, found.handle, timed)

    def made(self, contents: np.ndarray) -> Any:
        """Memory with the contents of an array."""
        found = self._cl.Buffer(self._session.context, self._cl.mem_flags.READ_WRITE, max(contents.nbytes, 1))
        if contents.nbytes:
            self._cl.enqueue_copy(self._queue, found, contents)
        return found

    def read(self, place: Any, into: np.ndarray) -> None:
        """Copy memory to an array."""
        self._cl.enqueue_copy(self._queue, into, place)

    def free(self, place: Any) -> None:
        """Give memory back."""
        place.release()

    def copy(self, to: Any, source: Any, size: int) -> None:
        """Enqueue a copy in the device's memory."""
        self._cl.enqueue_copy(self._queue, to, source, byte_count=size)

    def enqueue(self, executable: Any, memory: Mapping[str, Any]) -> None:
        """Enqueue a program's kernels."""
        executable.enqueue(self._queue, memory)

    def seconds(self, some: Callable[[], object]) -> float:
        """Of the device, for what a function enqueues."""
        start = self._cl.enqueue_marker(self._queue)
        some()
        end = self._cl.enqueue_marker(self._queue)
        end.wait()
        return float((end.profile.end - start.profile.end) * 1e-9)


DEVICES: dict[str, type[CudaDevice] | type[OpenCLDevice]] = {"cuda": CudaDevice, "opencl": OpenCLDevice}


def copy_rate(device: Any) -> float:
    """GB/s that a copy in the device's memory reads and writes."""
    contents = np.ones(COPY_BYTES, np.uint8)
    a, b = (device.made(contents) for _ in range(2))
    times = [device.seconds(lambda: device.copy(b, a, COPY_BYTES)) for _ in range(COPIES)]
    for x in (a, b):
        device.free(x)
    return 2 * COPY_BYTES / statistics.median(times) * 1e-9


class OnDevice:
    """A program whose arrays are in a device's memory."""

    def __init__(self, device: Any, text: str, arrays: Mapping[str, np.ndarray], record: str = "") -> None:
        """record: of decisions."""
        target = registry.running(device.target)
        self.lowered = polytc.lower(text, target, shapes={n: a.shape for n, a in arrays.items()},
                                    dtypes={n: dtype_of(n, a.dtype).name for n, a in arrays.items()},
                                    decisions=decisions.read(record) if record else None)
        self._executable = cast("Any", target.load(target.build(self.lowered.source), 0))
        self._device = device
        self._args: tuple[Buffer, ...] = self._executable.binary.args
        self._arrays = [arrays.get(b.name, _zeros(b)) for b in self._args]
        self._memory = {b.name: device.made(a) for b, a in zip(self._args, self._arrays, strict=True)}
        self.kernels = len(self._executable.binary.launches)

    def seconds(self, times: int) -> float:
        """Of the device, for so many calls."""
        def calls() -> None:
            for _ in range(times):
                self._device.enqueue(self._executable, self._memory)
        return float(self._device.seconds(calls))

    def results(self) -> list[np.ndarray]:
        """The outputs of a call."""
        self.seconds(1)
        found = []
        for name in self.lowered.program.outputs:
            found.append(_zeros(next(b for b in self._args if b.name == name)))
            self._device.read(self._memory[name], found[-1])
        return found

    def launches(self) -> list[tuple[str, float]]:
        """Each kernel, and its seconds."""
        return list(self._executable.timed(self._arrays))

    def free(self) -> None:
        """Give the memory back."""
        for place in self._memory.values():
            self._device.free(place)


def _zeros(b: Buffer) -> np.ndarray:
    return np.zeros([int(n) for n in b.shape], b.dtype.numpy)
