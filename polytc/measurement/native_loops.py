"""Loops in LLVM IR that do one thing again and again, for its time.

    run(p, n, sink)      for k in 0:n:step { body }; store what is carried to sink

LLVM neither unrolls such loops nor joins what they do, so that a body is what runs.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from polytc.native import jit, linking
from polytc.native.aligned import aligned_bytes

ROUNDS = 7
"""Runs of which the fastest counts: what else the machine does only makes them slower."""
SECONDS = 0.004
"""That a run takes at least, so that reading the clock does not show."""


@dataclass(frozen=True)
class Loop:
    """carried: what an iteration hands to the next one, as (type, name, first value): the body uses %name and defines
    %name.next. body: its lines, which may use the array %p and the counter %k. step: of the counter. declared: functions that
    the body calls."""

    carried: tuple[tuple[str, str, str], ...]
    body: tuple[str, ...]
    step: int = 1
    declared: tuple[str, ...] = ()

    def __str__(self) -> str:
        sinks = [(n, t, name) for n, (t, name, _) in enumerate(self.carried)]
        return "\n".join([
            *(f"declare {d}" for d in self.declared),
            "define void @run(ptr noalias %p, i64 %n, ptr noalias %sink) nounwind {", "entry:", "  br label %loop", "loop:",
            "  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]",
            *(f"  %{name} = phi {t} [ {first}, %entry ], [ %{name}.next, %loop ]" for t, name, first in self.carried),
            *(f"  {line}" for line in self.body),
            f"  %k.next = add i64 %k, {self.step}", "  %more = icmp slt i64 %k.next, %n",
            "  br i1 %more, label %loop, label %end",
            "end:", *(f"  %sink{n} = getelementptr i8, ptr %sink, i64 {64 * n}" for n, _, _ in sinks),
            *(f"  store {t} %{name}.next, ptr %sink{n}" for n, t, name in sinks), "  ret void", "}", ""])


@functools.cache
def _code(text: str) -> linking.Code:
    return linking.Code(jit.build(text, *jit.host(), jit.Tuning(slp=False, vectorize=False, level=1)))


def seconds(loop: Loop, iterations: int, array: np.ndarray) -> float:
    """Of one iteration, in runs of so many over the array."""
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(_code(str(loop)).address("run"))
    sink = aligned_bytes(64 * (len(loop.carried) + 1))
    place, end, kept = array.ctypes.data, iterations * loop.step, sink.ctypes.data

    def several(times: int) -> None:
        for _ in range(times):
            run(place, end, kept)
    return fastest(several) / iterations


def fastest(work: Callable[[int], object], least: float = SECONDS, rounds: int = ROUNDS) -> float:
    """Seconds of one piece of work, in the fastest of some rounds of many pieces. work: does so many."""
    times, taken = 1, _timed(work, 1)
    while taken < least:
        times = max(2 * times, int(times * least / max(taken, 1e-9)))
        taken = _timed(work, times)
    return min(taken, *(_timed(work, times) for _ in range(rounds - 1))) / times


def _timed(work: Callable[[int], object], times: int) -> float:
    start = time.perf_counter()
    work(times)
    return time.perf_counter() - start
