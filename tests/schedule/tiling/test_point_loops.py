"""The loops that a statement of a `for` nest may have for itself: in the order of its rows, or one innermost as vectors."""

from __future__ import annotations

import pytest

from polytc.lang import build
from polytc.machine import AVX2
from polytc.poly import dependences, scop
from polytc.program import program as pr
from polytc.program.affine import Affine
from polytc.schedule.facts import scheduler_constraints
from polytc.schedule.facts.conflicts import Rows
from polytc.schedule.tiling import point_loops

T, I, J = (Affine(0, ((i, 1),)) for i in "tij")
BACK, SUM, SKEWED = Affine(7, (("j", -1),)), Affine(0, (("i", 1), ("j", 1))), Affine(0, (("i", 1), ("t", 2)))
DOWN = Affine(0, (("j", -1),))

HEAD = "def f(inout f32[N,N] A, inout f32[N,N] B, inout f32[N] s) -> (A, B, s) { for t in 0:9 { "
MAP = "B[i,j] = A[i,j] * 2 }"
ALONG_I = "for i in 1:N { A[i,j] = A[i-1,j] * 2 + B[i,j] } }"
SUM_J = "s[i] += A[i,j] * 2 }"
SUM_I = "s[j] += A[i,j] * 2 }"


def options(text: str, rows: Rows, fixed: Rows) -> set[tuple[str, Rows]]:
    program = build(HEAD + text + " }", {"A": (32, 32), "B": (32, 32), "s": (32,)})
    facts = scop.extract(program)
    loop = next(x for x in pr.stretches(program.statements) if isinstance(x, pr.Loop))
    asked = scheduler_constraints.question(facts, dependences.analyse(facts), loop.statements)
    scene = point_loops.Scene(program, point_loops.names(loop.statements), asked.conflicts, AVX2)
    found = scene.options("S1", rows, fixed)
    for o in found:
        assert len(o.free) == len(o.loops)
        assert (o.lanes > 1) == (o.kind != "sequential")
    return {(o.kind, o.loops) for o in found}


@pytest.mark.parametrize(("text", "rows", "fixed", "expected"), [
    (MAP, (I, J), (T,), {("sequential", (I, J)), ("vector", (I, J)), ("vector", (J, I))}),
    (MAP, (J, I), (T,), {("sequential", (J, I)), ("vector", (I, J)), ("vector", (J, I))}),
    (MAP, (I, BACK), (T,), {("sequential", (I, DOWN)), ("vector", (I, J)), ("vector", (DOWN, I))}),
    (MAP, (J,), (T, I), {("sequential", (J,)), ("vector", (J,))}),
    (MAP, (SKEWED, J), (T,), {("sequential", (I, J)), ("vector", (I, J)), ("vector", (J, I))}),
    (MAP, (SUM, J), (T,), {("sequential", (SUM, J)), ("vector", (SUM, J))}),
    (MAP, (SUM, J), (T, I), {("sequential", (J,)), ("vector", (J,))}),
    (MAP, (T, I, J), (), {("sequential", (T, I, J)), ("vector", (T, J, I)), ("vector", (T, I, J))}),
    (ALONG_I, (I, J), (T,), {("sequential", (I, J)), ("vector", (I, J))}),
    (ALONG_I, (J, I), (T,), {("sequential", (J, I)), ("vector", (I, J))}),
    (SUM_J, (I, J), (T,), {("sequential", (I, J)), ("reduce", (I, J)), ("vector", (J, I))}),
    (SUM_I, (I, J), (T,), {("sequential", (I, J)), ("reduce", (J, I)), ("vector", (I, J))}),
])
def test_options(text: str, rows: Rows, fixed: Rows, expected: set[tuple[str, Rows]]) -> None:
    """Vectors run upwards along one index, where the order may be that; what stands still in the rows outside is no loop."""
    assert options(text, rows, fixed) == expected
