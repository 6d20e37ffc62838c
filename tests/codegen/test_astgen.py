"""Loops of one iteration that isl leaves out, where a kernel needs them all the same."""

from __future__ import annotations

import pytest

from polytc.codegen import astgen
from polytc.codegen import loops as L
from polytc.program.kinds import kind as kind_of
from polytc.program.scalars import F32

ONE = L.Store(L.Buffer("Y", F32, ()), (), L.Const(1.0, F32))


def chain(s: L.Stmt) -> list[tuple[str, str, int]]:
    """(variable, kind, axis) of loops around a statement."""
    found = []
    while isinstance(s, L.For):
        assert (s.lower, s.upper, s.step) == (L.const(0), L.const(1), 1)
        found.append((s.var, s.kind, s.axis))
        s = s.body
    assert s == ONE
    return found


def grouped(s: L.Stmt, kinds: tuple[str, ...], depth: int) -> L.Stmt:
    return astgen._grouped(s, tuple(map(kind_of, kinds)), depth)


@pytest.mark.parametrize("depth", range(4))
def test_loops_over_one_item_or_group_are_put_back(depth: int) -> None:
    """Each has the name of its depth, which no loop around it has. Of groups the first is enough: that makes a kernel."""
    items = ("thread1", "thread0", "thread2")
    for count in (1, 2, 3):
        made = grouped(ONE, items[:count], depth)
        assert chain(made) == [(f"c{depth + n}", "thread", int(k[-1])) for n, k in enumerate(items[:count])]
    assert chain(grouped(ONE, ("block1", "block0"), depth)) == [(f"c{depth}", "block", 1)]
    assert chain(grouped(ONE, ("block0", "sequential"), depth)) == [(f"c{depth}", "block", 0)]
    for kinds in (("sequential",), ("parallel", "vector"), ("sequential", "block0"), ("thread0", "sequential")):
        assert chain(grouped(ONE, kinds, depth)) == []


@pytest.mark.parametrize("kind", ["block", "thread"])
def test_loops_that_are_there_stay_alone(kind: str) -> None:
    there = L.For("c7", L.const(0), L.const(9), 1, ONE, kind, 0)
    assert grouped(there, (f"{kind}1", f"{kind}0"), 7) == there
