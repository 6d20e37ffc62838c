"""What a GPU makes of the kernels: its own clock against copies in its memory and cuBLAS, and whole models against the CPU.

A figure that cannot be had (a wrong result, a build or a driver that fails, no torch) is a line that says why, and the others
follow.
"""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import polytc
from polytc.targets.opencl.driver import devices
from polytc.targets.opencl.driver.devices import Device

ROUNDS = 20
COPY_BYTES = 1 << 28
SIDES = (1024, 4096)
"""Of the matrix products."""
MULTIPLY_ADDS = 128
"""Of f32 that a compute unit of NVIDIA's since Ampere starts in a cycle (64 on A100 and on AMD's)."""
MEMORY_BOUND: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "a + b*c": ("Y[i] = A[i] + B[i]*C[i]", dict.fromkeys("ABC", (1 << 24,))),
    "row sum": ("Y[i] += A[i,j]", {"A": (8192, 4096)}),
    "transpose": ("Y[i,j] = A[j,i]", {"A": (4096, 4096)}),
    "softmax": ("M[i] max= A[i,j]\nE[i,j] = exp(A[i,j] - M[i])\nS[i] += E[i,j]\nY[i,j] = E[i,j] / S[i]", {"A": (8192, 4096)}),
}
"""Programs of arrays beyond the caches, and the shapes of their inputs."""


def report(device: Device, models: list[str]) -> None:
    """Print what was measured on the device; models: ONNX files."""
    cl = devices.pyopencl()
    handle = device.handle
    peak = 2 * MULTIPLY_ADDS * handle.max_compute_units * handle.max_clock_frequency * 1e-6
    print(f"{handle.name}, driver {handle.driver_version}: {handle.max_compute_units} compute units, "
          f"{handle.max_clock_frequency} MHz, {handle.local_mem_size >> 10} KiB of local memory; {peak:.1f} TFLOP/s of f32 "
          f"if a compute unit starts {MULTIPLY_ADDS} multiply-adds in a cycle")
    copies: list[float] = []
    _told("copy", lambda: _copying(cl, handle, copies))
    for size in SIDES:
        _told(f"matmul {size}", lambda size=size: _product(size, peak))  # type: ignore[misc]
    for name, (text, shapes) in MEMORY_BOUND.items():
        _told(name, lambda text=text, shapes=shapes: _moving(text, shapes, copies))  # type: ignore[misc]
    for path in models:
        _told(path, lambda path=path: _difference(path))  # type: ignore[misc]


def _told(what: str, measure: Callable[[], str]) -> None:
    """Print a figure, or why there is none."""
    try:
        print(f"{what}: {measure()}", flush=True)
    except Exception as e:  # drivers fail in their own ways, and the other figures are still wanted
        print(f"{what}: FAILED: {type(e).__name__}: {' '.join(str(e).split())[:400]}", flush=True)


def _product(size: int, peak: float) -> str:
    text = "Y[i,j] += A[i,k]*B[k,j]"
    seconds = _seconds(text, {"A": (size, size), "B": (size, size)}, lambda a, b: a @ b)[0]
    rate = 2 * size**3 / seconds * 1e-12
    share = f", {rate / peak:.2f} of the peak" if peak else ""
    try:
        return f"{rate:.2f} TFLOP/s{share}{_cublas(size, seconds)}"
    except (ImportError, OSError, RuntimeError) as e:
        return f"{rate:.2f} TFLOP/s{share} (cuBLAS: {' '.join(str(e).split())[:200]})"


def _moving(text: str, shapes: dict[str, tuple[int, ...]], copies: list[float]) -> str:
    seconds, traffic = _seconds(text, shapes, polytc.compile(text))
    rate = traffic / seconds * 1e-9
    return f"{rate:.0f} GB/s{f', {rate / copies[0]:.2f} of copying' if copies else ''}"


def _elapsed(event: Any) -> float:
    return float((event.profile.end - event.profile.start) * 1e-9)


def _copying(cl: Any, handle: Any, found: list[float]) -> str:
    """GB/s that a copy in the device's memory reads and writes, added to `found`."""
    context = cl.Context([handle])
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    a, b = (cl.Buffer(context, cl.mem_flags.READ_WRITE, COPY_BYTES) for _ in range(2))
    events = [cl.enqueue_copy(queue, b, a) for _ in range(ROUNDS)]
    queue.finish()
    found.append(2 * COPY_BYTES / statistics.median(map(_elapsed, events)) * 1e-9)
    return f"{found[0]:.0f} GB/s read and written"


def _seconds(text: str, shapes: dict[str, tuple[int, ...]], reference: Callable[..., Any]) -> tuple[float, int]:
    """Median seconds of a run by the device's clock, its kernels added up; bytes of its inputs and outputs. Raises ValueError
    where results are not the reference's."""
    op, rng = polytc.compile(text, target="opencl"), np.random.default_rng(0)
    arrays = {n: rng.random(s, np.float32) for n, s in shapes.items()}
    result = op(**arrays)
    expected = reference(*arrays.values())
    if not np.allclose(result, expected, rtol=1e-3, atol=1e-4):
        raise ValueError(f"wrong results, by up to {np.abs(result - expected).max():.2e}")
    times = [sum(s for _, s in op.profile(**arrays)) for _ in range(ROUNDS)]
    return statistics.median(times), sum(a.nbytes for a in (*arrays.values(), result))


def _cublas(size: int, ours: float) -> str:
    """What torch's cuBLAS needs for the same product without tensor cores, if it is here and sees the GPU."""
    if importlib.util.find_spec("torch") is None:
        return " (cuBLAS: torch is not here)"
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return " (cuBLAS: torch sees no GPU)"
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.rand(size, size, device="cuda") for _ in range(2))
    times = []
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.mm(a, b)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    theirs = statistics.median(times)
    return f", {theirs / ours:.2f} of cuBLAS"


def _difference(path: str) -> str:
    """How far a model's outputs on the device are from those on the CPU, and how long a run takes on each."""
    graph, rng = polytc.load_onnx(path), np.random.default_rng(0)
    feeds = {v.name: _random(v, rng) for v in graph.inputs}
    ready = {target: graph.compile(target=target) for target in ("opencl", "cpu")}
    found, expected = (model.run(None, feeds) for model in ready.values())
    error = max(float(np.abs(np.subtract(f, e, dtype=np.float64)).max() / max(np.abs(e).max(), 1e-30))
                for f, e in zip(found, expected, strict=True))
    there, here = (statistics.median(_clocked(model, feeds) for _ in range(5)) * 1e3 for model in ready.values())
    return (f"largest difference from the CPU's results {error:.1e} of the largest value; "
            f"{there:.1f} ms a run, {here:.1f} on the CPU")


def _clocked(model: Any, feeds: dict[str, np.ndarray]) -> float:
    start = time.perf_counter()
    model.run(None, feeds)
    return time.perf_counter() - start


def _random(value: Any, rng: np.random.Generator) -> np.ndarray:
    """An input: numbers below 1, or words of a vocabulary; one of each open extent."""
    shape = [n if isinstance(n, int) and n > 0 else 1 for n in value.shape]
    dtype = value.dtype.numpy
    return rng.random(shape).astype(dtype) if dtype.kind == "f" else rng.integers(0, 2 if dtype.kind == "b" else 1000, shape
                                                                                 ).astype(dtype)
