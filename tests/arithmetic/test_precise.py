"""`precise`: every strategy gives, to the last bit, what the loops in textual order give, a rounding for each operation.

The references are loops over numpy scalars. Each program is one for which vector lanes, blocks of a sum, a product and sum in
one rounding, or a reciprocal in place of a division change the result: `test_the_inputs_tell` shows it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from polytc import compiler
from polytc.lang import build, evaluate

RNG = np.random.default_rng(3)
Arrays = dict[str, np.ndarray]
F = np.float32


def _wide(*shape: int) -> np.ndarray:
    """Numbers of very different size: each order of summation rounds in its own way."""
    return (RNG.standard_normal(shape) * 10.0 ** RNG.uniform(-4, 4, shape)).astype("f4")


def _sum(a: Arrays) -> np.ndarray:
    total = F(0)
    for x in a["X"]:
        total = F(total + x)
    return np.array(total)


def _dot(a: Arrays) -> np.ndarray:
    total = F(0)
    for x, y in zip(a["X"], a["Y"], strict=True):
        total = F(total + F(x * y))
    return np.array(total)


def _matmul(a: Arrays) -> np.ndarray:
    out = np.zeros((a["A"].shape[0], a["B"].shape[1]), "f4")
    for k in range(a["A"].shape[1]):  # rows of products; each element is summed over k in order
        out = out + a["A"][:, k, None] * a["B"][None, k]
    return out


def _conv(a: Arrays) -> np.ndarray:
    image, w = a["I"], a["W"]
    out = np.zeros((w.shape[0], image.shape[1] - 2, image.shape[2] - 2), "f4")
    for c in range(image.shape[0]):
        for r in range(3):
            for s in range(3):
                out = out + image[c, r:r + out.shape[1], s:s + out.shape[2]] * w[:, c, r, s, None, None]
    return out


def _prefix(a: Arrays) -> np.ndarray:
    return np.add.accumulate(a["X"], dtype="f4")


def _normalised(a: Arrays) -> np.ndarray:
    totals = np.array([_sum({"X": row}) for row in a["X"]])
    return a["X"] / totals[:, None]


def _polynomial(a: Arrays) -> np.ndarray:
    x = a["X"]
    return (x * x + x) * x + F(3)


@dataclass(frozen=True)
class Case:
    """A program, its inputs, what the loops give."""

    text: str
    arrays: Arrays
    expected: Callable[[Arrays], np.ndarray]


CASES = {
    "sum": Case("precise def f(f32[N] X) -> (s) { s += X[i] }", {"X": _wide(3001)}, _sum),
    "dot": Case("precise def f(f32[N] X, f32[N] Y) -> (s) { s += X[i]*Y[i] }", {"X": _wide(2000), "Y": _wide(2000)}, _dot),
    "matmul": Case("precise def f(f32[M,K] A, f32[K,N] B) -> (C) { C[i,j] += A[i,k]*B[k,j] }",
                   {"A": _wide(37, 70), "B": _wide(70, 45)}, _matmul),
    "transposed matmul": Case("precise def f(f32[M,K] A, f32[K,N] B) -> (C) { C[j,i] += A[i,k]*B[k,j] }",
                              {"A": _wide(21, 64), "B": _wide(64, 33)}, lambda a: _matmul(a).T),
    "convolution": Case("precise def f(f32[C,H,B] I, f32[M,C,3,3] W) -> (O) { O[m,h,w] += I[c,h+r,w+s]*W[m,c,r,s] }",
                        {"I": _wide(16, 18, 18), "W": _wide(16, 16, 3, 3)}, _conv),
    "prefix sum": Case("precise def f(f32[N] X) -> (f32[N] P) { P[i] += X[k] where k <= i }", {"X": _wide(300)}, _prefix),
    "quotient of a sum": Case("precise def f(f32[M,N] X) -> (Y) { s[i] += X[i,j]; Y[i,j] = X[i,j] / s[i] }",
                              {"X": _wide(20, 300)}, _normalised),
    "polynomial": Case("precise def f(f32[N] X) -> (Y) { Y[i] = (X[i]*X[i] + X[i])*X[i] + 3 }", {"X": _wide(500)}, _polynomial),
}
SLOW_FOR_THE_INTERPRETER = {"matmul", "transposed matmul", "convolution", "prefix sum", "quotient of a sum"}


def run(case: Case, target: str, schedule: str | None, threads: int, *, precise: bool = True) -> np.ndarray:
    text = case.text if precise else case.text.removeprefix("precise ")
    program = build(text, {n: a.shape for n, a in case.arrays.items()})
    assert program.precise == precise
    out = np.zeros(program.tensor(program.outputs[0]).shape, "f4")
    compiler.compile_program(program, target, threads, schedule).run([*(case.arrays[n] for n in program.inputs), out])
    return out


@pytest.mark.part(8)
@pytest.mark.parametrize("schedule", [None, "isl", "program"])
@pytest.mark.parametrize("name", CASES)
def test_every_strategy(name: str, schedule: str | None, targets: tuple[str, ...]) -> None:
    case = CASES[name]
    expected = case.expected(case.arrays)
    for target in targets:
        if target == "interp" and (schedule is not None or name in SLOW_FOR_THE_INTERPRETER):
            continue
        for threads in (1, 2) if target == "cpu" and schedule is None else (1,):
            found = run(case, target, schedule, threads)
            assert np.array_equal(found, expected), f"{target}, schedule {schedule}, {threads} threads"


@pytest.mark.part(7)
@pytest.mark.parametrize("name", [n for n in CASES if n != "prefix sum"])
def test_the_inputs_tell(name: str) -> None:
    """Without `precise` the same inputs give other bits: the test above can fail."""
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not np.array_equal(run(case, "cpu", None, 1, precise=False), case.expected(case.arrays))


@pytest.mark.parametrize("name", CASES)
def test_the_evaluator_keeps_the_order_too(name: str) -> None:
    """numpy's own sums of an axis are pairwise."""
    case = CASES[name]
    program = build(case.text, {n: a.shape for n, a in case.arrays.items()})
    np.testing.assert_array_equal(evaluate(program, case.arrays)[program.outputs[0]], case.expected(case.arrays))
