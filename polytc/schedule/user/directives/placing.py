"""Where a statement that a change added runs: in loops that another statement has already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polytc import errors
from polytc.poly.nest import Leaf
from polytc.program import program as pr
from polytc.program.names import fresh
from polytc.schedule.user import loopnest
from polytc.schedule.user.changes import pieces
from polytc.schedule.user.changes.elements import Told
from polytc.schedule.user.loopnest import Body, NamedLoop, Row


def beside(body: Body, statement: str, make: pr.Statement, depth: int, told: Told, after: bool) -> Body:
    """Run a statement in the outermost `depth` loops of another one, before or after what these run of it, in loops like those
    that the other one has for the indices that both have.

        for i.0: for k: for i.1: S1[i, k]   ->   for i.0: { for i.1: S1_init[i];  for k: for i.1: S1[i, k] }      with depth 1

    Loops keep their kinds. Raises E708 for an outer loop that `told` does not tell.
    """
    around = loopnest.loops(body, statement)
    rows = tuple(_outer(x, statement, make.name, told) for x in around[:depth])
    return insert(body, statement, rows, inner(around[depth:], statement, make, told, rows), after)


def insert(body: Body, statement: str, rows: tuple[Row, ...], made: Body, after: bool) -> Body:
    """Put nodes before or after what the outermost loops of a statement run of it. rows: what these loops are to the statement
    in the nodes."""
    at = loopnest.child(body, statement)
    if not rows:
        return (*body[:at + after], *made, *body[at + after:])
    node = body[at]
    assert isinstance(node, NamedLoop), "placing: no loop"
    inside = insert(node.body, statement, rows[1:], made, after)
    return (*body[:at], loopnest.loop((*node.rows, rows[0]), inside, node.kind), *body[at + 1:])


def depth_known(body: Body, statement: str, told: Told) -> int:
    """How many of the outermost loops of a statement `told` tells."""
    around = loopnest.loops(body, statement)
    return next((n for n, x in enumerate(around) if told.of(x.value(statement)) is None), len(around))


def _outer(x: NamedLoop, statement: str, name: str, told: Told) -> Row:
    found = told.of(x.value(statement))
    if found is None:
        raise errors.fail("E708", f"{name} cannot run in the loop {x.name(statement)} of {statement}: it has no part in that",
                          notes=["name a loop outside of it, or reorder the loops first"])
    return loopnest.row(Row(name, x.name(statement), found), found)


def inner(around: tuple[NamedLoop, ...], statement: str, make: pr.Statement, told: Told, outside: tuple[Row, ...]) -> Body:
    """The statement in loops like those around another one which `told` tells, and in more where these do not tell its
    indices. outside: the loops outside of them."""
    found: list[tuple[Row, str]] = []
    for x in around:
        value = told.of(x.value(statement))
        if value is not None and any(pr.index_names(value)) and x.kind != "reduce":
            found.append((_outer(x, statement, make.name, told), x.kind))
    taken = {r.name for r in (*outside, *(row for row, _ in found))}
    body: Body = (Leaf(make.name),)
    values = [r.value for r in (*outside, *(row for row, _ in found))]
    for r in reversed(make.ranges):
        value = pieces.rest(r.index, values)
        if value is not None:
            name = fresh(r.index, taken)
            taken.add(name)
            body = (NamedLoop((loopnest.row(Row(make.name, name, value), value),), body),)
    for row, kind in reversed(found):
        body = (NamedLoop((row,), body, kind),)
    return body


def without(body: Body, statement: str) -> Body:
    """The nest without a statement, and without loops that run nothing else."""
    found: list[NamedLoop | Leaf] = []
    for n in body:
        if statement not in loopnest.statements((n,)):
            found.append(n)
        elif isinstance(n, NamedLoop) and (inside := without(n.body, statement)):
            found.append(loopnest.loop(n.rows, inside, n.kind))
    return tuple(found)


def renamed(body: Body, old: str, new: str) -> Body:
    """The nest with another statement in the place of one."""
    def rows(x: NamedLoop) -> tuple[Row, ...]:
        return tuple(replace(r, statement=new) if r.statement == old else r for r in x.rows)
    return tuple(replace(n, statement=new if n.statement == old else n.statement) if isinstance(n, Leaf) else
                 replace(n, rows=rows(n), body=renamed(n.body, old, new)) for n in body)


def twice(body: Body, statement: str, depth: int, names: Mapping[str, str]) -> Body:
    """The nest with a copy before the node in the outermost `depth` loops of a statement. names: of the copy's statements."""
    at = loopnest.child(body, statement)
    node = body[at]
    if depth == 0:
        again: Body = (node,)
        for old, new in names.items():
            again = renamed(again, old, new)
        return (*body[:at], *again, *body[at:])
    assert isinstance(node, NamedLoop), "placing: no loop"
    rows = (*node.rows, *(replace(r, statement=names[r.statement]) for r in node.rows if r.statement in names))
    return (*body[:at], loopnest.loop(rows, twice(node.body, statement, depth - 1, names), node.kind), *body[at + 1:])
