"""In a recurrence, what waits for the iteration before comes last.

    for j in 1:50 { A[j] = (A[j - 1] + X[j] + Y[j]) / 8 }           with A[50], X[50], Y[50], fast
    ->  for j in 1:50 { A[j] = muladd(A[j - 1], 0.125, (X[j] + Y[j]) * 0.125) }

so that the chain from iteration to iteration is one operation long and the others overlap. Reassociates: only in `fast`
kernels. Guarantees: the same sums of the same terms.
"""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import loops, traverse
from polytc.codegen.passes import reciprocal, simplify, unrolling


def shorten_recurrences(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with the sums in its innermost loops so ordered."""
    if not kernel.fast:
        return kernel

    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        if not isinstance(s, loops.For) or s.kind == "unroll" or not unrolling.is_innermost(s):
            return s
        return replace(s, body=traverse.map_stmt(s.body, lambda x: _shortened(x, s), lambda e: e))

    return replace(kernel, body=traverse.map_stmt(kernel.body, on_stmt, lambda e: e))


def _shortened(s: loops.Stmt, loop: loops.For) -> loops.Stmt:
    if not isinstance(s, loops.Store) or not s.value.dtype.is_float or s.value.lanes > 1:
        return s
    total, factor = _scaled(s.value)
    terms = _terms(total)
    before = _before(s, loop)
    place = next((n for n, t in enumerate(terms) if isinstance(t, loops.Load) and t.buffer == s.buffer and
                  tuple(simplify.expr(i, {}) for i in t.indices) == before), None)
    if place is None or len(terms) < 3:
        return s
    carried, rest = terms[place], terms[:place] + terms[place + 1:]
    value = rest[0]
    for t in rest[1:]:
        value = loops.binary("+", value, t, value.dtype)
    if factor is None:
        return replace(s, value=loops.binary("+", value, carried, value.dtype))
    scaled = loops.binary("*", value, factor, value.dtype)
    return replace(s, value=loops.Call("muladd", (carried, factor, scaled), value.dtype))


def _scaled(e: loops.Expr) -> tuple[loops.Expr, loops.Const | None]:
    """(sum, number that it is multiplied by)."""
    match e:
        case loops.Binary(op="/", b=loops.Const() as c) if reciprocal.is_normal(float(c.value), c.dtype):
            return e.a, loops.Const(1.0 / float(c.value), c.dtype)
        case loops.Binary(op="*", b=loops.Const() as c, a=total) | loops.Binary(op="*", a=loops.Const() as c, b=total):
            return total, c
        case _:
            return e, None


def _terms(e: loops.Expr) -> list[loops.Expr]:
    if isinstance(e, loops.Binary) and e.op == "+":
        return [*_terms(e.a), *_terms(e.b)]
    return [e]


def _before(s: loops.Store, loop: loops.For) -> tuple[loops.Expr, ...]:
    """Where the iteration before stored."""
    earlier: dict[str, loops.Expr] = {loop.var: loops.binary("-", loops.Var(loop.var), loops.const(loop.step))}

    def moved(e: loops.Expr) -> loops.Expr:
        return traverse.map_expr(e, lambda x: earlier.get(x.name, x) if isinstance(x, loops.Var) else x)
    return tuple(simplify.expr(moved(i), {}) for i in s.indices)
