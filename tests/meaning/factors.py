"""Sums whose factors are applied to results: how far that may lead from the terms as written, factors and all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from polytc.lang.parsing import syntax as sx
from tests.meaning import types, values
from tests.meaning.expressions import Expressions
from tests.meaning.plan import Plan
from tests.meaning.updates import whole
from tests.meaning.values import Bound, Value

Factors = list[tuple[str, sx.Expr]]


def error(x: Plan, e: sx.Expr, at: Expressions, term: Value, where: np.ndarray, cells: int) -> Bound:
    """What is to be added to the error of each term of the sums `t[where] += e`: how far the term is from the rest of it, as it
    is summed, with the factors that no summed index names applied behind it."""
    summed = set(x.indices) - x.around - {n for s in x.s.subscripts for n in x.names(s)}
    rest, factors = _taken(e, x, at, summed)
    if rest is None or not factors or not types.is_float(term.type):
        return None
    if types.is_complex(term.type):  # each factor is rounded once more, in sums that are no larger
        unit = float(np.finfo(types.computed(term.type)).eps)
        return values.some(8 * (len(factors) + 1) * unit * np.abs(term.data) + np.where(np.isfinite(term.data), 0.0, np.inf))
    dtype, n = types.computed(term.type), len(where)
    digits, most = np.finfo(dtype).nmant + 1, float(np.finfo(dtype).max)
    with np.errstate(all="ignore"):
        first = np.broadcast_to(at.adapted(rest, at.value(rest), term.type).data.astype(dtype), n)
        written = np.broadcast_to(term.data, n).astype(dtype)
        total = np.zeros(cells)
        np.add.at(total, where, np.abs(np.where(np.isfinite(first), first, 0).astype(np.float64)))
        exact = any(whole(first, k) and total.max(initial=0) * 2.0 ** k <= 2.0 ** digits for k in (0, 10))
        reach, lost = total[where], total[where] > 0.99 * most
        behind = first
        for op, f in factors:
            apply = np.multiply if op == "*" else np.true_divide
            factor = at.adapted(f, at.value(f), term.type).data.astype(dtype)
            before, behind, reach = behind, apply(behind, factor), apply(reach, np.abs(factor.astype(np.float64)))
            lost |= ~(reach <= 0.99 * most)
            exact = exact and bool((apply(before.astype(np.longdouble), factor) == behind).all())
        if exact and not lost.any() and (behind == written).all():
            return None
        same = (behind == written) | (np.isnan(behind) & np.isnan(written))
        apart = np.where(same, 0.0, np.abs(behind.astype(np.float64) - written))
        lost |= np.isnan(apart) | np.isfinite(first) & ~np.isfinite(written)
        rounding = 2.0 ** -digits * 2 * (len(factors) + 1) * np.abs(np.where(np.isfinite(behind), behind, 0).astype(np.float64))
    return values.some(np.where(lost, np.inf, apart + rounding))


def spread(x: Plan, e: sx.Expr, at: Expressions, term: Value) -> Bound:
    """What is to be added to the error of each term where infinities or NaN may reach results that have no term with them: in
    sums that are scattered, whose factors are multiplied with 0 beside their range, and in those of three factors or more,
    where some are multiplied before others."""
    summed = [n for n in x.indices if n not in x.around]
    meeting = any(len(x.names(s) & set(summed)) > 1 for s in x.s.subscripts)
    factors = list(_flat(e, x))
    if not types.is_float(term.type) or len(factors) < 2 or not (meeting or len(factors) > 2):
        return None
    with np.errstate(all="ignore"):
        finite = all(np.isfinite(at.value(f).data).all() for f in factors)
    return None if finite else values.some(np.full(np.shape(term.data), np.inf))


def _flat(e: sx.Expr, x: Plan) -> Iterator[sx.Expr]:
    if isinstance(e, sx.Name) and e.id in x.lets:
        yield from _flat(x.lets[e.id], x)
    elif isinstance(e, sx.Binary) and e.op == "*":
        yield from _flat(e.a, x)
        yield from _flat(e.b, x)
    else:
        yield e


def _taken(e: sx.Expr, x: Plan, at: Expressions, summed: set[str]) -> tuple[sx.Expr | None, Factors]:
    """What of a product names summed indices, if anything does, and its other factors; whole numbers are multiplied first."""
    if isinstance(e, sx.Name) and e.id in x.lets:
        return _taken(x.lets[e.id], x, at, summed)
    if not x.names(e) & summed:
        return None, [("*", e)]
    if isinstance(e, sx.Unary) and e.op == "-":
        rest, factors = _taken(e.a, x, at, summed)
        return (sx.Unary("-", rest, e.span) if rest is not None else None), factors
    if not isinstance(e, sx.Binary) or not types.is_float(at.value(e).type):
        return e, []
    if e.op == "*":
        (a, left), (b, right) = _taken(e.a, x, at, summed), _taken(e.b, x, at, summed)
        return (a if b is None else b if a is None else sx.Binary("*", a, b, e.span)), left + right
    if e.op == "/" and not x.names(e.b) & summed:
        rest, factors = _taken(e.a, x, at, summed)
        return rest, [*factors, ("/", e.b)]
    return e, []
