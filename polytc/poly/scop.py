"""Program -> Scop: what is computed, as isl sets and relations; not when."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import islpy

from polytc.poly import isl, nest
from polytc.program import program as pr
from polytc.program.affine import affine


@dataclass(frozen=True)
class Scop:
    """A static control part. Example, for `C[i,j] += A[i,k]*B[k,j]` at 4x4x4:

    ctx: the isl context of everything below.
    domain: { S1_init[i,j] : 0 <= i < 4 and ...; S1[i,j,k] : ... }
    reads, writes: { S1[i,j,k] -> A[i,k]; ... }, in the tensors' own coordinates. A gather reads its whole dimension; a guarded
        read only what lies in bounds; an update reads what it writes.
    boxed: what exact domains need ('more than 9 isl operations'), where the domains are the boxes of the statements instead:
        code tests the conditions at each instance, and there are more dependences than need be. '' if they are exact.
    updates: the writes of update statements whose instances may be reordered among themselves (float sums that are precise
        may not).
    """

    program: pr.Program
    ctx: islpy.Context
    domain: islpy.UnionSet
    reads: islpy.UnionMap
    writes: islpy.UnionMap
    updates: islpy.UnionMap
    boxed: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        """isl's sets belong to a context, which stays in its process: they are computed again."""
        return (boxed, (self.program, self.boxed)) if self.boxed else (extract, (self.program,))

    @property
    def original(self) -> islpy.Schedule:
        """The program's order, as a schedule tree."""
        return self.tree(nest.program_order(self.program))

    def tree(self, root: nest.Nest) -> islpy.Schedule:
        """The schedule tree of a nest that holds each statement once."""
        return nest.tree(self.ctx, self.program, root, boxed=bool(self.boxed))

    def reading(self, s: pr.Statement, tensor: str) -> islpy.Map:
        """Where the expressions of a statement read a tensor; what an update combines with is not meant."""
        cells = ", ".join(f"a{d}'" for d in range(len(self.program.tensor(tensor).shape)))
        given = isl.parameters(self.program)
        found = islpy.Map.read_from_str(self.ctx, f"{given}{{ {isl.instance(s)} -> {isl.name(tensor)}[{cells}] : false }}")
        for r in pr.reads(s):
            if r.tensor == tensor:
                text = access(self.program, s, tensor, r.subscripts, guarded=r.default is not None)
                found = found.union(islpy.Map.read_from_str(self.ctx, f"{given}{{ {text} }}"))
        return found.intersect_domain(islpy.Set.read_from_str(self.ctx, f"{given}{{ {isl.domain(s, bool(self.boxed))} }}"))

    def __str__(self) -> str:
        return "\n".join(f"{title}: {value}" for title, value in (
            ("domain", self.domain), ("reads", self.reads), ("writes", self.writes), ("updates", self.updates)))


def extract(program: pr.Program, operations: int = isl.BUDGET) -> Scop:
    """The Scop of a program; exact but for gathers, which are over-approximated, and but for conditions that isl cannot take in
    with that many operations."""
    ctx = isl.new_context()
    try:
        return isl.bounded(ctx, operations, lambda: _extract(program, ctx, ""))
    except isl.QuotaExceeded as e:
        return boxed(program, str(e))


def boxed(program: pr.Program, why: str) -> Scop:
    """The Scop whose domains are boxes."""
    return _extract(program, isl.new_context(), why)


def _extract(program: pr.Program, ctx: islpy.Context, why: str) -> Scop:
    reads: list[str] = []
    writes: list[str] = []
    updates: list[str] = []
    for s in program.statements:
        write = access(program, s, s.target, s.subscripts, guarded=False)
        writes.append(write)
        reads += [access(program, s, r.tensor, r.subscripts, guarded=r.default is not None) for r in pr.reads(s)]
        if s.op is not None:
            reads.append(write)
            updates += [] if ordered(program, s) else [write]
    domain = islpy.UnionSet.read_from_str(ctx, isl.instances(program, bool(why)))
    given = isl.parameters(program)

    def union(relations: list[str]) -> islpy.UnionMap:
        text = f"{given}{{ {'; '.join(dict.fromkeys(relations))} }}"
        return islpy.UnionMap.read_from_str(ctx, text).intersect_domain(domain)
    return Scop(program, ctx, domain, union(reads), union(writes), union(updates), why)


def ordered(program: pr.Program, s: pr.Statement) -> bool:
    """Must the instances of an update that meet in one element keep their order?"""
    return program.precise and program.tensor(s.target).dtype.is_float and s.op in ("+", "*")


PIECES = 256
"""Pieces of one access that are told apart; the front end has fewer."""


def access(program: pr.Program, s: pr.Statement, tensor: str, subscripts: tuple[pr.Expr, ...], *, guarded: bool) -> str:
    """An access relation in isl's notation, without braces, restricted to the tensor where needed, but not to the domain.
    Subscripts in pieces have one for each piece."""
    t, memory = program.tensor(tensor), [isl.expr(sub) is None and affine(sub) is None for sub in subscripts]
    known = [[("true", f"a{d}'")] if memory[d] else [(test, isl.expr(x) or "") for test, x in isl.pieces(sub)]
             for d, sub in enumerate(subscripts)]  # no index has such a name
    if prod(map(len, known)) > PIECES:  # of what rewrites have put together: the whole dimensions
        memory = [m or len(parts) > 1 for m, parts in zip(memory, known, strict=True)]
        known = [[("true", f"a{d}'")] if memory[d] else parts for d, parts in enumerate(known)]
    relations = []
    for chosen in product(*known):
        cells, conditions = [cell for _, cell in chosen], [test for test, _ in chosen if test != "true"]
        conditions += [f"{isl.number(t.lower[d])} <= {cell} < {isl.number(t.lower[d] + t.shape[d])}"
                       for d, cell in enumerate(cells) if memory[d] or guarded]
        relation = f"{isl.instance(s)} -> {isl.name(tensor)}[{', '.join(cells)}]"
        relations.append(relation + (" : " + " and ".join(conditions) if conditions else ""))
    return "; ".join(relations)
