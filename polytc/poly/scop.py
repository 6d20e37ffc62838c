"""Program -> Scop: what is computed, as isl sets and relations; not when."""

from __future__ import annotations

from dataclasses import dataclass

import islpy

from polytc.lang import program as pr
from polytc.poly import isl, nest


@dataclass(frozen=True)
class Scop:
    """A static control part. Example, for `C[i,j] += A[i,k]*B[k,j]` at 4x4x4:

    ctx: the isl context of everything below.
    domain: { S1_init[i,j] : 0 <= i < 4 and ...; S1[i,j,k] : ... }
    reads, writes: { S1[i,j,k] -> A[i,k]; ... }, in the tensors' own coordinates. A gather reads its whole dimension; a guarded
        read only what lies in bounds; an update reads what it writes.
    updates: the writes of update statements whose instances may be reordered among themselves (float sums that are precise
        may not).
    original: the program's order, as a schedule tree.
    """

    program: pr.Program
    ctx: islpy.Context
    domain: islpy.UnionSet
    reads: islpy.UnionMap
    writes: islpy.UnionMap
    updates: islpy.UnionMap
    original: islpy.Schedule

    def __str__(self) -> str:
        return "\n".join(f"{title}: {value}" for title, value in (
            ("domain", self.domain), ("reads", self.reads), ("writes", self.writes), ("updates", self.updates)))


def extract(program: pr.Program) -> Scop:
    """The Scop of a program; exact but for gathers, which are over-approximated."""
    ctx = isl.new_context()
    reads: list[str] = []
    writes: list[str] = []
    updates: list[str] = []
    for s in program.statements:
        write = access(program, s, s.target, s.subscripts, guarded=False)
        writes.append(write)
        reads += [access(program, s, r.tensor, r.subscripts, guarded=r.default is not None) for r in pr.reads(s)]
        if s.op is not None:
            reads.append(write)
            ordered = program.precise and program.tensor(s.target).dtype.is_float and s.op in ("+", "*")
            updates += [] if ordered else [write]
    texts = [isl.domain(s) for s in program.statements]
    union = "{ " + "; ".join(texts) + " }"
    return Scop(program, ctx, islpy.UnionSet.read_from_str(ctx, union), _union(ctx, reads), _union(ctx, writes),
                _union(ctx, updates), nest.tree(ctx, program, nest.program_order(program)))


def access(program: pr.Program, s: pr.Statement, tensor: str, subscripts: tuple[pr.Expr, ...], *, guarded: bool) -> str:
    """An access relation in isl's notation, without braces, restricted to the domain and, where needed, to the tensor."""
    t = program.tensor(tensor)
    cells, conditions = [], []
    for d, sub in enumerate(subscripts):
        text = isl.expr(sub)
        cells.append(f"a{d}")
        if text is not None:
            conditions.append(f"a{d} = {text}")
        if text is None or guarded:
            conditions.append(f"{t.lower[d]} <= a{d} < {t.lower[d] + t.shape[d]}")
    instances, _, limits = isl.domain(s).partition(" : ")
    every = [c for c in (limits, *conditions) if c]
    return f"{instances} -> {isl.name(tensor)}[{', '.join(cells)}]" + (" : " + " and ".join(every) if every else "")


def _union(ctx: islpy.Context, relations: list[str]) -> islpy.UnionMap:
    return islpy.UnionMap.read_from_str(ctx, "{ " + "; ".join(dict.fromkeys(relations)) + " }")
