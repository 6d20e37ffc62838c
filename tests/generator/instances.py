"""Legality of loops by brute force: every pair of instances of a small program that touch one element, in the order of the text
and in that of the loops. It knows nothing of isl."""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from polytc.poly import nest
from polytc.program import program as pr
from polytc.schedule.user import loopnest
from polytc.schedule.user.loopnest import Body

POINTS, PAIRS = 10_000, 40_000
"""Points of all boxes, and pairs of accesses: beyond that a program is not asked about."""
Point = tuple[int, ...]


class Unknown(Exception):
    """Memory decides what an instance touches, or there are too many."""


@dataclass(frozen=True)
class Instance:
    """statement: its place in the program."""

    statement: int
    point: Point


@dataclass(frozen=True)
class Touch:
    """how: 'read', 'write' or 'update'."""

    by: Instance
    how: str


@dataclass(frozen=True)
class Conflict:
    """source must run before sink. element: its tensor and coordinates; when: see Loops.order."""

    source: Instance
    sink: Instance
    element: tuple[str, Point]
    when: str


def number(e: pr.Expr, point: Mapping[str, int]) -> int:
    """The value of an integer expression or a condition. Raises Unknown for what memory decides."""
    match e:
        case pr.Const(value=v):
            return int(v)
        case pr.Index(name=name):
            return point[name]
        case pr.Cast(a=a):
            return number(a, point)
        case pr.Unary(op=op, a=a):
            return {"-": operator.neg, "!": operator.not_}[op](number(a, point))
        case pr.Binary(op=op, a=a, b=b) if op in _OPERATORS:
            return int(_OPERATORS[op](number(a, point), number(b, point)))
    raise Unknown


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "==": operator.eq,
    "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "&&": lambda a, b: a and b, "||": lambda a, b: a or b}


def domain(s: pr.Statement) -> Iterator[Point]:
    """The points of a statement's instances."""
    if s.bounds:
        raise Unknown
    for point in itertools.product(*(range(r.lower, r.upper) for r in s.ranges)):
        if all(number(c, dict(zip(s.indices, point, strict=True))) for c in s.where):
            yield point


def touched(program: pr.Program) -> dict[tuple[str, Point], list[Touch]]:
    """Who touches each element that is written."""
    if sum(s.points for s in program.statements) > POINTS:
        raise Unknown
    written = {s.target for s in program.statements}
    found = defaultdict[tuple[str, Point], list[Touch]](list)
    for k, s in enumerate(program.statements):
        accesses = [(s.target, s.subscripts, "write" if s.op is None else "update")]
        accesses += [(r.tensor, r.subscripts, "read") for r in pr.reads(s) if r.tensor in written]
        boxes = {name: program.tensor(name) for name, _, _ in accesses}
        for point in domain(s):
            env = dict(zip(s.indices, point, strict=True))
            for name, subscripts, how in accesses:
                place = tuple(number(e, env) for e in subscripts)
                t = boxes[name]
                if all(a <= x < a + n for x, a, n in zip(place, t.lower, t.shape, strict=True)):
                    found[name, place].append(Touch(Instance(k, point), how))
    if sum(len(x) * sum(t.how != "read" for t in x) for x in found.values()) > PAIRS:
        raise Unknown
    return found


def follows(program: pr.Program, a: Touch, b: Touch) -> bool:
    """Must b run after a, as the text says?"""
    first, second = program.statements[a.by.statement], program.statements[b.by.statement]
    depth = pr.common_loops(first, second)
    if first is second and first.op is not None:
        depth = len(first.ranges)
    earlier, later = a.by.point[:depth], b.by.point[:depth]
    return earlier < later or earlier == later and a.by.statement < b.by.statement


class Loops:
    """When loops run the instances of a program."""

    def __init__(self, program: pr.Program, body: Body) -> None:
        self.program = program
        self.paths = [self._path(body, s.name) for s in program.statements]
        self._times: dict[Instance, Point] = {}

    def _path(self, body: Body, statement: str) -> list[tuple[int, loopnest.Node, pr.Expr | None]]:
        """At each level the place among the neighbours, and what is there; of loops, which iteration runs an instance."""
        found: list[tuple[int, loopnest.Node, pr.Expr | None]] = []
        while body:
            at = loopnest.child(body, statement)
            node = body[at]
            if isinstance(node, nest.Leaf):
                return [*found, (at, node, None)]
            found.append((at, node, next(r.value for r in node.rows if r.statement == statement)))
            body = node.body
        raise AssertionError("instances: an empty loop")

    def time(self, x: Instance) -> Point:
        if x not in self._times:
            point = dict(zip(self.program.statements[x.statement].indices, x.point, strict=True))
            self._times[x] = tuple(number(e, point) for _, _, e in self.paths[x.statement] if e is not None)
        return self._times[x]

    def order(self, a: Instance, b: Instance) -> str:
        """When a runs: 'before' b, 'after' it, at the 'same' time; or the kind and the name of the loop in which they meet."""
        levels = zip(self.paths[a.statement], self.paths[b.statement], strict=False)
        times = zip(self.time(a), self.time(b), strict=False)
        for (here, node, _), (there, _, _) in levels:
            if here != there:
                return "before" if here < there else "after"
            if isinstance(node, nest.Leaf):
                break
            x, y = next(times)
            if x != y and node.kind not in ("sequential", "unroll"):
                return f"{node.kind} {node.title}"
            if x != y:
                return "before" if x < y else "after"
        return "same"


def conflicts(program: pr.Program, body: Body) -> Iterator[Conflict]:
    """All that is wrong with the loops. Raises Unknown."""
    loops = Loops(program, body)
    for element, touches in touched(program).items():
        writers = [t for t in touches if t.how != "read"]
        pairs = itertools.chain(itertools.product(writers, touches), itertools.product(
            (t for t in touches if t.how == "read"), writers))
        for a, b in pairs:
            if a.by == b.by or not follows(program, a, b):
                continue
            when = loops.order(a.by, b.by)
            commute = not program.precise and a.how == b.how == "update" and a.by.statement == b.by.statement
            if when == "before" or commute and (when in ("after", "same") or when.startswith("reduce ")):
                continue
            yield Conflict(a.by, b.by, element, when)
