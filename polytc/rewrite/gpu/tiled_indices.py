"""An index cut into a sum of indices with strides: i = 64*i_group + 4*i_item + i_row, and linear forms of such sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.affine import Linear
from polytc.program.linear import collected, expression, linear
from polytc.program.scalars import I64
from polytc.program.sizes import may_be_less


@dataclass(frozen=True)
class TiledIndex:
    """An index as a sum: start, outer (of loops around the copies) and inner parts, each a range and its stride."""

    start: int
    outer: tuple[tuple[pr.Range, int], ...]
    inner: tuple[tuple[pr.Range, int], ...]

    def form(self, parts: Iterable[tuple[pr.Range, int]], start: int) -> Linear:
        """The sum of those parts that move."""
        return collected(((r.index, stride) for r, stride in parts if varies(r)), start)

    @property
    def whole(self) -> Linear:
        return self.form((*self.outer, *self.inner), self.start)

    @property
    def base(self) -> Linear:
        return self.form(self.outer, self.start)

    @property
    def rest(self) -> Linear:
        return self.form(self.inner, 0)


def varies(r: pr.Range) -> bool:
    """May the index have more than one value?"""
    return may_be_less(1, r.extent)


def is_ragged(extent: int, size: int) -> bool:
    """Are there iterations that fill no whole tile of this size, at the end of so many?"""
    return may_be_less(0, extent % size)


def substitute_tiled(form: Linear, cuts: Mapping[str, TiledIndex], part: str, constant: bool = True) -> Linear:
    """A form of the original indices over a part of their cuts; those that are not cut, of loops around, are the base's."""
    terms: list[tuple[str, int]] = []
    number = form.constant if constant else 0
    for index, c in form.terms:
        if index not in cuts:
            terms += [(index, c)] if part != "rest" else []
            continue
        of: Linear = getattr(cuts[index], part)
        number += c * of.constant
        terms += [(name, c * stride) for name, stride in of.terms]
    return collected(terms, number)


def weighted(terms: dict[str, int], ranges: Iterable[pr.Range]) -> Linear:
    """The sum of the indices that move, with their strides."""
    moving = {r.index for r in ranges if varies(r)}
    return collected((i, c) for i, c in terms.items() if i in moving)


def plus(a: pr.Expr, b: pr.Expr) -> pr.Expr:
    """a + b, without zeros."""
    if a == pr.Const(0, I64):
        return b
    return a if b == pr.Const(0, I64) else pr.Binary("+", a, b, I64)


def linear_subscripts(e: pr.Expr) -> pr.Expr:
    """The expression with linear subscripts of reads written as such."""
    def flat(x: pr.Expr) -> pr.Expr:
        if isinstance(x, pr.Read):
            forms = [(linear(sub), sub) for sub in x.subscripts]
            return replace(x, subscripts=tuple(expression(f) if f is not None else sub for f, sub in forms))
        return x
    return pr.map_expr(e, flat)
