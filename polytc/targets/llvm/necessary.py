"""What must hold of scalars where a condition holds in some lane of a vector.

    ramp(i, 1, 16) - 9 >= 0   in some lane   only where   i + 6 >= 0

Loads behind the condition happen in no lane where that fails, so that their addresses need not lead anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from polytc.codegen import loops
from polytc.codegen.intervals import Interval, interval
from polytc.codegen.vector_lanes import has_load
from polytc.program.scalars import I64, MIRRORED, OPPOSITES


def somewhere(cond: loops.Expr, known: Mapping[str, Interval]) -> frozenset[loops.Expr]:
    """Conditions on scalars without which `cond` holds in no lane, but for those that always hold. known: what the variables
    lie between."""
    match cond:
        case loops.Broadcast() if not has_load(cond):
            return frozenset((cond.a,))
        case loops.Binary("&&"):
            return somewhere(cond.a, known) | somewhere(cond.b, known)
        case loops.Binary() if cond.op in MIRRORED:
            return _compared(cond.op, cond.a, cond.b, known)
    return frozenset()


def elsewhere(cond: loops.Expr, known: Mapping[str, Interval]) -> frozenset[loops.Expr]:
    """Conditions on scalars without which `cond` holds in all lanes, but for those that always hold."""
    match cond:
        case loops.Binary("||"):
            return elsewhere(cond.a, known) | elsewhere(cond.b, known)
        case loops.Binary() if cond.op in MIRRORED:
            return _compared(OPPOSITES[cond.op], cond.a, cond.b, known)
    return frozenset()


def _compared(op: str, a: loops.Expr, b: loops.Expr, known: Mapping[str, Interval]) -> frozenset[loops.Expr]:
    """A comparison holds in some lane only if it does between the smallest and the largest lanes."""
    if op in (">", ">="):
        return _compared(MIRRORED[op], b, a, known)
    first, second = _ends(a)[0], _ends(b)[1]
    if first is None or second is None:
        return frozenset()
    most, least = interval(first, known).high, interval(second, known).low
    return frozenset() if most < least or op == "<=" and most == least else frozenset((loops.binary(op, first, second),))


def _ends(e: loops.Expr) -> tuple[loops.Expr, loops.Expr] | tuple[None, None]:
    """The smallest and the largest lane of indices, as scalars; None where that cannot be told."""
    match e:
        case loops.Broadcast() if e.dtype == I64 and not has_load(e):
            return e.a, e.a
        case loops.Ramp() if e.dtype == I64 and not has_load(e.base):
            last = loops.binary("+", e.base, loops.Const((e.lanes - 1) * e.stride, I64))
            return (e.base, last) if e.stride >= 0 else (last, e.base)
        case loops.Const() if e.dtype == I64:
            return loops.Const(e.value, I64), loops.Const(e.value, I64)
    return None, None
