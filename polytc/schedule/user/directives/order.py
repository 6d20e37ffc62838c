"""The order of loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polytc import errors
from polytc.poly.nest import Leaf
from polytc.program import program as pr
from polytc.program.scalars import I64
from polytc.schedule.user import loopnest
from polytc.schedule.user.directives import tiling
from polytc.schedule.user.loopnest import Body, NamedLoop, Row


def reorder(body: Body, statement: str, names: Sequence[str]) -> Body:
    """Permute loops of a perfect nest.

        for i: for j: for k: S[i, j, k]   ->   for k: for i: for j: S[i, j, k]        with names k, i, j

    names: loops around the statement in their new order; they take each other's places, other loops keep theirs.
    Raises E707 for an unknown loop, E708 for one named twice and for loops with something between them. Illegal if a
    dependence would run backwards (Allen & Kennedy, Automatic NamedLoop Interchange, SIGPLAN 1984).
    """
    places = [loopnest.depth(body, statement, n) for n in names]
    if len(set(places)) < max(2, len(places)):
        raise errors.fail("E708", f"{', '.join(names)} is no order of two or more loops", notes=["name each loop once"])
    first, last = min(places), max(places)
    found = list(loopnest.chain(body, statement, first, last))
    inside = found[-1].body
    for place, source in zip(sorted(places), places, strict=True):
        found[place - first] = loopnest.loops(body, statement)[source]
    return loopnest.edit(body, statement, first, lambda _: loopnest.rebuilt(tuple(found), inside))


def collapse(body: Body, statement: str, outer: str, inner: str, low: int, high: int) -> Body:
    """Make one loop of two that stand directly in each other.

        for i: for j: S[i, j]   ->   for i_j: S[i_j // (high - low), i_j % (high - low)]

    low, high: the inner loop's range, in which all its iterations lie. Raises E707 for an unknown loop, E708 where the second
    does not stand in the first, with nothing beside it. Always legal. It is as parallel as both are (loop coalescing;
    Polychronopoulos, Loop Coalescing: A Compiler Transformation for Parallel Machines, ICPP 1987).
    """
    first, second = loopnest.depth(body, statement, outer), loopnest.depth(body, statement, inner)
    if second != first + 1:
        raise errors.fail("E708", f"{inner} does not stand directly in {outer}", notes=["reorder the loops first"])
    x, y = loopnest.chain(body, statement, first, second)
    width = pr.Const(max(1, high - low), I64)

    def both(a: Row, b: Row) -> Row:
        whole = pr.Binary("*", a.value, width, I64)
        part = pr.Binary("-", b.value, pr.Const(low, I64), I64)
        return loopnest.row(a, pr.Binary("+", whole, part, I64), f"{a.name}_{b.name}")
    rows = tuple(both(a, b) for a, b in zip(x.rows, y.rows, strict=True))
    made = NamedLoop(rows, y.body, x.kind if x.kind == y.kind else "sequential")
    return tiling.unambiguous(loopnest.edit(body, statement, first, lambda _: (made,)))


def reverse(body: Body, statement: str, name: str, ends: int) -> Body:
    """Run a loop's iterations from the last to the first.

        for i in 0:n: S[i]   ->   for i in 0:n: S[n - 1 - i]

    ends: the sum of the first and the last iteration, so that the range stays. Raises E707 for an unknown loop. Illegal if the
    loop carries a dependence (loop reversal; Wolf & Lam, A Loop Transformation Theory and an Algorithm to Maximize Parallelism,
    TPDS 1991).
    """
    def back(x: NamedLoop) -> Body:
        rows = (loopnest.row(r, pr.Binary("-", pr.Const(ends, I64), r.value, I64)) for r in x.rows)
        return (replace(x, rows=tuple(rows)),)
    return loopnest.edit(body, statement, loopnest.depth(body, statement, name), back)


def sink(chosen: NamedLoop, body: Body) -> Body:
    """The body with a loop around each of its statements, inside all loops but vector loops.

        for i: { S1[i]; for j: S2[i, j] }   ->   for i: S1[i]; for j: for i: S2[i, j]
    """
    made: list[NamedLoop | Leaf] = []
    for n in body:
        if isinstance(n, Leaf) or n.kind in ("vector", "reduce"):
            made.append(loopnest.loop(chosen.rows, (n,), chosen.kind))
        else:
            made.append(NamedLoop(n.rows, sink(chosen, n.body), n.kind))
    return tuple(made)
