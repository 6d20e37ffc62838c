"""Dimensions in another order: the same values, and loops that follow."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.lang import build
from polytc.rewrite.tidy import axes
from polytc.runtime.reference import Reference

LAST = (0, 2, 3, 1)
CONV = """def f(X[N,C,H,W], K[M,C,3,3], B[M]) -> (Y) {
    T[n,m,h,w] += (X[n,c,h+r-1,w+s-1] else 0) * K[m,c,r,s] where h in 0:H, w in 0:W
    Y[n,m,h,w] = max(T[n,m,h,w] + B[m], 0)
}"""
SHAPES = {"X": (2, 3, 5, 4), "K": (6, 3, 3, 3), "B": (6,)}


def test_subscripts_shapes_and_ranges_follow() -> None:
    program = axes.exchanged(build(CONV, SHAPES), {"X": LAST, "T": LAST, "Y": LAST})
    assert {n: program.tensor(n).shape for n in "XKTY"} == {
        "X": (2, 5, 4, 3), "K": (6, 3, 3, 3), "T": (2, 5, 4, 6), "Y": (2, 5, 4, 6)}
    assert [s.indices for s in program.statements if s.op] == [("n", "h", "w", "m", "r", "s", "c")]


@pytest.mark.parametrize("moved", [("X",), ("Y",), ("X", "T", "Y"), ("T",)])
def test_values_stay(moved: tuple[str, ...]) -> None:
    rng = np.random.default_rng(2)
    arrays = {n: rng.standard_normal(s).astype(np.float32) for n, s in SHAPES.items()}
    expected = polytc.evaluate(CONV, **arrays)
    program = axes.exchanged(build(CONV, SHAPES), dict.fromkeys(moved, LAST))
    given = [np.ascontiguousarray(a.transpose(LAST)) if n in moved else a for n, a in arrays.items()]
    out = np.empty([expected.shape[d] for d in LAST] if "Y" in moved else expected.shape, np.float32)
    Reference(program).bind([*given, out])()
    np.testing.assert_allclose(out, expected.transpose(LAST) if "Y" in moved else expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("text", "shapes"), [
    ("def f(X[N,M]) -> (Y) { for i in 0:N { Y[i,j] = X[i,j] + 0.5 * (Y[i-1,j] else 0) } }", {"X": (4, 5)}),
    ("precise def f(X[N,M]) -> (Y) { Y[i] += X[i,j] }", {"X": (4, 5)}),
    ("def f(inout X[N,M]) { X[i,j] = 2*X[i,j] }", {"X": (4, 5)}),
])
def test_programs_whose_order_is_fixed_are_not_movable(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    assert not axes.movable(build(text, shapes))
    assert axes.movable(build(CONV, SHAPES))
