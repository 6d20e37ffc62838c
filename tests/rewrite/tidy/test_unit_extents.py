"""Indices of one value go, wherever their range begins."""

from __future__ import annotations

from polytc.rewrite.tidy import unit_extents
from polytc.stages import build
from tests.rewrite.equal import same_results


def test_the_value_stands_in_place_of_the_index() -> None:
    before = build("Y[i,j] = A[i,j]*i where i in 3:4", {"A": (7, 9)})
    after = unit_extents.drop_unit_indices(before)
    assert after.statement("S1").indices == ("j",)
    assert "A[3, j]" in str(after)
    same_results(before, after)


def test_reduced_indices_and_those_in_conditions() -> None:
    before = build("S[i] += A[i,k] where k in 2:3, i <= k", {"A": (7, 9)})
    after = unit_extents.drop_unit_indices(before)
    assert after.statement("S1").indices == ("i",)
    same_results(before, after)


def test_other_indices_stay() -> None:
    program = build("Y[i,j] = A[i,j]", {"A": (2, 9)})
    assert unit_extents.drop_unit_indices(program) == program
