"""Nest: a loop nest as plain data, and its translation into an isl schedule tree.

A strategy builds the tree it wants as bands, sequences and leaves, with affine expressions as text; `tree` writes isl's YAML
and lets isl read it. Each band is put under a mark (poly.marks) with one loop kind a member, so that the YAML text
carries every decision and can be saved, edited and read back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import islpy

from polytc.poly import isl
from polytc.poly.marks import Mark
from polytc.program import program as pr

N = TypeVar("N", covariant=True)


@dataclass(frozen=True)
class Leaf:
    """One statement."""

    statement: str


@dataclass(frozen=True)
class Sequence(Generic[N]):
    """Nests of one kind, one after another."""

    children: tuple[N, ...]


@dataclass(frozen=True)
class Member:
    """One member of a band. rows: (statement name, affine expression over its indices), e.g. ('S1', 'floor(i/6)');
    kind: how it runs (program.kinds), e.g. 'block0'; coincident: carries nothing."""

    rows: tuple[tuple[str, str], ...]
    kind: str = "sequential"
    coincident: bool = False


@dataclass(frozen=True)
class Band:
    """Loops over several statements at once, outermost member first. name: unique in the tree; whole: instances that are not
    in a row are no reason for loops of their own."""

    name: str
    members: tuple[Member, ...]
    child: Nest
    permutable: bool = False
    whole: bool = False


Nest: TypeAlias = "Band | Sequence[Nest] | Leaf"
"""What a strategy decided. Nests that say other things of their loops have these leaves and sequences too: what isl's scheduler
found (schedule.facts.bands), the loops inside a tile (schedule.tiling.point_loops), the loops a user edits
(schedule.user.loopnest) and those of a finished schedule (schedule.loop_report)."""


def statements(n: Nest) -> tuple[str, ...]:
    """Names of the statements below, in order."""
    match n:
        case Leaf():
            return (n.statement,)
        case Sequence():
            return tuple(s for c in n.children for s in statements(c))
        case Band():
            return statements(n.child)


def program_order(program: pr.Program) -> Nest:
    """The order the text asks for: `for` loops around what is in them; one band of all its other indices a statement."""
    return in_order(pr.nested(program.statements), 0)


def in_order(body: tuple[pr.Nested, ...], depth: int) -> Nest:
    """The order of the text for statements and loops of it. depth: loops around, which are bands already."""
    children = tuple(_loop(x, depth) if isinstance(x, pr.Loop) else own_band(x, depth) for x in body)
    return children[0] if len(children) == 1 else Sequence(children)


def _loop(loop: pr.Loop, depth: int) -> Band:
    """A `for` loop: one sequential member over all its statements."""
    rows = tuple((s.name, isl.name(s.indices[depth])) for s in loop.statements)
    return Band(loop.label, (Member(rows),), in_order(loop.body, depth + 1))


def own_band(s: pr.Statement, depth: int = 0) -> Nest:
    """A statement under one sequential band of its indices. depth: of the first indices, whose loops are around it."""
    if len(s.ranges) == depth:
        return Leaf(s.name)
    members = tuple(Member(((s.name, isl.name(i)),)) for i in s.indices[depth:])
    return Band(s.name, members, Leaf(s.name))


def tree(ctx: islpy.Context, program: pr.Program, root: Nest, boxed: bool = False) -> islpy.Schedule:
    """The schedule tree of `root`, which must hold each statement of the program exactly once. boxed: over boxes, see Scop."""
    known = {s.name: s for s in program.statements}
    held = statements(root)
    assert sorted(held) == sorted(known), f"nest: holds {held}, the program has {tuple(known)}"
    return islpy.Schedule.read_from_str(ctx, f'{{ domain: "{isl.instances(program, boxed)}"{_child(root, known)} }}')


def _child(n: Nest, known: dict[str, pr.Statement]) -> str:
    text = _node(n, known)
    return f", child: {text}" if text else ""


def _node(n: Nest, known: dict[str, pr.Statement]) -> str:
    match n:
        case Leaf() | Sequence(children=()):
            return ""
        case Sequence():
            return f"{{ sequence: [ {', '.join(_filter(c, known) for c in n.children)} ] }}"
        case Band():
            rows = ", ".join(f"{{ {'; '.join(f'{isl.instance(known[s])} -> [({e})]' for s, e in m.rows)} }}" for m in n.members)
            flags = ", ".join(str(int(m.coincident)) for m in n.members)
            attributes = f"permutable: {int(n.permutable)}, coincident: [ {flags} ]"
            attributes += ', options: "{ atomic[x] }"' if n.whole else ""
            band = f'{{ schedule: "[{rows}]", {attributes}{_child(n.child, known)} }}'
            return f'{{ mark: "{Mark(n.name, tuple(m.kind for m in n.members))}", child: {band} }}'


def _filter(n: Nest, known: dict[str, pr.Statement]) -> str:
    instances = "; ".join(isl.instance(known[s]) for s in statements(n))
    return f'{{ filter: "{{ {instances} }}"{_child(n, known)} }}'
