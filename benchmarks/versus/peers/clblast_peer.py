"""CLBlast on buffers of the device, through its C interface."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from polytc.targets.opencl.driver import devices
from polytc.targets.opencl.driver.session import Session, session
from versus.case import Case
from versus.peers import Prepared

ROW_MAJOR, NO, YES, CROSS_CORRELATION = 101, 111, 112, 151
"""clblast_c.h: CLBlastLayoutRowMajor, CLBlastTransposeNo and Yes, CLBlastKernelModeCrossCorrelation."""


def version() -> str:
    return str(ctypes.util.find_library("clblast"))


def prepare(case: Case, inputs: Mapping[str, np.ndarray], threads: int) -> Prepared | None:
    """None where CLBlast has no such routine. Arrays are on the device before the call, and results stay there."""
    if not case.clblast:
        return None
    library, on = ctypes.CDLL(ctypes.util.find_library("clblast")), session(devices.choose())
    flags = devices.pyopencl().mem_flags
    given = [devices.pyopencl().Buffer(on.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=a) for a in inputs.values()]
    (result,) = (np.zeros(t.shape, t.dtype) for t in case.outputs.values())
    made = devices.pyopencl().Buffer(on.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=result)
    routine, arguments = ROUTINES[case.clblast](on, [a.shape for a in inputs.values()], *given, made)
    queue = ctypes.c_void_p(on.queue.int_ptr)

    def call() -> None:
        status = getattr(library, routine)(*arguments, ctypes.byref(queue), None)
        if status != 0:
            raise RuntimeError(f"{routine} returned {status}")
        on.queue.finish()

    def results(_: Any) -> list[np.ndarray]:
        devices.pyopencl().enqueue_copy(on.queue, result, made)
        return [result]
    return Prepared(call, results)


def _number(value: float) -> ctypes.c_float:
    return ctypes.c_float(value)


def _sizes(*values: int) -> list[ctypes.c_size_t]:
    return [ctypes.c_size_t(v) for v in values]


class _Handle(ctypes.c_void_p):
    """A handle that keeps its buffer."""

    buffer: Any


def _memory(buffer: Any, *more: int) -> list[Any]:
    """A buffer, its offset 0, and strides."""
    handle = _Handle(buffer.int_ptr)
    handle.buffer = buffer
    return [handle, *_sizes(0, *more)]


def _matmul(on: Session, shapes: list[tuple[int, ...]], a: Any, b: Any, c: Any) -> tuple[str, list[Any]]:
    (m, k), (_, n) = shapes
    return "CLBlastSgemm", [ROW_MAJOR, NO, NO, *_sizes(m, n, k), _number(1), *_memory(a, k), *_memory(b, n), _number(0),
                            *_memory(c, n)]


def _row_sum(on: Session, shapes: list[tuple[int, ...]], x: Any, y: Any) -> tuple[str, list[Any]]:
    """The product with a vector of ones."""
    ((m, n),) = shapes
    flags = devices.pyopencl().mem_flags
    ones = devices.pyopencl().Buffer(on.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=np.ones(n, np.float32))
    return "CLBlastSgemv", [ROW_MAJOR, NO, *_sizes(m, n), _number(1), *_memory(x, n), *_memory(ones, 1), _number(0),
                            *_memory(y, 1)]


def _transpose(on: Session, shapes: list[tuple[int, ...]], x: Any, y: Any) -> tuple[str, list[Any]]:
    ((m, n),) = shapes
    return "CLBlastSomatcopy", [ROW_MAJOR, YES, *_sizes(m, n), _number(1), *_memory(x, n), *_memory(y, m)]


def _convolution(on: Session, shapes: list[tuple[int, ...]], w: Any, x: Any, o: Any) -> tuple[str, list[Any]]:
    (features, channels, kh, kw), (batch, _, height, width) = shapes
    numbers = _sizes(channels, height, width, kh, kw, 0, 0, 1, 1, 1, 1, features, batch)
    return "CLBlastSconvgemm", [CROSS_CORRELATION, *numbers, *_memory(x), *_memory(w), *_memory(o)]


ROUTINES: dict[str, Callable[..., tuple[str, list[Any]]]] = {
    "matmul": _matmul, "row_sum": _row_sum, "transpose": _transpose, "convolution": _convolution}
