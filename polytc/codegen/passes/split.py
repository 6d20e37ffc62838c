"""Index-set splitting: full tiles and the last, partial one get loops of their own.

    for t in 0:22 { vector for p in 0:min(24, 510 - 24*t) ... }
    ->  for t in 0:21 { vector for p in 0:24 ... };  for t in 21:22 { vector for p in 0:6 ... }

so that point loops have constant bounds and become straight vector code. The last tile stays a loop of one iteration, which
keeps it a region of its own for promotion; the last simplification dissolves it. Guarantees: the same instances in the
same order.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from polytc.codegen import loops, traverse
from polytc.codegen.passes import simplify
from polytc.lang.scalars import I64

_POINT = ("unroll", "vector", "reduce")


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
    cuts = sorted({low, high, *(c for c in _cuts(s.body, s.var, inside) if low < c < high)})
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
    terms = simplify.linear(b)
    slope = terms.get(loops.Var(var), 0)
    low, high = simplify.interval(simplify.build({t: c for t, c in terms.items() if t != loops.Var(var)}), known)
    if not slope or low is None or high is None or high - low >= abs(slope):
        return set()
    cuts: set[int] = set()
    for rest in (low, high):
        threshold = int(a.value) - rest                              # slope * var = threshold is where both are equal
        cuts |= {-(-threshold // slope), threshold // slope + 1}
    return cuts
