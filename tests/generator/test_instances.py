"""The brute-force oracle of schedules: what it finds in loops that are known to be right or wrong."""

from __future__ import annotations

import pytest

from polytc import build, errors
from polytc.schedule.user import recipe
from polytc.schedule.user.recipe import Recipe
from tests.generator import instances, recipes

STENCIL = recipe.start(build("T[i] = X[i] * 2; Y[i] = T[i] + T[i+1]", {"X": (6,)}))
SUMS = recipe.start(build("C[i] += A[i,k]", {"A": (2, 3)}))
SEIDEL = recipe.start(build("def f(inout f32[5] A) -> (A) { for t in 0:3 { for i in 1:4 { A[i] = A[i-1] + A[i] + A[i+1] } } }",
                            {"A": (5,)}))


def first(s: Recipe) -> tuple[str, str] | None:
    """The first conflict's element and when its instances run."""
    found = next(instances.conflicts(s.program, s.body), None)
    return None if found is None else (found.element[0], found.when)


def refused(s: Recipe, step: str, *operands: object) -> tuple[errors.IllegalTransform, Recipe]:
    """The refusal of a step, and what it would have led to."""
    with recipes.attempts() as made, pytest.raises(errors.IllegalTransform) as found:
        getattr(s, step)(*operands)
    program, body = made[-1]
    return found.value, Recipe(program, s.scop, s.deps, body)


def test_legal_loops_have_no_conflicts() -> None:
    assert first(STENCIL) is None
    assert first(STENCIL.shift("S2", {"i": 1}).fuse("S1", "S2")) is None
    assert first(SUMS.interchange("S1", "i", "k").bind("S1", {"i": "grid.x"})) is None


@pytest.mark.parametrize(("s", "step", "operands", "expected"), [
    (STENCIL, "fuse", ("S1", "S2"), ("T", "after")),
    (SUMS, "parallel", ("S1", "k"), ("C", "parallel k")),
    (SUMS, "bind", ("S1", {"k": "block.x"}), ("C", "thread0 k")),
    (SEIDEL, "interchange", ("S1", "t", "i"), ("A", "after")),
])
def test_illegal_ones_have(s: Recipe, step: str, operands: tuple[object, ...], expected: tuple[str, str]) -> None:
    refusal, made = refused(s, step, *operands)
    assert first(made) == expected
    recipes.true(refusal, [(made.program, made.body)])


def test_a_witness_that_is_none_is_seen() -> None:
    refusal, made = refused(SUMS, "parallel", "S1", "k")
    with pytest.raises(AssertionError, match="not in each other's way"):
        recipes.true(refusal, [(made.program, SUMS.body)])


def test_what_memory_decides_is_not_told() -> None:
    gather = recipe.start(build("Y[i] = X[I[i]]", {"X": (5,), "I": (3,)}, {"I": "i64"}))
    assert first(gather) is None
    scatter = recipe.start(build("def f(f32[3] X, i64[3] I) -> (f32[5] Y) { Y[I[i]] += X[i] }", {"X": (3,), "I": (3,)}))
    with pytest.raises(instances.Unknown):
        first(scatter)
