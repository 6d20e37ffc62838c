"""Where a copy is made: next to its reader, in the loops that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from polytc.poly.nest import Leaf
from polytc.program import program as pr
from polytc.program.names import fresh
from polytc.program.scalars import I64
from polytc.schedule.user import loopnest
from polytc.schedule.user.changes import pieces
from polytc.schedule.user.loopnest import Body, NamedLoop, Row


def place(body: Body, reader: str, make: pr.Statement, depth: int, values: Mapping[str, pr.Expr],
          first: Callable[[NamedLoop], int], each: Mapping[pr.Expr, pr.Expr]) -> Body:
    """Put the statement that makes a copy before its reader, inside the reader's outermost `depth` loops.

        for i.0: for i.1: S1[32*i.0 + i.1]   ->   for i.0: { for i: S1_A[i];  for i.1: S1[32*i.0 + i.1] }       with depth 1

    values: the reader's indices by the copy's, where the element tells them; first: the first iteration of a loop that the
    element does not tell, in which it is copied then; each: the copy's index by the value of a loop of the reader's whose
    iterations have copies of their own. Illegal if an element is read before it is copied.
    """
    around = loopnest.loops(body, reader)[:depth]
    outside = [_row(x, reader, make.name, values, first, each) for x in around]
    taken = {r.name for r in outside}
    made: Body = (Leaf(make.name),)
    for r in reversed(make.ranges):
        value = pieces.rest(r.index, [x.value for x in outside])
        if value is not None:
            own = fresh(r.index, taken)
            taken.add(own)
            made = (NamedLoop((Row(make.name, own, value),), made),)

    def insert(nodes: Body, level: int) -> Body:
        at = loopnest.child(nodes, reader)
        node = nodes[at]
        if level == depth:
            return (*nodes[:at], *made, *nodes[at:])
        assert isinstance(node, NamedLoop), "caching: no loop"
        inside = insert(node.body, level + 1)
        return (*nodes[:at], loopnest.loop((*node.rows, outside[level]), inside, node.kind), *nodes[at + 1:])
    return insert(body, 0)


def _row(x: NamedLoop, reader: str, name: str, values: Mapping[str, pr.Expr], first: Callable[[NamedLoop], int],
         each: Mapping[pr.Expr, pr.Expr]) -> Row:
    """A loop of the reader's as the copy sees it."""
    row = next(r for r in x.rows if r.statement == reader)
    indices = {e.name for e in pr.walk(row.value) if isinstance(e, pr.Index)}
    if row.value in each:
        return loopnest.row(Row(name, row.name, each[row.value]), each[row.value])
    value = pr.substitute(row.value, dict(values)) if indices <= values.keys() else pr.Const(first(x), I64)
    return loopnest.row(Row(name, row.name, value), value)
