"""Expressions of 64 bits in 32, where their values fit: of `i64(A[i] > 0) + 1` that is `i32(A[i] > 0) + i32(1)`, 1 or 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.scalars import I32, DType, identity

LARGEST = (1 << 31) - 1


@dataclass(frozen=True)
class Term:
    """An expression in 32 bits, and its ends."""

    value: pr.Expr
    low: int
    high: int


def narrowed(e: pr.Expr) -> Term | None:
    """An expression of 64 bits in 32; None where it may not fit, or its operands are wide themselves."""
    found = _of_parts(e)
    return found if found is not None and max(-found.low, found.high) <= LARGEST else None


def _of_parts(e: pr.Expr) -> Term | None:
    match e:
        case pr.Const(value=int(n)):
            return Term(pr.Const(n, I32), n, n)
        case pr.Cast(a=a) if _small(a.dtype) and not any(map(_wide, _computed(a))):
            low, high = (int(identity(op, a.dtype)) for op in ("max", "min"))
            return Term(pr.Cast(a, I32) if a.dtype != I32 else a, low, high)
        case pr.Select(cond=cond, a=a, b=b) if not any(map(_wide, _computed(cond))):
            x, y = narrowed(a), narrowed(b)
            if x is None or y is None:
                return None
            return Term(replace(e, a=x.value, b=y.value, dtype=I32), min(x.low, y.low), max(x.high, y.high))
        case pr.Binary(op="+" | "-" | "*" as op, a=a, b=b):
            x, y = narrowed(a), narrowed(b)
            return None if x is None or y is None else _combined(op, x, y)
        case _:
            return None


def _combined(op: str, x: Term, y: Term) -> Term:
    value = pr.Binary(op, x.value, y.value, I32)
    match op:
        case "+":
            return Term(value, x.low + y.low, x.high + y.high)
        case "-":
            return Term(value, x.low - y.high, x.high - y.low)
        case _:
            corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
            return Term(value, min(corners), max(corners))


def _small(dtype: DType) -> bool:
    """Numbers that I32 holds."""
    return dtype.kind == "b" or dtype.kind in "iu" and dtype.bits < 32 or dtype == I32


def _computed(e: pr.Expr) -> Iterator[pr.Expr]:
    """An expression and its operands; places in memory are none."""
    yield e
    if not isinstance(e, pr.Read):
        for x in pr.children(e):
            yield from _computed(x)


def _wide(e: pr.Expr) -> bool:
    return e.dtype.bits > 32 and not isinstance(e, pr.Const)
