"""Index-set splitting: full tiles and the last, partial one get loops of their own.

    for t in 0:22 { vector for p in 0:min(24, 510 - 24*t) { Y[24*t + p] = X[24*t + p] } }     with X[510], Y[510]
    ->  for t in 0:21 { vector for p in 0:24 { Y[p + t * 24] = X[p + t * 24] } }
        for t in 21:22 { vector for p in 0:6 { Y[p + 504] = X[p + 504] } }

so that point loops have constant bounds and become straight vector code. The last tile stays a loop of one iteration, which
keeps it a region of its own for promotion; the last simplification dissolves it. Likewise at the edges of an image:

    for h in 0:56 { for r in 0:3 { O[h] = O[h] + W[r] * select(h + r - 1 >= 0 && h + r - 1 < 56, I[h + r - 1], 0) } }
        with O[56], W[3], I[56]
    ->  for h in 0:1 { for r in 0:3 { O[0] = O[0] + W[r] * select(r - 1 >= 0, I[r - 1], 0) } }
        for h in 1:55 { for r in 0:3 { O[h] = O[h] + W[r] * I[h + r - 1] } }
        for h in 55:56 { for r in 0:3 { O[55] = O[55] + W[r] * select(r + 54 < 56, I[r + 54], 0) } }

Guarantees: the same instances in the same order.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.passes import simplify
from polytc.program.scalars import I64

_POINT = ("unroll", "vector", "reduce")
EDGES = 0.5
"""Iterations that a guard cuts off, of a loop's, at most: code for edges should not be what mostly runs."""


def split_kernel(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with its tile loops split, outermost first."""
    return replace(kernel, body=_split(kernel.body, {}))


def _split(s: loops.Stmt, known: dict[str, simplify.Interval]) -> loops.Stmt:
    match s:
        case loops.For() if s.kind in ("sequential", "parallel"):
            return _loop(s, known)
        case loops.For() | loops.Alloc():
            return replace(s, body=_split(s.body, known))
        case loops.If():
            return replace(s, then=_split(s.then, known), orelse=_split(s.orelse, known) if s.orelse is not None else None)
        case loops.Block():
            return loops.block(*(_split(x, known) for x in s.stmts))
        case _:
            return s


def _loop(s: loops.For, known: dict[str, simplify.Interval]) -> loops.Stmt:
    low, last = simplify.values(s, known)
    inside = known | {s.var: (low, last)}
    if low is None or last is None or s.step != 1 or traverse.loads(s.lower) or traverse.loads(s.upper):
        return replace(s, body=_split(s.body, inside))
    high = last + 1
    edges = {c for c in _edges(s.body, s.var, inside) if low < c < high and min(c - low, high - c) <= EDGES / 2 * (high - low)}
    cuts = sorted({low, high, *edges, *(c for c in _cuts(s.body, s.var, inside) if low < c < high)})
    parts: list[loops.Stmt] = []
    for a, b in pairwise(cuts):
        here = known | {s.var: (a, b - 1)}
        body = _split(simplify.simplify(s.body, here), here)
        lower = simplify.expr(loops.Call("max", (s.lower, loops.const(a)), I64), known)
        upper = simplify.expr(loops.Call("min", (s.upper, loops.const(b)), I64), known)
        parts.append(replace(s, lower=lower, upper=upper, body=body))
    return loops.block(*parts)


def _cuts(s: loops.Stmt, var: str, known: dict[str, simplify.Interval]) -> set[int]:
    """Values of `var` from which on a bound of a point loop in `s`, or of a loop around one, is no longer its constant.
    known: intervals of the variables."""
    if not isinstance(s, loops.For):
        return {cut for x in traverse.children(s) for cut in _cuts(x, var, known)}
    high = simplify.interval(s.upper, known)[1]
    values = simplify.interval(s.lower, known)[0], None if high is None else high - 1
    found = _cuts(s.body, var, known | {s.var: values})
    if any(isinstance(x, loops.For) and x.kind in _POINT for x in traverse.walk_stmt(s)):
        for bound in (s.lower, s.upper):
            for e in traverse.walk_expr(bound):
                if isinstance(e, loops.Call) and e.fn in ("min", "max"):
                    found |= _crossing(e, var, known)
    return found


def _crossing(e: loops.Call, var: str, known: dict[str, simplify.Interval]) -> set[int]:
    """Where the arguments of min or max, one constant and one linear in `var`, change places for some of the other variables'
    values. Those must weigh less than a step of `var`, as tiles do in a block of tiles."""
    a, b = e.args
    if isinstance(b, loops.Const):
        a, b = b, a
    if not isinstance(a, loops.Const):
        return set()
    terms = linear_forms.linear(b)
    slope = terms.get(loops.Var(var), 0)
    low, high = simplify.interval(linear_forms.build({t: c for t, c in terms.items() if t != loops.Var(var)}), known)
    if not slope or low is None or high is None or high - low >= abs(slope):
        return set()
    cuts: set[int] = set()
    for rest in (low, high):
        threshold = int(a.value) - rest                              # slope * var = threshold is where both are equal
        cuts |= {-(-threshold // slope), threshold // slope + 1}
    return cuts


def _edges(s: loops.Stmt, var: str, known: dict[str, simplify.Interval]) -> set[int]:
    """Values of `var` where guards of what updates read begin or cease to hold for all values of the variables inside."""
    match s:
        case loops.For():
            return _edges(s.body, var, known | {s.var: simplify.values(s, known)})
        case loops.Store() if any(load.buffer == s.buffer for load, _ in traverse.loads(s.value)):
            guards = [e.cond for e in traverse.walk_expr(s.value) if isinstance(e, loops.Select)]
            return {cut for g in guards for e in traverse.walk_expr(g) for cut in _holds(e, var, known)}
        case _:
            return {cut for x in traverse.children(s) for cut in _edges(x, var, known)}


def _holds(e: loops.Expr, var: str, known: dict[str, simplify.Interval]) -> set[int]:
    """Where a comparison that is linear in `var` begins or ceases to hold for all values of the other variables."""
    if not isinstance(e, loops.Binary) or e.op not in ("<", ">=") or e.a.dtype is not I64 or e.lanes != 1:
        return set()
    greater, less = (e.a, e.b) if e.op == ">=" else (e.b, loops.binary("+", e.a, loops.const(1)))
    terms = linear_forms.linear(loops.binary("-", greater, less))                # holds where they are 0 at least
    slope = terms.get(loops.Var(var), 0)
    low, _ = simplify.interval(linear_forms.build({t: c for t, c in terms.items() if t != loops.Var(var)}), known)
    if not slope or low is None:
        return set()
    return {-(low // slope)} if slope > 0 else {low // -slope + 1}
