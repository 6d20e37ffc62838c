"""Expressions of 64 bits in 32: the ends that they are given, and what is too wide."""

from __future__ import annotations

import pytest

from polytc.program import program as pr
from polytc.program.scalars import BOOL, I64, U8
from polytc.rewrite import narrow_terms
from polytc.rewrite.narrow_terms import LARGEST

BYTE = pr.Cast(pr.Read("A", (pr.Index("i"),), U8), I64)
WIDE = pr.Read("B", (pr.Index("i"),), I64)


def number(n: int) -> pr.Expr:
    return pr.Const(n, I64)


def of(op: str, a: pr.Expr, b: pr.Expr) -> pr.Expr:
    return pr.Binary(op, a, b, I64)


@pytest.mark.parametrize(("e", "ends"), [
    (number(7), (7, 7)),
    (BYTE, (0, 255)),
    (of("+", BYTE, number(1)), (1, 256)),
    (of("-", number(3), BYTE), (-252, 3)),
    (of("*", of("-", BYTE, number(5)), number(-2)), (-500, 10)),
    (pr.Select(pr.Binary("<", BYTE.a, pr.Const(9, U8), BOOL), number(4), BYTE, I64), (0, 255)),
    (of("*", BYTE, number(LARGEST // 255)), (0, LARGEST // 255 * 255)),
])
def test_ends(e: pr.Expr, ends: tuple[int, int]) -> None:
    found = narrow_terms.narrowed(e)
    assert found is not None
    assert (found.low, found.high) == ends
    assert all(x.dtype.bits <= 32 or isinstance(x, pr.Index) for x in pr.walk(found.value))


@pytest.mark.parametrize("e", [
    WIDE, of("+", BYTE, WIDE), number(LARGEST + 1), of("*", BYTE, number(LARGEST // 255 + 1)), of("//", BYTE, number(2)),
    of("-", of("*", BYTE, number(LARGEST // 255)), number(-LARGEST))])
def test_what_may_not_fit_stays_wide(e: pr.Expr) -> None:
    assert narrow_terms.narrowed(e) is None
