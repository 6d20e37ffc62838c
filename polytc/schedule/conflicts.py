"""Which instances are in each other's way while some loops stand still: the question behind distribution, permutation, parallel
and vector loops.

Asked of dependences with symbolic sizes (poly.symbolic), which is quick; the schedule that comes of the answers is proved later
with the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

import islpy

from polytc.lang.linear import Linear
from polytc.poly import isl

Rows = tuple[Linear, ...]
"""Times of one statement, outermost loop first."""


def text(form: Linear, suffix: str = "") -> str:
    """A linear form in isl's notation; suffix: of the indices' names."""
    terms = [f"{c}*{i}{suffix}" if c != 1 else f"{i}{suffix}" for i, c in form.terms]
    return " + ".join([*terms, str(form.constant)] if form.constant or not terms else terms)


@dataclass
class Conflicts:
    """indices: of each statement, by isl's names; order: what schedules respect; all: what parallel loops may not carry;
    reduction: pairs that meet in one element and commute."""

    indices: dict[str, tuple[str, ...]]
    order: dict[tuple[str, str], islpy.Map]
    all: dict[tuple[str, str], islpy.Map]
    reduction: dict[tuple[str, str], islpy.Map]
    _known: dict[tuple[object, ...], bool] = field(default_factory=dict)

    @staticmethod
    def of(indices: dict[str, tuple[str, ...]], order: islpy.UnionMap, everything: islpy.UnionMap, reduction: islpy.UnionMap
           ) -> Conflicts:
        return Conflicts(indices, _pairs(order), _pairs(everything), _pairs(reduction))

    def follows(self, source: str, sink: str, rows: Sequence[tuple[Linear, Linear]]) -> bool:
        """Must some instance of `sink` run after one of `source` although they agree in these rows (of either)?"""
        key = ("follows", source, sink, frozenset(rows))
        if key not in self._known:
            pairs = self.order.get((source, sink))
            self._known[key] = pairs is not None and not pairs.intersect(self._where(pairs, source, sink, rows)).is_empty()
        return self._known[key]

    def legal(self, statement: str, fixed: Rows, loops: Rows) -> bool:
        """May the instances of a statement that agree in the rows `fixed` run in these loops?"""
        pairs = self.order.get((statement, statement))
        if pairs is None:
            return True
        pairs = pairs.intersect(self._where(pairs, statement, statement, [(r, r) for r in fixed]))
        for depth, row in enumerate((*loops, None)):
            same = [(r, r) for r in loops[:depth]]
            wrong = "" if row is None else f"{text(row)} > {text(row, QUOTE)}"
            if not pairs.intersect(self._where(pairs, statement, statement, same, wrong)).is_empty():
                return False
        return True

    def carries(self, statement: str, outside: Rows, loop: Linear) -> bool:
        """Does a loop carry a dependence of a statement with itself, the rows outside standing still?"""
        key = ("carries", statement, frozenset(outside), loop)
        if key not in self._known:
            pairs = self.all.get((statement, statement))
            same = [(r, r) for r in outside]
            self._known[key] = pairs is not None and not pairs.intersect(
                self._where(pairs, statement, statement, same, f"{text(loop)} != {text(loop, QUOTE)}")).is_empty()
        return self._known[key]

    def together(self, loop: dict[str, Linear], fixed: dict[str, Rows]) -> bool:
        """Do instances of these statements that are in each other's way always run in one iteration of a loop over all of them,
        the rows outside standing still? loop: its row of each statement."""
        for source, sink in product(loop, repeat=2):
            pairs = self.all.get((source, sink))
            if pairs is not None:
                same = tuple(zip(fixed[source], fixed[sink], strict=True))
                apart = f"{text(loop[source])} != {text(loop[sink], QUOTE)}"
                if not pairs.intersect(self._where(pairs, source, sink, same, apart)).is_empty():
                    return False
        return True

    def reduces(self, statement: str, outside: Rows, loop: Linear) -> bool:
        """Do all instances that the rows outside do not tell apart meet in one element and commute?"""
        pairs = self.reduction.get((statement, statement))
        if pairs is None:
            return False
        apart = self._where(pairs, statement, statement, [(r, r) for r in outside], f"{text(loop)} != {text(loop, QUOTE)}")
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

    def _where(self, pairs: islpy.Map, source: str, sink: str, rows: Iterable[tuple[Linear, Linear]], more: str = ""
               ) -> islpy.Map:
        """The pairs that agree in `rows`, with one more condition."""
        conditions = [f"{text(a)} = {text(b, QUOTE)}" for a, b in rows] + ([more] if more else [])
        ins, outs = ", ".join(self.indices[source]), ", ".join(f"{i}{QUOTE}" for i in self.indices[sink])
        return islpy.Map.read_from_str(pairs.get_ctx(),
                                       f"{{ {source}[{ins}] -> {sink}[{outs}] : {' and '.join(conditions) or 'true'} }}")


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
    return Linear(_without(row, pivots).terms, 0)


def _without(row: Linear, pivots: list[tuple[str, Linear]]) -> Linear:
    for index, form in pivots:
        factor = row.coefficient(index) * form.coefficient(index)
        if factor:
            terms = {i: row.coefficient(i) - factor * form.coefficient(i) for i in dict((*row.terms, *form.terms))}
            row = Linear(tuple(sorted((i, c) for i, c in terms.items() if c)), row.constant - factor * form.constant)
    return row
