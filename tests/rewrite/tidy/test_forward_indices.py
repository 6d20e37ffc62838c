"""Indices that walk memory backwards only are turned around: quarter turns are transpositions."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc import stages
from polytc.program import program as pr
from polytc.rewrite.tidy import forward_indices
from tests.rewrite.equal import same_results

R = np.random.default_rng(4)


@pytest.mark.parametrize(("text", "shapes", "expected"), [
    ("D[i,j] = A[j,8-i] where i in 0:9", {"A": (7, 9)}, "D[-i + 8, j] = A[j, i]"),
    ("D[i,j] = A[6-j,8-i]", {"A": (7, 9)}, "D[-i + 8, j] = A[-j + 6, i]"),
    ("D[j,8-i] = A[i,j] where i in 0:7", {"A": (7, 9)}, "D[j, i + 2] = A[-i + 6, j]"),
    ("D[i,j] = A[6-i,8-j]", {"A": (7, 9)}, "D[i, j] = A[6 - i, 8 - j]"),  # D walks j forwards
    ("D[i,j] = A[j,8-i] + B[j,i]", {"A": (7, 9), "B": (7, 9)}, "D[i, j] = A[j, 8 - i] + B[j, i]"),
    ("D[i,j] = A[j,16-2*i] where i in 0:9", {"A": (7, 17)}, "D[i, j] = A[j, 16 - 2 * i]"),
    ("D[i,j] = 0 where i in 0:9, j in 0:7; D[i,j] = A[j,8-i] where i in j:9, j in 0:7", {"A": (7, 9)},
     "D[-i + 8, j] = A[j, i]"),
])
def test_turned(text, shapes, expected):
    before = stages.build(text, shapes, {})
    after = forward_indices.turn(before)
    assert pr.format_statement(after.statements[-1]).split(": ", 1)[-1].split("  where")[0] == expected
    same_results(before, after)


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "expected"), [
    ("D[i,j] = A[j,36-i]", lambda a: np.rot90(a)), ("D[i,j] = A[40-j,36-i]", lambda a: a[::-1, ::-1].T),
    ("D[40-j,i] = A[j,36-i]", lambda a: a[::-1, ::-1]), ("D[j,36-i] = A[40-j,i]", lambda a: a[::-1, ::-1])])
def test_on_targets(targets: tuple[str, ...], text: str, expected) -> None:
    a = R.random((41, 37), np.float32)
    for target in targets:
        assert np.array_equal(polytc.compile(text, target)(A=a), expected(a))


def test_steps_that_read_their_own_target_stay():
    text = "def f(inout f32[9,9] A) { for t in 0:2 { A[i,t] = A[t,8-i] where i in 0:9, i != t } }"
    before = stages.build(text, {"A": (9, 9)}, {})
    assert forward_indices.turn(before) == before
