"""Lanes and parts of vector expressions, for what a target cannot do on whole vectors."""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import loops, traverse


def lane(e: loops.Expr, k: int) -> loops.Expr:
    """Lane `k` of `e`; a scalar expression stays itself."""
    if e.lanes == 1:
        return e
    match e:
        case loops.Ramp():
            return _offset(e.base, k * e.stride)
        case loops.Broadcast():
            return e.a
        case loops.Shuffle():
            return lane(e.a, e.order[k]) if e.order[k] < e.a.lanes else lane(e.b, e.order[k] - e.a.lanes)
        case _:
            return replace(traverse.with_operands(e, tuple(lane(o, k) for o in traverse.operands(e))), lanes=1)


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
    return any(isinstance(x, loops.Load) for x in traverse.walk_expr(e))


def lane_range(e: loops.Expr, start: int, count: int) -> loops.Expr:
    """Lanes start .. start + count - 1 of `e`; a scalar expression stays itself."""
    if e.lanes == 1:
        return e
    match e:
        case loops.Ramp():
            return loops.Ramp(_offset(e.base, start * e.stride), e.stride, count, e.dtype)
        case loops.Broadcast():
            return replace(e, lanes=count)
        case loops.Shuffle():
            return replace(e, order=e.order[start:start + count], lanes=count)
        case _:
            operands = tuple(lane_range(o, start, count) for o in traverse.operands(e))
    return replace(traverse.with_operands(e, operands), lanes=count)


def split_wide_vectors(s: loops.Stmt, limit: int) -> loops.Stmt:
    """`s` with no vector of more than `limit` lanes: stores in parts, reductions of combined parts."""

    def reduction(e: loops.Expr) -> loops.Expr:
        while isinstance(e, loops.Reduce) and e.a.lanes > limit:
            half = e.a.lanes // 2
            low, high = lane_range(e.a, 0, half), lane_range(e.a, half, half)
            both = loops.Call(e.op, (low, high), e.a.dtype, half) if e.op in ("min", "max") else \
                loops.Binary(e.op, low, high, e.a.dtype, half)
            e = loops.Reduce(e.op, both, e.dtype)
        return e

    def store(x: loops.Stmt) -> loops.Stmt:
        width = max(i.lanes for i in (*x.indices, x.value)) if isinstance(x, loops.Store) else 1
        if not isinstance(x, loops.Store) or width <= limit:
            return x
        return loops.block(*(
            loops.Store(x.buffer, tuple(lane_range(i, k, limit) for i in x.indices), lane_range(x.value, k, limit), x.origin)
            for k in range(0, width, limit)))

    return traverse.map_stmt(s, store, lambda e: traverse.map_expr(e, reduction))
