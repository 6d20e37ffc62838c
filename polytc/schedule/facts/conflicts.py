"""Which instances are in each other's way while some loops stand still: the question behind distribution, permutation, parallel
and vector loops.

Asked of dependences with symbolic sizes (poly.symbolic_sizes), which is quick; the schedule that comes of the answers is
proved later with the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Literal

import islpy

from polytc.poly import isl
from polytc.program.affine import Affine, Linear
from polytc.program.linear import collected

Rows = tuple[Linear, ...]
"""Times of one statement, outermost loop first."""


def text(form: Linear, suffix: str = "") -> str:
    """A linear form in isl's notation; suffix: of the indices' names."""
    terms = [f"{c}*{i}{suffix}" if c != 1 else f"{i}{suffix}" for i, c in form.terms]
    return " + ".join([*terms, str(form.constant)] if form.constant or not terms else terms)


FEW = 64
"""Distances that are written out."""


@dataclass(frozen=True)
class Distances:
    """How far pairs of instances of one statement are apart in each of its indices: all that matters where both stand in the
    same loops. some: as a set of isl, in a space without names; few: all of them, if these are not many."""

    some: islpy.Set
    few: tuple[tuple[int, ...], ...] | None
    indices: tuple[str, ...]

    @staticmethod
    def of(pairs: islpy.Map, indices: tuple[str, ...]) -> Distances:
        apart = pairs.deltas().reset_tuple_id()
        apart = apart.project_out(islpy.dim_type.param, 0, apart.dim(islpy.dim_type.param)).coalesce()
        return Distances(apart, _listed(apart), indices)

    def standing(self, rows: Rows) -> Distances:
        """Those of pairs that agree in some rows."""
        if self.few is not None:
            return replace(self, few=tuple(d for d in self.few if not any(self._step(row, d) for row in rows)))
        return replace(self, some=self._that([f"{_apart(row)} = 0" for row in rows])) if rows else self

    def meet(self, row: Linear | None, relation: str) -> bool:
        """Are there some at all (without a row), or whose step in a row is in a relation to 0, '<' or '!='?"""
        if self.few is None:
            return not (self.some if row is None else self._that([f"{_apart(row)} {relation} 0"])).is_empty()
        if row is None:
            return bool(self.few)
        return any(self._step(row, d) < 0 if relation == "<" else self._step(row, d) for d in self.few)

    def _step(self, row: Linear, distance: tuple[int, ...]) -> int:
        return sum(c * distance[self.indices.index(i)] for i, c in row.terms)

    def _that(self, conditions: list[str]) -> islpy.Set:
        text = f"{{ [{', '.join(self.indices)}] : {' and '.join(conditions)} }}"
        return self.some.intersect(islpy.Set.read_from_str(self.some.get_ctx(), text))


def _apart(row: Linear) -> str:
    """The step of a row, whose number does not count."""
    return text(Affine(0, row.terms))


def _listed(apart: islpy.Set) -> tuple[tuple[int, ...], ...] | None:
    """The points of a set, if they are few."""
    if not apart.is_bounded():
        return None
    count = apart.dim(islpy.dim_type.set)
    sides = [apart.dim_max_val(d).to_python() - apart.dim_min_val(d).to_python() + 1 for d in range(count)] \
        if not apart.is_empty() else [0]
    if prod(sides) > FEW:
        return None
    found: list[tuple[int, ...]] = []
    apart.foreach_point(lambda p: found.append(tuple(
        int(p.get_coordinate_val(islpy.dim_type.set, d).to_python()) for d in range(count))))
    return tuple(found)


@dataclass
class Conflicts:
    """indices: of each statement, by isl's names; order: what schedules respect; all: what parallel loops may not carry;
    reduction: pairs that meet in one element and commute."""

    ctx: islpy.Context
    indices: dict[str, tuple[str, ...]]
    order: dict[tuple[str, str], islpy.Map]
    all: dict[tuple[str, str], islpy.Map]
    reduction: dict[tuple[str, str], islpy.Map]
    _known: dict[tuple[object, ...], bool] = field(default_factory=dict)
    _distances: dict[tuple[str, str], Distances] = field(default_factory=dict)

    @staticmethod
    def of(indices: dict[str, tuple[str, ...]], order: islpy.UnionMap, everything: islpy.UnionMap, reduction: islpy.UnionMap
           ) -> Conflicts:
        return Conflicts(order.get_ctx(), indices, _pairs(order), _pairs(everything), _pairs(reduction))

    def follows(self, source: str, sink: str, rows: Sequence[tuple[Linear, Linear]]) -> bool:
        """Must some instance of `sink` run after one of `source` although they agree in these rows (of either)?"""
        key = ("follows", source, sink, frozenset(rows))
        if key not in self._known:
            self._known[key] = self._follows(source, sink, rows)
        return self._known[key]

    def _follows(self, source: str, sink: str, rows: Sequence[tuple[Linear, Linear]]) -> bool:
        pairs = self.order.get((source, sink))
        if pairs is None:
            return False
        if source == sink and all(a == b for a, b in rows):
            return self._own("order", source).standing(tuple(a for a, _ in rows)).meet(None, "")
        return not pairs.intersect(self._where(source, sink, rows)).is_empty()

    def _own(self, kind: Literal["order", "all"], statement: str) -> Distances:
        """The distances of a statement from itself, which there are."""
        if (kind, statement) not in self._distances:
            pairs = (self.order if kind == "order" else self.all)[statement, statement]
            self._distances[kind, statement] = Distances.of(pairs, self.indices[statement])
        return self._distances[kind, statement]

    def legal(self, statement: str, fixed: Rows, loops: Rows) -> bool:
        """May the instances of a statement that agree in the rows `fixed` run in these loops?"""
        if (statement, statement) not in self.order:
            return True
        left = self._own("order", statement).standing(fixed)
        for row in loops:
            if left.meet(row, "<"):
                return False
            left = left.standing((row,))
        return not left.meet(None, "")

    def permutable(self, statement: str, fixed: Rows, loops: Rows) -> bool:
        """Does no dependence of a statement with itself go backward in any of these loops, the rows `fixed` standing still?"""
        if (statement, statement) not in self.order:
            return True
        left = self._own("order", statement).standing(fixed)
        return not any(left.meet(row, "<") for row in loops)

    def carries(self, statement: str, outside: Rows, loop: Linear) -> bool:
        """Does a loop carry a dependence of a statement with itself, the rows outside standing still?"""
        key = ("carries", statement, frozenset(outside), loop)
        if key not in self._known:
            self._known[key] = (statement, statement) in self.all and \
                self._own("all", statement).standing(outside).meet(loop, "!=")
        return self._known[key]

    def together(self, loop: dict[str, Linear], fixed: dict[str, Rows]) -> bool:
        """Do instances of these statements that are in each other's way always run in one iteration of a loop over all of them,
        the rows outside standing still? loop: its row of each statement."""
        for source, sink in product(loop, repeat=2):
            pairs = self.all.get((source, sink))
            if pairs is not None:
                same = tuple(zip(fixed[source], fixed[sink], strict=True))
                apart = f"{text(loop[source])} != {text(loop[sink], QUOTE)}"
                if not pairs.intersect(self._where(source, sink, same, apart)).is_empty():
                    return False
        return True

    def reduces(self, statement: str, outside: Rows, loop: Linear) -> bool:
        """Do all instances that the rows outside do not tell apart meet in one element and commute?"""
        pairs = self.reduction.get((statement, statement))
        if pairs is None:
            return False
        apart = self._where(statement, statement, [(r, r) for r in outside], f"{text(loop)} != {text(loop, QUOTE)}")
        return bool(apart.intersect_domain(pairs.domain()).intersect_range(pairs.range()).is_subset(pairs))

    def components(self, parts: Sequence[tuple[str, ...]], fixed: dict[str, Rows]) -> list[list[int]]:
        """The strongly connected components of parts (groups of statements) that agree in the rows `fixed`, in an order that
        respects the dependences, else that of the parts."""
        edges = {(a, b) for a in range(len(parts)) for b in range(len(parts)) if a != b and any(
            self.follows(x, y, tuple(zip(fixed[x], fixed[y], strict=True))) for x in parts[a] for y in parts[b])}
        reach = {a: _reachable(a, edges) for a in range(len(parts))}
        groups: list[list[int]] = []
        for a in range(len(parts)):
            home = next((g for g in groups if g[0] in reach[a] and a in reach[g[0]]), None)
            if home is None:
                groups.append([a])
            else:
                home.append(a)
        ordered: list[list[int]] = []
        while groups:
            ready = next(g for g in groups if not any((x, y) in edges for o in groups if o is not g for x in o for y in g))
            groups.remove(ready)
            ordered.append(ready)
        return ordered

    def _where(self, source: str, sink: str, rows: Iterable[tuple[Linear, Linear]], more: str = "") -> islpy.Map:
        """The pairs that agree in `rows`, with one more condition."""
        conditions = [f"{text(a)} = {text(b, QUOTE)}" for a, b in rows] + ([more] if more else [])
        ins, outs = ", ".join(self.indices[source]), ", ".join(f"{i}{QUOTE}" for i in self.indices[sink])
        where = " and ".join(conditions) or "true"
        return islpy.Map.read_from_str(self.ctx, f"{{ {source}[{ins}] -> {sink}[{outs}] : {where} }}")


QUOTE = "'"
"""What tells the sink's indices from the source's."""


def _pairs(u: islpy.UnionMap) -> dict[tuple[str, str], islpy.Map]:
    return {(m.get_tuple_name(islpy.dim_type.in_), m.get_tuple_name(islpy.dim_type.out)): m for m in isl.maps(u)}


def _reachable(start: int, edges: set[tuple[int, int]]) -> set[int]:
    found, rest = {start}, [start]
    while rest:
        here = rest.pop()
        new = {b for a, b in edges if a == here} - found
        found |= new
        rest += new
    return found


def reduced(row: Linear, fixed: Rows) -> Linear:
    """What is left of a row where those in `fixed` stand still, without its number: unit multiples of them are taken away."""
    pivots: list[tuple[str, Linear]] = []
    for f in fixed:
        f = _without(f, pivots)
        unit = next((i for i, c in f.terms if abs(c) == 1), None)
        if unit is not None:
            pivots.append((unit, f))
    return Affine(0, _without(row, pivots).terms)


def _without(row: Linear, pivots: list[tuple[str, Linear]]) -> Linear:
    for index, form in pivots:
        factor = row.coefficient(index) * form.coefficient(index)
        if factor:
            row = collected((*row.terms, *((i, -factor * c) for i, c in form.terms)), row.constant - factor * form.constant)
    return row
