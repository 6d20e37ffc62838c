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
from polytc.machine import Machine
from polytc.program.program import Binary, Program, reads
from polytc.targets.opencl.estimate import rates_of


@dataclass(frozen=True)
class _Kind:
    """A contraction whose speed is a roof of arithmetic. value: the product; factors: their types; side: its extents, so that
    operands stay in the second cache, and what comes before and behind its sums takes little of the time."""

    value: str
    factors: tuple[str, str]
    side: int = 384


KINDS = {"f32": _Kind("A[i,k]*B[k,j]", ("f32", "f32")), "f64": _Kind("A[i,k]*B[k,j]", ("f64", "f64")),
         "bf16": _Kind("f32(A[i,k])*f32(B[k,j])", ("bf16", "bf16"), 768),
         "bytes": _Kind("i32(A[i,k])*i32(B[k,j])", ("u8", "i8"), 768),
         "f32 and bytes": _Kind("A[i,k]*f32(B[k,j])", ("f32", "i8"))}
"""By name: processors have instructions for each of them."""
NARROW = frozenset({"i8", "u8"})
DATA_SHEET = "f32, by a data sheet"
"""Kind of the roofs of a described device."""
COPIED = 64 << 20
"""Bytes that are copied to measure bandwidth: more than most caches hold."""


@dataclass(frozen=True)
class Roofs:
    """operations: a second, multiply-adds counted twice; bandwidth: bytes read or written a second; of one thread. kind: of
    the products, one of KINDS, or DATA_SHEET."""

    operations: float
    bandwidth: float
    kind: str


@functools.cache
def roofs(kind: str) -> Roofs:
    """Measured here, in about a tenth of a second. kind: one of KINDS."""
    made, shape = KINDS[kind], (KINDS[kind].side,) * 2
    program = lang.build(f"C[i,j] += {made.value}", {"A": shape, "B": shape}, dict(zip("AB", made.factors, strict=True)))
    run = compiler.compile_program(program, "cpu", 1)
    rng = np.random.default_rng(0)  # a matrix unit is faster where numbers are alike
    arrays = [rng.integers(0, 99, shape).astype(program.tensor(n).dtype.numpy) for n in program.arrays]
    return Roofs(2 * made.side ** 3 / _best(lambda: run.run(arrays)), _bandwidth(), kind)


@functools.cache
def _bandwidth() -> float:
    source, target = np.ones(COPIED, np.uint8), np.zeros(COPIED, np.uint8)
    return 2 * COPIED / _best(lambda: np.copyto(target, source))


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
    """Seconds that the arithmetic and the compulsory bytes take at least, on `threads` threads that share the bandwidth; on a
    device, of one. roofs: these speeds, of one thread or of the device."""

    arithmetic: float
    memory: float
    threads: int
    roofs: Roofs

    @property
    def seconds(self) -> float:
        return max(self.arithmetic, self.memory)

    @property
    def limit(self) -> str:
        return "arithmetic" if self.arithmetic >= self.memory else "memory bandwidth"


def kind(program: Program) -> str | None:
    """Of the products that the program mostly makes; of one without sums of narrow products the floating-point type that most
    of its elements have. None if there are none."""
    sums = [s for s in program.statements if s.op == "+" and isinstance(s.value, Binary) and s.value.op == "*"]
    most = max(sums, key=lambda s: s.points, default=None)
    factors = {r.dtype.name for r in reads(most) if r.subscripts} if most is not None else set[str]()
    if factors and factors <= NARROW:
        return "bytes"
    if factors == {"bf16"}:
        return "bf16"
    if "f32" in factors and factors & NARROW:
        return "f32 and bytes"
    sizes = {n: sum(t.size for t in program.tensors if t.dtype.name == n) for n in ("f32", "f64")}
    best = max(sizes, key=sizes.__getitem__)
    return best if sizes[best] else None


def bound(costs: Costs, roof: Roofs, threads: int) -> Bound:
    """How fast a program could be."""
    return Bound(costs.operations.value / (roof.operations * threads), costs.compulsory / roof.bandwidth, threads, roof)


def of_device(machine: Machine) -> Roofs:
    """The roofs of a GPU by its data sheet (targets.opencl.estimate): nothing is measured."""
    rates = rates_of(machine)
    return Roofs(2 * rates.lanes * rates.clock * machine.cores, rates.memory, DATA_SHEET)
