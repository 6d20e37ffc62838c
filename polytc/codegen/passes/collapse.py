"""Perfectly nested parallel loops become one, so that threads share all their iterations.

    parallel for a in 0:4 { parallel for b in 0:30 S(a, b) }   ->   parallel for b in 0:120 S(b // 30, b % 30)
"""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import loops
from polytc.codegen.passes import simplify

ENOUGH = 64
"""Iterations of the outer loop that make collapsing needless."""


def collapse_kernel(kernel: loops.Kernel) -> loops.Kernel:
    """Merge at the top of the kernel while the outer loop alone has few iterations. Bounds must be constant."""
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
    var = loops.Var(inner.var)
    values: dict[str, loops.Expr] = {
        s.var: loops.binary("+", loops.binary("//", var, loops.const(extent)), loops.const(int(bounds[0]))),
        inner.var: loops.binary("+", loops.binary("%", var, loops.const(extent)), loops.const(int(bounds[2])))}
    total = int(bounds[1] - bounds[0]) * extent
    body = simplify.substitute(inner.body, values)
    return _collapse(loops.For(inner.var, loops.const(0), loops.const(total), 1,
                               simplify.simplify(body, {inner.var: (0, total - 1)}), "parallel"))
