"""Eliminations by blocks on GPUs: items along k+1:8*b+8 begin elsewhere in each step, and a group has no more of them than the
machine. NumPy's linear algebra is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from polytc import compiler, stages
from polytc.codegen.target import Target
from polytc.machine import GENERIC_GPU
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget

Arrays = dict[str, np.ndarray]

CHOLESKY = """def cholesky(inout f64[N,N] A) -> (A) {
    for b in 0:N//BLOCK {
        for k in BLOCK*b:BLOCK*b+BLOCK {
            A[k,k] = sqrt(A[k,k])
            A[i,k] = A[i,k] / A[k,k]                    where i in k+1:N
            A[i,j] -= A[i,k] * A[j,k]                   where i in k+1:N, j in k+1:BLOCK*b+BLOCK, j <= i
        }
        A[i,j] -= A[i,BLOCK*b+k] * A[j,BLOCK*b+k]       where k in 0:BLOCK, i in BLOCK*b+BLOCK:N, j in BLOCK*b+BLOCK:N, j <= i
    }
}"""
LU = """def lu(inout f64[N,N] A) -> (A) {
    for b in 0:N//BLOCK-1 {
        for k in BLOCK*b:BLOCK*b+BLOCK {
            A[i,k] = A[i,k] / A[k,k]                    where i in k+1:N
            A[i,j] -= A[i,k] * A[k,j]                   where i in k+1:N, j in k+1:BLOCK*b+BLOCK
        }
        for k in BLOCK*b:BLOCK*b+BLOCK {
            A[i,j] -= A[i,k] * A[k,j]                   where i in k+1:BLOCK*b+BLOCK, j in BLOCK*b+BLOCK:N
        }
        A[i,j] -= A[i,BLOCK*b+k] * A[BLOCK*b+k,j]       where k in 0:BLOCK, i in BLOCK*b+BLOCK:N, j in BLOCK*b+BLOCK:N
    }
    for k in N-BLOCK:N {
        A[i,k] = A[i,k] / A[k,k]                        where i in k+1:N
        A[i,j] -= A[i,k] * A[k,j]                       where i in k+1:N, j in k+1:N
    }
}"""
SOLVE = """def solve(f64[N,N] L, inout f64[N,M] X) -> (X) {
    for b in 0:N//BLOCK {
        for k in BLOCK*b:BLOCK*b+BLOCK {
            X[k,m] = X[k,m] / L[k,k]
            X[i,m] -= L[i,k] * X[k,m]                   where i in k+1:BLOCK*b+BLOCK
        }
        X[i,m] -= L[i,BLOCK*b+k] * X[BLOCK*b+k,m]       where k in 0:BLOCK, i in BLOCK*b+BLOCK:N
    }
}"""


def positive(n: int) -> np.ndarray:
    """A matrix that is eliminated without pivots, and has a Cholesky factor."""
    a = np.random.default_rng(n).standard_normal((n, n))
    return a @ a.T + n * np.eye(n)


def factors(A: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the product of the two factors is, and what it is to be."""
    return (np.tril(found, -1) + np.eye(len(A))) @ np.triu(found), A


def solution(L: np.ndarray, X: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return found, np.linalg.solve(L, X)


Oracle = Callable[..., tuple[np.ndarray, np.ndarray]]
"""Of the inputs and the result: two arrays that are to be equal."""

PROGRAMS: dict[str, tuple[str, Callable[[int], Arrays], Oracle]] = {
    "cholesky": (CHOLESKY, lambda n: {"A": positive(n)}, lambda A, found: (np.tril(found), np.linalg.cholesky(A))),
    "lu": (LU, lambda n: {"A": positive(n)}, factors),
    "solve": (SOLVE, lambda n: {"L": np.tril(positive(n)), "X": positive(n)[:, :5]}, solution)}


@pytest.mark.part(27)
@pytest.mark.parametrize("group", [16, 64, 256])
@pytest.mark.parametrize(("n", "block"), [(24, 8), (42, 14), (40, 20)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_groups_of_the_machine(name: str, n: int, block: int, group: int, targets: tuple[str, ...]) -> None:
    text, made, oracle = PROGRAMS[name]
    given = made(n)
    p = stages.build(text.replace("BLOCK", str(block)), {k: a.shape for k, a in given.items()}, dict.fromkeys(given, "f64"))
    machine = replace(GENERIC_GPU, max_work_group=group)
    where: list[Target] = [InterpTarget(machine), *([OpenCLTarget(machine)] if "opencl" in targets else [])]
    lowered = compiler.lower_program(p, OpenCLTarget(machine))
    assert lowered.schedule.how.startswith("gpu strategy")
    sizes = [prod(x.local_size) for x in lowered.source.launches]
    assert 1 < max(sizes) <= group
    for target in where[:1] if block != 8 else where:
        low = lowered if isinstance(target, OpenCLTarget) else compiler.lower_program(p, target)
        arrays = {k: a.copy() for k, a in given.items()}
        target.load(target.build(low.source), 1).run([arrays[b.name] for b in low.loops.args])
        found, expected = oracle(**given, found=arrays[p.outputs[0]])
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.long
def test_the_schedule_says_what_one_group_runs() -> None:
    program = stages.build(LU.replace("BLOCK", "8"), {"A": (40, 40)}, {"A": "f64"})
    how = compiler.lower_program(program, OpenCLTarget()).schedule.how
    assert "S3 in one group of 32 x 8 items by turns (a group has 256 at most)" in how
