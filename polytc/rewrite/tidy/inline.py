"""Inlining: a temporary made element by element is computed where it is read, if that repeats no work.

    T[i] = A[i] + 1;  Y[i] = T[i]*2                                                     with A[9]
    ->  Y[i] = (A[i] + 1.0)*2.0

    T[h,i,d] = A[i,16*h+d] where h in 0:4, d in 0:16;  Y[h,i,j] += T[h,i,d]*B[h,d,j]     with A[30,64], B[4,16,20]
    ->  Y[h,i,j] += A[i,16*h+d]*B[h,d,j]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from polytc.program import program as pr
from polytc.program.linear import linear
from polytc.program.terms import DEEPEST

SIZE_LIMIT = 200
"""Nodes that an expression may grow to."""


def inline(program: pr.Program, among: Callable[[pr.Statement], bool] = lambda s: True) -> pr.Program:
    """The program without the temporaries that one assignment makes and one read, at no more points, uses; a copy that keeps
    what lies side by side may be read at any number of points. among: which assignments may go."""
    statements = {s.name: s for s in program.statements}
    operands = {s.name: {r.tensor for r in pr.reads(s)} for s in program.statements}
    writers = Counter(s.target for s in program.statements)
    for s in program.statements:
        s = statements[s.name]
        users = [statements[n] for n, tensors in operands.items() if s.target in tensors]
        if len(users) != 1 or writers[s.target] != 1 or not among(s) or not _fits(program, s, users[0]):
            continue
        names = list(statements)
        between = (statements[n] for n in names[names.index(s.name) + 1:names.index(users[0].name)])
        if any(x.target in operands[s.name] for x in between) or users[0].target in operands[s.name]:
            continue
        merged = _inlined(program, s, users[0])
        statements[merged.name] = merged
        operands[merged.name] = {r.tensor for r in pr.reads(merged)}
        del statements[s.name], operands[s.name]
    gone = {s.target for s in program.statements if s.name not in statements}
    kept = tuple(t for t in program.tensors if t.name not in gone)
    return replace(program, statements=tuple(statements.values()), tensors=kept)


def _fits(program: pr.Program, s: pr.Statement, reader: pr.Statement) -> bool:
    """May `s` be computed where `reader` reads it, once, without guard, in its value, at no more points or as a mere copy?"""
    if s.op is not None or s.where or s.target not in program.temporaries or _formal(program, s) is None:
        return False
    uses = [e for top in (reader.value, *reader.subscripts, *reader.where) for e in pr.walk(top)
            if isinstance(e, pr.Read) and e.tensor == s.target]
    if len(uses) != 1 or uses[0].default is not None or (reader.points > s.points and not _rows(s)):
        return False
    size = len(list(pr.walk(reader.value))) + len(list(pr.walk(s.value)))
    flat = pr.levels(reader.value) + pr.levels(s.value) <= DEEPEST
    return size <= SIZE_LIMIT and flat and any(e == uses[0] for e in pr.walk(reader.value))


def _rows(s: pr.Statement) -> bool:
    """Is it a copy, whose rows along the last axis are parts of rows of what it copies? A single element is part of one."""
    if not isinstance(s.value, pr.Read) or s.value.default is not None or not s.value.subscripts or len(pr.reads(s)) != 1:
        return False
    if not s.subscripts:
        return True
    last, row = linear(s.value.subscripts[-1]), linear(s.subscripts[-1])
    others = [linear(sub) for sub in s.value.subscripts[:-1]]
    return (last is not None and row is not None and row.index is not None and last.coefficient(row.index) == 1
            and all(form is not None and not form.coefficient(row.index) for form in others))


def _formal(program: pr.Program, s: pr.Statement) -> tuple[str | None, ...] | None:
    """The index in each subscript of the left side, if they are all indices, each once; None for a dimension of extent 1."""
    plain: list[str | None] = []
    for sub, extent in zip(s.subscripts, program.tensor(s.target).shape, strict=True):
        form = linear(sub)
        if form is None or (form.index is None and (form.terms or extent != 1)):
            return None
        plain.append(form.index)
    named = [p for p in plain if p is not None]
    return tuple(plain) if len(set(named)) == len(named) and set(named) == set(s.indices) else None


def _inlined(program: pr.Program, s: pr.Statement, reader: pr.Statement) -> pr.Statement:
    """The reader with the value of `s` in place of the read."""
    formal = _formal(program, s)
    assert formal is not None

    def value(e: pr.Expr) -> pr.Expr:
        if not (isinstance(e, pr.Read) and e.tensor == s.target):
            return e
        return pr.substitute(s.value, {f: x for f, x in zip(formal, e.subscripts, strict=True) if f is not None})

    return replace(reader, value=pr.map_expr(reader.value, value))
