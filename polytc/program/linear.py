"""Linear forms: the quasi-affine subscripts (program.affine) that are plain sums of `coefficient * index` and a number."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace

from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, affine
from polytc.program.scalars import I64
from polytc.program.sizes import Size


def collected(terms: Iterable[tuple[str, int]], constant: int = 0) -> Linear:
    """The sum of the terms and a number: those of one index are added up, and sorted by index."""
    total: dict[str, int] = {}
    for index, c in terms:
        total[index] = total.get(index, 0) + c
    return Affine(constant, tuple(sorted((i, c) for i, c in total.items() if c)))


@functools.lru_cache(maxsize=1 << 14)  # asked again and again of the same subscripts
def linear(e: pr.Expr) -> Linear | None:
    """The linear form of an integer expression; None if it has `//`, `%`, a gather or a product of indices. 2*h + r - 1 is
    Affine(-1, (('h', 2), ('r', 1)))."""
    form = affine(e)
    if form is None:
        return None
    terms = sorted((atom, c) for atom, c in form.terms if isinstance(atom, str))
    return Affine(form.constant, tuple(terms)) if len(terms) == len(form.terms) else None


def expression(form: Linear) -> pr.Expr:
    """The expression of a linear form."""
    result: pr.Expr | None = None
    for index, c in form.terms:
        term: pr.Expr = pr.Index(index) if abs(c) == 1 else pr.Binary("*", pr.Const(abs(c), I64), pr.Index(index), I64)
        if result is None:
            result = term if c > 0 else pr.Unary("-", term, I64)
        else:
            result = pr.Binary("+" if c > 0 else "-", result, term, I64)
    if result is None:
        return pr.Const(form.constant, I64)
    if isinstance(form.constant, Size):
        result = pr.Binary("+", result, pr.Const(form.constant, I64), I64)
    elif form.constant:
        result = pr.Binary("+" if form.constant > 0 else "-", result, pr.Const(abs(form.constant), I64), I64)
    return result


def normalise(e: pr.Expr) -> pr.Expr:
    """Subscripts in linear normal form, so that `0*4 + m` reads `m`."""
    return pr.map_expr(e, _normal)


def _normal(e: pr.Expr) -> pr.Expr:
    if isinstance(e, pr.Read):
        forms = [linear(sub) for sub in e.subscripts]
        return replace(e, subscripts=tuple(sub if form is None else expression(form)
                                           for form, sub in zip(forms, e.subscripts, strict=True)))
    if isinstance(e, pr.Binary | pr.Unary) and e.dtype == I64:
        form = linear(e)
        numbers = () if form is None else (form.constant, *(c for _, c in form.terms))
        wraps = any(not isinstance(c, Size) and abs(c) >= 1 << 31 for c in numbers)
        return expression(form) if form is not None and not wraps else e
    return e
