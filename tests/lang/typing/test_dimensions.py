"""Dimensions of parameters that are formulas of sizes: they tell sizes, and must agree."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import polytc
from polytc.errors import CompileError
from tests.meaning.run import Refused, meaning

R = np.random.default_rng(12)
CSR = "def spmv(i64[R+1] r, i32[P] col, f32[P] v, f32[C] x) -> (f32[R] y) { y[i] += v[p] * x[col[p]] where p in r[i]:r[i+1] }"


def f(*shape: int) -> np.ndarray:
    return R.normal(size=shape).astype(np.float32)


def matrix(rows: int, columns: int) -> dict[str, np.ndarray]:
    ends = np.sort(R.integers(0, 3 * rows, rows - 1))
    r = np.concatenate([[0], ends, [3 * rows]])
    return {"r": r, "col": R.integers(0, columns, 3 * rows).astype(np.int32), "v": f(3 * rows), "x": f(columns)}


def product(r: np.ndarray, col: np.ndarray, v: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.array([(v[a:b] * x[col[a:b]]).sum() for a, b in pairwise(r)], np.float32)


def test_row_pointers_of_a_sparse_matrix(targets: tuple[str, ...]) -> None:
    for target in ("evaluate", *targets):
        op = polytc.compile(CSR, target)
        for rows, columns in ((7, 5), (1, 9)):
            given = matrix(rows, columns)
            np.testing.assert_allclose(op(**given), product(**given), rtol=1e-4, atol=1e-5)


def test_of_open_sizes() -> None:
    op = polytc.compile(CSR, symbolic=True)
    for rows, columns in ((7, 5), (1, 9), (40, 3)):
        given = matrix(rows, columns)
        np.testing.assert_allclose(op(**given), product(**given), rtol=1e-4, atol=1e-5)
    two = polytc.compile("def f(f32[2*N] x) -> (f32[N] y) { y[i] = x[2*i] + x[2*i+1] }", symbolic=True)
    for n in (1, 2, 9, 30):
        x = f(2 * n)
        np.testing.assert_allclose(two(x), x.reshape(-1, 2).sum(1), rtol=1e-5, atol=1e-6)


PROGRAMS: list[tuple[str, dict[str, np.ndarray], Any]] = [
    ("def f(f32[N+K-1] x, f32[K] w) -> (f32[N] y) { y[i] += x[i+k]*w[k] }", {"x": f(9), "w": f(3)},
     lambda x, w: np.correlate(x, w)),
    ("def f(f32[N*M] x, f32[M] w) -> (f32[N,M] y) { y[i,j] = x[i*M+j]*w[j] }", {"x": f(12), "w": f(4)},
     lambda x, w: x.reshape(3, 4) * w),
    ("def f(f32[2*(N-1)] x, f32[M-N] z) -> (y, u) { y[i] = x[i] where i in 0:N; u[j] = 2*z[j] where j in 0:M-N }",
     {"x": f(8), "z": f(2)}, lambda x, z: (x[:5], 2 * z)),
    ("def f(f32[N+1] x, f32[N] z, f32[(N+1)//2] w) -> (y) { y[i] = x[i+1]*z[i] where i in 0:N }",
     {"x": f(6), "z": f(5), "w": f(3)}, lambda x, z, w: x[1:] * z),
    ("def g(f32[N+1] x) -> (f32[N] y) { y[i] = x[i+1] - x[i] }\nT[i] = X[i]*2; Y = g(T)", {"X": f(7)},
     lambda X: np.diff(2 * X))]


@pytest.mark.parametrize(("text", "given", "wanted"), PROGRAMS, ids=[row[0] for row in PROGRAMS])
def test_sizes_that_formulas_tell(text: str, given: dict[str, np.ndarray], wanted: Any) -> None:
    numbers = wanted(**given)
    for target in ("evaluate", "cpu"):
        found = polytc.run(text, target=target, **given)
        for a, b in zip(found, numbers, strict=True) if isinstance(numbers, tuple) else [(found, numbers)]:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    known = list(meaning(text, given).values())
    for (a, _), b in zip(known, numbers if isinstance(numbers, tuple) else (numbers,), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("text", "shapes", "code", "told"), [
    ("def f(f32[N] x, f32[N+1] z) -> (y) { y[i] = x[i]+z[i+1] }", {"x": 5, "z": 10}, "E205",
     r"declared N\+1, which is 6, the array has 10\n.*\n.*\n  note: N is 5 in `x`"),
    ("def f(f32[N+1] x, f32[N+1] z) -> (y) { y[i] = x[i]+z[i+1] }", {"x": 5, "z": 10}, "E205", "note: N is 4 in `x`"),
    ("def f(f32[R+1] x) -> (y) { y[i] = x[i] where i in 0:R }", {"x": 0}, "E205", "no R from 0 on makes 0 of R\\+1"),
    ("def f(f32[2*N] x) -> (y) { y[i] = x[2*i] where i in 0:N }", {"x": 5}, "E205", "no N from 0 on makes 5 of 2\\*N"),
    ("def f(f32[N*M] x) -> (y) { y[i] = x[i] }", {"x": 5}, "E101", "no dimension is `N`, `M` alone"),
    ("def f(f32[N*M] x, f32[N+1] z) -> (y) { y[i] = x[i] }", {"x": 0, "z": 1}, "E101", "no dimension is `M` alone"),
    ("def f(f32[N-N+4] x) -> (y) { y[i] = x[i] }", {"x": 3}, "E205", "no N from 0 on makes 3 of N-N\\+4"),
    ("def f(f32[N//2] x) -> (y) { y[i] = x[i] }", {"x": 5}, "E101", "declare a scalar, `i64 N`")])
def test_what_does_not_agree(text: str, shapes: dict[str, int], code: str, told: str) -> None:
    with pytest.raises(CompileError, match=f"(?s){code}.*{told}"):
        polytc.build(text, {n: (extent,) for n, extent in shapes.items()})
    with pytest.raises(Refused):
        meaning(text, {n: f(extent) for n, extent in shapes.items()})
