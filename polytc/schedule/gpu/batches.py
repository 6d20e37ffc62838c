"""Loops over a batch, out of the `for` loops that each of its members runs: a work-group a member.

    for k in 0:40 {                                                             with inout A[500,40,40] on gpu
        A[b,k,k] = sqrt(A[b,k,k]);  A[b,i,k] = A[b,i,k] / A[b,k,k] where i > k
    }
    ->  block0 b, for k { thread0 0 { A[b,k,k] = sqrt(A[b,k,k]) }
                          parallel i // 64, thread0 i % 64 { A[b,i,k] = A[b,i,k] / A[b,k,k] where i > k } }

What statements do in one member of a batch waits for what they did in the same one alone. A group runs all steps of a member,
its items meeting at barriers, where each step would be a launch over all members.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polytc.poly.nest import Leaf, Sequence
from polytc.program.affine import Linear
from polytc.schedule.facts import bands
from polytc.schedule.facts.bands import LinearLoop, PermutableBand, Tree
from polytc.schedule.facts.conflicts import Rows
from polytc.schedule.tiling.point_loops import Scene

Picked = dict[str, Linear]
"""A loop's row of each statement."""


def outermost(scene: Scene, tree: Tree, fixed: dict[str, Rows]) -> PermutableBand | None:
    """The tree with the loops outside that all its statements have, and none of whose iterations waits for another one; None if
    there are none. fixed: rows of the loops around."""
    free = {s: list(found) for s, found in _free(tree)}
    picked: list[Picked] = []
    for first in free[next(iter(free))]:
        rows = {s: row for s, mine in free.items() if (row := _like(scene, first, mine, s)) is not None}
        if len(rows) == len(free) and scene.conflicts.together(rows, fixed):
            picked.append(rows)
            free = {s: [x for x in mine if x[1] != rows[s]] for s, mine in free.items()}
    if not picked:
        return None
    loops = tuple(LinearLoop(tuple(sorted(rows.items())), True) for rows in picked)
    return PermutableBand(loops, _without(tree, picked))


Free = tuple[str, Linear]
"""A statement, and its row of a loop that carries nothing."""


def _free(tree: Tree) -> Iterator[tuple[str, list[Free]]]:
    """The loops that carry nothing of each statement, outermost first."""
    match tree:
        case Leaf():
            yield tree.statement, []
        case bands.Cut():
            yield from ((s, []) for s in tree.statements)
        case Sequence():
            for x in tree.children:
                yield from _free(x)
        case PermutableBand():
            for s, inside in _free(tree.child):
                yield s, [*((s, loop.row(s)) for loop in tree.loops if loop.coincident), *inside]


def _like(scene: Scene, first: Free, mine: list[Free], statement: str) -> Linear | None:
    """The loop of a statement over as many iterations as another one's: over the index of that name, or the first."""
    wanted = _ends(scene, first)
    found = [row for s, row in mine if wanted is not None and _ends(scene, (s, row)) == wanted]
    same = [row for row in found if index_of(scene, statement, row) == index_of(scene, *first)]
    return next(iter((*same, *found)), None)


def _ends(scene: Scene, x: Free) -> tuple[int, int] | None:
    """The first and the last iteration of a loop over one index."""
    s, row = x
    if len(row.terms) != 1 or row.constant or row.terms[0][1] != 1:
        return None
    return scene.statements[s].ranges[scene.conflicts.indices[s].index(row.terms[0][0])].ends


def index_of(scene: Scene, statement: str, row: Linear) -> str:
    """The index of a statement that a row consists of."""
    return scene.statements[statement].ranges[scene.conflicts.indices[statement].index(row.terms[0][0])].index


def _without(tree: Tree, picked: list[Picked]) -> Tree:
    """The tree without loops."""
    match tree:
        case Leaf() | bands.Cut():
            return tree
        case Sequence():
            return Sequence(tuple(_without(x, picked) for x in tree.children))
        case PermutableBand():
            child = _without(tree.child, picked)
            left = tuple(loop for loop in tree.loops if not any(all(rows[s] == r for s, r in loop.rows) for rows in picked))
            return replace(tree, loops=left, child=child) if left else child
