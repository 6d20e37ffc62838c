"""Sums in registers of which a condition takes terms away, as updates under the condition.

    block0 for b in 0:9 {                               with A[64], Y[9] on gpu
        alloc local f32 T[64]
        alloc private f32 s[]
        for i in 0:64 { s[] = s[] + select(i <= b, T[i] * T[i], 0.0) }
    }
    ->  block0 for b in 0:9 {
            alloc local f32 T[64]
            alloc private f32 s[]
            for i in 0:64 { if i <= b { s[] = s[] + T[i] * T[i] } }
        }

Compilers for GPUs make one multiply-add with a predicate of it, where a choice between numbers takes instructions of its own,
and branches around loads. Neighbours under the same condition are together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from polytc.codegen import loops, traverse


def predicate(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with such sums under their conditions."""
    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        if isinstance(s, loops.Store):
            return _under_condition(s) or s
        return replace(s, stmts=tuple(_together(s.stmts))) if isinstance(s, loops.Block) else s
    return replace(kernel, body=traverse.map_stmt(kernel.body, on_stmt, lambda e: e))


def _under_condition(s: loops.Store) -> loops.If | None:
    """The update that a store is where its condition holds; None for others. What items read from global memory stays a
    choice, whose loads wait for nothing."""
    match s.value:
        case loops.Binary(op="+", a=loops.Load(buffer=own, indices=place) as a, b=loops.Select() as choice) if (
                own == s.buffer and place == s.indices and s.buffer.space == "private" and _is_zero(choice.b)):
            global_ = any(x.buffer.space == "global" for x, _ in traverse.loads(choice.a))
            cond = traverse.repeated(choice.cond)
            if cond.lanes == 1 and not global_ and not traverse.loads(cond):
                return loops.If(cond, replace(s, value=replace(s.value, a=a, b=choice.a)))
    return None


def _is_zero(e: loops.Expr) -> bool:
    while isinstance(e, loops.Broadcast | loops.Cast):
        e = e.a
    return isinstance(e, loops.Const) and e.value == 0


def _together(stmts: tuple[loops.Stmt, ...]) -> Iterator[loops.Stmt]:
    """The statements, neighbours under one condition of indices in one `if`."""
    def condition(s: loops.Stmt) -> loops.Expr | None:
        plain = isinstance(s, loops.If) and s.orelse is None and not traverse.loads(s.cond)
        return s.cond if isinstance(s, loops.If) and plain else None
    for cond, some in groupby(stmts, key=condition):
        run = tuple(some)
        if cond is None or len(run) == 1:
            yield from run
        else:
            yield loops.If(cond, loops.Block(tuple(x.then for x in run if isinstance(x, loops.If))))
