"""Copies that a schedule asks for, where one of them serves several reads, loops or statements."""

from __future__ import annotations

from itertools import pairwise

import pytest

from polytc.program import program as pr
from polytc.program.scalars import I64
from polytc.schedule.user.changes.pieces import Piece
from tests.schedule.user.test_recipe import right, start

WINDOW = ("Y[i] += X[i+r] * W[r]", {"X": (26,), "W": (3,)})
PLANE = ("Y[i,j] += X[i+r,j+s] * W[r,s]", {"X": (10, 14), "W": (3, 3)})


@pytest.mark.part(2)
@pytest.mark.parametrize("at", [None, "i.0", "i.1", "r"])
def test_overlapping_windows(at: str | None) -> None:
    """An element is copied before the first of several iterations that read it."""
    right(start(*WINDOW).tile("S1", i=8).cache("S1", "X", at=at))


@pytest.mark.parametrize("at", [None, "i.0", "j.0"])
def test_overlapping_windows_of_two_dimensions(at: str | None) -> None:
    right(start(*PLANE).tile("S1", i=4, j=4).cache("S1", "X", at=at))


@pytest.mark.parametrize("body", [
    "B[i] = X[i] * w[t]; A[i] = A[i] + B[i]", "A[i] = A[i] + X[t]; B[i] = X[i] * A[i]; A[i] = A[i] / 2 + B[i]"])
def test_a_copy_for_a_statement_with_others_in_its_loop(body: str) -> None:
    """It is made before all of them."""
    text = f"def f(inout f32[N] A, f32[N] X, f32[T] w) -> (A, B) {{ for t in 0:T {{ {body} }} }}"
    program = start(text, {"A": (9,), "X": (9,), "w": (4,)})
    for s in program.program.statements[:-1]:
        if any(r.tensor == "X" for r in pr.reads(s)):
            made = right(program.cache(s.name, "X"))
            places = [x.name for x in made.program.statements]
            assert places[0] == f"{s.name}_X"
            assert all(a <= b for a, b in pairwise(places[1:]))


def test_values_of_loops() -> None:
    index = pr.Index("i")
    quotient = pr.Binary("//", index, pr.Const(4, I64), I64)
    for value, piece, ends in ((index, Piece("i"), (3, 22)), (quotient, Piece("i", 4), (0, 6)),
                               (pr.Binary("%", quotient, pr.Const(3, I64), I64), Piece("i", 4, 3), (0, 3)),
                               (pr.Binary("%", index, pr.Const(3, I64), I64), Piece("i", 1, 3), (0, 3))):
        assert Piece.of(value) == piece
        assert piece.value == value
        assert Piece.read(str(piece)) == piece
        assert piece.range(3, 22) == ends
    assert Piece.of(pr.Binary("%", piece.value, pr.Const(2, I64), I64)) is None
    assert Piece.of(pr.Binary("+", index, index, I64)) is None
