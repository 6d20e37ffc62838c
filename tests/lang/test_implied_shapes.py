"""Shapes that nobody stated: open sizes named after the indices."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.lang import implied_shapes

CASES = {
    "a product": ("C[i,j] += A[i,k]*B[k,j]", {}, {"A": ("I", "K"), "B": ("K", "J")}),
    "a shape that is stated": ("C[i,j] += A[i,k]*B[k,j]", {"A": (8, 9)}, {"A": (8, 9), "B": (9, "J")}),
    "a name that is stated": ("C[i,j] += A[i,k]*B[k,j]", {"A": ("M", "K")}, {"A": ("M", "K"), "B": ("K", "J")}),
    "sums of indices": ("O[h] += X[h+r]*W[r]", {}, {"X": ("X_0",), "W": ("R",)}),
    "a tensor of that name": ("C[c] = A[c]*2", {}, {"A": ("n_c",)}),
    "one size by a tensor between": ("T[i] = X[i]; Y[j] = T[j] + Z[j]", {}, {"X": ("I",), "Z": ("I",)}),
    "an index of two sizes": ("T[i] = X[i]; Y[i] += Z[j,i]*X[j]", {}, {"X": ("I",), "Z": ("I", "n_i")}),
    "a diagonal": ("Y[i] = A[i,i]", {}, {"A": ("I", "I")}),
    "a def": ("def f(f32[M,4] A, f32[M] x) -> (y) { y[j] += A[i,j]*x[i] }", {}, {"A": ("M", 4), "x": ("M",)}),
    "a def with formulas": ("def f(f32[R+1] r, f32[R] x) -> (y) { y[i] = r[i]+x[i] }", {}, {"x": ("R",)}),
    "an op": ("op f(X[i]) -> (Y) { Y[i] = X[i] }", {}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_names(name: str) -> None:
    text, given, expected = CASES[name]
    assert implied_shapes(text, None, given) == expected


def test_two_sizes_of_one_index_stay_apart() -> None:
    """`i` walks a vector in the first statement, and columns of another length in the second."""
    text = "T[i] = X[i]; Y[i] += Z[j,i]*T[j]"
    shapes = implied_shapes(text, None, {})
    op = polytc.compile(text, shapes=shapes, target="interp")
    x, z = np.arange(5, dtype="f4"), np.arange(15, dtype="f4").reshape(5, 3)
    np.testing.assert_array_equal(op(x, z), x @ z)
