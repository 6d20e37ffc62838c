"""Simplified conditions hold for the same values."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from polytc.codegen import loops as L
from polytc.codegen.passes import simplify
from polytc.lang.scalars import BOOL, F32, I64, DType

X, G = L.Var("x"), L.Var("g")
KNOWN: dict[str, simplify.Interval] = {"x": (0, 7), "g": (0, 5)}


def limit(fn: str, *args: L.Expr) -> L.Expr:
    return L.Call(fn, args, args[0].dtype)


def value(e: L.Expr, x: int, g: int) -> int:
    match e:
        case L.Const():
            return int(e.value)
        case L.Var():
            return {"x": x, "g": g}[e.name]
        case L.Call():
            return {"min": min, "max": max}[e.fn](value(a, x, g) for a in e.args)
        case L.Binary():
            a, b = value(e.a, x, g), value(e.b, x, g)
            return {"+": a + b, "-": a - b, "*": a * b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[e.op]
    raise AssertionError(e)


REST = L.binary("-", L.const(21), L.binary("*", G, L.const(8)))
SIDES = [limit(fn, L.const(number), REST) for fn in ("min", "max") for number in (-3, 0, 3, 7, 8)]
SIDES += [L.binary("+", side, L.const(1)) for side in SIDES] + [limit("max", L.const(-2), limit("min", L.const(8), REST))]


@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("turned", [False, True])
def test_comparisons_with_limits(op: str, turned: bool) -> None:
    for side in SIDES:
        e = L.binary(op, side, X) if turned else L.binary(op, X, side)
        made = simplify.expr(e, KNOWN)
        for x, g in itertools.product(range(8), range(6)):
            assert bool(value(made, x, g)) == bool(value(e, x, g)), (str(e), str(made), x, g)


@pytest.mark.parametrize(("condition", "expected"), [
    (L.binary(">=", X, limit("max", L.const(0), REST)), L.binary(">=", X, REST)),
    (L.binary("<", X, L.binary("+", limit("min", L.const(7), REST), L.const(1))),
     L.binary("<", X, L.binary("+", REST, L.const(1)))),
    (L.binary("<", X, limit("max", L.const(0), REST)), L.binary("<", X, REST)),
    (L.binary(">", limit("min", REST, L.const(9)), X), L.binary("<", X, REST)),
])
def test_what_decides_nothing_is_gone(condition: L.Expr, expected: L.Expr) -> None:
    assert simplify.expr(condition, KNOWN) == simplify.expr(expected, {})


def test_what_decides_something_stays() -> None:
    condition = L.binary("<", X, limit("min", L.const(6), REST))
    assert "min" in L.format_expr(simplify.expr(condition, KNOWN))


@pytest.mark.parametrize("dtype", [F32, I64, BOOL])
def test_accesses_in_no_lane_are_gone(dtype: DType) -> None:
    """Their places may lie outside of the buffer."""
    b, lanes = L.Buffer("b", dtype, (5, 4)), L.Ramp(L.const(0), 1, 4)
    some = L.binary("<", lanes, L.Broadcast(G, 4, I64))
    for mask, row, gone in ((L.Broadcast(L.binary("<", X, L.const(0)), 4, BOOL), L.const(-1), True), (some, X, False)):
        at = (row, replace(lanes, active=mask))
        made = simplify.simplify(L.Store(b, (X, lanes), L.Load(b, at, dtype, 4)), KNOWN)
        assert isinstance(made, L.Store)
        assert isinstance(made.value, L.Const if gone else L.Load)
        assert made.value.dtype is dtype
        assert (simplify.simplify(L.Store(b, at, L.Const(0, dtype, 4)), KNOWN) == L.Block(())) == gone
