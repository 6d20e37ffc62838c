"""Updates into shifted or reversed places get indices that name these places themselves.

    C[i+1,9-j] += A[i,k]*B[k,j] where i in 0:8, j in 0:10, k in 0:6     with A[8,6], B[6,10]
    ->  C[i,j] += A[i-1,k]*B[k,-j+9] where i in 1:9, j in 0:10, k in 0:6

An index that stands alone on the left side is one whose iterations write different elements: it may become vectors, be unrolled
into a register tile and run on several threads (`coincident_indices`). So are windows that are read backwards turned around:

    Y[h] += X[h+r]*W[2-r] where h in 0:8, r in 0:3                      with X[10], W[3]
    ->  Y[h] += X[h-r+2]*W[r] where h in 0:8, r in 0:3
"""

from __future__ import annotations

from dataclasses import replace

from polytc.program import program as pr
from polytc.program.linear import linear, normalise
from polytc.program.scalars import I64


def name_places(program: pr.Program) -> pr.Program:
    """The program with the left sides of its updates made plain where one index alone is moved by a number, or reversed. Sums
    that are to be made in order keep theirs."""
    return replace(program, statements=tuple(_named(s, program.precise) if s.op is not None else s for s in program.statements))


def _named(s: pr.Statement, precise: bool) -> pr.Statement:
    moves = _moves(s) | ({} if precise else _turns(s))
    if not moves:
        return s
    values: dict[str, pr.Expr] = {}
    ranges = []
    for r in s.ranges:
        sign, constant = moves.get(r.index, (1, 0))
        ends = (r.lower + constant, r.upper + constant) if sign > 0 else (constant - r.upper + 1, constant - r.lower + 1)
        ranges.append(replace(r, lower=ends[0], upper=ends[1]) if r.index in moves else r)
        place, number = pr.Index(r.index), pr.Const(constant, I64)
        if r.index in moves:
            values[r.index] = pr.Binary("-", place, number, I64) if sign > 0 else pr.Binary("-", number, place, I64)
    return pr.with_expressions(s, lambda e: normalise(pr.substitute(e, values)), tuple(ranges))


def _turns(s: pr.Statement) -> dict[str, tuple[int, int]]:
    """index -> (-1, constant) so that it goes through the same values backwards: reduced ones that some reads have alone, and
    all of these in reverse."""
    left = {i for sub in s.subscripts for i in pr.index_names(sub)}
    alone = [form.terms[0] for r in pr.reads(s) for sub in r.subscripts
             if (form := linear(sub)) is not None and len(form.terms) == 1]
    limited = {b.index for b in s.bounds}
    return {r.index: (-1, r.lower + r.upper - 1) for r in s.ranges[s.depth:] if r.index not in left | limited
            and {factor for index, factor in alone if index == r.index} == {-1}}


def _moves(s: pr.Statement) -> dict[str, tuple[int, int]]:
    """index -> (sign, constant), for those that stand once on the left side: alone, but moved by a number or reversed, or
    subtracted from others."""
    uses = [i for sub in s.subscripts for i in pr.index_names(sub)]
    limited = {b.index for b in s.bounds}
    own = {r.index: r for r in s.ranges[s.depth:] if r.index not in limited and uses.count(r.index) == 1}
    found = {}
    for form in filter(None, map(linear, s.subscripts)):
        for index, factor in form.terms:
            if index not in own:
                continue
            if len(form.terms) == 1 and factor in (1, -1) and (factor < 0 or form.constant != 0):
                found[index] = (int(factor), form.constant)
            elif factor < 0:
                found[index] = (-1, own[index].lower + own[index].upper - 1)
    return found
