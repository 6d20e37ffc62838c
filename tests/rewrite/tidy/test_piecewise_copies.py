"""Copies with plain subscripts for sums that read through subscripts in pieces many times."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc import stages
from polytc.lang import evaluate
from polytc.program import program as pr
from polytc.rewrite.tidy import piecewise_copies

R = np.random.default_rng(4)

COPIED = {
    "O[m,h,w] += X[c,clamp(h+r-1,0,8),clamp(w+s-1,0,8)]*W[m,c,r,s] where h in 0:9, w in 0:9": (4, 9, 9),
    "O[m,h,w] += X[c,abs(h+r-1),(w+s+8)%9]*W[m,c,r,s] where h in 0:8, w in 0:9": (4, 9, 9),
    "O[m,h,w] += (X[c,max(h+r-1,0),w+s-2] else 3)*W[m,c,r,s] where h in 0:7, w in 0:9": (4, 9, 9),
    "O[m,h,w] += X[c,h+r-1 < 0 ? 1-h-r : h+r-1,w]*W[m,c,r,s] where h in 0:8": (4, 9, 9)}
LEFT = {
    "O[h,w] += X[0,clamp(h+r-1,0,8),clamp(w+s-1,0,8)]*W[0,0,r,s] where h in 0:9, w in 0:9": (4, 9, 9),      # few uses
    "O[m,h,w] += X[c,max(h,r),w]*W[m,c,r,s] where h in 0:9": (4, 9, 9)}                                     # no one form


def built(text: str, shape: tuple[int, ...]) -> tuple[pr.Program, dict[str, np.ndarray]]:
    given = {n: R.integers(-9, 9, s).astype(np.int32) for n, s in (("X", shape), ("W", (16, shape[0], 3, 3)))}
    return stages.build(text, {n: a.shape for n, a in given.items()}, dict.fromkeys(given, np.dtype("i4"))), given


@pytest.mark.parametrize("text", COPIED)
def test_what_is_copied(targets: tuple[str, ...], text: str) -> None:
    before, given = built(text, COPIED[text])
    after = piecewise_copies.materialise(before)
    assert [t.name for t in after.tensors if t not in before.tensors] == ["X_pieces"]
    largest = max(after.statements, key=lambda s: s.points)
    assert not any(x in pr.format_expr(largest.value) for x in ("%", "clamp", "max(", "abs", "?"))
    expected = evaluate(before, given)["O"]
    np.testing.assert_array_equal(evaluate(after, given)["O"], expected)
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, **given, target=target), expected)


@pytest.mark.parametrize("text", LEFT)
def test_what_is_not(text: str) -> None:
    program, given = built(text, LEFT[text])
    assert piecewise_copies.materialise(program) == program
    np.testing.assert_array_equal(polytc.run(text, **given), polytc.evaluate(text, **given))
