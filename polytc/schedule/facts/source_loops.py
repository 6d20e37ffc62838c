"""The loops of a text with `for` as bands: what carries nothing as far out as it may be.

    for j in 0:64 { Q[i,j] = (Q[i,j-1] else 0) + X[i,j];  P[i,j] = 2*Q[i,j] }                   with X[5000,64] on gpu
    ->  block0 i // 256, thread0 i % 256 { for j { Q[i,j] = (Q[i,j-1] else 0.0) + X[i,j];  P[i,j] = 2.0*Q[i,j] } }

A statement's own indices carry nothing within an iteration of the loops around it, but those that it reduces. Neighbours whose
instances meet only within an iteration share these loops, and such loops go outside of a `for` loop that they do not depend on.
GPUs launch these bands; CPUs run them where isl's scheduler finds nothing in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from polytc.poly import isl
from polytc.poly.nest import Leaf, Sequence
from polytc.program import program as pr
from polytc.program.affine import Affine, Linear
from polytc.schedule.facts.bands import Cut, LinearLoop, PermutableBand, Tree
from polytc.schedule.facts.conflicts import Conflicts, Rows
from polytc.schedule.facts.work_groups import host_depth, is_cut, kernels


def tree(conflicts: Conflicts, body: tuple[pr.Nested, ...], depth: int = 0) -> Tree:
    """The bands of statements and loops of the text. depth: of the loops around."""
    parts: list[Tree] = []
    for x in _kernels(body, depth):
        made = _part(conflicts, x, depth)
        shared = _joined(conflicts, parts[-1], made, body, depth) if parts else None
        parts = [*parts[:-1], shared] if shared is not None else [*parts, made]
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))


def _kernels(body: tuple[pr.Nested, ...], depth: int) -> Iterator[pr.Nested | tuple[pr.Statement, ...]]:
    """What is in a loop, the statements together that are cut for one launch, those in loops inside of it, too."""
    for cut, run in groupby(body, lambda x: _is_cut(x, depth)):
        if cut:
            yield from kernels(s for x in run for s in (x.statements if isinstance(x, pr.Loop) else (x,)))
        else:
            yield from run


def _is_cut(x: pr.Nested, depth: int) -> bool:
    """Is all of it of launches inside of the loops around? depth: of these."""
    return all(is_cut(s) and host_depth(s) <= depth for s in (x.statements if isinstance(x, pr.Loop) else (x,)))


def _part(conflicts: Conflicts, x: pr.Nested | tuple[pr.Statement, ...], depth: int) -> Tree:
    match x:
        case pr.Loop():
            return _loop(conflicts, x, depth)
        case pr.Statement():
            return _statement(conflicts, x, depth)
        case _:
            return Cut(tuple(isl.name(s.name) for s in x))


def is_poor(conflicts: Conflicts, found: Tree, around: int = 0) -> bool:
    """Are there statements of several loops none of which carries nothing, or launches in several loops of the host? around:
    loops outside."""
    match found:
        case Leaf():
            return len(conflicts.indices[found.statement]) > 1
        case Cut():
            return False
        case Sequence():
            return any(is_poor(conflicts, x, around) for x in found.children)
        case PermutableBand() if any(loop.coincident for loop in found.loops):
            return around > 1
        case PermutableBand():
            return is_poor(conflicts, found.child, around + len(found.loops))


def _row(s: pr.Statement, position: int) -> Linear:
    return Affine(0, ((isl.name(s.indices[position]), 1),))


def _around(statements: tuple[pr.Statement, ...], depth: int) -> dict[str, Rows]:
    """The rows of the loops around."""
    return {isl.name(s.name): tuple(_row(s, n) for n in range(depth)) for s in statements}


def _statement(conflicts: Conflicts, s: pr.Statement, depth: int) -> Tree:
    name, around = isl.name(s.name), tuple(_row(s, n) for n in range(depth))
    own = [LinearLoop(((name, row),), not conflicts.carries(name, around, row))
           for row in (_row(s, n) for n in range(depth, len(s.indices)))]
    free = tuple(loop for loop in own if loop.coincident)
    ordered = tuple(loop for loop in own if not loop.coincident)
    if len(ordered) < 2 or conflicts.permutable(name, around, tuple(loop.row(name) for loop in ordered)):
        return PermutableBand((*free, *ordered), Leaf(name)) if own else Leaf(name)
    child: Tree = Leaf(name)
    for loop in reversed(ordered):
        child = PermutableBand((loop,), child)
    return PermutableBand(free, child) if free else child


def _loop(conflicts: Conflicts, loop: pr.Loop, depth: int) -> Tree:
    """The loop around what is in it; loops that carry nothing, with this one or without it, go outside."""
    rows = tuple(sorted((isl.name(s.name), _row(s, depth)) for s in loop.statements))
    child = tree(conflicts, loop.body, depth + 1)
    around = _around(loop.statements, depth)
    free = _leading(child) if isinstance(child, PermutableBand) else ()
    outer = tuple(x for x in free if conflicts.together(dict(x.rows), around))
    if not outer:
        return PermutableBand((LinearLoop(rows, False),), child)
    assert isinstance(child, PermutableBand)
    rest = tuple(x for x in child.loops if x not in outer)
    inside = PermutableBand(rest, child.child) if rest else child.child
    return PermutableBand(outer, PermutableBand((LinearLoop(rows, False),), inside))


def _leading(band: PermutableBand) -> tuple[LinearLoop, ...]:
    """Its loops that carry nothing."""
    return tuple(loop for loop in band.loops if loop.coincident)


def _joined(conflicts: Conflicts, a: Tree, b: Tree, body: tuple[pr.Nested, ...], depth: int) -> Tree | None:
    """Two neighbours in shared loops, where both have as many loops that carry nothing, and these still do for both."""
    if not (isinstance(a, PermutableBand) and isinstance(b, PermutableBand)):
        return None
    if len(_leading(a)) != len(_leading(b)) or not _leading(a):
        return None
    statements = tuple(s for x in body for s in (x.statements if isinstance(x, pr.Loop) else (x,)))
    around = _around(statements, depth)
    known = {isl.name(s.name): s for s in statements}
    shared = []
    for x, y in zip(_leading(a), _leading(b), strict=True):
        rows = dict((*x.rows, *y.rows))
        if len({_ends(known[s], row) for s, row in rows.items()}) > 1 or not conflicts.together(rows, around):
            return None
        shared.append(LinearLoop(tuple(sorted(rows.items())), True))
    return PermutableBand(tuple(shared), Sequence((*_parts(a), *_parts(b))))


def _ends(s: pr.Statement, row: Linear) -> tuple[int, int]:
    """The first and the last iteration of a loop over one index."""
    ((index, _),) = row.terms
    found = next(r for r in s.ranges if isl.name(r.index) == index)
    return found.lower, found.upper


def _parts(band: PermutableBand) -> tuple[Tree, ...]:
    """What is inside of the loops that carry nothing, one after another."""
    rest = tuple(loop for loop in band.loops if not loop.coincident)
    if rest:
        return (PermutableBand(rest, band.child),)
    return band.child.children if isinstance(band.child, Sequence) else (band.child,)
