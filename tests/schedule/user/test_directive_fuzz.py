"""Random sequences of directives on programs that people write, as a user gives them: each schedule computes what numpy does
and has a text for devices, or is refused with a code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import polytc
from polytc import errors
from polytc.schedule.user.recipe import Recipe
from tests.generator import choices, recipes

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A program, the shapes of its inputs, and what numpy makes of arrays for them."""

    text: str
    shapes: dict[str, tuple[int, ...]]
    expected: Callable[[Arrays], np.ndarray]


def stencil(a: Arrays) -> np.ndarray:
    x = a["A"].copy()
    for _ in range(3):
        for i in range(1, len(x) - 1):
            x[i] = x[i - 1] + x[i] + x[i + 1]
    return x


def heat(a: Arrays) -> np.ndarray:
    x = a["A"].copy()
    for _ in range(3):
        x[1:-1] = x[:-2] + x[2:]
    return x


CASES = {
    "product": Case("C[i,j] += A[i,k]*B[k,j]", {"A": (9, 14), "B": (14, 11)}, lambda a: a["A"] @ a["B"]),
    "product and ReLU": Case("C[i,j] += A[i,k]*B[k,j]; Y[i,j] = max(C[i,j], 0)", {"A": (8, 6), "B": (6, 12)},
                             lambda a: np.maximum(a["A"] @ a["B"], 0)),
    "rows": Case("S[i] += X[i,j]; Y[i,j] = X[i,j] - S[i]", {"X": (7, 13)}, lambda a: a["X"] - a["X"].sum(1, keepdims=True)),
    "sum": Case("s += x[i]", {"x": (101,)}, lambda a: a["x"].sum()),
    "stencil of three": Case("T[i] = X[i]*2; Y[i] = T[i] + T[i+1] + T[i+2]", {"X": (50,)},
                             lambda a: 2*(a["X"][:-2] + a["X"][1:-1] + a["X"][2:])),
    "transposition": Case("Y[i,j] = X[j,i] + 1", {"X": (10, 6)}, lambda a: a["X"].T + 1),
    "triangle": Case("y[i] += L[i,j]*x[j] where j <= i", {"L": (11, 11), "x": (11,)}, lambda a: np.tril(a["L"]) @ a["x"]),
    "padded": Case("Y[i] += (X[i+r-1] else 0) * W[r] where i in 0:20", {"X": (20,), "W": (3,)},
                   lambda a: np.convolve(a["X"], a["W"][::-1], "same")),
    "in place": Case("def f(inout f32[N] A) -> (A) { for t in 0:3 { for i in 1:N-1 { A[i] = A[i-1] + A[i] + A[i+1] } } }",
                     {"A": (12,)}, stencil),
    "time": Case("def f(inout f32[N] A) -> (A) { for t in 0:3 { B[i] = A[i-1] + A[i+1] where i in 1:N-1\n"
                 "A[i] = B[i] where i in 1:N-1 } }", {"A": (13,)}, heat),
    "maximum": Case("M max= X[i,j]; Y[i,j] = X[i,j] - M", {"X": (6, 9)}, lambda a: a["X"] - a["X"].max()),
    "blocks": Case("D[b,i,j] += P[b,i,k]*Q[k,j]", {"P": (3, 5, 4), "Q": (4, 6)}, lambda a: a["P"] @ a["Q"]),
}
STEPS = 7
MET = {"blocks": (2013,)}
"""Seeds that a driver got wrong."""
LATE = {"E504", "E505", "E510", "E511", "E512", "E513", "E706"}
"""Codes with which a target may refuse a legal schedule: what does not fit a grid or a group."""


def scheduled(case: Case, seed: int, gpu: bool) -> Recipe:
    """A schedule of a few random directives; those that are refused are left out, with their codes looked at."""
    c = choices.seeded(seed)
    s = polytc.schedule(case.text, case.shapes, exact=c.likely(30))
    for _ in range(c.between(1, STEPS)):
        s = recipes.tried(s, lambda s: recipes.step(s, c, gpu))
    return s


def given(case: Case, seed: int) -> Arrays:
    r = np.random.default_rng(seed)
    return {n: r.integers(-3, 4, shape).astype(np.float32) for n, shape in case.shapes.items()}


def unless_refused(s: Recipe, make: Callable[[], object]) -> object:
    """What is made, None where the target says that it cannot."""
    try:
        return make()
    except errors.CompileError as found:
        refusal = found
    assert refusal.code in LATE, f"{refusal}\n{s.yaml()}"
    return None


def run(case: Case, s: Recipe, target: str, arrays: Arrays) -> None:
    """The results, unless the target says that it cannot."""
    found = unless_refused(s, lambda: polytc.run(case.text, *(a.copy() for a in arrays.values()), target=target, schedule=s))
    if found is None:
        return
    np.testing.assert_array_equal(found, case.expected(arrays), f"{target}\n{s}\n{s.yaml()}")


def try_out(name: str, seed: int, target: str) -> None:
    case = CASES[name]
    s = scheduled(case, seed, gpu=target == "opencl" or seed % 2 == 0)
    run(case, s, target, given(case, seed))
    for text in ("opencl", "cuda"):
        unless_refused(s, lambda text=text: polytc.lower(case.text, text, shapes=case.shapes, schedule=s))  # type: ignore[misc]


@pytest.mark.part(2)
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 12), marks=pytest.mark.long)])
@pytest.mark.parametrize("name", CASES)
def test_directives(name: str, seeds: range) -> None:
    for seed in seeds:
        try_out(name, seed, "interp")


@pytest.mark.part(3)
@pytest.mark.parametrize("name", CASES)
def test_directives_on_a_device(name: str, targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("there is no OpenCL device")
    for seed in (100, *MET.get(name, ())):
        try_out(name, seed, "opencl")


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_many_directives(name: str) -> None:
    for seed in range(1000, 1150):
        try_out(name, seed, "interp")
