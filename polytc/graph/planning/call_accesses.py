"""What fusion asks of the call of a program: where it reads and writes, and how often."""

from __future__ import annotations

from dataclasses import dataclass

from polytc.graph.plan import Call
from polytc.program import program as pr
from polytc.program.scalars import I64

MATRIX = 2
"""Rank of a matrix; the products of a chain have operands of more axes, which they share."""


@dataclass(frozen=True)
class Shape:
    """What fusion needs to know of a call. pointwise: every statement is `=` over its own result's indices; light: as in Group;
    size: points of its largest statement."""

    pointwise: bool
    light: bool
    size: int


def shape_of(p: pr.Program) -> Shape:
    """Classify a program."""
    sizes = {s.name: s.points for s in p.statements}
    updates = [s for s in p.statements if s.op is not None]
    light = all(_reads_once(p, s, sizes[s.name]) for s in updates)
    pointwise = not updates and all(has_plain_subscripts(s.subscripts) for s in p.statements)
    return Shape(pointwise, light, max(sizes.values(), default=0))


def _reads_once(p: pr.Program, s: pr.Statement, points: int) -> bool:
    """Does an update touch each element of the largest array that it reads only once?"""
    sizes = [p.tensor(r.tensor).size for r in pr.reads(s)]
    return any(points <= size for size in sizes)


def has_plain_subscripts(subscripts: tuple[pr.Expr, ...]) -> bool:
    """Distinct bare indices, and zeros for axes of extent 1."""
    names = [e.name for e in subscripts if isinstance(e, pr.Index)]
    return len(set(names)) == len(names) and all(isinstance(e, pr.Index) or e == pr.Const(0, I64) for e in subscripts)


def only_moves_elements(p: pr.Program) -> bool:
    """Does a program do nothing but put elements in another order?"""
    if len(p.statements) != 1:
        return False
    s = p.statements[0]
    return s.op is None and has_plain_subscripts(s.subscripts) and isinstance(s.value, pr.Read) and s.value.default is None \
        and len(pr.reads(s)) == 1


def is_batched(call: Call, name: str) -> bool:
    """Does a product read `name` at plain indices, as one of many matrices? The ranks tell, so that all sizes are alike."""
    tensor = next(t for t, n in zip(call.program.inputs, call.inputs, strict=True) if n == name)
    for s in call.program.statements:
        reads = pr.reads(s)
        if s.op is not None and tensor in {r.tensor for r in reads}:
            bare = all(r.default is None and has_plain_subscripts(r.subscripts) for r in reads if r.tensor == tensor)
            return bare and len(reads) > 1 and all(len(r.subscripts) > MATRIX for r in reads)
    return False


def reads_same_rows(call: Call, name: str) -> bool:
    """Does the call read `name` at bare indices (or 0) only, so that rows meet rows?"""
    return all(has_plain_subscripts(r.subscripts) and r.default is None for t in tensors_of_value(call, name)
               for s in call.program.statements for r in pr.reads(s) if r.tensor == t)


def tensors_of_value(call: Call, name: str) -> list[str]:
    """The inputs of the call's program that are the value `name`."""
    return [t for t, n in zip(call.program.inputs, call.inputs, strict=True) if n == name]
