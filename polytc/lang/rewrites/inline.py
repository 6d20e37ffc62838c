"""Inlining: a temporary made element by element is computed where it is read, if that repeats no work.

    T[i] = A[i] + 1;  Y[i] = T[i] * 2      ->      Y[i] = (A[i] + 1) * 2
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from polytc.lang import program as pr
from polytc.lang.linear import linear

SIZE_LIMIT = 200
"""Nodes that an expression may grow to."""


def inline(program: pr.Program) -> pr.Program:
    """The program without the temporaries that one assignment makes and one read, at no more points, uses."""
    changed = True
    while changed:
        changed = False
        for s in program.statements:
            reader = _only_reader(program, s)
            if reader is not None:
                program = _inlined(program, s, reader)
                changed = True
                break
    return program


def _only_reader(program: pr.Program, s: pr.Statement) -> pr.Statement | None:
    """The statement into which `s` may be inlined."""
    if s.op is not None or s.where or s.target not in program.temporaries or _formal(program, s) is None:
        return None
    if sum(x.target == s.target for x in program.statements) != 1:
        return None
    uses = [(x, e) for x in program.statements for top in (x.value, *x.subscripts, *x.where) for e in pr.walk(top)
            if isinstance(e, pr.Read) and e.tensor == s.target]
    if len(uses) != 1 or uses[0][1].default is not None:
        return None
    reader = uses[0][0]
    operands = {r.tensor for r in pr.reads(s)}
    between = program.statements[program.statements.index(s) + 1:program.statements.index(reader)]
    size = len(list(pr.walk(reader.value))) + len(list(pr.walk(s.value)))
    in_value = any(e == uses[0][1] for e in pr.walk(reader.value))
    if not in_value or any(x.target in operands for x in between) or reader.target in operands or size > SIZE_LIMIT:
        return None
    return reader if _points(reader) <= _points(s) else None


def _formal(program: pr.Program, s: pr.Statement) -> tuple[str | None, ...] | None:
    """The index in each subscript of the left side, if they are all indices, each once; None for a dimension of extent 1."""
    plain: list[str | None] = []
    for sub, extent in zip(s.subscripts, program.tensor(s.target).shape, strict=True):
        form = linear(sub)
        if form is None or (form.plain is None and (form.terms or extent != 1)):
            return None
        plain.append(form.plain)
    named = [p for p in plain if p is not None]
    return tuple(plain) if len(set(named)) == len(named) and set(named) == set(s.indices) else None


def _points(s: pr.Statement) -> int:
    return prod(r.extent for r in s.ranges)


def _inlined(program: pr.Program, s: pr.Statement, reader: pr.Statement) -> pr.Program:
    formal = _formal(program, s)
    assert formal is not None

    def go(e: pr.Expr) -> pr.Expr:
        if isinstance(e, pr.Read) and e.tensor == s.target:
            return pr.substitute(s.value, {f: x for f, x in zip(formal, e.subscripts, strict=True) if f is not None})
        operands = pr.children(e)
        return pr.rebuild(e, tuple(map(go, operands))) if operands else e

    statements = tuple(replace(x, value=go(x.value)) if x is reader else x for x in program.statements if x is not s)
    return replace(program, statements=statements, tensors=tuple(t for t in program.tensors if t.name != s.target))
