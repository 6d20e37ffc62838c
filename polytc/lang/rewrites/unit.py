"""Indices with one value are replaced by that value: loops of one iteration only obscure which loop is the fast one."""

from __future__ import annotations

from dataclasses import replace

from polytc.lang import program as pr
from polytc.lang.linear import expression, linear
from polytc.lang.scalars import I64
from polytc.lang.sizes import Size


def drop_unit_indices(program: pr.Program) -> pr.Program:
    """The program without indices of extent 1."""
    return replace(program, statements=tuple(map(_statement, program.statements)))


def _statement(s: pr.Statement) -> pr.Statement:
    fixed: dict[str, pr.Expr] = {r.index: pr.Const(r.lower, I64) for r in s.ranges if r.extent == 1}
    if not fixed:
        return s

    def go(e: pr.Expr) -> pr.Expr:
        return normalise(pr.substitute(e, fixed))

    return replace(s, subscripts=tuple(map(go, s.subscripts)), value=go(s.value), where=tuple(map(go, s.where)),
                   ranges=tuple(r for r in s.ranges if r.extent != 1))


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
