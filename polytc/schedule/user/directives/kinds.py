"""How a loop's iterations run: marks, and the loops that are cut and moved inwards for them."""

from __future__ import annotations

from dataclasses import replace

from polytc import errors
from polytc.program import program as pr
from polytc.program.scalars import I64
from polytc.schedule.user import loopnest
from polytc.schedule.user.directives import order, tiling
from polytc.schedule.user.loopnest import Body, NamedLoop

AXES = {"grid.x": "block0", "grid.y": "block1", "grid.z": "block2",
        "block.x": "thread0", "block.y": "thread1", "block.z": "thread2"}
"""The axis of a GPU -> the loop kind: grid is of work-groups, block of the work-items of a group; x is the fastest."""


def mark(body: Body, statement: str, name: str, kind: str) -> Body:
    """Say how a loop runs.

        for i: S[i]   ->   for i parallel: S[i]

    kind: a member of program.kinds.KINDS. Raises E707 for an unknown loop. Illegal if iterations that would run at once
    depend on each other.
    """
    return loopnest.edit(body, statement, loopnest.depth(body, statement, name), lambda x: (replace(x, kind=kind),))


def axis(name: str) -> str:
    """The kind of an axis: 'grid.x' or 'block0' is 'block0'. Raises E708 for another one."""
    if name not in AXES and name not in AXES.values():
        raise errors.fail("E708", f"there is no axis {name!r}", notes=[f"the axes are {', '.join(AXES)}"])
    return AXES.get(name, name)


def unroll(body: Body, statement: str, name: str, factor: int | None) -> Body:
    """Write out a loop, or pieces of `factor` iterations of it.

        for i: S[i]   ->   for i.0: { S[2*i.0]; S[2*i.0 + 1] }        with factor 2

    Raises E707 for an unknown loop, E708 for a bad factor. Always legal.
    """
    if factor is None:
        return mark(body, statement, name, "unroll")
    at = loopnest.depth(body, statement, name)

    def halves(x: NamedLoop) -> Body:
        outer, inner = _piece(body, x, factor)
        return loopnest.rebuilt((*outer, replace(inner, kind="unroll")), x.body)
    return tiling.unambiguous(loopnest.edit(body, statement, at, halves))


def innermost(body: Body, statement: str, name: str, factor: int, kind: str) -> Body:
    """Cut a loop into pieces and run each piece inside all other loops, next to the statements.

        for i: for k: S[i, k]   ->   for i.0: for k: for i.1 KIND: S[factor*i.0 + i.1, k]

    kind: 'unroll' is unroll-and-jam (Allen & Cocke, A Catalogue of Optimizing Transformations, 1971), 'vector' vectorisation.
    Raises E707 for an unknown loop, E708 for a bad factor. Illegal if a dependence would run backwards.
    """
    at = loopnest.depth(body, statement, name)

    def halves(x: NamedLoop) -> Body:
        outer, inner = _piece(body, x, factor)
        return loopnest.rebuilt(outer, order.sink(replace(inner, kind=kind), x.body))
    return tiling.unambiguous(loopnest.edit(body, statement, at, halves))


def _piece(body: Body, x: NamedLoop, factor: int) -> tuple[tuple[NamedLoop, ...], NamedLoop]:
    """(the loop over the pieces, the one inside of them); nothing and the loop itself if there is only one piece."""
    outer, inner = tiling.cut(body, x, factor)
    whole = all(r.value == pr.Const(0, I64) for r in outer.rows)
    return ((), x) if whole else ((outer,), inner)
