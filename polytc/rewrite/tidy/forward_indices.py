"""Indices that walk memory backwards, and nowhere forwards, are turned around.

    D[i,j] = A[j,19-i] where i in 0:20          with A[30,20]
    ->  D[-i+19,j] = A[j,i] where i in 0:20

A quarter turn is a transposition then, whose rows are written from the last one on. Instances of an assignment are independent,
so that their order is free.
"""

from __future__ import annotations

from dataclasses import replace

from polytc.program import program as pr
from polytc.program.linear import linear, normalise
from polytc.program.scalars import I64


def turn(program: pr.Program) -> pr.Program:
    """The program with such indices of assignments turned around."""
    return replace(program, statements=tuple(map(_turned, program.statements)))


def _turned(s: pr.Statement) -> pr.Statement:
    if s.op is not None or s.bounds or pr.scatters(s) or any(r.tensor == s.target for r in pr.reads(s)):
        return s
    steps = [dict(form.terms) for subscripts in (s.subscripts, *(r.subscripts for r in pr.reads(s)))
             if subscripts and (form := linear(subscripts[-1])) is not None]
    backwards = [r for r in s.ranges[s.depth:] if {step[r.index] for step in steps if r.index in step} == {-1}]
    values: dict[str, pr.Expr] = {r.index: pr.Binary("-", pr.Const(r.lower + r.upper - 1, I64), pr.Index(r.index), I64)
                                  for r in backwards}
    if not values:
        return s
    return pr.with_expressions(s, lambda e: normalise(pr.substitute(e, values)))
