"""Tensors stored with their dimensions in another order, and the loops that walk them with them.

    O[n,m,h,w] += X[n,c,h+r,w+s]*W[m,c,r,s]             with X[2,8,9,9], W[8,8,3,3]
    ->  O[n,h,w,m] += X[n,h+r,w+s,c]*W[m,c,r,s]

for O and X in the order 0, 2, 3, 1. The indices of such a statement take the order in which its target, then its reads, are
stored, so that the innermost loop of a reduction walks along memory. Values are the same; sums are added up in another order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from polytc.program import program as pr

T = TypeVar("T")


def movable(program: pr.Program) -> bool:
    """May the dimensions of the program's arguments be exchanged? Not where loops or memory fix the order of what happens."""
    plain = not (program.sequential or program.dynamic or program.sizes or program.precise)
    return plain and not set(program.inputs) & set(program.outputs) and not any(s.bounds for s in program.statements)


def exchanged(program: pr.Program, orders: Mapping[str, tuple[int, ...]]) -> pr.Program:
    """The program with dimension d of a tensor being what was its dimension orders[tensor][d]; the program must be movable."""
    def order(name: str, items: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(items[d] for d in orders[name]) if name in orders else items

    def on_expr(e: pr.Expr) -> pr.Expr:
        return replace(e, subscripts=order(e.tensor, e.subscripts)) if isinstance(e, pr.Read) else e

    def on_statement(s: pr.Statement) -> pr.Statement:
        subscripts = order(s.target, tuple(pr.map_expr(x, on_expr) for x in s.subscripts))
        moved = replace(s, subscripts=subscripts, value=pr.map_expr(s.value, on_expr))
        touched = {s.target, *(r.tensor for r in pr.reads(s))} & set(orders)
        return replace(moved, ranges=_walked(moved, touched)) if touched else moved

    tensors = tuple(replace(t, shape=order(t.name, t.shape), lower=order(t.name, t.lower)) for t in program.tensors)
    return replace(program, tensors=tensors, statements=tuple(map(on_statement, program.statements)))


def _walked(s: pr.Statement, moved: set[str]) -> tuple[pr.Range, ...]:
    """The ranges in the order in which the indices occur in the target, in the reads of `moved` tensors, and elsewhere."""
    reads = sorted(pr.reads(s), key=lambda r: r.tensor not in moved)
    names = dict.fromkeys(e.name for sub in (*s.subscripts, *(sub for r in reads for sub in r.subscripts))
                          for e in pr.walk(sub) if isinstance(e, pr.Index))
    place = {name: n for n, name in enumerate(names)}
    return tuple(sorted(s.ranges, key=lambda r: place.get(r.index, len(place))))
