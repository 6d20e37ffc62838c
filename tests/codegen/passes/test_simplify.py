"""Simplified conditions hold for the same values."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from polytc.codegen import linear_forms
from polytc.codegen import loops as L
from polytc.codegen.passes import simplify
from polytc.program.scalars import BOOL, F32, I64, DType
from tests.codegen import loop_programs as P

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
        case L.Unary():
            return -value(e.a, x, g) if e.op == "-" else ~value(e.a, x, g)
        case L.Binary():
            a, b = value(e.a, x, g), value(e.b, x, g)
            if e.op in ("//", "%"):
                return a // b if e.op == "//" else a % b
            return {"+": a + b, "-": a - b, "*": a * b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b,
                    "!=": a != b, "&&": a and b, "||": a or b}[e.op]
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


NUMBERS = [L.const(n) for n in (-9, -3, -1, 0, 1, 2, 5, 6, 7, 8, 9, 14, 15, 16)]
LINEAR = [X, P.add(X, L.const(3)), L.binary("-", L.const(7), X), P.scaled("x", 2, L.const(-2)), P.scaled("x", -3)]


def agree(e: L.Expr, made: L.Expr) -> list[int]:
    """The values of an expression, which are those of what became of it."""
    values = [value(e, x, 0) for x in range(8)]
    assert [value(made, x, 0) for x in range(8)] == values, (L.format_expr(e), L.format_expr(made))
    return values


@pytest.mark.parametrize("turned", [False, True])
def test_what_is_the_same_for_all_values_is_decided(turned: bool) -> None:
    """At the very ends of what a variable lies between, too; and nothing else is."""
    for one, number in itertools.product(LINEAR, NUMBERS):
        pair = (number, one) if turned else (one, number)
        for op in ("<", "<=", ">", ">=", "==", "!="):
            made = simplify.expr(L.binary(op, *pair), KNOWN)
            same = len(set(agree(L.binary(op, *pair), made))) == 1
            between = op in ("==", "!=") and one in LINEAR[3:]  # multiples may pass a number by
            assert between or same == isinstance(made, L.Const), (op, str(pair))
        for fn in ("min", "max"):
            made = simplify.expr(limit(fn, *pair), KNOWN)
            values = agree(limit(fn, *pair), made)
            left = any(all(value(p, x, 0) == values[x] for x in range(8)) for p in pair)
            assert left != isinstance(made, L.Call), (fn, str(pair))


@pytest.mark.parametrize("op", ["//", "%"])
def test_divisions(op: str) -> None:
    """None is left where all values have one quotient, or what is divided is a multiple."""
    several = [P.add(P.scaled("g", 6), X), P.scaled("g", 12, P.scaled("x", -4))]
    for one, divisor in itertools.product([*LINEAR, *several], range(1, 20)):
        e = L.binary(op, one, L.const(divisor))
        made = simplify.expr(e, KNOWN)
        for x, g in itertools.product(range(8), range(6)):
            assert value(made, x, g) == value(e, x, g), (L.format_expr(e), L.format_expr(made))
        quotients = {value(L.binary("//", one, L.const(divisor)), x, 0) for x in range(8)}
        if one in LINEAR and (len(quotients) == 1 or all(c % divisor == 0 for c in linear_forms.linear(one).values())):
            assert op not in L.format_expr(made), L.format_expr(e)


def lane(e: L.Expr, n: int, x: int) -> int:
    match e:
        case L.Ramp():
            return value(e.base, x, 0) + n * e.stride
        case L.Broadcast():
            return value(e.a, x, 0)
        case L.Binary():
            assert isinstance(e.b, L.Const)
            a = lane(e.a, n, x)
            return a // int(e.b.value) if e.op == "//" else a % int(e.b.value)
    return int(e.value)


@pytest.mark.parametrize("op", ["//", "%"])
def test_divided_lanes(op: str) -> None:
    """A quotient that is the same in all lanes is a number; the remainder is a ramp then."""
    for factor, start, stride, divisor in itertools.product((1, 4, 6, 8), (0, 1, 3, -4), (1, 2), (1, 2, 4, 8, 12, 16)):
        ramp = L.Ramp(P.scaled("x", factor, L.const(start)), stride, 4)
        made = simplify.expr(L.binary(op, ramp, L.Const(divisor, I64, 4)), KNOWN)
        for x in range(8):
            places = [factor * x + start + k * stride for k in range(4)]
            expected = [n // divisor if op == "//" else n % divisor for n in places]
            assert [lane(made, k, x) for k in range(4)] == expected, L.format_expr(made)
        shared = math.gcd(factor, divisor)
        apart = start % shared + 3 * stride >= shared
        assert isinstance(made, L.Binary) == apart, (factor, start, stride, divisor)


def test_one_element_for_all_lanes_is_loaded_once() -> None:
    scales = L.Buffer("s", F32, (8,))
    whole = L.Load(scales, (L.binary("//", L.Ramp(P.scaled("x", 4), 1, 4), L.Const(16, I64, 4)),), F32, 4)
    assert simplify.value(whole, KNOWN) == L.Broadcast(L.Load(scales, (L.binary("//", X, L.const(4)),), F32), 4, F32)


def test_lanes_that_all_decide_alike() -> None:
    for base, number, stride, op in itertools.product((X, P.add(X, L.const(2))), NUMBERS, (1, 2, -1), ("<", ">=")):
        made = simplify.expr(L.binary(op, L.Ramp(base, stride, 4), L.Const(number.value, I64, 4)), KNOWN)
        lanes = {value(L.binary(op, P.add(base, L.const(n * stride)), number), x, 0) for x in range(8) for n in range(4)}
        assert isinstance(made, L.Const) == (len(lanes) == 1), (op, stride, str(number))
        assert not isinstance(made, L.Const) or (made.lanes == 4 and lanes == {made.value})


def test_logic_with_what_is_known() -> None:
    x = L.binary("<", X, L.const(4))
    yes, no = L.Const(True, BOOL), L.Const(False, BOOL)
    for op, known, expected in (("&&", yes, x), ("&&", no, no), ("||", yes, yes), ("||", no, x)):
        for pair in ((x, known), (known, x)):
            assert simplify.expr(L.binary(op, *pair), KNOWN) == expected


@pytest.mark.parametrize("e", [X, P.add(X, G), P.scaled("x", 3, L.const(-2)), limit("max", X, REST)])
def test_signs(e: L.Expr) -> None:
    """A negation is part of a sum, a complement none."""
    for op in ("-", "~"):
        for whole in (L.Unary(op, e, I64), P.add(L.Unary(op, e, I64), X), L.Unary("-", L.Unary(op, e, I64), I64)):
            made = simplify.expr(whole, KNOWN)
            for x, g in itertools.product(range(8), range(6)):
                assert value(made, x, g) == value(whole, x, g), (L.format_expr(whole), L.format_expr(made))
    assert simplify.expr(P.add(L.Unary("-", e, I64), e), KNOWN) == L.const(0)


def test_choices_that_are_decided_are_gone() -> None:
    for number, chosen in ((8, X), (0, G)):
        e = L.Select(L.binary("<", X, L.const(number)), X, G, I64)
        assert simplify.expr(e, KNOWN) == chosen
    e = L.Select(L.binary("<", X, L.const(3)), X, G, I64)
    assert simplify.expr(e, KNOWN) == e
