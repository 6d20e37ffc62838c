"""Updates into shifted and reversed places: plain indices on the left, the same results, and the loops of plain ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import polytc
from polytc import stages
from polytc.program import program as pr
from polytc.rewrite.tidy import plain_targets
from polytc.schedule.facts.fusion_groups import coincident_indices
from tests.rewrite.equal import same_results

R = np.random.default_rng(3)


def built(text: str, precise: bool = False, **shapes: tuple[int, ...]) -> pr.Program:
    return stages.build(f"precise {text}" if precise else text, shapes, {})


def left(program: pr.Program, name: str = "C") -> list[str]:
    return next([pr.format_expr(e) for e in s.subscripts] for s in program.statements if s.target == name and s.op is not None)


@pytest.mark.parametrize(("text", "shapes", "expected"), [
    ("C[i+1,j+1] += A[i,k]*B[k,j]", {"A": (5, 6), "B": (6, 7)}, ["i", "j"]),
    ("C[i-3] += A[i,k] where i in 4:9, k <= i", {"A": (9, 9)}, ["i"]),
    ("C[9-i,j] += A[i,k]*B[k,8-j] where j in 0:7", {"A": (5, 6), "B": (6, 9)}, ["i", "j"]),
    ("C[i-j+6] += A[i]*B[j]", {"A": (8,), "B": (7,)}, ["i + j"]),
    ("C[2*i-j+6] max= A[i]+B[j]", {"A": (8,), "B": (7,)}, ["2 * i + j"]),
    ("C[i//2+1] += A[i]", {"A": (8,)}, ["i // 2 + 1"]),  # none alone
    ("C[2*i+1] += A[i,k]", {"A": (8, 3)}, ["2 * i + 1"]),  # not by a number alone
    ("for t in 0:4 { C[t+1,i+2] +=! A[t,i,k] }", {"A": (4, 5, 3)}, ["t + 1", "i"]),  # the loop's own index stays
    ("C[i,i+1] += A[i,k]", {"A": (8, 3)}, ["i", "i + 1"]),  # twice
])
def test_left_sides(text, shapes, expected):
    before = built(text, **shapes)
    after = plain_targets.name_places(before)
    assert left(after) == expected
    same_results(before, after)
    assert plain_targets.name_places(after) == after


@pytest.mark.parametrize(("text", "shapes", "expected"), [
    ("C[h] += A[h+r]*W[2-r] where r in 0:3", {"A": (9,), "W": (3,)}, ["A[h - r + 2]", "W[r]"]),
    ("C[h] += A[h-r+2]*W[r]", {"A": (9,), "W": (3,)}, ["A[h - r + 2]", "W[r]"]),
    ("C[i] += A[i,8-k]", {"A": (4, 9)}, ["A[i, k]"]),
    ("s += A[k]*B[8-k]", {"A": (9,), "B": (9,)}, ["A[k]", "B[8 - k]"]),  # forwards somewhere
])
def test_windows(text, shapes, expected):
    before = built(text, **shapes)
    after = plain_targets.name_places(before)
    update = next(s for s in after.statements if s.op is not None)
    assert [pr.format_expr(r) for r in pr.reads(update)] == expected
    same_results(before, after)


def test_sums_in_order_keep_theirs():
    before = built("def f(A) -> (C) { C[i+1] += A[i,8-k] }", precise=True, A=(4, 9))
    after = plain_targets.name_places(before)
    assert (left(after), [pr.format_expr(r) for s in after.statements for r in pr.reads(s)]) == (["i"], ["A[i - 1, -k + 8]"])


def test_ranges_in_memory_stay():
    text = "def f(i64[R+1] r, f32[N] v) -> (C) { C[i+2] += v[p] where p in r[i]:r[i+1] }"
    r, v = np.array([0, 2, 5, 9]), R.random(9, np.float32)
    expected = np.array([v[a:b].sum() for a, b in itertools.pairwise(r)])
    assert np.allclose(polytc.compile(text)(r, v), expected)


def test_such_indices_are_independent():
    """They may become vectors, rows of tiles and threads: `C[i+1,9-j]` was a loop over memory, 120 times slower."""
    before = built("C[i+1,9-j] += A[i,k]*B[k,j] where j in 0:8", A=(5, 6), B=(6, 8))
    update = next(s for s in plain_targets.name_places(before).statements if s.op is not None)
    assert coincident_indices(update) == ("i", "j")


@pytest.mark.part(2)
@pytest.mark.parametrize("text", [
    "C[i+1,j+2] += A[i,k]*B[k,j]", "C[18-i,j] += A[i,k]*B[k,24-j] where j in 0:25",
    "def f(inout f32[40,40] C, f32[M,K] A, f32[K,N] B) { C[i+3,39-j] += A[i,k]*B[k,j] }",
    "def f(inout f32[40,40] C, f32[M,K] A, f32[K,N] B) { for t in 0:3 { C[i+t,39-j] += A[i,k]*B[k,j] } }"])
def test_on_targets(targets: tuple[str, ...], text: str) -> None:
    a, b = R.integers(-4, 5, (19, 21)).astype(np.float32), R.integers(-4, 5, (21, 25)).astype(np.float32)
    product, c = a @ b, R.integers(-4, 5, (40, 40)).astype(np.float32)
    for target in targets:
        op = polytc.compile(text, target)
        if "inout" not in text:
            assert np.array_equal(op(A=a, B=b), product if "18-i" not in text else (a @ b[:, 24::-1])[::-1])
            continue
        expected, given = c.copy(), c.copy()
        for t in range(3 if "for" in text else 1):
            at = t if "for" in text else 3
            expected[at:at + 19, 15:40] += product[:, ::-1]
        op(given, a, b)
        assert np.array_equal(given, expected)
