"""What statements of the Loop AST touch: boxes of coordinates, and whether two statements may meet in an element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from polytc.codegen import loops, traverse
from polytc.codegen.passes import simplify


@dataclass(frozen=True)
class Access:
    """One access of a statement: the smallest and largest coordinate in each dimension, None where unknown."""

    buffer: loops.Buffer
    indices: tuple[loops.Expr, ...]
    store: bool
    box: tuple[simplify.Interval, ...]


def accesses_of(s: loops.Stmt, known: dict[str, simplify.Interval]) -> list[Access]:
    """All accesses of a statement."""
    found = [_access(e.buffer, e.indices, False, known) for top in traverse.expressions(s) for e in traverse.walk_expr(top)
             if isinstance(e, loops.Load)]
    if isinstance(s, loops.Store):
        found.append(_access(s.buffer, s.indices, True, known))
    inner = known | {s.var: simplify.values(s, known)} if isinstance(s, loops.For) else known
    return found + [u for x in traverse.children(s) for u in accesses_of(x, inner)]


def _access(b: loops.Buffer, indices: tuple[loops.Expr, ...], store: bool, known: dict[str, simplify.Interval]) -> Access:
    return Access(b, indices, store, tuple(_span(i, known) for i in indices))


def _span(index: loops.Expr, known: dict[str, simplify.Interval]) -> simplify.Interval:
    if isinstance(index, loops.Ramp):
        low, high = simplify.interval(index.base, known)
        reach = (index.reach - 1) * index.stride
        return None if low is None else low + min(0, reach), None if high is None else high + max(0, reach)
    return simplify.interval(index, known) if index.lanes == 1 else (None, None)


def may_conflict(a: list[Access], b: list[Access]) -> bool:
    """May two statements touch one element, one of them storing?"""
    return any(x.buffer == y.buffer and (x.store or y.store) and not are_disjoint(x, y) for x in a for y in b)


def are_disjoint(x: Access, y: Access) -> bool:
    """Do two accesses lie in different coordinates of some dimension?"""
    return any(_below(p, q) or _below(q, p) for p, q in zip(x.box, y.box, strict=True))


def _below(p: simplify.Interval, q: simplify.Interval) -> bool:
    return p[1] is not None and q[0] is not None and p[1] < q[0]


def independent_runs(stmts: Sequence[loops.Stmt]) -> Iterator[tuple[loops.Stmt, ...]]:
    """The statements in runs of parallel loops that never meet, so that these may run at the same time; others alone."""
    if sum(map(traverse.is_parallel, stmts)) < 2:
        yield from ((s,) for s in stmts)
        return
    run: list[loops.Stmt] = []
    touched: list[Access] = []
    for s in stmts:
        new = _outside(s) if traverse.is_parallel(s) else None
        if run and (new is None or may_conflict(touched, new)):
            yield tuple(run)
            run, touched = [], []
        if new is None:
            yield (s,)
        else:
            run, touched = [*run, s], touched + new
    if run:
        yield tuple(run)


def _outside(s: loops.Stmt) -> list[Access]:
    """All accesses but those to arrays of its own."""
    own = {x.buffer for x in traverse.walk_stmt(s) if isinstance(x, loops.Alloc)}
    return [a for a in accesses_of(s, {}) if a.buffer not in own]
