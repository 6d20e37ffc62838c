"""When a read happens: in a branch of a choice by the indices, where the branch is taken.

Note: in `i > 0 ? A[i] - A[i-1] : A[i]` the read of A[i-1] happens where i > 0. There it must be in bounds, and there it bounds
i; elsewhere it says nothing. So it is for what stands behind `&&` and `||`. Conditions that read tensors, or are not
quasi-affine, tell nothing: what stands behind them may happen everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from polytc.program import program as pr
from polytc.program import scalars
from polytc.program.affine import decidable
from polytc.program.scalars import BOOL

Path: TypeAlias = tuple[pr.Expr, ...]
"""The conditions of the choices around a part of an expression, all of which hold where it matters."""


def reads(e: pr.Expr, path: Path = ()) -> Iterator[tuple[pr.Read, Path]]:
    """The reads of an expression, each with its path. One that stands in several places may come several times."""
    if not any(isinstance(x, pr.Select) or _joins(x) for x in pr.walk(e)):
        yield from ((x, path) for x in pr.walk(e) if isinstance(x, pr.Read))
        return
    if isinstance(e, pr.Read):
        yield e, path
    for operand, its in _operands(e, path):
        yield from reads(operand, its)


def mapped(e: pr.Expr, change: Callable[[pr.Read, Path], pr.Read], path: Path = ()) -> pr.Expr:
    """The expression with its reads changed, from the leaves on. change: is given a read and its path."""
    operands = _operands(e, path)
    if operands:
        e = pr.rebuild(e, tuple(mapped(operand, change, its) for operand, its in operands))
    return change(e, path) if isinstance(e, pr.Read) else e


def _joins(e: pr.Expr) -> bool:
    """Is it `&&` or `||`?"""
    return isinstance(e, pr.Binary) and e.op in scalars.LOGICAL


def _operands(e: pr.Expr, path: Path) -> list[tuple[pr.Expr, Path]]:
    """The operands of an expression, each with its path."""
    if isinstance(e, pr.Select):
        return [(e.cond, path), (e.a, path + _known(e.cond, True)), (e.b, path + _known(e.cond, False))]
    if isinstance(e, pr.Binary) and _joins(e):
        return [(e.a, path), (e.b, path + _known(e.a, e.op == "&&"))]
    return [(x, path) for x in pr.children(e)]


def _known(condition: pr.Expr, value: bool) -> Path:
    """What is known of the indices where a condition has a value: a b, both where `a && b` holds."""
    if isinstance(condition, pr.Unary) and condition.op == "!":
        return _known(condition.a, not value)
    if isinstance(condition, pr.Binary) and condition.op == ("&&" if value else "||"):
        return _known(condition.a, value) + _known(condition.b, value)
    if not decidable(condition):
        return ()
    return (condition if value else _opposite(condition),)


def _opposite(condition: pr.Expr) -> pr.Expr:
    """A decidable condition that holds where this one does not: i > 0 && i < 5 -> i <= 0 || i >= 5."""
    match condition:
        case pr.Const():
            return pr.Const(not condition.value, BOOL)
        case pr.Unary():
            return condition.a
        case pr.Binary(op="&&" | "||"):
            return pr.Binary("||" if condition.op == "&&" else "&&", _opposite(condition.a), _opposite(condition.b), BOOL)
    assert isinstance(condition, pr.Binary)
    return pr.Binary(scalars.OPPOSITES[condition.op], condition.a, condition.b, BOOL)
