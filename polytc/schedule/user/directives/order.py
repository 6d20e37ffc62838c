"""The order of loops."""

from __future__ import annotations

from collections.abc import Sequence

from polytc import errors
from polytc.poly.nest import Leaf
from polytc.schedule.user import loopnest
from polytc.schedule.user.loopnest import Body, NamedLoop


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
