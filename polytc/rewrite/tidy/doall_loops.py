"""DOALL loops: `for` loops whose iterations read what later ones overwrite, but nothing that earlier ones made, become flat.

    for i in 0:9 { B[i,j] += A[k,i]*B[k,j] where k > i }          with inout B[9,9], A[9,9]
    ->  B_before[x0,x1] = B[x0,x1];  B[i,j] += A[k,i]*B_before[k,j] where i in 0:8, k in 1:9, k > i

A copy of what the loop finds takes the place of what is not yet overwritten; then no order is left. Each iteration must write
elements of its own: in one dimension, all writes have the loop's index. A read has that index there as well, or provably a
larger one, which is read from the copy. Guarantees: the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from polytc.program import program as pr
from polytc.program.affine import Affine, add, affine
from polytc.program.names import fresh
from polytc.rewrite.bounds import at_least


def flatten(program: pr.Program) -> pr.Program:
    """The program with such loops gone, and with nests of them gone as a whole; loops around data-dependent ranges stay."""
    statements: list[pr.Statement] = []
    for loops, group in groupby(program.statements, lambda s: s.loops[:1]):
        members = tuple(group)
        flat = _nest(program, members) if loops else None
        if flat is None:
            statements += members
        else:
            program, members = flat
            statements += members
    return replace(program, statements=tuple(statements))


def _nest(program: pr.Program, members: tuple[pr.Statement, ...]) -> tuple[pr.Program, tuple[pr.Statement, ...]] | None:
    """The same as `_flat` for loops in loops, the innermost ones first; None if the order of some loop matters."""
    for depth in range(max(len(s.loops) for s in members), 0, -1):
        inside: list[pr.Statement] = []
        for loops, group in groupby(members, lambda s: s.loops[:depth]):  # noqa: B023
            one = tuple(group)
            found = _flat(program, one, depth) if len(loops) == depth else (program, one)
            if found is None:
                return None
            program, one = found
            inside += one
        members = tuple(inside)
    return program, members


def _flat(program: pr.Program, members: tuple[pr.Statement, ...], depth: int
          ) -> tuple[pr.Program, tuple[pr.Statement, ...]] | None:
    """The program with the copies among its tensors, and the flat statements of one loop, in which there is none; None if its
    order matters. depth: of the loop; copies are made for outermost loops only, as each iteration around would make them."""
    if any(s.bounds for s in members):
        return None
    written = dict.fromkeys(s.target for s in members)
    decides = (e for s in members for c in (*s.where, *s.subscripts) for e in pr.walk(c))
    if any(isinstance(e, pr.Read) and e.tensor in written for e in decides):
        return None
    copied: dict[str, str] = {}
    places: dict[str, int] = {}
    for name in written:
        place = _own_dimension(members, name, depth)
        if place is None:
            return None
        places[name] = place
    result = []
    for s in members:
        for read in pr.reads(s):
            if read.tensor not in written or read.subscripts[places[read.tensor]] == pr.Index(s.indices[depth - 1]):
                continue
            if depth > 1 or read.default is not None or not _later(read, places[read.tensor], s):
                return None
            if read.tensor not in copied:
                copied[read.tensor] = fresh(f"{read.tensor}_before", {t.name for t in program.tensors} | set(copied.values()))
            s = _redirected(s, read, copied[read.tensor])
        result.append(replace(s, loops=s.loops[:-1]))
    copies = [_copy(program, old, new) for old, new in copied.items()]
    tensors = tuple(replace(program.tensor(old), name=new) for old, new in copied.items())
    return replace(program, tensors=(*program.tensors, *tensors)), (*copies, *result)


def _own_dimension(members: Sequence[pr.Statement], tensor: str, depth: int) -> int | None:
    """The dimension in which all writes to a tensor have the index of the loop at that depth."""
    found = [{d for d, sub in enumerate(s.subscripts) if sub == pr.Index(s.indices[depth - 1])}
             for s in members if s.target == tensor]
    return min(set.intersection(*found), default=None)


def _later(read: pr.Read, place: int, s: pr.Statement) -> bool:
    """Is what it reads provably written in later iterations of the outermost loop alone?"""
    form = affine(read.subscripts[place])
    if form is None:
        return False
    return at_least(add(form, Affine(0, ((s.indices[0], 1),)), -1), 1, s)


def _redirected(s: pr.Statement, read: pr.Read, name: str) -> pr.Statement:
    def moved(e: pr.Expr) -> pr.Expr:
        return replace(e, tensor=name) if e == read and isinstance(e, pr.Read) else e
    return replace(s, value=pr.map_expr(s.value, moved))


def _copy(program: pr.Program, old: str, new: str) -> pr.Statement:
    """The statement that keeps a tensor as the loop finds it."""
    t = program.tensor(old)
    box = enumerate(zip(t.lower, t.shape, strict=True))
    ranges = tuple(pr.Range(f"x{d}", lower, lower + extent) for d, (lower, extent) in box)
    cell = tuple(pr.Index(r.index) for r in ranges)
    name = fresh(f"{new}_copy", {s.name for s in program.statements})
    return pr.Statement(name, new, cell, None, pr.Read(old, cell, t.dtype), ranges)
