"""Statements that run in the same loops, of which isl generates the loops of one.

    for i { vector j { A[i,j] = X[i,j] + 1.0 };  vector j { B[i,j] = X[i,j] * 2.0 } }
    ->  for i { vector j { A[i,j] = X[i,j] + 1.0 } }                            B's loops are A's, once more

Two neighbours in a sequence are twins where their instances, all bands around them and all bands below them are the same, and
no other node has a part of their instances. isl's AST generation compares the statements of each band with each other; half of
its time goes with the twins of what Winograd's transforms unroll.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import islpy

from polytc.poly import isl, marks
from polytc.poly.scop import Scop

_TYPES = islpy.schedule_node_type


@dataclass(frozen=True)
class Twins:
    """tree: without the statements that are another's twin. behind: the mark above the bands that only one statement has, or
    its isl name where it has none -> isl names of the statement and, in order, of its twins."""

    tree: islpy.Schedule
    behind: dict[str, tuple[str, ...]]


def found(scop: Scop, tree: islpy.Schedule) -> Twins:
    """The twins in a schedule tree of the program."""
    statements = scop.program.statements
    if len({(s.ranges, s.where, s.bounds) for s in statements}) == len(statements):
        return Twins(tree, {})
    visit = _Visit({})
    for s in statements:  # isl prints equal sets in different ways
        visit.places[isl.name(s.name)] += 1
        visit.rows[isl.name(s.name)] = [row for _, row in _rows(f"{{{isl.domain(s, bool(scop.boxed))}}}")]
    visit.node(tree.get_root())
    behind = {own[0].key: tuple(x.statement for x in own) for own in visit.runs()}
    if not behind:
        return Twins(tree, {})
    gone = {name for _, *others in behind.values() for name in others}
    kept = "; ".join(isl.instance(s) for s in statements if isl.name(s.name) not in gone)
    given = isl.parameters(scop.program)
    return Twins(tree.intersect_domain(islpy.UnionSet.read_from_str(scop.ctx, f"{given}{{ {kept} }}")), behind)


@dataclass(frozen=True)
class _Alone:
    """A child of a sequence with one statement: the key of Twins.behind, and of the marks and bands below it the kinds, and how
    many members there are."""

    statement: str
    key: str
    kinds: tuple[str, ...]


@dataclass
class _Visit:
    """rows: the instances of each statement and what each band around it makes of them, outermost first; sequences: children of
    each sequence, None for one of several statements; places: how often each mark and each name of a statement is there, as
    users may write one twice; divided: statements of which several filters of a node have instances."""

    rows: dict[str, list[str]]
    sequences: list[list[_Alone | None]] = field(default_factory=list)
    places: Counter[str] = field(default_factory=Counter)
    divided: set[str] = field(default_factory=set)

    def node(self, node: islpy.ScheduleNode) -> None:
        if node.get_type() == _TYPES.band:
            for name, row in _rows(str(node.band_get_partial_schedule())):
                self.rows[name].append(row)
        if node.get_type() == _TYPES.mark:
            self.places[str(marks.of(node))] += 1
        children = [node.child(i) for i in range(node.n_children())]
        for child in children:
            self.node(child)
        if node.get_type() in (_TYPES.sequence, _TYPES.set):
            filters = [[name for name, _ in _rows(str(child.filter_get_filter()))] for child in children]
            met = Counter(name for names in filters for name in set(names))
            self.divided |= {name for name, n in met.items() if n > 1}
            if node.get_type() == _TYPES.sequence:
                self.sequences.append([_alone(*x) for x in zip(children, filters, strict=True)])

    def runs(self) -> Iterator[list[_Alone]]:
        """Neighbours that are twins of each other, two at least."""
        for children in self.sequences:
            run = list[_Alone]()
            for child in (*children, None):
                x = child if child is not None and self.places[child.key] == 1 and child.statement not in self.divided else None
                if run and (x is None or x.kinds != run[0].kinds or self.rows[x.statement] != self.rows[run[0].statement]):
                    if len(run) > 1:
                        yield run
                    run = []
                if x is not None:
                    run.append(x)


_ITEM = re.compile(r"(\w+)(\[[^;{}]*)")


def _rows(text: str) -> Iterator[tuple[str, str]]:
    """The statements in isl's text of a union, each with what follows its name."""
    for part in re.findall(r"\{([^{}]*)\}", text):
        for item in part.split(";"):
            found_ = _ITEM.match(item.strip())
            if found_ is not None:
                yield found_[1], found_[2].strip()


def _alone(child: islpy.ScheduleNode, statements: list[str]) -> _Alone | None:
    """The filter of a sequence, that of these statements, as one of a single statement with nothing but marked bands below."""
    key, kinds, node = "", list[str](), child.child(0)
    while node.get_type() in (_TYPES.mark, _TYPES.band):
        if node.get_type() == _TYPES.mark:
            mark = marks.of(node)
            key = key or str(mark)
            kinds.append(" ".join(mark.kinds))
        elif not key:
            return None
        else:
            kinds.append(str(node.band_n_member()))
        node = node.child(0)
    alone = len(statements) == 1 and node.get_type() == _TYPES.leaf
    return _Alone(statements[0], key or statements[0], tuple(kinds)) if alone else None
