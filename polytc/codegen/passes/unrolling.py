"""Loops of kind 'unroll' behind `vectorize`: each stands for a copy of its body for each value of its variable.

    unroll for r in 0:3 { unroll for c in 0:32:16 { C[6*i + r, ramp(c, 1, 16)] = x16(0.0) } }       stands for
    C[6*i, ramp(0, 1, 16)] = x16(0.0);      C[6*i, ramp(16, 1, 16)] = x16(0.0);  ...  C[6*i + 2, ramp(16, 1, 16)] = x16(0.0)

so that a register tile is one statement until a target writes the copies. The bounds are numbers; the body holds stores and
such loops alone, and the variable only moves the places of what is loaded and stored, linearly: no copy is another statement
than the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.passes import simplify
from polytc.machine import Machine

FEW = 4
"""Copies that are written out at once; more stay a loop until a target writes them."""


def most_written_out(machine: Machine) -> int | None:
    """Copies that are written out at once; None: all, as what the items of a GPU share is found among statements."""
    return FEW if machine.kind == "cpu" else None


def values(s: loops.For) -> range:
    """The values of the variable of a loop of constant bounds."""
    assert isinstance(s.lower, loops.Const)
    assert isinstance(s.upper, loops.Const)
    return range(int(s.lower.value), int(s.upper.value), s.step)


def is_copies(s: loops.Stmt) -> bool:
    """Does the loop stand for copies?"""
    return isinstance(s, loops.For) and s.kind == "unroll"


def stores(s: loops.Stmt) -> int:
    """The stores of a statement, copies counted."""
    if isinstance(s, loops.Store):
        return 1
    inside = sum(map(stores, traverse.children(s)))
    return inside * len(values(s)) if isinstance(s, loops.For) and s.kind == "unroll" else inside


def written_out(s: loops.Stmt, most: int | None = None) -> loops.Stmt:
    """The statement with all copies written one after another; most: only nests that stand for so many stores at most."""
    def nest(x: loops.For) -> loops.Stmt:
        if most is not None and stores(x) > most:
            return x
        body = written_out(x.body)
        return loops.block(*(simplify.at(body, x.var, v, {}) for v in values(x)))
    return map_nests(s, nest)


def map_nests(s: loops.Stmt, f: Callable[[loops.For], loops.Stmt]) -> loops.Stmt:
    """The statement with f of each outermost loop of copies in its place."""
    match s:
        case loops.For(kind="unroll"):
            return f(s)
        case loops.For() | loops.Alloc():
            return replace(s, body=map_nests(s.body, f))
        case loops.If():
            return replace(s, then=map_nests(s.then, f), orelse=map_nests(s.orelse, f) if s.orelse is not None else None)
        case loops.Block():
            return loops.block(*(map_nests(x, f) for x in s.stmts))
        case _:
            return s


def is_innermost(s: loops.For) -> bool:
    """Has a loop none in it but those of copies?"""
    return not any(isinstance(x, loops.For) and x.kind != "unroll" for x in traverse.walk_stmt(s.body))


def statements(s: loops.Stmt, copies: tuple[loops.For, ...] = ()) -> Iterator[tuple[loops.Stmt, tuple[loops.For, ...]]]:
    """`s` and all statements below it, parents first, each with the loops of copies around it, outermost first."""
    yield s, copies
    inner = (*copies, s) if isinstance(s, loops.For) and s.kind == "unroll" else copies
    for x in traverse.children(s):
        yield from statements(x, inner)


def nested(copies: tuple[loops.For, ...], s: loops.Stmt) -> loops.Stmt:
    """A statement inside of loops, outermost first."""
    for x in reversed(copies):
        s = replace(x, body=s)
    return s


def points(copies: tuple[loops.For, ...]) -> Iterator[tuple[int, ...]]:
    """The values that the variables of a nest take together, in its order."""
    return product(*map(values, copies))


def may_stay(s: loops.Stmt, var: str) -> bool:
    """Can a loop of this variable stand for the copies of a statement?"""
    match s:
        case loops.Store():
            return all(_moves(i, var) for i in s.indices) and _only_moves(s.value, var)
        case loops.Block():
            return all(may_stay(x, var) for x in s.stmts)
        case loops.For(kind="unroll"):
            return may_stay(s.body, var)
        case _:
            return False


def _only_moves(e: loops.Expr, var: str) -> bool:
    """Does the variable only move places of loads in a value?"""
    if isinstance(e, loops.Load):
        return all(_moves(i, var) for i in e.indices)
    if isinstance(e, loops.Var):
        return e.name != var
    return all(_only_moves(o, var) for o in traverse.operands(e))


def _moves(index: loops.Expr, var: str) -> bool:
    """Is the variable a term of an index, or does it not occur?"""
    if var not in traverse.variables(index):
        return True
    ramp = index if isinstance(index, loops.Ramp) else None
    first = ramp.base if ramp is not None else index
    if first.lanes > 1 or (ramp is not None and isinstance(ramp.active, loops.Node) and var in traverse.variables(ramp.active)):
        return False
    terms = linear_forms.linear(first)
    return linear_forms.small(terms) and all(isinstance(a, loops.Var) or var not in traverse.variables(a) for a in terms)
