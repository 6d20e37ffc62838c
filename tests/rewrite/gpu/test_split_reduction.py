"""Reductions of few results in parts: which, how many, and that sums stay."""

from __future__ import annotations

import pytest

from polytc.machine import DEVICES, GENERIC_GPU
from polytc.program import program as pr
from polytc.program.names import Names
from polytc.rewrite.gpu import division, split_reduction
from polytc.stages import build
from tests.rewrite.equal import same_results

GPU = DEVICES["nvidia-sm90"]


@pytest.mark.parametrize(("text", "shapes"), [
    ("s[0] += x[k]", {"x": (50000,)}), ("s[0] max= x[k]", {"x": (50001,)}), ("S[i] += x[i,k]", {"x": (3, 30000)}),
    ("C[i,j] += A[i,k]*B[k,j]", {"A": (16, 2048), "B": (2048, 16)}),
    ("O[h,d] += E[h,j]*V[h,j,d]", {"E": (8, 16000), "V": (8, 16000, 8)})])      # no tiles: a row of E is for one h
def test_few_results_are_made_in_parts(text: str, shapes: dict) -> None:
    before = build(text, shapes)
    after, runs = split_reduction.split(before, Names.of(before), division.own(GPU).parts)
    assert [s.name for s in runs[0]] == ["S1_parts_init", "S1_parts"], "groups cannot wait for each other"
    assert [s.name for s in runs[-1]] == ["S1_init", "S1"]
    parts = after.statement("S1").ranges[-1].extent
    assert parts > 1
    same_results(before, after)


@pytest.mark.parametrize(("text", "shapes", "parts"), [
    ("C[i,j] += A[i,k]*B[k,j]", {"A": (16, 5000), "B": (5000, 16)}, 32),                # no divisor, and 8 terms are left over
    ("C[i,j] += A[k,i]*B[k,j]", {"A": (2003, 40), "B": (2003, 24)}, 12),                # a prime
    ("C[i,j] += A[i,k+3]*B[k,j]", {"A": (16, 5003), "B": (5000, 16)}, 32),
    ("C[i,j] += A[i,k]*B[2*k,j]", {"A": (16, 5000), "B": (9999, 16)}, 32),              # B is not left where k ends
    ("C[i,j] max= A[i,k]*B[k,j]", {"A": (16, 5000), "B": (5000, 16)}, 32),
    ("S[i] += x[i,k]", {"x": (40, 100000)}, 7),                                         # more than 32 results
    ("S[j] max= x[k,j]", {"x": (30011, 1100)}, None),
])
def test_parts_need_not_divide_the_reduction(text: str, shapes: dict, parts: int | None) -> None:
    before = build(text, shapes)
    after, _ = split_reduction.split(before, Names.of(before), division.own(GPU).parts)
    found = after.statement("S1").ranges[-1].extent
    assert found == parts or parts is None and found > 1
    assert after.statement("S1_parts").points >= before.statement("S1").points
    if before.statement("S1").points < 2_000_000:
        same_results(before, after)


@pytest.mark.parametrize("text", ["C[i,j] += A[i,k]*B[k,j]", "C[i,j] += A[i,k+9]*B[k+9,j] where k in 0:4991"])
def test_zeros_are_read_beyond_the_end_instead_of_tested_for(text: str) -> None:
    before = build(text, {"A": (16, 5000), "B": (5000, 16)})
    after, _ = split_reduction.split(before, Names.of(before), division.own(GPU).parts)
    value = after.statement("S1_parts").value
    assert not any(isinstance(e, pr.Select) for e in pr.walk(value))
    assert {r.default.value for r in pr.walk(value) if isinstance(r, pr.Read) and r.default is not None} == {0.0}


@pytest.mark.parametrize(("text", "shapes"), [("S[i] += x[i,k]", {"x": (100000, 100)}), ("Y[k] = x[k]*2", {"x": (50000,)}),
                                              ("s[0] += x[k]", {"x": (500,)})])
def test_others_stay_whole(text: str, shapes: dict) -> None:
    program = build(text, shapes)
    after, runs = split_reduction.split(program, Names.of(program), division.own(GENERIC_GPU).parts)
    assert after == program
    assert [s for run in runs for s in run] == list(program.statements)
