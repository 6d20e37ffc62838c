"""What a GPU makes of the kernels: its own clock against copies in its memory and cuBLAS, and whole models against the CPU."""

from __future__ import annotations

import importlib
import importlib.util
import statistics
from typing import Any

import numpy as np

import polytc
from polytc.runtime import devices
from polytc.runtime.devices import Device

ROUNDS = 20
COPY_BYTES = 1 << 28
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
    context = cl.Context([device.handle])
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    copy = _copy_rate(context, queue)
    print(f"copy: {copy:.0f} GB/s read and written")
    size = 4096
    seconds = _seconds(queue, "Y[i,j] += A[i,k]*B[k,j]", {"A": (size, size), "B": (size, size)})[0]
    print(f"matmul {size}: {2 * size**3 / seconds * 1e-12:.2f} TFLOP/s{_cublas(size, seconds)}")
    for name, (text, shapes) in MEMORY_BOUND.items():
        seconds, traffic = _seconds(queue, text, shapes)
        rate = traffic / seconds * 1e-9
        print(f"{name}: {rate:.0f} GB/s, {rate / copy:.2f} of copying")
    for path in models:
        print(f"{path}: largest difference from the CPU's results {_difference(path):.1e} of the largest value")


def _elapsed(event: Any) -> float:
    return float((event.profile.end - event.profile.start) * 1e-9)


def _copy_rate(context: Any, queue: Any) -> float:
    """GB/s that a copy in the device's memory reads and writes."""
    cl = devices.pyopencl()
    a, b = (cl.Buffer(context, cl.mem_flags.READ_WRITE, COPY_BYTES) for _ in range(2))
    events = [cl.enqueue_copy(queue, b, a) for _ in range(ROUNDS)]
    queue.finish()
    return 2 * COPY_BYTES / statistics.median(map(_elapsed, events)) * 1e-9


def _seconds(queue: Any, text: str, shapes: dict[str, tuple[int, ...]]) -> tuple[float, int]:
    """Median seconds of a run by the device's clock, its kernels added up; bytes of its inputs and outputs."""
    op, rng = polytc.compile(text, target="opencl"), np.random.default_rng(0)
    arrays = {n: rng.random(s, np.float32) for n, s in shapes.items()}
    result = op(**arrays)
    expected = polytc.compile(text)(**arrays)
    assert np.allclose(result, expected, rtol=1e-3, atol=1e-4), f"wrong results of {text!r}"
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


def _difference(path: str) -> float:
    """The largest difference of a model's outputs on the device and on the CPU, relative to the largest value."""
    graph, rng = polytc.load_onnx(path), np.random.default_rng(0)
    feeds = {v.name: _random(v, rng) for v in graph.inputs}
    found, expected = (graph.compile(target=t).run(None, feeds) for t in ("opencl", "cpu"))
    return max(float(np.abs(np.subtract(f, e, dtype=np.float64)).max() / max(np.abs(e).max(), 1e-30))
               for f, e in zip(found, expected, strict=True))


def _random(value: Any, rng: np.random.Generator) -> np.ndarray:
    """An input: numbers below 1, or words of a vocabulary; one of each open extent."""
    shape = [n if isinstance(n, int) and n > 0 else 1 for n in value.shape]
    dtype = value.dtype.numpy
    return rng.random(shape).astype(dtype) if dtype.kind == "f" else rng.integers(0, 2 if dtype.kind == "b" else 1000, shape
                                                                                 ).astype(dtype)
