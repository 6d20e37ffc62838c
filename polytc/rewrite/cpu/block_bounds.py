"""Columns between bounds that depend on the block of rows, rounded so that vectors and panels stay whole."""

from __future__ import annotations

from dataclasses import dataclass

from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, interval
from polytc.program.linear import expression
from polytc.program.scalars import BOOL, I64

GRANULE = 32
"""Columns that bounds are multiples of at least."""


@dataclass(frozen=True)
class Bounds:
    """lower, upper: forms of the index of blocks, called `block`: lower <= column < upper is all that a block of rows sees;
    None: no such bound."""

    lower: Linear | None
    upper: Linear | None

    def conditions(self, place: pr.Expr, block: str, panel: int, granule: int) -> list[pr.Expr]:
        """Which columns are computed. place: the column, or the first of its vector; block: the index of blocks. panel: how
        many columns are made at once, 0 if it does not matter; granule: what the bounds are multiples of."""
        if panel:
            place = _times(pr.Binary("//", place, pr.Const(panel, I64), I64), panel)
        found = list[pr.Expr]()
        if self.upper is not None:
            found.append(pr.Binary("<", place, _rounded(self.upper, block, granule - 1, granule), BOOL))
        if self.lower is not None:
            last = pr.Binary("+", place, pr.Const(panel, I64), I64) if panel else place
            found.append(pr.Binary(">" if panel else ">=", last, _rounded(self.lower, block, 0, granule), BOOL))
        return found


def hull(box: pr.Box, form: Linear, column: str, block: str, sign: int) -> Linear:
    """What a row of the block at most sees, as a form of `block`. sign 1: the end of the columns of form >= 0, in which the
    column is subtracted; -1: the first of those, in which it is added."""
    most = interval(without(without(form, column), block), box)[1]
    return Affine(most + 1 if sign > 0 else -most, (("block", sign * form.coefficient(block)),))


def without(form: Linear, index: str) -> Linear:
    """The form without the term of an index."""
    return Affine(form.constant, tuple((i, c) for i, c in form.terms if i != index))


def _rounded(form: Linear, block: str, more: int, granule: int) -> pr.Expr:
    """form + more for a block, rounded down to whole granules."""
    _, step = form.terms[0]
    if step % granule == 0:
        return expression(Affine((form.constant + more) // granule * granule, ((block, step),)))
    moved = expression(Affine(form.constant + more, ((block, step),)))
    return _times(pr.Binary("//", moved, pr.Const(granule, I64), I64), granule)


def _times(e: pr.Expr, factor: int) -> pr.Expr:
    return pr.Binary("*", e, pr.Const(factor, I64), I64)
