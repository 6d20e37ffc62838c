"""Loops of a text as bands: what carries nothing goes outside of a loop that it does not depend on."""

from __future__ import annotations

import pytest

from polytc.machine import GENERIC_GPU
from polytc.poly import nest
from polytc.schedule.facts import bands, source_loops
from polytc.schedule.facts.conflicts import text as form
from tests.schedule.posed import posed

HEAD = "def f(inout f32[N,N] q, inout f32[N,N] p, f32[N,N] x) -> (q, p) {{ {} }}"
SHAPES = dict.fromkeys(("q", "p", "x"), (16, 16))


def shape(t: bands.Tree) -> str:
    """`parallel i { j { S1; S2 } }`: the rows of the first statement."""
    match t:
        case nest.Leaf():
            return t.statement
        case nest.Sequence():
            return "; ".join(map(shape, t.children))
        case bands.PermutableBand():
            heads = [("parallel " if x.coincident else "") + form(x.rows[0][1]) for x in t.loops]
            return f"{', '.join(heads)} {{ {shape(t.child)} }}"
    raise AssertionError(t)


@pytest.mark.parametrize(("body", "expected"), [
    ("for j in 1:9 { q[i,j] = q[i,j-1] + x[i,j]; p[i,j] = 2*q[i,j] }", "parallel i { j { S1; S2 } }"),
    ("for j in 1:9 { q[i,j] = q[i-1,j-1] + x[i,j] where i in 1:16 }", "j { parallel i { S1 } }"),
    ("for t in 0:9 { for i in 1:16 { q[i,j] = q[i-1,j] + x[i,j] } }", "parallel j { t { i { S1 } } }"),
    ("for t in 0:9 { q[i,j] = p[i,j] + 1; p[j,i] = q[i,j]*2 }",
     "t { parallel i, parallel j { S1 }; parallel j, parallel i { S2 } }"),
])
def test_what_carries_nothing_runs_outside(body: str, expected: str) -> None:
    _, loop, asked = posed(HEAD.format(body), SHAPES, GENERIC_GPU)
    found = source_loops.tree(asked.conflicts, (loop,))
    assert shape(found) == expected
    assert not source_loops.is_poor(asked.conflicts, found)


def test_loops_that_all_carry_something_are_poor() -> None:
    body = "for t in 0:9 { for i in 1:15 { for j in 1:15 { q[i,j] = q[i-1,j] + q[i,j-1] + q[i,j+1] } } }"
    _, loop, asked = posed(HEAD.format(body), SHAPES, GENERIC_GPU)
    assert source_loops.is_poor(asked.conflicts, source_loops.tree(asked.conflicts, (loop,)))
