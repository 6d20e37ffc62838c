"""Perfectly nested parallel loops become one, so that threads share all their iterations.

    parallel for a in 0:4 { parallel for b in 0:30 S(a, b) }
    ->  parallel for ab in 0:120 { a = ab // 30; b = ab % 30; S(a, b) }
"""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import loops

ENOUGH = 64
"""Iterations of the outer loop that make collapsing needless."""


def collapse_kernel(kernel: loops.Kernel) -> loops.Kernel:
    """Merge two loops at the top of the kernel if the outer one alone has few iterations. Bounds must be constant."""
    return replace(kernel, body=_top(kernel.body))


def _top(s: loops.Stmt) -> loops.Stmt:
    match s:
        case loops.Block():
            return loops.block(*map(_top, s.stmts))
        case loops.Alloc():
            return replace(s, body=_top(s.body))
        case loops.For(kind="parallel"):
            return _collapse(s)
        case _:
            return s


def _collapse(s: loops.For) -> loops.For:
    inner = s.body
    if not (isinstance(inner, loops.For) and inner.kind == "parallel" and s.step == inner.step == 1):
        return s
    bounds = [b.value for b in (s.lower, s.upper, inner.lower, inner.upper) if isinstance(b, loops.Const)]
    if len(bounds) < 4 or bounds[1] - bounds[0] >= ENOUGH:
        return s
    extent = int(bounds[3] - bounds[2])
    both = loops.Var(f"{s.var}_{inner.var}")
    first = loops.binary("//", both, loops.const(extent))
    second = loops.binary("%", both, loops.const(extent))
    body = _let(s.var, first, int(bounds[0]), _let(inner.var, second, int(bounds[2]), inner.body))
    return loops.For(both.name, loops.const(0), loops.const(int(bounds[1] - bounds[0]) * extent), 1, body, "parallel")


def _let(var: str, value: loops.Expr, offset: int, body: loops.Stmt) -> loops.For:
    """A loop of one iteration gives the variable its value without rewriting the body."""
    value = loops.binary("+", value, loops.const(offset)) if offset else value
    return loops.For(var, value, loops.binary("+", value, loops.const(1)), 1, body)
