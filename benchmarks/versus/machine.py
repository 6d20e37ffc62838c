"""What the machine can do at most: fused multiply-adds from registers, and copies through main memory."""

from __future__ import annotations

import ctypes
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from polytc import machine as machines
from polytc.native import jit, linking

COPY_BYTES = 1 << 28
ROUNDS = 7


@dataclass(frozen=True)
class Limits:
    """Of as many threads as the benchmarks use. fma: GFLOP/s in f32; copy: GB/s read and written."""

    cpu: str
    threads: int
    fma: float
    copy: float

    def of(self, name: str) -> float:
        return {"fma": self.fma, "copy": self.copy}[name]


def limits(threads: int) -> Limits:
    """Measure now; takes about a second."""
    return Limits(cpu_name(), threads, _fma(threads), _copy(threads))


def cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _fastest(work: Callable[[int], object], threads: int) -> float:
    """Seconds of the best round, in which each thread does its part."""
    with ThreadPoolExecutor(threads) as pool:
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            list(pool.map(work, range(threads)))
            times.append(time.perf_counter() - start)
    return min(times)


def _fma(threads: int, steps: int = 2_000_000) -> float:
    """Independent accumulators, enough to hide the latency and few enough to stay in registers."""
    cpu, features = jit.host()
    machine = machines.detect(cpu, features)
    lanes, count = machine.lanes(4), machine.vector_registers * 3 // 4
    code = linking.Code(jit.build(accumulators(lanes, count), cpu, features, jit.Tuning(slp=False, vectorize=False)))
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.address("run"))
    data = [np.full(lanes, 1e-3, np.float32) for _ in range(threads)]
    seconds = _fastest(lambda k: run(steps, data[k].ctypes.data), threads)
    return 2.0 * lanes * count * steps * threads / seconds * 1e-9


def accumulators(lanes: int, count: int) -> str:
    """LLVM IR of `run(steps, data)`: count accumulators, each a vector, += x*x in every step."""
    vector = f"<{lanes} x float>"
    names = range(count)
    lines = [f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
             "define void @run(i64 %steps, ptr %data) {", "entry:", f"  %x = load {vector}, ptr %data, align 4",
             "  br label %loop", "loop:", "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]"]
    lines += [f"  %a{k} = phi {vector} [ %x, %entry ], [ %b{k}, %loop ]" for k in names]
    lines += [f"  %b{k} = call {vector} @llvm.fma.v{lanes}f32({vector} %x, {vector} %x, {vector} %a{k})" for k in names]
    lines += ["  %next = add i64 %i, 1", "  %more = icmp slt i64 %next, %steps", "  br i1 %more, label %loop, label %done",
              "done:", f"  %s0 = fadd {vector} %b0, %b1"]
    lines += [f"  %s{k - 1} = fadd {vector} %s{k - 2}, %b{k}" for k in names[2:]]
    lines += [f"  store {vector} %s{count - 2}, ptr %data, align 4", "  ret void", "}"]
    return "\n".join(lines)


def _copy(threads: int) -> float:
    """numpy's copy of a large array, split among the threads."""
    source = np.ones(COPY_BYTES // 4, np.float32)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads)))
    return 2.0 * source.nbytes / _fastest(lambda k: np.copyto(*parts[k]), threads) * 1e-9
