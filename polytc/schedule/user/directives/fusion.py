"""Loops shared by statements, and loops apart."""

from __future__ import annotations

from polytc import errors
from polytc.schedule.user import loopnest
from polytc.schedule.user.loopnest import Body, NamedLoop, Node


def fuse(body: Body, a: str, b: str, depth: int) -> Body:
    """Let two statements share their outer loops.

        for i: S1[i]; for x: S2[x]   ->   for i/x: { S1[i]; S2[x] }

    depth: how many loops they share then. The later one moves to the earlier one; what ran between them runs after both.
    Raises E707 for unknown statements, E708 where there are not so many loops. Illegal if an instance of the later statement
    would run before one of the earlier that it depends on (Kennedy & McKinley, Maximizing Loop Parallelism and Improving Data
    Locality via Loop Fusion and Distribution, LCPC 1993).
    """
    order = loopnest.statements(body)
    common, most = loopnest.shared(body, a, b), min(len(loopnest.loops(body, a)), len(loopnest.loops(body, b)))
    if a == b:
        raise errors.fail("E708", f"{a} cannot be fused with itself", notes=["name two statements"])
    if depth <= common:
        raise errors.fail("E708", f"{a} and {b} share {common} loops already", notes=[
            f"to fuse is to share more: {a} has {len(loopnest.loops(body, a))}, {b} has {len(loopnest.loops(body, b))}; "
            "`distribute` takes loops apart"])
    if depth > most:
        raise errors.fail("E708", f"{a} and {b} cannot share {depth} loops", notes=[
            f"{a} has {len(loopnest.loops(body, a))}, {b} has {len(loopnest.loops(body, b))}; they share {common} now"])
    first, second = (a, b) if order.index(a) < order.index(b) else (b, a)

    def merged(nodes: Body) -> Body:
        at, other = loopnest.child(nodes, first), loopnest.child(nodes, second)
        both = _merge(nodes[at], nodes[other], first, second, depth - common)
        return tuple(both if n == at else x for n, x in enumerate(nodes) if n != other)
    return loopnest.edit_body(body, first, common, merged)


def _merge(x: Node, y: Node, first: str, second: str, levels: int) -> NamedLoop:
    assert isinstance(x, NamedLoop), "fusion: no loop"
    assert isinstance(y, NamedLoop), "fusion: no loop"
    if levels == 1:
        inside: Body = x.body + y.body
    else:
        i, j = loopnest.child(x.body, first), loopnest.child(y.body, second)
        inner = _merge(x.body[i], y.body[j], first, second, levels - 1)
        inside = (*x.body[:i], *y.body[:j], inner, *x.body[i + 1:], *y.body[j + 1:])
    return loopnest.loop(x.rows + y.rows, inside, x.kind if x.kind == y.kind else "sequential")


def distribute(body: Body, a: str, b: str, depth: int) -> list[Body]:
    """Let two statements no longer share their inner common loops: all that runs up to the first in a loop of its own, and then
    the second and all that follows.

        for i: { S1[i]; S2[i] }   ->   for i: S1[i]; for i: S2[i]

    depth: how many loops they share then. What comes back are the ways to do it: what stands between the two goes with the
    first, then with the second, and at last the loop of the second moves before that of the first. Raises E707 for unknown
    statements, E708 where they do not share more than that. Illegal if an instance of the first would run after one of the
    second that it depends on (Kuck, Muraoka & Chen, On the Number of Operations Simultaneously Executable in Fortran-Like
    Programs, IEEE ToC 1972; the order of the loops is that of Allen & Kennedy, Automatic Translation of FORTRAN Programs to
    Vector Form, TOPLAS 1987).
    """
    order = loopnest.statements(body)
    common = loopnest.shared(body, a, b)
    if a == b:
        raise errors.fail("E708", f"{a} cannot be distributed from itself", notes=["name two statements"])
    if not common:
        raise errors.fail("E708", f"{a} and {b} share no loops: there is nothing to distribute",
                          notes=["they run apart already"])
    if not 0 <= depth < common:
        raise errors.fail("E708", f"{a} and {b} share {common} loops: they cannot come to share {depth}", notes=[
            f"give a depth from 0 to {common - 1}"])
    first, second = (a, b) if order.index(a) < order.index(b) else (b, a)
    inside = loopnest.loops(body, second)[common - 1].body
    cuts = range(loopnest.child(inside, second), loopnest.child(inside, first), -1)
    return [_distributed(body, first, second, depth, common, place, moved) for moved in (False, True) for place in cuts]


def _distributed(body: Body, first: str, second: str, depth: int, common: int, place: int, moved: bool) -> Body:
    """The nest with the loops of two statements cut before the node at `place`. moved: the second half comes first."""
    def apart(x: Node, levels: int) -> tuple[Body, Body]:
        """What runs before the cut, and what after it."""
        assert isinstance(x, NamedLoop), "fusion: no loop"
        at = place if levels == 1 else loopnest.child(x.body, second)
        before, after = (x.body[:at], x.body[at:]) if levels == 1 else _around(x.body, at, *apart(x.body[at], levels - 1))
        return (loopnest.loop(x.rows, before, x.kind),), (loopnest.loop(x.rows, after, x.kind),)

    def cut(nodes: Body) -> Body:
        at = loopnest.child(nodes, first)
        left, right = apart(nodes[at], common - depth)
        halves = (*right, *left) if moved else (*left, *right)
        return (*nodes[:at], *halves, *nodes[at + 1:])
    return loopnest.edit_body(body, first, depth, cut)


def _around(nodes: Body, at: int, left: Body, right: Body) -> tuple[Body, Body]:
    return (*nodes[:at], *left), (*right, *nodes[at + 1:])
