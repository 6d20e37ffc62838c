"""Loop fusion inside a region: a loop runs together with an earlier one of the same iterations that makes what it reads.

    for c in 0:9 { E[c] = exp(X[c] - m[]) };  s[] = 0;  for c in 0:9 { s[] = s[] + E[c] }       with E[9], X[9], m[], s[]
    ->  s[] = 0;  for c in 0:9 { E[c] = exp(X[c] - m[]);  s[] = s[] + E[c] }

so that values pass in registers, and rows are walked once. What stands between the loops stays behind them, or goes before them
if the second loop needs it. Legal where each element that both loops touch, one of them storing, is touched by one iteration
alone (Kennedy & McKinley, Maximizing Loop Parallelism and Improving Data Locality via Loop Fusion and Distribution, 1993).
Guarantees: every load finds the value it found before.
"""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.passes import simplify, unrolling
from polytc.codegen.passes.analyses import alias_analysis

STATEMENTS = 16
"""Stores of a fused loop at most: what passes between them should fit the registers."""


def fuse_kernel(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with its innermost loops fused."""
    return replace(kernel, body=_inside(kernel.body, {}))


def _inside(s: loops.Stmt, known: dict[str, simplify.Interval]) -> loops.Stmt:
    match s:
        case loops.For():
            return replace(s, body=_inside(s.body, known | {s.var: simplify.values(s, known)}))
        case loops.Block():
            return loops.block(*_fused([_inside(x, known) for x in s.stmts], known))
        case loops.Alloc():
            return replace(s, body=_inside(s.body, known))
        case loops.If():
            return replace(s, then=_inside(s.then, known), orelse=_inside(s.orelse, known) if s.orelse is not None else None)
        case _:
            return s


def _fused(stmts: list[loops.Stmt], known: dict[str, simplify.Interval]) -> list[loops.Stmt]:
    """Statements in sequence with each loop fused into the nearest earlier one that takes it."""
    done: list[loops.Stmt] = []
    for s in stmts:
        merged = next((m for at in reversed(range(len(done))) if (m := _merged(done, at, s, known)) is not None), None)
        done = merged if merged is not None else [*done, s]
    return done


def _merged(done: list[loops.Stmt], at: int, second: loops.Stmt, known: dict[str, simplify.Interval]) \
        -> list[loops.Stmt] | None:
    """The statements with `second` fused into the loop at `at`, or None."""
    first = done[at]
    if not (isinstance(first, loops.For) and isinstance(second, loops.For)) or not _alike(first, second):
        return None
    first, second = (replace(s, body=unrolling.written_out(s.body)) for s in (first, second))
    inside = known | {first.var: simplify.values(first, known)}
    mine, other = alias_analysis.accesses_of(first.body, inside), alias_analysis.accesses_of(second.body, inside)
    if not {u.buffer for u in mine if u.store} & {u.buffer for u in other if not u.store}:
        return None
    if not all(_same_iteration(a, b, first.var) for a in mine for b in other if a.buffer == b.buffer and (a.store or b.store)):
        return None
    before: list[loops.Stmt] = []
    after: list[loops.Stmt] = []
    for x in done[at + 1:]:
        touched = alias_analysis.accesses_of(x, known)
        if not alias_analysis.may_conflict(touched, other):
            after.append(x)
        elif any(alias_analysis.may_conflict(touched, y)
                 for y in (mine, *(alias_analysis.accesses_of(z, known) for z in after))):
            return None
        else:
            before.append(x)
    both = replace(first, body=loops.block(first.body, second.body))
    return [*done[:at], *before, both, *after]


def _alike(a: loops.For, b: loops.For) -> bool:
    """Innermost sequential loops over the same values of one variable, small enough to be one."""
    inside = [x for s in (a, b) for x in traverse.walk_stmt(s.body)]
    return (a.var, a.lower, a.upper, a.step, a.kind) == (b.var, b.lower, b.upper, b.step, "sequential") and \
        all(isinstance(x, loops.Store | loops.Block) or unrolling.is_copies(x) for x in inside) and \
        unrolling.stores(a.body) + unrolling.stores(b.body) <= STATEMENTS


def _same_iteration(x: alias_analysis.Access, y: alias_analysis.Access, var: str) -> bool:
    """Do two accesses meet in no element, or in elements that one iteration alone touches through both?"""
    return alias_analysis.are_disjoint(x, y) or any(_steps(i, j, var) for i, j in zip(x.indices, y.indices, strict=True))


def _steps(i: loops.Expr, j: loops.Expr, var: str) -> bool:
    """Do two indices move with the loop by the same step, which is beyond the coordinates that they span together?"""
    (a, wide), (b, broad) = _base(i), _base(j)
    if a is None or b is None:
        return False
    terms, others = linear_forms.linear(a), linear_forms.linear(b)
    step = terms.get(loops.Var(var), 0)
    apart = linear_forms.linear(loops.binary("-", b, a))
    if not step or others.get(loops.Var(var), 0) != step or any(not isinstance(t, loops.Const) for t in apart):
        return False
    distance = sum(apart.values())                                    # the second starts so much after the first
    return max(distance + broad, wide) - min(distance, 0) <= abs(step)


def _base(index: loops.Expr) -> tuple[loops.Expr | None, int]:
    """(first coordinate, coordinates spanned) of an index."""
    if isinstance(index, loops.Ramp):
        return (index.base, (index.reach - 1) * index.stride + 1) if index.stride > 0 else (None, 0)
    return (index, 1) if index.lanes == 1 else (None, 0)
