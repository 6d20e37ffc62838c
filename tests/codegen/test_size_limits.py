"""How large expressions over open sizes may be."""

from __future__ import annotations

import pytest

from polytc.codegen import loops as L
from polytc.codegen import size_limits
from polytc.program.scalars import I64
from polytc.program.sizes import Undecided, at

N = L.Var("n", I64, least=1)
TILES = L.binary("-", L.binary("//", L.binary("+", N, L.const(63)), L.const(64)), L.const(1))
"""Of the diagonal of n rows all but the last: none for up to 64 rows."""


@pytest.mark.parametrize(("fn", "a", "b"), [("min", L.const(1), TILES), ("min", TILES, L.const(1)), ("max", TILES, L.const(1)),
                                            ("min", N, TILES), ("min", L.binary("-", N, L.const(5)), L.const(0))])
def test_ends_that_depend_on_sizes_are_on_their_sides(fn: str, a: L.Expr, b: L.Expr) -> None:
    """Of a minimum both operands are upper ends, and a number is a lower one."""
    try:
        low, high = size_limits.limits(L.Call(fn, (a, b), I64), {})
    except Undecided:
        assert fn == "max"
        return
    for n in (1, 2, 63, 64, 65, 128, 129, 1000):
        values = [at(size_limits.limits(x, {})[0], {"n": n}) for x in (a, b)]
        value = min(values) if fn == "min" else max(values)
        assert at(low, {"n": n}) <= value <= at(high, {"n": n})


def test_a_number_is_preferred() -> None:
    assert size_limits.limits(L.Call("min", (TILES, L.const(1)), I64), {}) == (0, 1)


def test_there_may_be_no_end() -> None:
    with pytest.raises(Undecided):
        size_limits.limits(L.Call("max", (TILES, L.const(1)), I64), {})
