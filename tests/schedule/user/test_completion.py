"""What users leave open is decided for the machine, where legal; what they said stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc import machine
from polytc.lang import build
from polytc.schedule.user import loopnest, recipe
from polytc.schedule.user.recipe import Recipe
from tests import loop_statements as ls
from tests.schedule.user.test_recipe import Golden, right

TEXT = "C[i,j] += A[i,k]*B[k,j]; Y[i,j] = max(C[i,j], 0); Z[i] += Y[i,j]"
SHAPES = {"A": (50, 20), "B": (20, 70)}


EAGER = {"threads.elements": 5000}
"""Threads share less work than they would."""
AVX2, AVX512, GENERIC_GPU = (m.costing(EAGER) for m in (machine.AVX2, machine.AVX512, machine.GENERIC_GPU))


def start() -> Recipe:
    return recipe.start(build(TEXT, SHAPES))


def kinds(s: Recipe, statement: str) -> list[str]:
    return [x.kind for x in loopnest.loops(s.body, statement)]


@pytest.mark.part(4)
@pytest.mark.parametrize(("name", "make"), [
    ("untouched", lambda s: s),
    ("tiled", lambda s: s.tile("S1", i=32, j=32)),
    ("fused", lambda s: s.fuse("S1_init", "S1", "S2", depth=2)),
    ("vectors", lambda s: s.vectorize("S1", "i", 8)),
])
def test_completed(name: str, make: Callable[[Recipe], Recipe], golden: Golden) -> None:
    golden(f"completed_{name}.txt", str(right(make(start()).complete(AVX2))))


def test_what_the_user_said_stays() -> None:
    s = start().parallel("S1", "j").tile("S1", {"k": 16}).vectorize("S3", "j", 8)
    made = right(s.complete(AVX512))
    assert kinds(made, "S1")[:2] == ["sequential", "parallel"]
    assert kinds(made, "S3").count("reduce") == 1
    assert "parallel" not in kinds(made, "S3")
    assert made.steps[:len(s.steps)] == s.steps


def test_time_loops_stay_in_order_and_their_inner_loops_do_not() -> None:
    made = right(recipe.start(ls.jacobi(3, 100)).tile("S1", i=32).complete(AVX2.costing({"threads.elements": 10})))
    assert kinds(made, "S1") == ["sequential", "parallel", "parallel", "vector"]
    assert kinds(made, "S2") == ["sequential", "parallel", "vector"]


def test_little_work_wakes_no_threads() -> None:
    assert "parallel" not in str(right(recipe.start(ls.jacobi(3, 50)).complete(AVX2)))


def test_recurrences_stay_as_they_are() -> None:
    for program in (ls.recurrence(17), ls.nested(5, 6), ls.cholesky(9)):
        right(recipe.start(program).complete(AVX2))


def test_gpus_get_blocks() -> None:
    made = start().tile("S1", i=16, j=16).complete(GENERIC_GPU)
    assert kinds(made, "S1")[0] == "parallel"
    assert any(k.startswith("block") for k in kinds(made, "S2"))


def test_without_a_step_it_is_the_automatic_schedule() -> None:
    s = polytc.schedule(TEXT, shapes=SHAPES)
    assert str(polytc.lower(TEXT, shapes=SHAPES, schedule=s).schedule) == str(polytc.lower(TEXT, shapes=SHAPES).schedule)
    assert str(polytc.lower(TEXT, shapes=SHAPES, schedule=replace(s, exact=True)).schedule) == str(s.schedule)


def test_compile_completes_unless_it_is_exact() -> None:
    a, b = (np.random.default_rng(0).random(s, np.float32) for s in SHAPES.values())
    for exact in (False, True):
        s = polytc.schedule(TEXT, shapes=SHAPES, exact=exact).tile("S1", i=32, j=32)
        low = polytc.lower(TEXT, shapes=SHAPES, schedule=s)
        assert ("vector" in str(low.schedule)) != exact
        np.testing.assert_allclose(polytc.run(TEXT, a, b, schedule=s), np.maximum(a @ b, 0).sum(1), rtol=1e-4)
