"""Traversal of the Loop AST: a pass states only the nodes it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from polytc.codegen import loops


def operands(e: loops.Expr) -> tuple[loops.Expr, ...]:
    """The direct operands of an expression."""
    return _OPERANDS[type(e)](e)


# A table by type: passes spend most of their time here, and a match statement tests the types one after another.
_OPERANDS: dict[type, Callable[[Any], tuple[loops.Expr, ...]]] = {
    **dict.fromkeys((loops.Var, loops.Const), lambda e: ()),
    **dict.fromkeys((loops.Unary, loops.Cast, loops.Broadcast, loops.Reduce), lambda e: (e.a,)),
    loops.Binary: lambda e: (e.a, e.b), loops.Call: lambda e: e.args, loops.Select: lambda e: (e.cond, e.a, e.b),
    loops.Load: lambda e: e.indices, loops.Ramp: lambda e: (e.base,)}


def with_operands(e: loops.Expr, new: tuple[loops.Expr, ...]) -> loops.Expr:
    """`e` with other operands of the same types, in the order of `operands`."""
    match e:
        case loops.Unary() | loops.Cast() | loops.Broadcast() | loops.Reduce():
            return replace(e, a=new[0])
        case loops.Binary():
            return replace(e, a=new[0], b=new[1])
        case loops.Call():
            return replace(e, args=new)
        case loops.Select():
            return replace(e, cond=new[0], a=new[1], b=new[2])
        case loops.Load():
            return replace(e, indices=new)
        case loops.Ramp():
            return replace(e, base=new[0])
        case _:
            return e


def active_lanes(indices: Iterable[loops.Expr]) -> int | None:
    """How many lanes an access through these indices touches; None: all of them."""
    ramps = (e for i in indices if i.lanes > 1 for e in walk_expr(i) if isinstance(e, loops.Ramp))
    return min((r.active for r in ramps if r.active is not None), default=None)


def map_expr(e: loops.Expr, f: Callable[[loops.Expr], loops.Expr]) -> loops.Expr:
    """Rewrite bottom-up: f is applied to every node after its operands."""
    old = operands(e)
    if not old:
        return f(e)
    new = tuple([map_expr(o, f) for o in old])
    for a, b in zip(old, new, strict=True):
        if a is not b:
            return f(with_operands(e, new))
    return f(e)


def map_stmt(s: loops.Stmt, on_stmt: Callable[[loops.Stmt], loops.Stmt],
             on_expr: Callable[[loops.Expr], loops.Expr]) -> loops.Stmt:
    """Rewrite bottom-up: on_expr on every expression (whole trees, see map_expr), on_stmt on every statement after its
    parts."""
    def go(x: loops.Stmt) -> loops.Stmt:
        return map_stmt(x, on_stmt, on_expr)
    match s:
        case loops.For():
            s = replace(s, lower=on_expr(s.lower), upper=on_expr(s.upper), body=go(s.body))
        case loops.If():
            s = replace(s, cond=on_expr(s.cond), then=go(s.then), orelse=go(s.orelse) if s.orelse is not None else None)
        case loops.Store():
            s = replace(s, indices=tuple(map(on_expr, s.indices)), value=on_expr(s.value))
        case loops.Block():
            s = loops.Block(tuple(map(go, s.stmts)))
        case loops.Alloc():
            s = replace(s, body=go(s.body))
        case loops.Barrier():
            pass
    return on_stmt(s)


def walk_expr(e: loops.Expr) -> Iterator[loops.Expr]:
    """`e` and everything below it, parents first."""
    yield e
    for o in operands(e):
        yield from walk_expr(o)


def children(s: loops.Stmt) -> tuple[loops.Stmt, ...]:
    """The statements directly inside a statement."""
    match s:
        case loops.For() | loops.Alloc():
            return (s.body,)
        case loops.If():
            return (s.then,) if s.orelse is None else (s.then, s.orelse)
        case loops.Block():
            return s.stmts
        case _:
            return ()


def walk_stmt(s: loops.Stmt) -> Iterator[loops.Stmt]:
    """`s` and all statements below it, parents first."""
    yield s
    for x in children(s):
        yield from walk_stmt(x)


def expressions(s: loops.Stmt) -> tuple[loops.Expr, ...]:
    """The expressions that a statement itself holds (not those of the statements inside it)."""
    match s:
        case loops.For():
            return (s.lower, s.upper)
        case loops.If():
            return (s.cond,)
        case loops.Store():
            return (*s.indices, s.value)
        case _:
            return ()
