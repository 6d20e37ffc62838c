"""Whole models on a GPU: their results beside those of ONNX Runtime on the CPU, and how long a run takes."""

from __future__ import annotations

import importlib
import statistics
import time
from typing import Any

import numpy as np

import polytc

RUNS = 30


def line(name: str, model: Any, target: str) -> str:
    """A row. model: a path, or a ModelProto."""
    graph, rng = polytc.load_onnx(model), np.random.default_rng(0)
    feeds = {v.name: drawn(v, rng) for v in graph.inputs}
    start = time.perf_counter()
    ready = graph.compile(target=target)
    found = ready.run(None, feeds)
    first = time.perf_counter() - start
    note = _difference(model, feeds, found)
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        ready.run(None, feeds)
        times.append(time.perf_counter() - start)
    kernels = ready.profile(feeds, runs=3).kernels
    spent = sum(k.seconds for k in kernels)
    slowest = sorted(kernels, key=lambda k: -k.seconds)[:3]
    slow = "; ".join(f"{k.label[:40]} {k.seconds * 1e6:.0f}" for k in slowest)
    return (f"{name:20}{statistics.median(times) * 1e3:8.3f} ms a run, {min(times) * 1e3:.3f} at best; first {first:.1f} s; "
            f"{len(kernels)} programs{note}\n    one by one {spent * 1e3:.3f} ms; slowest (us): {slow}")


def drawn(value: Any, rng: np.random.Generator) -> np.ndarray:
    """An input: numbers below 1, or words of a vocabulary; one of each open extent."""
    shape = [n if isinstance(n, int) and n > 0 else 1 for n in value.shape]
    dtype = value.dtype.numpy
    if dtype.kind == "f":
        return rng.random(shape).astype(dtype)
    if "mask" in value.name:
        return np.ones(shape, dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 1000, shape).astype(dtype)


def _difference(model: Any, feeds: dict[str, np.ndarray], found: list[np.ndarray]) -> str:
    """How far the results are from those of ONNX Runtime, if it is here."""
    try:
        runtime: Any = importlib.import_module("onnxruntime")
    except ImportError:
        return "; not checked: ONNX Runtime is not here"
    text = model if isinstance(model, str) else model.SerializeToString()
    expected = runtime.InferenceSession(text, providers=["CPUExecutionProvider"]).run(None, feeds)
    worst = 0.0
    for f, e in zip(found, expected, strict=True):
        scale = max(float(np.abs(e).max(initial=0)), 1e-30)
        worst = max(worst, float(np.abs(np.subtract(f, e, dtype=np.float64)).max(initial=0)) / scale)
    return f"; {'WRONG' if not worst < 1e-3 else 'differs'} by {worst:.1e} of the largest number"
