"""Intervals hold every value that an index expression takes; those of indices have ends wherever their variables have."""

from __future__ import annotations

import operator

from hypothesis import given
from hypothesis import strategies as st

from polytc.codegen import loops
from polytc.codegen.intervals import Interval, interval
from polytc.codegen.passes import simplify
from polytc.program.scalars import I64

VALUES = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}


PLAIN = (*sorted(VALUES), "min", "max")
ISL = ("+", "-", "scaled", "//", "%", "min", "max", "select")
"""What isl writes."""


@st.composite
def expressions(draw: st.DrawFn, ops: tuple[str, ...] = (*PLAIN, "select"), depth: int = 4) -> loops.Expr:
    """Over i and j."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from((loops.Var("i"), loops.Var("j"))) | st.builds(loops.const, st.integers(-9, 9)))
    part = expressions(ops, depth - 1)
    match draw(st.sampled_from(ops)):
        case "select":
            return loops.Select(loops.binary("<", draw(part), draw(part)), draw(part), draw(part), I64)
        case "min" | "max" as fn:
            return loops.Call(fn, (draw(part), draw(part)), I64)
        case "scaled":
            return loops.binary("*", draw(part), loops.const(draw(st.integers(-9, 9))))
        case "//" | "%" as op:
            return loops.binary(op, draw(part), loops.const(draw(st.integers(1, 9))))
        case op:
            return loops.binary(op, draw(part), draw(part))


def value(e: loops.Expr, at: dict[str, int]) -> int:
    match e:
        case loops.Var():
            return at[e.name]
        case loops.Const():
            return int(e.value)
        case loops.Select(cond=loops.Binary() as cond):
            return value(e.a if value(cond.a, at) < value(cond.b, at) else e.b, at)
        case loops.Call():
            return {"min": min, "max": max}[e.fn](value(a, at) for a in e.args)
        case loops.Binary():
            return VALUES[e.op](value(e.a, at), value(e.b, at))
    raise AssertionError(e)


@given(expressions(), st.integers(-20, 20), st.integers(0, 12), st.integers(-20, 20), st.data())
def test_values_lie_inside(e: loops.Expr, low: int, width: int, j: int, data: st.DataObject) -> None:
    i = data.draw(st.integers(low, low + width))
    found = interval(e, {"i": Interval(low, low + width), "j": Interval(j, j)})
    assert found.low <= value(e, {"i": i, "j": j}) <= found.high


@given(expressions(ISL), st.integers(-20, 20), st.integers(0, 12), st.integers(-20, 20), st.data())
def test_those_of_indices_have_ends(e: loops.Expr, low: int, width: int, j: int, data: st.DataObject) -> None:
    """Loops over work-items need them, whatever isl wrote."""
    i = data.draw(st.integers(low, low + width))
    least, most = simplify.interval(e, {"i": (low, low + width), "j": (j, j)})
    assert least is not None
    assert most is not None
    assert least <= value(e, {"i": i, "j": j}) <= most


@given(expressions(PLAIN), st.integers(-20, 20), st.integers(-20, 20))
def test_those_of_single_values_are_exact(e: loops.Expr, i: int, j: int) -> None:
    exact = value(e, {"i": i, "j": j})
    assert interval(e, {"i": Interval(i, i), "j": Interval(j, j)}) == Interval(exact, exact)
