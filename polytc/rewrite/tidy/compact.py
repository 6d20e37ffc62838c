"""Reads that skip elements become reads of a compact copy.

    O[m,h,w] += W[m,c]*X[c,2*h,2*w]                     with W[64,64], X[64,14,14]
    ->  X_compact[c,h,w] = X[c,2*h,2*w];  O[m,h,w] += W[m,c]*X_compact[c,h,w]

The copy is a small part of what was read, each element of it is used many times, and its indices walk memory together, so that
coalescing can make one of them: whole vectors, whatever the extents of the rows.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from polytc.program import program as pr
from polytc.program.linear import linear
from polytc.program.names import fresh
from polytc.program.sizes import none_negative
from polytc.rewrite.bounds import hoisted

USES = 32
"""Times that an update must use each element of the copy."""


def compact(program: pr.Program) -> pr.Program:
    """The program with compact copies for the strided reads of updates."""
    for s in program.statements:
        for read in pr.reads(s) if s.op is not None else ():
            indices = _skipping(s, read)
            if indices is None or read.tensor == s.target or not none_negative(r.extent for r in indices):
                continue
            if s.points >= USES * prod(int(r.extent) for r in indices):
                program = _copied(program, s.name, read, indices)
    return program


def _skipping(s: pr.Statement, read: pr.Read) -> tuple[pr.Range, ...] | None:
    """The indices of a read that has each of them in one subscript alone, with a step of more than one in some; in order."""
    ranges = s.by_index
    found: list[pr.Range] = []
    steps = set[int]()
    for sub in read.subscripts:
        form = linear(sub)
        if form is None or len(form.terms) > 1:
            return None
        for index, c in form.terms:
            if ranges[index] in found or ranges[index].lower != 0:
                return None
            found.append(ranges[index])
            steps.add(c)
    return tuple(found) if read.default is None and max(steps, default=1) > 1 and min(steps) > 0 else None


def _copied(program: pr.Program, name: str, read: pr.Read, ranges: tuple[pr.Range, ...]) -> pr.Program:
    """The program with the read of the statement of that name through a copy."""
    source = program.tensor(read.tensor)
    copy = pr.Tensor(fresh(f"{read.tensor}_compact", {t.name for t in program.tensors}), source.dtype,
                     tuple(r.extent for r in ranges), (0,) * len(ranges))
    cell, cell_names = tuple(pr.Index(r.index) for r in ranges), [r.index for r in ranges]
    taken = {x.name for x in program.statements}
    statements: list[pr.Statement] = []
    for s in program.statements:
        if s.name == name:
            statements.append(pr.Statement(fresh(f"{name}_{copy.name}", taken), copy.name, cell, None,
                                           hoisted(program, s, read, ranges, cell_names), ranges))
            s = pr.replaced(s, read, replace(read, tensor=copy.name, subscripts=cell))
        statements.append(s)
    return replace(program, tensors=(*program.tensors, copy), statements=tuple(statements))
