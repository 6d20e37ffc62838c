"""One lane of a vector expression as a scalar expression, for what a target cannot do on whole vectors."""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import loops


def lane(e: loops.Expr, k: int) -> loops.Expr:
    """Lane `k` of `e`; a scalar expression stays itself."""
    if e.lanes == 1:
        return e
    match e:
        case loops.Ramp():
            return _offset(e.base, k * e.stride)
        case loops.Broadcast():
            return e.a
        case _:
            return replace(loops.with_operands(e, tuple(lane(o, k) for o in loops.operands(e))), lanes=1)


def _offset(e: loops.Expr, by: int) -> loops.Expr:
    """`e + by`, folded into a constant summand."""
    match e:
        case _ if by == 0:
            return e
        case loops.Const():
            return loops.Const(int(e.value) + by, e.dtype)
        case loops.Binary(op="+", b=loops.Const() as c):
            total = int(c.value) + by
            return e.a if total == 0 else replace(e, b=loops.Const(total, c.dtype))
        case _:
            return loops.binary("+", e, loops.Const(by, e.dtype))


def has_load(e: loops.Expr) -> bool:
    """Whether evaluating `e` reads memory."""
    return any(isinstance(x, loops.Load) for x in loops.walk_expr(e))
