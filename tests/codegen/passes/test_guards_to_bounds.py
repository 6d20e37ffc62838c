"""Conditions of loops that become their bounds."""

from __future__ import annotations

import numpy as np

from polytc.codegen import loops as L
from polytc.codegen.passes import simplify
from polytc.codegen.passes.guards_to_bounds import tighten_bounds
from polytc.program.scalars import F32, I64
from polytc.targets.interp import InterpTarget
from tests.codegen import loop_programs as P

I, J = L.Var("i"), L.Var("j")
B, Y = L.Buffer("B", I64, (6,)), L.Buffer("Y", F32, (6, 6))
ONE = L.Store(Y, (I, J), L.Const(1.0, F32))


def rows(lower: L.Expr, *conditions: L.Expr) -> L.Module:
    """for i in 0:6 { for j in lower:5 { if (conditions) Y[i,j] = 1 } }"""
    inner = L.For("j", lower, L.const(5), 1, L.If(P.all_of(*conditions), ONE))
    return P.module("rows", (B, Y), ("Y",), P.loop("i", 6, inner))


def run(module: L.Module, b: list[int]) -> np.ndarray:
    (kernel,) = module.kernels
    narrowed = P.module("rows", (B, Y), ("Y",), tighten_bounds(kernel).body)
    y, to = np.zeros((6, 6), "f4"), InterpTarget()
    to.load(to.build(to.emit(narrowed)), 1).run([np.array(b), y])
    return y


def test_conditions_become_bounds() -> None:
    module = rows(L.const(0), L.binary(">=", J, P.load(B, I)), L.binary("<", P.add(J, L.const(-2)), P.load(B, I)))
    assert "if" not in str(tighten_bounds(module.kernels[0]).body)
    b = [0, 3, -9, 4, 9, 2]
    np.testing.assert_array_equal(run(module, b), [[float(b[i] <= j < b[i] + 2 and j < 5) for j in range(6)] for i in range(6)])


def test_loops_without_an_iteration_load_nothing() -> None:
    """In row 5 there is no B[i + 1], and no j from 5 to 4 that would ask for it."""
    following = P.load(B, P.add(I, L.const(1)))
    b = [9, 1, 5, 0, 4, 3]
    for condition, holds in ((L.binary("<", J, following), lambda i, j: j < b[i + 1]),
                             (L.binary(">=", following, L.const(4)), lambda i, j: b[i + 1] >= 4)):
        expected = [[float(i <= j < 5 and holds(i, j)) for j in range(6)] for i in range(6)]
        np.testing.assert_array_equal(run(rows(I, condition), b), expected)


def test_what_all_items_find_the_same_goes_out_of_their_loops() -> None:
    """for i in 0:6 { items j { if (i < 4 && j < 5) Y[i,j] = 1 } } has 4 iterations; j < 5 stays with the items."""
    inside = L.If(P.all_of(L.binary("<", I, L.const(4)), L.binary("<", J, L.const(5))), ONE)
    items = L.For("j", L.const(0), L.const(6), 1, inside, "thread")
    (kernel,) = P.module("rows", (Y,), ("Y",), P.loop("i", 6, items)).kernels
    found = tighten_bounds(kernel).body
    assert isinstance(found, L.For)
    assert simplify.expr(found.upper, {}) == L.const(4)
    assert isinstance(found.body, L.For)
    assert isinstance(found.body.body, L.If)
    assert found.body.body.cond == L.binary("<", J, L.const(5))
