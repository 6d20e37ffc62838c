"""Elementwise groups for GPUs whose items move whole vectors: neighbouring elements, by one load or store of each operand.

    Y[i,j] = max(X[i,j], B[i])                                  with X[4096,4096], B[4096] on gpu
    ->  block1 i // 8, block0 j // 128, thread1 i % 8, thread0 j // 4 % 32, vector j % 4 { Y[i,j] = max(X[i,j], B[i]) }

A vector must begin at a multiple of its size, or GPUs load its elements one by one, each item then far from its neighbour.
"""

from __future__ import annotations

from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.linear import linear
from polytc.schedule.facts.fusion_groups import Group
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP


def lanes(program: pr.Program, group: Group, row: int, machine: Machine) -> int:
    """Neighbouring elements along a row of a group that an item does at once: those of the machine's vector where each access
    is to an aligned vector or to one element for all of them, and enough items are left; else 1."""
    if program.precise or not all(is_elementwise(s, group, n) for n, s in enumerate(group.statements)):
        return 1
    width = machine.lanes(max(_widest(program, s) for s in group.statements))
    few = prod(group.extents) < width * machine.costs.groups.per_unit * MAX_WORK_GROUP * machine.cores
    if few or any(n % width for n in group.ranges[row]):
        return 1
    fits = (_fits(program, s, group.rows[row][n], width) for n, s in enumerate(group.statements))
    return width if all(fits) else 1


def is_elementwise(s: pr.Statement, group: Group, position: int) -> bool:
    """An assignment over a box, each instance an item's."""
    return s.op is None and not (s.where or s.bounds or s.loops or pr.scatters(s) or group.inner(position))


def _widest(program: pr.Program, s: pr.Statement) -> int:
    """Bytes of the widest element that a statement computes with."""
    tensors = (s.target, *(r.tensor for r in pr.reads(s)))
    casts = (e.dtype for e in pr.walk(s.value) if isinstance(e, pr.Cast))
    return max(t.bytes for t in (*(program.tensor(n).dtype for n in tensors), *casts))


def _fits(program: pr.Program, s: pr.Statement, index: str, width: int) -> bool:
    """Is each access of a statement to an aligned vector along the index, or the same for all of one? What is read under a
    condition is not: other elements of the vector might not exist."""
    chosen = (r for e in pr.walk(s.value) if isinstance(e, pr.Select) for x in (e.a, e.b) for r in pr.walk(x))
    tested = [r for r in chosen if isinstance(r, pr.Read)] + [r for r in pr.reads(s) if r.default is not None]
    if any(_walks(sub, index) for r in tested for sub in r.subscripts):
        return False
    target = is_vector(program.tensor(s.target), s.subscripts, index, width)
    return target and all(not any(_walks(sub, index) for sub in r.subscripts) or
                          is_vector(program.tensor(r.tensor), r.subscripts, index, width) for r in pr.reads(s))


def _walks(e: pr.Expr, index: str) -> bool:
    return pr.Index(index) in pr.walk(e)


def is_vector(t: pr.Tensor, subscripts: tuple[pr.Expr, ...], index: str, width: int) -> bool:
    """Is the tensor read or written in aligned vectors, `width` iterations of the index from a multiple of it each? Halves are
    not: vload_half promises no more than their own alignment."""
    form = linear(subscripts[-1]) if subscripts else None
    if t.dtype.is_half or form is None or form.coefficient(index) != 1 or any(_walks(s, index) for s in subscripts[:-1]):
        return False
    others = [c for i, c in form.terms if i != index]
    rows = t.shape[-1] if len(t.shape) > 1 else 0
    return all(int(n) % width == 0 for n in (rows, form.constant - t.lower[-1], *others))
