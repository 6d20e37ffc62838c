"""cuda-python's `driver` and `nvrtc` on the processor: the calls that polytc makes, with the values and codes they have there.

"Code" is a library that g++ makes of the text behind blocks_on_cpu.hpp, device memory that of the host, between canaries.
"""

from __future__ import annotations

import ctypes
import tempfile
import threading
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests import cuda_here

ROOM = 4096
ATTRIBUTES = {"MULTIPROCESSOR_COUNT": 4, "MAX_SHARED_MEMORY_PER_BLOCK": 48 << 10,
              "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 228 << 10, "WARP_SIZE": 32,
              "MAX_THREADS_PER_BLOCK": 1024, "L2_CACHE_SIZE": 1 << 20,
              "COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0}


class FakeDriver:
    """limit: bytes of the largest array. others: address -> the number of the device that has it, where that is not 0."""

    def __init__(self, devices: int = 1, limit: int = 1 << 30) -> None:
        self.devices, self.limit = devices, limit
        self.memory: dict[int, np.ndarray] = {}
        self.events = self.graphs = 0
        self.current = threading.local()
        self.recorded: list[Any] | None = None
        self.CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL="thread")
        names = {f"CU_DEVICE_ATTRIBUTE_{n}": n for n in ATTRIBUTES}
        self.CUdevice_attribute = SimpleNamespace(**names)
        self.CUpointer_attribute = SimpleNamespace(**{f"CU_POINTER_ATTRIBUTE_{n}": n for n in ("DEVICE_ORDINAL", "IS_MANAGED")})
        self.others: dict[int, int] = {}
        self.managed: set[int] = set()

    def cuInit(self, flags: int) -> tuple[int]:
        return (0,)

    def cuDeviceGetCount(self) -> tuple[int, int]:
        return 0, self.devices

    def cuDeviceGet(self, number: int) -> tuple[int, int]:
        return (0, number) if number < self.devices else (101, 0)

    def cuDeviceGetName(self, length: int, device: int) -> tuple[int, bytes]:
        return 0, b"a processor\0".ljust(length, b"\0")

    def cuDeviceGetAttribute(self, attribute: str, device: int) -> tuple[int, int]:
        return 0, ATTRIBUTES[attribute]

    def cuPointerGetAttribute(self, attribute: str, address: int) -> tuple[int, int | None]:
        """Of memory that others than 0 hold: see `others`."""
        if attribute == "IS_MANAGED":
            return 0, int(address in self.managed)
        inside = any(place <= address < place + len(block) for place, block in self.memory.items())
        return (0, self.others.get(address, 0)) if inside else (1, None)

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, str]:
        return 0, "context"

    def cuCtxSetCurrent(self, context: str) -> tuple[int]:
        self.current.context = context
        return (0 if context == "context" else 201,)

    def _outside(self) -> bool:
        """Has the thread no context?"""
        return getattr(self.current, "context", None) != "context"

    def cuCtxSynchronize(self) -> tuple[int]:
        return (0,)

    def cuModuleLoadData(self, code: bytes) -> tuple[int, Any]:
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(code)
            file.flush()
            return 0, ctypes.CDLL(file.name)

    def cuModuleUnload(self, module: Any) -> tuple[int]:
        return (0,)

    def cuModuleGetFunction(self, module: Any, name: bytes) -> tuple[int, Any]:
        try:
            kernel = module[f"polytc_launch_{name.decode()}"]
        except AttributeError:
            return 500, None
        kernel.arguments = ctypes.c_int.in_dll(module, f"polytc_arguments_{name.decode()}").value
        return 0, kernel

    def cuMemAlloc(self, size: int) -> tuple[int, int]:
        assert size > 0
        if self._outside() or size > self.limit:
            return 201 if self._outside() else 2, 0
        block = np.full(size + 2 * ROOM + 256, 0xFF, np.uint8)
        place = block.ctypes.data + ROOM + -(block.ctypes.data + ROOM) % 256
        self.memory[place] = block
        block[place - block.ctypes.data:place - block.ctypes.data + size] = 0xAA
        block[-8:] = np.frombuffer(np.int64(size).tobytes(), np.uint8)
        return 0, place

    def cuMemFree(self, place: int) -> tuple[int]:
        block = self.memory.pop(place)
        before, size = place - block.ctypes.data, int(block[-8:].view(np.int64)[0])
        assert (block[:before] == 0xFF).all(), "memory before an array was written"
        assert (block[before + size:-8] == 0xFF).all(), "memory behind an array was written"
        return (0,)

    def cuMemcpyHtoD(self, to: int, host: int, size: int) -> tuple[int]:
        if self._outside():
            return (201,)
        assert to in self.memory
        ctypes.memmove(to, host, size)
        return (0,)

    def cuMemcpyDtoH(self, host: int, place: int, size: int) -> tuple[int]:
        if self._outside():
            return (201,)
        assert place in self.memory
        ctypes.memmove(host, place, size)
        return (0,)

    def cuStreamCreate(self, flags: int) -> tuple[int, int]:
        return 0, 7

    def cuStreamSynchronize(self, stream: int) -> tuple[int]:
        return (0 if stream == 7 else 400,)

    def cuStreamBeginCapture(self, stream: int, mode: str) -> tuple[int]:
        self.recorded = []
        return (0,)

    def cuStreamEndCapture(self, stream: int) -> tuple[int, list[Any]]:
        graph, self.recorded = self.recorded or [], None
        return 0, graph

    def cuGraphInstantiate(self, graph: list[Any], flags: int) -> tuple[int, list[Any]]:
        self.graphs += 1
        return 0, list(graph)

    def cuGraphLaunch(self, graph: list[Any], stream: int) -> tuple[int]:
        for kernel, grid, block, values in graph:
            places = np.array([v.ctypes.data for v in values], np.uint64)
            kernel(grid, block, ctypes.c_void_p(places.ctypes.data))
        return (0,)

    def cuGraphDestroy(self, graph: list[Any]) -> tuple[int]:
        return (0,)

    def cuGraphExecDestroy(self, graph: list[Any]) -> tuple[int]:
        self.graphs -= 1
        return (0,)

    def cuMemcpyDtoDAsync(self, to: int, place: int, size: int, stream: int) -> tuple[int]:
        assert to in self.memory
        assert place in self.memory
        ctypes.memmove(to, place, size)
        return (0,)

    def cuEventCreate(self, flags: int) -> tuple[int, list[float]]:
        self.events += 1
        return 0, []

    def cuEventRecord(self, event: list[float], stream: int) -> tuple[int]:
        event[:] = [time.perf_counter()]
        return (0,)

    def cuEventSynchronize(self, event: list[float]) -> tuple[int]:
        return (0,)

    def cuEventElapsedTime(self, start: list[float], end: list[float]) -> tuple[int, float]:
        return 0, (end[0] - start[0]) * 1e3

    def cuEventDestroy(self, event: list[float]) -> tuple[int]:
        self.events -= 1
        return (0,)

    def cuDriverGetVersion(self) -> tuple[int, int]:
        return 0, 12060

    def cuLaunchKernel(self, kernel: Any, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int,
                       parameters: int, extra: int) -> tuple[int]:
        if self._outside():
            return (201,)
        triple = ctypes.c_uint * 3
        grid, block = triple(gx, gy, gz), triple(bx, by, bz)
        if self.recorded is not None:  # the arguments are copied, each of 64 bits: there is no type to see
            count = kernel.arguments
            places = np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(parameters))
            values = [np.array([ctypes.c_uint64.from_address(int(p)).value]) for p in places]
            self.recorded.append((kernel, grid, block, values))
            return (0,)
        return (719 if kernel(grid, block, ctypes.c_void_p(parameters)) else 0,)


class FakeNvrtc:
    """g++ in NVRTC's place. known: architectures that it has; asked: what it was called with."""

    def __init__(self, known: Sequence[int] = (80, 90)) -> None:
        self.known, self.asked = list(known), list[bytes]()

    def nvrtcVersion(self) -> tuple[int, int, int]:
        return 0, 12, 6

    def nvrtcGetNumSupportedArchs(self) -> tuple[int, int]:
        return 0, len(self.known)

    def nvrtcGetSupportedArchs(self) -> tuple[int, list[int]]:
        return 0, self.known

    def nvrtcCreateProgram(self, text: bytes, name: bytes, count: int, headers: None, names: None
                           ) -> tuple[int, dict[str, Any]]:
        return 0, {"text": text.decode()}

    def nvrtcCompileProgram(self, program: dict[str, Any], count: int, options: list[bytes]) -> tuple[int]:
        assert count == len(options)
        self.asked += options
        text = program["text"]
        try:
            program["code"] = cuda_here.library(text + cuda_here.callers(text))
        except AssertionError as e:
            program["log"] = str(e).encode()
            return (6,)
        return (0,)

    def _size(self, program: dict[str, Any], key: str) -> tuple[int, int]:
        return 0, len(program.get(key, b""))

    def _get(self, program: dict[str, Any], key: str, buffer: bytes) -> tuple[int]:
        ctypes.memmove(buffer, program.get(key, b""), len(buffer))
        return (0,)

    def nvrtcGetProgramLogSize(self, program: dict[str, Any]) -> tuple[int, int]:
        return self._size(program, "log")

    def nvrtcGetProgramLog(self, program: dict[str, Any], buffer: bytes) -> tuple[int]:
        return self._get(program, "log", buffer)

    def nvrtcGetPTXSize(self, program: dict[str, Any]) -> tuple[int, int]:
        return self._size(program, "code")

    def nvrtcGetPTX(self, program: dict[str, Any], buffer: bytes) -> tuple[int]:
        return self._get(program, "code", buffer)

    nvrtcGetCUBINSize, nvrtcGetCUBIN = nvrtcGetPTXSize, nvrtcGetPTX

    def nvrtcDestroyProgram(self, program: dict[str, Any]) -> tuple[int]:
        return (0,)
