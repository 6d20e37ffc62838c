"""LoopNest: a schedule that a user edits, as loops and statements with names; and its translation to and from other forms.

A transformation (schedule/directives/) is a function from nest to nest that knows nothing of dependences; `recipe` checks what
comes out. A loop has a name of its own in each of its statements, so that fused loops keep the names of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from polytc import errors
from polytc.lang.report import closest
from polytc.poly import isl, nest
from polytc.poly.nest import Leaf
from polytc.program import program as pr
from polytc.schedule.user import quasi_affine

errors.register(E707="the schedule has no such statement or loop", E708="a transformation does not fit the loops")


@dataclass(frozen=True)
class Row:
    """A loop as one of its statements sees it. name: 'i', 'i.0'; value: the iteration in which an instance runs, a quasi-affine
    expression over the statement's indices, e.g. `i // 32`."""

    statement: str
    name: str
    value: pr.Expr


@dataclass(frozen=True)
class NamedLoop:
    """A loop that each statement in it calls by a name. rows: one a statement below, in order; kind: a member of
    program.kinds.KINDS; body: what each iteration runs, in order."""

    rows: tuple[Row, ...]
    body: Body
    kind: str = "sequential"

    @property
    def title(self) -> str:
        """The loop's names, each once: 'i' or 'i/x'."""
        return "/".join(dict.fromkeys(r.name for r in self.rows))

    def name(self, statement: str) -> str:
        """What the statement calls the loop."""
        return next(r.name for r in self.rows if r.statement == statement)

    def value(self, statement: str) -> pr.Expr:
        """The iteration that runs an instance of the statement."""
        return next(r.value for r in self.rows if r.statement == statement)


Node: TypeAlias = NamedLoop | Leaf
Body: TypeAlias = tuple[Node, ...]


# ---- looking

def statements(body: Body) -> tuple[str, ...]:
    """Names of the statements, in order."""
    return tuple(s for n in body for s in ((n.statement,) if isinstance(n, Leaf) else statements(n.body)))


def loops(body: Body, statement: str) -> tuple[NamedLoop, ...]:
    """The loops around a statement, outermost first. Raises E707 for an unknown one."""
    known = statements(body)
    if statement not in known:
        raise errors.fail("E707", f"there is no statement {statement!r}", notes=[
            n for n in (closest(statement, known), f"the statements are {', '.join(known)}") if n])
    found: list[NamedLoop] = []
    while True:
        n = body[child(body, statement)]
        if isinstance(n, Leaf):
            return tuple(found)
        found.append(n)
        body = n.body


def depth(body: Body, statement: str, name: str) -> int:
    """The position of a loop around a statement, 0 for the outermost. Raises E707 for an unknown one."""
    names = [loop.name(statement) for loop in loops(body, statement)]
    if not isinstance(name, str):
        raise errors.fail("E707", f"{name!r} is no name of a loop",
                          notes=[f"the loops around {statement} are {', '.join(names)}"])
    if name not in names:
        has = f"the loops around {statement} are {', '.join(names)}" if names else f"{statement} has no loops"
        half = next((f"did you mean `{n}`?" for n in names if n.startswith(f"{name}.")), None)
        notes = [n for n in (half or closest(name, names), has) if n]
        raise errors.fail("E707", f"{statement} has no loop {name!r}", notes=notes)
    return names.index(name)


def child(body: Body, statement: str) -> int:
    """The position of the node that holds a statement."""
    return next(n for n, x in enumerate(body) if statement in statements((x,)))


def shared(body: Body, a: str, b: str) -> int:
    """How many loops two statements share."""
    return sum(x is y for x, y in zip(loops(body, a), loops(body, b), strict=False))


def chain(body: Body, statement: str, first: int, last: int) -> tuple[NamedLoop, ...]:
    """Loops first..last around a statement. Raises E708 unless each holds nothing but the next."""
    found = loops(body, statement)[first:last + 1]
    for outer, inner in pairwise(found):
        if len(outer.body) > 1:
            others = [s for s in statements(outer.body) if s not in {r.statement for r in inner.rows}]
            raise errors.fail("E708", f"the loops {outer.name(statement)} and {inner.name(statement)} of {statement} are not "
                              f"perfectly nested: {', '.join(others)} runs between them",
                              notes=["distribute the outer loop first, or fuse the inner ones"])
    return found


# ---- changing

def edit(body: Body, statement: str, position: int, change: Callable[[NamedLoop], Body]) -> Body:
    """The nest with the loop at this position around the statement replaced by what `change` makes of it."""
    def replaced(nodes: Body) -> Body:
        at = child(nodes, statement)
        node = nodes[at]
        assert isinstance(node, NamedLoop), "loopnest: no loop at that position"
        return (*nodes[:at], *change(node), *nodes[at + 1:])
    return edit_body(body, statement, position, replaced)


def edit_body(body: Body, statement: str, levels: int, change: Callable[[Body], Body]) -> Body:
    """The nest with the body of the statement's outermost `levels` loops replaced by what `change` makes of it."""
    if levels == 0:
        return change(body)
    at = child(body, statement)
    node = body[at]
    assert isinstance(node, NamedLoop), "loopnest: no loop at that position"
    inside = edit_body(node.body, statement, levels - 1, change)
    return (*body[:at], loop(node.rows, inside, node.kind), *body[at + 1:])


def rebuilt(chosen: tuple[NamedLoop, ...], inside: Body) -> Body:
    """The loops one in the other, outermost first, around a body."""
    for loop in reversed(chosen):
        inside = (replace(loop, body=inside),)
    return inside


def row(r: Row, value: pr.Expr, name: str | None = None) -> Row:
    """The row with another value, in normal form, and perhaps another name."""
    return Row(r.statement, r.name if name is None else name, quasi_affine.normal(value))


def loop(rows: tuple[Row, ...], body: Body, kind: str = "sequential") -> NamedLoop:
    """The loop around a body, with those of the rows that its statements have, in their order."""
    known = {r.statement: r for r in rows}
    return NamedLoop(tuple(known[s] for s in statements(body)), body, kind)


# ---- to and from schedules

def of(n: nest.Nest, program: pr.Program) -> Body:
    """The loops of a nest whose members run over indices, such as program order; each takes the name of its index."""
    values = {s.name: dict(zip(map(isl.name, s.indices), s.indices, strict=True)) for s in program.statements}

    def visit(n: nest.Nest) -> Body:
        match n:
            case nest.Leaf():
                return (Leaf(n.statement),)
            case nest.Sequence():
                return tuple(x for c in n.children for x in visit(c))
        body = visit(n.child)
        for m in reversed(n.members):
            indices = {s: values[s][value] for s, value in m.rows}
            rows = tuple(Row(s, index, pr.Index(index)) for s, index in indices.items())
            body = (loop(rows, body, m.kind),)
        return body
    return visit(n)


def nest_of(body: Body) -> nest.Nest:
    """The nest with one band for each perfect chain of loops. The bands' names say what their loops are called: 'S1:i/x,j'."""
    parts = tuple(map(_nest, body))
    return parts[0] if len(parts) == 1 else nest.Sequence(parts)


def _nest(n: Node) -> nest.Nest:
    if isinstance(n, Leaf):
        return nest.Leaf(n.statement)
    found = [n]
    while len(found[-1].body) == 1 and isinstance(found[-1].body[0], NamedLoop):
        found.append(found[-1].body[0])
    members = tuple(nest.Member(tuple((r.statement, _text(r.value)) for r in x.rows), x.kind) for x in found)
    return nest.Band(str(BandName.of(found)), members, nest_of(found[-1].body))


@dataclass(frozen=True)
class BandName:
    """The name of a band that says what its loops are called: 'S1,S2:i/x,j/y' of loops i and j of S1 that S2 calls x and y, or
    'S1,S2:i,j' if both call them that. titles: of each loop the names, one a statement or one for all."""

    statements: tuple[str, ...]
    titles: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return f"{','.join(self.statements)}:{','.join(map('/'.join, self.titles))}"

    @staticmethod
    def of(found: list[NamedLoop]) -> BandName:
        """The name of a band of loops."""
        names = (tuple(r.name for r in x.rows) for x in found)
        return BandName(tuple(r.statement for r in found[0].rows), tuple(n if len(set(n)) > 1 else n[:1] for n in names))

    @staticmethod
    def read(text: str) -> BandName:
        """The name that prints so; without titles, if it is one of a strategy's."""
        statements, colon, titles = text.partition(":")
        return BandName(tuple(statements.split(",")), tuple(tuple(t.split("/")) for t in titles.split(",")) if colon else ())


def _text(value: pr.Expr) -> str:
    text = isl.expr(value)
    assert text is not None, f"loopnest: {pr.format_expr(value)} is not affine"
    return text


def walk(body: Body) -> Iterator[NamedLoop]:
    """All loops, outer ones first."""
    for n in body:
        if isinstance(n, NamedLoop):
            yield n
            yield from walk(n.body)
