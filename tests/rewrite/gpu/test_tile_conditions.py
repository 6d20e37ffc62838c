"""Conditions of tiles: a tile runs where one of its elements may, and nowhere else."""

from __future__ import annotations

from itertools import product

import pytest

from polytc.program import program as pr
from polytc.program.program import Range
from polytc.program.scalars import BOOL, I64
from polytc.rewrite.gpu import tile_conditions
from polytc.rewrite.gpu.tiled_indices import TiledIndex
from polytc.stages import build

CUTS = {n: TiledIndex(0, ((Range(f"{n}_group", 0, 4), 8),), ((Range(f"{n}_at", 0, 8), 1),)) for n in "ij"}


def statement(where: str) -> pr.Statement:
    return build(f"C[i,j] += A[i,k]*B[k,j] where {where}", {"A": (32, 32), "B": (32, 32)}).statement("S1")


@pytest.mark.parametrize(("where", "holds"), [
    ("j <= i", lambda i, j: j <= i), ("j < i - 5", lambda i, j: j < i - 5), ("2*j >= i + 3", lambda i, j: 2 * j >= i + 3),
    ("i + j > 40", lambda i, j: i + j > 40)])
def test_a_tile_runs_where_one_of_its_elements_does(where: str, holds) -> None:
    s = statement(where)
    assert tile_conditions.fits(s)
    found = tile_conditions.reached(s.where, CUTS)
    for i_group, j_group in product(range(4), repeat=2):
        some = any(holds(8 * i_group + i, 8 * j_group + j) for i in range(8) for j in range(8))
        text = " and ".join(pr.format_expr(c) for c in found) or "True"
        assert eval(text, {"i_group": i_group, "j_group": j_group}) == some


def test_bands_and_other_conditions_do_not_pay() -> None:
    assert not tile_conditions.fits(statement("j <= i, j > i - 3")), "two tie the same indices"
    assert not tile_conditions.fits(statement("i < 5 || j < 5"))
    assert tile_conditions.fits(statement("i < 20, j <= i"))


@pytest.mark.parametrize(("op", "c", "others", "number"), [
    ("<=", 3, 0, 10), (">=", 3, 0, 10), ("<", -2, 0, -5), (">=", -2, 1, -7), ("<=", 4, 3, 17), (">", 1, -2, 3)])
def test_a_comparison_is_a_range_of_one_index(op: str, c: int, others: int, number: int) -> None:
    """c*i + others*j, and a number; the index with the smaller coefficient is the one."""
    terms = [pr.Binary("*", pr.Const(n, I64), pr.Index(i), I64) for i, n in (("i", c), ("j", others)) if n]
    form = terms[0] if len(terms) == 1 else pr.Binary("+", *terms, I64)
    asked = pr.Binary(op, form, pr.Const(number, I64), BOOL)
    ranges = {"i": Range("i", -9, 10), "j": Range("j", -9, 10)}
    bound, short = tile_conditions.as_bound(asked, ranges), tile_conditions.shortest(asked)
    for i, j in product(range(-9, 10), repeat=2):
        holds = eval(f"{c * i + others * j} {op} {number}")
        low, high = (eval(pr.format_expr(e), {"i": i, "j": j}) for e in (bound.lower, bound.upper))
        assert (low <= {"i": i, "j": j}[bound.index] < high) == holds
        assert eval(pr.format_expr(short), {"i": i, "j": j}) == holds
