"""A transposed copy beside a tensor that `for` loops make while a reduction reads it across memory.

    for i in 0:72 { for j in i+1:72 { T[i,j] max= T[i,k] + T[k+1,j] where k in i+1:j } }     with inout T[73,72]
    ->  T_mirror[x1,x0] = T[x0,x1]
        for i in 0:70 { for j in 2:72 {
            T[i,j] max= T[i,k] + T_mirror[j, k + 1] where j >= i + 1, k >= i + 1, k < j
            T_mirror[j,i] = T[i,j] where j >= i + 1
        } }

A reduction that reads the row that it writes can make no vectors along that row; what is left is the reduction itself, and
there every operand had better be contiguous. (Dynamic programs over pieces i..j of something are all of this form.)

The copy is brought up to date behind each statement that writes the tensor, or behind the last of several that write the same
element in turn where none of them reads it from the copy: the two agree wherever the copy is read. Guarantees: the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from math import prod
from typing import TypeVar

from polytc.program import program as pr
from polytc.program.affine import add, affine, indices
from polytc.program.linear import linear
from polytc.program.names import fresh
from polytc.program.sizes import surely
from polytc.rewrite.bounds import at_least, inside

T = TypeVar("T")
REUSE = 16
"""Times that an element of the copy must be read for each time that one is written."""


def add_copies(program: pr.Program) -> pr.Program:
    """The program with such copies where they pay; a precise one, whose reductions make no vectors, as it is."""
    if program.precise:
        return program
    statements: list[pr.Statement] = []
    for loops, group in groupby(program.statements, lambda s: s.loops[:1]):
        members = list(group)
        for tensor, d in _crossed(members) if loops else ():
            found = _mirrored(program, members, tensor, d) if _filled(program, tensor, statements) else None
            if found is not None:
                program, members = found
        statements += members
    return replace(program, statements=tuple(statements))


def _crossed(members: Sequence[pr.Statement]) -> list[tuple[str, int]]:
    """(tensor, dimension): what reductions of a loop nest walk across memory, of the tensors that the nest writes."""
    written = {s.target for s in members}
    found = [(r.tensor, d) for s in members for r in pr.reads(s) if r.tensor in written and (d := _across(s, r)) is not None]
    return list(dict.fromkeys(found))


def _across(s: pr.Statement, read: pr.Read) -> int | None:
    """The dimension that a reduction walks in a read, if it is not the last one, and the reduction reads its target's row."""
    own = set(s.indices[s.depth:])
    steps = [_walked(sub, own) for sub in read.subscripts]
    if s.op is None or s.bounds or read.default is not None or any(_walked(sub, own) != 0 for sub in s.subscripts):
        return None
    if sorted(map(repr, steps)) != ["0"] * (len(steps) - 1) + ["1"] or steps[-1] == 1:
        return None
    row = any(r.tensor == s.target and r.subscripts[:-1] == s.subscripts[:-1] and _walked(r.subscripts[-1], own) == 1
              for r in pr.reads(s) if r.subscripts)
    return steps.index(1) if row else None


def _walked(subscript: pr.Expr, own: set[str]) -> int | None:
    """How far one step of the only index of `own` in a subscript goes; 0 without one, None for several or no linear form."""
    form = linear(subscript)
    steps = [c for i, c in form.terms if i in own] if form is not None else [0, 0]
    return None if len(steps) > 1 else sum(steps)


def _filled(program: pr.Program, tensor: str, before: Sequence[pr.Statement]) -> bool:
    """Is every element written before the loop?"""
    t = program.tensor(tensor)
    return tensor in program.inputs or any(
        s.target == tensor and s.op is None and not (s.loops or s.where or s.bounds)
        and [(r.index, r.lower, r.extent) for sub in s.subscripts for r in s.ranges if sub == pr.Index(r.index)]
        == [(r.index, low, n) for r, low, n in zip(s.ranges, t.lower, t.shape, strict=False)] for s in before)


def _mirrored(program: pr.Program, members: list[pr.Statement], tensor: str, d: int
              ) -> tuple[pr.Program, list[pr.Statement]] | None:
    """The program with the copy of a tensor among its tensors, and the statements of the nest; None if that does not pay."""
    t = program.tensor(tensor)
    crossing = {s.name: {r for r in pr.reads(s) if r.tensor == tensor and _across(s, r) == d} for s in members}
    runs = _runs(members, tensor, crossing)
    domains = [_domain(run[0]) for run in runs]
    if not all(inside(t, run[0].subscripts, ranges) for run, (ranges, _) in zip(runs, domains, strict=True)):
        return None
    copied = t.size + sum(prod(int(r.extent) for r in ranges) for ranges, _ in domains)
    if sum(s.points for s in members if crossing[s.name]) < REUSE * copied:
        return None
    name = fresh(f"{tensor}_mirror", {x.name for x in program.tensors})
    box = tuple(pr.Range(f"x{n}", low, low + extent) for n, (low, extent) in enumerate(zip(t.lower, t.shape, strict=True)))
    taken = {s.name for s in program.statements}

    def copy(behind: str, cell: tuple[pr.Expr, ...], like: pr.Statement | None) -> pr.Statement:
        label = fresh(f"{behind}_{name}", taken)
        taken.add(label)
        made = pr.Statement(label, name, _exchanged(cell, d), None, pr.Read(tensor, cell, t.dtype), box)
        if like is None:
            return made
        ranges, where = _domain(like)
        return replace(made, ranges=ranges, where=where, loops=like.loops, span=like.span)

    def moved(e: pr.Expr, reads: set[pr.Read]) -> pr.Expr:
        return replace(e, tensor=name, subscripts=_exchanged(e.subscripts, d)) if isinstance(e, pr.Read) and e in reads else e

    last = {run[-1].name: run[0] for run in runs}
    result = [copy("before", tuple(pr.Index(r.index) for r in box), None)]
    for s in members:
        reads = crossing[s.name]
        result.append(replace(s, value=pr.map_expr(s.value, lambda e, reads=reads: moved(e, reads))))  # type: ignore[misc]
        if s.name in last:
            result.append(copy(s.name, s.subscripts, last[s.name]))
    twin = replace(t, name=name, shape=_exchanged(t.shape, d), lower=_exchanged(t.lower, d))
    return replace(program, tensors=(*program.tensors, twin)), result


def _exchanged(items: tuple[T, ...], d: int) -> tuple[T, ...]:
    """Dimension d last, and the last one in its place."""
    result = list(items)
    result[d], result[-1] = result[-1], result[d]
    return tuple(result)


def _runs(members: Sequence[pr.Statement], tensor: str, crossing: dict[str, set[pr.Read]]) -> list[list[pr.Statement]]:
    """The writers of a tensor, those together that one copy can follow; the first of each writes all that the others do."""
    runs: list[list[pr.Statement]] = []
    for n, s in enumerate(members):
        if s.target != tensor:
            continue
        between = members[members.index(runs[-1][0]) + 1:n + 1] if runs else []
        if runs and _covers(runs[-1][0], s) and all(
                x.loops == s.loops and all(_apart(r, s, x) for r in crossing[x.name]) for x in between):
            runs[-1].append(s)
        else:
            runs.append([s])
    return runs


def _domain(s: pr.Statement) -> tuple[tuple[pr.Range, ...], tuple[pr.Expr, ...]]:
    """Box and conditions of the elements that a statement may write."""
    used = {*s.indices[:s.depth], *(e.name for sub in s.subscripts for e in pr.walk(sub) if isinstance(e, pr.Index))}
    return tuple(r for r in s.ranges if r.index in used), tuple(
        c for c in s.where if all(e.name in used for e in pr.walk(c) if isinstance(e, pr.Index)))


def _covers(a: pr.Statement, b: pr.Statement) -> bool:
    """Does a, in each iteration of the loops around both, write all that b writes?"""
    (mine, where), (its, narrower) = _domain(a), _domain(b)
    return (a.loops, a.subscripts, [r.index for r in mine]) == (b.loops, b.subscripts, [r.index for r in its]) and set(
        where) <= set(narrower) and surely(
            lambda: all(x.lower <= y.lower and y.upper <= x.upper for x, y in zip(mine, its, strict=True)))


def _apart(read: pr.Read, writer: pr.Statement, reader: pr.Statement) -> bool:
    """Does the reader never read what the writer writes in the same iteration of the loops around both?"""
    around = set(writer.indices[:writer.depth])
    for a, b in zip(map(affine, read.subscripts), map(affine, writer.subscripts), strict=True):
        if a is not None and b is not None and indices(b) <= around:
            if at_least(add(a, b, -1), 1, reader) or at_least(add(b, a, -1), 1, reader):
                return True
    return False
