"""Indices with one value are replaced by that value: loops of one iteration only obscure which loop is the fast one.

    Y[i,j] = A[i,j]*2               with A[1,9]
    ->  Y[0,j] = A[0,j]*2.0
"""

from __future__ import annotations

from dataclasses import replace

from polytc.program import program as pr
from polytc.program.linear import normalise
from polytc.program.scalars import I64


def drop_unit_indices(program: pr.Program) -> pr.Program:
    """The program without indices of extent 1."""
    return replace(program, statements=tuple(map(_statement, program.statements)))


def _statement(s: pr.Statement) -> pr.Statement:
    fixed: dict[str, pr.Expr] = {r.index: pr.Const(r.lower, I64) for r in s.ranges if r.extent == 1}
    if not fixed:
        return s
    return pr.with_expressions(s, lambda e: normalise(pr.substitute(e, fixed)), tuple(r for r in s.ranges if r.extent != 1))
