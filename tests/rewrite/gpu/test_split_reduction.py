"""Reductions of few results in parts: which, how many, and that sums stay."""

from __future__ import annotations

import pytest

from polytc.machine import DEVICES, GENERIC_GPU
from polytc.program.names import Names
from polytc.rewrite.gpu import division, split_reduction
from polytc.stages import build
from tests.rewrite.equal import same_results

GPU = DEVICES["nvidia-sm90"]


@pytest.mark.parametrize(("text", "shapes"), [
    ("s[0] += x[k]", {"x": (50000,)}), ("s[0] max= x[k]", {"x": (50001,)}), ("S[i] += x[i,k]", {"x": (3, 30000)}),
    ("C[i,j] += A[i,k]*B[k,j]", {"A": (16, 2048), "B": (2048, 16)})])
def test_few_results_are_made_in_parts(text: str, shapes: dict) -> None:
    before = build(text, shapes)
    after, runs = split_reduction.split(before, Names.of(before), division.own(GPU).parts)
    assert [s.name for s in runs[0]] == ["S1_parts_init", "S1_parts"], "groups cannot wait for each other"
    assert [s.name for s in runs[-1]] == ["S1_init", "S1"]
    parts = after.statement("S1").ranges[-1].extent
    assert parts > 1
    same_results(before, after)


@pytest.mark.parametrize(("text", "shapes"), [("S[i] += x[i,k]", {"x": (100000, 100)}), ("Y[k] = x[k]*2", {"x": (50000,)}),
                                              ("s[0] += x[k]", {"x": (500,)})])
def test_others_stay_whole(text: str, shapes: dict) -> None:
    program = build(text, shapes)
    after, runs = split_reduction.split(program, Names.of(program), division.own(GENERIC_GPU).parts)
    assert after == program
    assert [s for run in runs for s in run] == list(program.statements)
