"""The two roofs of this machine, measured once in a process, and the time below which a program cannot run.

Williams, Waterman, Patterson, Roofline: An Insightful Visual Performance Model for Multicore Architectures, CACM 2009.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from polytc import compiler, lang
from polytc.explanation.costs import Costs
from polytc.program.program import Program
from polytc.program.scalars import DTYPES

SIDE = 384
"""Extents of the contraction whose speed is the roof of arithmetic: its operands stay in the second cache."""
COPIED = 64 << 20
"""Bytes that are copied to measure bandwidth: more than most caches hold."""


@dataclass(frozen=True)
class Roofs:
    """operations: a second, multiply-adds counted twice; bandwidth: bytes read or written a second; of one thread."""

    operations: float
    bandwidth: float
    dtype: str


@functools.cache
def roofs(dtype: str) -> Roofs:
    """Measured here, in about a tenth of a second. dtype: 'f32' or 'f64'."""
    program = lang.build("C[i,j] += A[i,k]*B[k,j]", {"A": (SIDE, SIDE), "B": (SIDE, SIDE)}, {"A": dtype, "B": dtype})
    run = compiler.compile_program(program, "cpu", 1)
    a, b = (np.ones((SIDE, SIDE), DTYPES[dtype].numpy) for _ in range(2))
    c = np.empty_like(a)
    source, target = np.ones(COPIED, np.uint8), np.zeros(COPIED, np.uint8)
    contraction, copy = _best(lambda: run.run([a, b, c])), _best(lambda: np.copyto(target, source))
    return Roofs(2 * SIDE ** 3 / contraction, 2 * COPIED / copy, dtype)


def _best(work: Callable[[], object], rounds: int = 5) -> float:
    """Seconds of the fastest of some rounds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


@dataclass(frozen=True)
class Bound:
    """Seconds that the arithmetic and the compulsory bytes take at least, on `threads` threads that share the bandwidth."""

    arithmetic: float
    memory: float
    threads: int

    @property
    def seconds(self) -> float:
        return max(self.arithmetic, self.memory)

    @property
    def limit(self) -> str:
        return "arithmetic" if self.arithmetic >= self.memory else "memory bandwidth"


def element(program: Program) -> str | None:
    """The floating-point type that most of the program's elements have, of those that `roofs` can measure."""
    sizes = {n: sum(t.size for t in program.tensors if t.dtype.name == n) for n in ("f32", "f64")}
    best = max(sizes, key=sizes.__getitem__)
    return best if sizes[best] else None


def bound(costs: Costs, roof: Roofs, threads: int) -> Bound:
    """How fast a program could be."""
    return Bound(costs.operations.value / (roof.operations * threads), costs.compulsory / roof.bandwidth, threads)
