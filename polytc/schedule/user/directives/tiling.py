"""Loops in pieces: strip-mining and tiling."""

from __future__ import annotations

from collections.abc import Mapping

from polytc import errors
from polytc.program import program as pr
from polytc.program.scalars import I64
from polytc.schedule.user import loopnest
from polytc.schedule.user.loopnest import Body, NamedLoop

Names = Mapping[str, tuple[str, str]]
"""Loop -> the names of its two halves, where they are not to be 'i.0' and 'i.1'."""


def split(body: Body, statement: str, name: str, factor: int, names: Names | None = None) -> Body:
    """Cut a loop into pieces of `factor` iterations.

        for i: S[i]   ->   for i.0: for i.1: S[factor*i.0 + i.1]

    Raises E707 for an unknown loop, E708 for a bad factor or names. Always legal.
    """
    at = loopnest.depth(body, statement, name)
    title = (names or {}).get(name)

    def halves(x: NamedLoop) -> Body:
        outer, inner = cut(body, x, factor, title)
        return loopnest.rebuilt((outer, inner), x.body)
    return unambiguous(loopnest.edit(body, statement, at, halves))


def tile(body: Body, statement: str, sizes: Mapping[str, int], names: Names | None = None) -> Body:
    """Cut several loops of a perfect nest, and run tile after tile.

        for i: for j: S[i, j]   ->   for i.0: for j.0: for i.1: for j.1: S[a*i.0 + i.1, b*j.0 + j.1]

    sizes: loop -> iterations a tile; loops in between that are not named stay with the tile loops.
    Raises E707, E708 as `split`, and E708 for loops with something between them. Illegal if a dependence would run from a later
    tile to an earlier one (Irigoin & Triolet, Supernode Partitioning, POPL 1988).
    """
    if not sizes:
        raise errors.fail("E708", "no loop to tile is named", notes=['give loops and sizes: {"i": 32, "j": 32}'])
    places = {loopnest.depth(body, statement, n): n for n in sizes}
    first, last = min(places), max(places)
    found = loopnest.chain(body, statement, first, last)
    outside: list[NamedLoop] = []
    inside: list[NamedLoop] = []
    for position, x in enumerate(found, first):
        name = places.get(position)
        if name is None:
            outside.append(x)
            continue
        outer, inner = cut(body, x, sizes[name], (names or {}).get(name))
        outside.append(outer)
        inside.append(inner)
    made = loopnest.rebuilt((*outside, *inside), found[-1].body)
    return unambiguous(loopnest.edit(body, statement, first, lambda _: made))


def cut(body: Body, x: NamedLoop, factor: int, names: tuple[str, str] | None = None) -> tuple[NamedLoop, NamedLoop]:
    """The loop over the pieces, which keeps the kind, and the one inside of them; body: in which names are taken. Raises E708
    for a bad factor."""
    if isinstance(factor, bool) or not isinstance(factor, int) or not 1 <= factor < 1 << 31:
        raise errors.fail("E708", f"{factor!r} is no number of iterations", notes=["a factor is a positive integer"])
    size = pr.Const(factor, I64)
    titles = {r.statement: names or _halves(r.name, [n.name(r.statement) for n in loopnest.loops(body, r.statement)])
              for r in x.rows}
    outer = tuple(loopnest.row(r, pr.Binary("//", r.value, size, I64), titles[r.statement][0]) for r in x.rows)
    inner = tuple(loopnest.row(r, pr.Binary("%", r.value, size, I64), titles[r.statement][1]) for r in x.rows)
    return NamedLoop(outer, x.body, x.kind), NamedLoop(inner, x.body)


def _halves(name: str, taken: list[str]) -> tuple[str, str]:
    """Names for the two halves of a loop: 'i.0' and 'i.1', or 'i.1.0' and 'i.1.1' where a loop has one of these already, as
    around what is left of i in a copy."""
    found = f"{name}.0", f"{name}.1"
    return found if set(found).isdisjoint(taken) else _halves(f"{name}.1", taken)


def unambiguous(body: Body) -> Body:
    """The nest itself. Raises E708 if a statement has two loops of one name, or one whose name would not survive in a file."""
    for s in loopnest.statements(body):
        names = [x.name(s) for x in loopnest.loops(body, s)]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            raise errors.fail("E708", f"{s} would have two loops named {twice}", notes=["give other names"])
        strange = next((n for n in names if not n or any(c.isspace() or c in ",:/\"'{}[]#\\" for c in n)), None)
        if strange is not None:
            raise errors.fail("E708", f"{strange!r} is no name for a loop", notes=["use letters, digits, '_', '.' and '-'"])
    return body
