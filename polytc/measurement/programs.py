"""Costs of copies, functions and threads, by programs of polytc in arrays that the second cache holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from polytc import compiler, lang
from polytc.machine import Machine
from polytc.measurement.findings import Finding
from polytc.measurement.native_loops import fastest
from polytc.native.aligned import aligned_bytes
from polytc.poly.proofs import Proofs
from polytc.program.program import Program
from polytc.targets.llvm.target import LLVMTarget

SIDE, PANEL = 256, 64
"""Rows and columns of matrices, 256 KiB of f32; columns of a panel."""
MOVED = "Y[i,j] = X[i,j]"
PACKED = ("P[a,k,b] = X[k,a*64+b] where a in 0:4, b in 0:64", "P[a,k,b] = X[a*64+b,k] where a in 0:4, b in 0:64")
"""An operand in panels, which lies along them or across."""
IMAGE = (32, 16, 128)


def findings(machine: Machine, clock: float) -> Iterator[Finding]:
    """clock: cycles a second, as it was measured."""
    elements = SIDE * SIDE
    moving = time_of(MOVED, {"X": (SIDE, SIDE)}, machine)
    packing = sum(time_of(text, {"X": (SIDE, SIDE)}, machine) for text in PACKED) / len(PACKED)
    yield Finding("copies.pack", packing * clock / elements, "copies into panels of 64, along memory and across")
    turned = time_of("Y[h,w,c] = X[c,h,w]", {"X": IMAGE}, machine)
    yield Finding("copies.layout", turned * clock / (np.prod(IMAGE) / machine.lanes(4)), "an image with its channels put last")
    function = time_of("Y[i,j] = exp(X[i,j])", {"X": (SIDE, SIDE)}, machine)
    yield Finding("arithmetic.elementary", function / moving, f"exp beside a copy of {SIDE} x {SIDE} floats")
    if machine.cores > 1:
        region = region_time(machine)
        yield Finding("threads.region", region * clock, f"a parallel loop over little, on {machine.cores} threads")
        gained = (1 - 1 / machine.cores) * moving / elements
        yield Finding("threads.elements", region / gained, "the cost of a region, beside a copy")


def time_of(text: str, shapes: Mapping[str, tuple[int, ...]], machine: Machine, threads: int = 1) -> float:
    """Seconds of a run on arrays of f32."""
    program = lang.build(text, shapes, dict.fromkeys(shapes, "f32"), prover=Proofs())
    bound = compiler.compile_program(program, LLVMTarget(machine), threads).bind([_array(program, n) for n in program.arrays])

    def several(times: int) -> None:
        for _ in range(times):
            bound()
    return fastest(several)


def region_time(machine: Machine) -> float:
    """Seconds that a region of threads takes beyond its work: those of so little that threads gain nothing."""
    eager = machine.costing({"threads.elements": 1, "threads.instances": 1})
    shapes = {"X": (4 * machine.cores, 16)}
    shared = time_of(MOVED, shapes, eager, machine.cores)
    return max(0.0, shared - time_of(MOVED, shapes, machine, 1))


def _array(program: Program, name: str) -> np.ndarray:
    t = program.tensor(name)
    return aligned_bytes(t.size * t.dtype.bytes).view(t.dtype.numpy).reshape(t.shape)
