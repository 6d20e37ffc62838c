"""Intervals hold every value that an index expression takes."""

from __future__ import annotations

import operator

from hypothesis import given
from hypothesis import strategies as st

from polytc.codegen import loops
from polytc.codegen.intervals import Interval, interval

VALUES = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4) -> loops.Expr:
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from((loops.Var("i"), loops.Var("j"))) | st.builds(loops.const, st.integers(-9, 9)))
    op = draw(st.sampled_from(sorted(VALUES)))
    b = loops.const(draw(st.integers(1, 9))) if op in ("//", "%") else draw(expressions(depth - 1))
    return loops.binary(op, draw(expressions(depth - 1)), b)


def value(e: loops.Expr, at: dict[str, int]) -> int:
    match e:
        case loops.Var():
            return at[e.name]
        case loops.Const():
            return int(e.value)
        case loops.Binary():
            return VALUES[e.op](value(e.a, at), value(e.b, at))
    raise AssertionError(e)


@given(expressions(), st.integers(-20, 20), st.integers(0, 12), st.integers(-20, 20), st.data())
def test_values_lie_inside(e: loops.Expr, low: int, width: int, j: int, data: st.DataObject) -> None:
    i = data.draw(st.integers(low, low + width))
    found = interval(e, {"i": Interval(low, low + width), "j": Interval(j, j)})
    assert found.low <= value(e, {"i": i, "j": j}) <= found.high


@given(expressions(), st.integers(-20, 20), st.integers(-20, 20))
def test_those_of_single_values_are_exact(e: loops.Expr, i: int, j: int) -> None:
    exact = value(e, {"i": i, "j": j})
    assert interval(e, {"i": Interval(i, i), "j": Interval(j, j)}) == Interval(exact, exact)
