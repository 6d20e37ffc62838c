"""What can be said of a finished schedule: which loops there are, what keeps each from running its iterations at once, what
keeps two statements apart, how much data an iteration touches. Facts read off the tree, whoever made it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias, TypeVar

import islpy

from polytc.poly import counts, isl, legality, marks
from polytc.poly.dependences import Dependences
from polytc.poly.legality import Violation
from polytc.poly.marks import Mark
from polytc.poly.nest import Sequence
from polytc.poly.scop import Scop
from polytc.program import program as pr
from polytc.program.cardinality import Count
from polytc.schedule.tree import Schedule

T = TypeVar("T")
OPERATIONS = 200_000
"""isl operations for one answer; without one the report leaves it out."""
NEXT = 3
"""Loops of a statement that are tried with those of another."""


@dataclass(frozen=True)
class ReportedLoop:
    """One member of a band. name: of the band and, if it has several, the member's number, e.g. 'G0.1'; kind: see
    program.kinds.KINDS; rows: (statement, what it counts), e.g. ('S1', 'floor((o)/64)'); extent: how many values it takes;
    carries: a dependence between two of its iterations, if there is one; reduction: only instances of a reduction that may be
    reordered depend on each other."""

    name: str
    kind: str
    rows: tuple[tuple[str, str], ...]
    extent: int | None
    carries: Violation | None
    reduction: bool = False


@dataclass(frozen=True)
class ReportedBand:
    """Loops around `children`, outermost first; touched: (tensor, elements) of one iteration of all of them."""

    loops: tuple[ReportedLoop, ...]
    children: tuple[Found, ...]
    touched: tuple[tuple[str, Count], ...] = ()


@dataclass(frozen=True)
class ReportedLeaf:
    """The instances of statements, under all loops around them."""

    statements: tuple[str, ...]


Found: TypeAlias = "ReportedBand | Sequence[Found] | ReportedLeaf"


@dataclass(frozen=True)
class Apart:
    """Two statements of which the second depends on the first. shared: loops around both; why: what keeps them from sharing
    the next one too ('' if neither has one), witness: the dependence that forbids it, if any does."""

    first: str
    second: str
    kinds: tuple[str, ...]
    shared: int
    why: str
    witness: Violation | None


def tree(scop: Scop, deps: Dependences, schedule: Schedule) -> Found:
    """The loops of the schedule, with what each carries."""
    return _node(schedule.tree.get_root(), scop, deps, None, [0])


def _node(node: islpy.ScheduleNode, scop: Scop, deps: Dependences, mark: Mark | None, unnamed: list[int]
          ) -> Found:
    children = [node.child(n) for n in range(node.n_children())]
    match node.get_type():
        case islpy.schedule_node_type.mark:
            return _node(children[0], scop, deps, marks.of(node), unnamed)
        case islpy.schedule_node_type.band:
            if mark is None:
                unnamed[0] += 1
                mark = Mark(f"B{unnamed[0]}")
            inner = _node(children[0], scop, deps, None, unnamed)
            inside = inner.children if isinstance(inner, Sequence) else (inner,)
            return ReportedBand(_loops(node, deps, mark), inside, _bounded(scop, lambda: _touched(children[0], scop)) or ())
        case islpy.schedule_node_type.sequence | islpy.schedule_node_type.set:
            return Sequence(tuple(_node(c, scop, deps, None, unnamed) for c in children))
        case islpy.schedule_node_type.leaf:
            return ReportedLeaf(tuple(s.get_tuple_name() for s in isl.sets(node.get_domain())))
        case _:
            return _node(children[0], scop, deps, mark, unnamed)


def _loops(band: islpy.ScheduleNode, deps: Dependences, mark: Mark) -> tuple[ReportedLoop, ...]:
    count = band.band_n_member()
    partial, domain = band.band_get_partial_schedule(), band.get_domain()
    found = []
    for d in range(count):
        member = partial.get_at(d).intersect_domain(domain)
        kept = deps.kept_apart(mark.kind(d))
        carries = _bounded(deps.flow, lambda d=d, kept=kept: legality.carried(band, d, kept))  # type: ignore[misc]
        rest = carries is not None and _bounded(deps.flow, lambda d=d: legality.carried(band, d, deps.order)) is None  # type: ignore[misc]
        found.append(ReportedLoop(f"{mark.name}.{d}" if count > 1 else mark.name, mark.kind(d),
                          _rows(member), _extent(member), carries, rest))
    return tuple(found)


def _rows(member: islpy.UnionPwAff) -> tuple[tuple[str, str], ...]:
    parts = re.findall(r"([A-Za-z_]\w*)\[[^\]]*\] -> \[\((.*?)\)\](?=;| }| :)", str(member))
    return tuple(dict.fromkeys(parts))


def _extent(member: islpy.UnionPwAff) -> int | None:
    """How many values a member takes, at most."""
    low, high = isl.ends(member)
    return high.to_python() - low.to_python() + 1 if low.is_int() and high.is_int() else None


def _touched(node: islpy.ScheduleNode, scop: Scop) -> tuple[tuple[str, Count], ...]:
    """Elements of each tensor that one iteration of the loops around `node` touches, in the middle of their domain."""
    times = node.get_prefix_schedule_relation().intersect_domain(node.get_domain())
    here = isl.maps(times)
    middle = _middle(max((m.range() for m in here), key=lambda s: s.n_basic_set()))
    instances = times.intersect_range(middle.to_union_set()).domain()
    accesses = scop.reads.union(scop.writes).intersect_domain(instances)
    return tuple(sorted((s.get_tuple_name(), counts.point_count(s)) for s in isl.sets(accesses.range())))


def _middle(s: islpy.Set) -> islpy.Set:
    for d in range(s.dim(islpy.dim_type.set)):
        low, high = s.dim_min_val(d).to_python(), s.dim_max_val(d).to_python()
        fixed = s.fix_val(islpy.dim_type.set, d, islpy.Val(int(low + high) // 2, s.get_ctx()))
        s = fixed if not fixed.is_empty() else s.fix_val(islpy.dim_type.set, d, islpy.Val(int(low), s.get_ctx()))
    return s


def _bounded(of: Scop | islpy.UnionMap, compute: Callable[[], T]) -> T | None:
    ctx = of.ctx if isinstance(of, Scop) else of.get_ctx()
    try:
        return isl.bounded(ctx, OPERATIONS, compute)
    except isl.QuotaExceeded:
        return None


# ---- what keeps statements apart

def pairs(scop: Scop, deps: Dependences, schedule: Schedule) -> tuple[Apart, ...]:
    """Every pair of statements of which one depends on the other."""
    paths = _paths(schedule)
    kinds: dict[tuple[str, str], list[str]] = {}
    for kind in ("flow", "anti", "output"):
        for m in isl.maps(getattr(deps, kind)):
            ends = m.get_tuple_name(islpy.dim_type.in_), m.get_tuple_name(islpy.dim_type.out)
            if ends[0] != ends[1]:
                kinds.setdefault(ends, []).append(kind)
    order = {isl.name(s.name): n for n, s in enumerate(scop.program.statements)}
    found = []
    for a, b in sorted(kinds, key=lambda p: (order[p[0]], order[p[1]])):
        apart = _bounded(scop, lambda a=a, b=b: _apart(a, b, paths, deps, tuple(kinds[a, b])))  # type: ignore[misc]
        if apart is not None:
            found.append(apart)
    return tuple(found)


_Row: TypeAlias = tuple[int, islpy.UnionPwAff]


def _paths(schedule: Schedule) -> dict[str, list[_Row]]:
    """statement -> its loops, outermost first, as (number of the member, unique in the tree; what it counts)."""
    found: dict[str, list[_Row]] = {}
    number = 0

    def visit(node: islpy.ScheduleNode, above: list[_Row]) -> None:
        nonlocal number
        if node.get_type() == islpy.schedule_node_type.band:
            partial = node.band_get_partial_schedule()
            for d in range(node.band_n_member()):
                number += 1
                above = [*above, (number, partial.get_at(d))]
        if node.get_type() == islpy.schedule_node_type.leaf:
            for s in isl.sets(node.get_domain()):
                found.setdefault(s.get_tuple_name(), above)
        for n in range(node.n_children()):
            visit(node.child(n), above)

    visit(schedule.tree.get_root(), [])
    return found


def _apart(a: str, b: str, paths: dict[str, list[_Row]], deps: Dependences, kinds: tuple[str, ...]) -> Apart:
    first, second = paths[a], paths[b]
    shared = 0
    while shared < min(len(first), len(second)) and first[shared][0] == second[shared][0]:
        shared += 1
    if shared == len(first) or shared == len(second):
        return Apart(a, b, kinds, shared, "", None)
    between = islpy.UnionMap.empty(deps.flow.get_space())
    for m in isl.maps(deps.order):
        if (m.get_tuple_name(islpy.dim_type.in_), m.get_tuple_name(islpy.dim_type.out)) == (a, b):
            between = between.union(m.to_union_map())
    for (_, row), (_, other) in zip(first[:shared], second[:shared], strict=True):
        both = row if row is other else row.union_add(other)
        between = between.eq_at_multi_union_pw_aff(islpy.MultiUnionPwAff.from_union_pw_aff(both))
    rest = ([row for _, row in path[shared:][:NEXT]] for path in (first, second))
    return Apart(a, b, kinds, shared, *_reason(between, *rest))


def _reason(between: islpy.UnionMap, first: list[islpy.UnionPwAff], second: list[islpy.UnionPwAff]
            ) -> tuple[str, Violation | None]:
    """Why none of the next loops of one statement is shared with one of the other."""
    witness: Violation | None = None
    for before, after in product(first, second):
        times = list(_times(between, before, after))
        if all(m.is_subset(islpy.Map.identity(m.get_space())) for m, _ in times):
            return "these two alone could share one more loop; the strategy expects no gain from it", None
        late = (back(m.order_gt(islpy.dim_type.in_, 0, islpy.dim_type.out, 0)) for m, back in times)
        witness = witness or next(filter(None, late), None)
    if witness is None:
        return "no loop of one runs over the same elements as a loop of the other", None
    return "in one more shared loop the second would run before what it depends on", witness


def _times(pairs_: islpy.UnionMap, before: islpy.UnionPwAff, after: islpy.UnionPwAff
           ) -> Iterator[tuple[islpy.Map, Callable[[islpy.Map], Violation | None]]]:
    """For each map of the pairs: when source and sink run, and from such times back to a pair."""
    sources, sinks = ({m.get_tuple_name(islpy.dim_type.in_): m for m in isl.maps(islpy.UnionMap.from_union_pw_aff(u))}
                      for u in (before, after))
    for m in isl.maps(pairs_):
        source, sink = sources[m.get_tuple_name(islpy.dim_type.in_)], sinks[m.get_tuple_name(islpy.dim_type.out)]

        def back(times: islpy.Map, m: islpy.Map = m, source: islpy.Map = source, sink: islpy.Map = sink) -> Violation | None:
            found = isl.sample(times.apply_domain(source.reverse()).apply_range(sink.reverse()).intersect(m))
            return Violation(*found) if found is not None else None
        yield m.apply_domain(source).apply_range(sink), back


def statements(found: Found) -> tuple[str, ...]:
    """Names of the statements below, in order."""
    if isinstance(found, ReportedLeaf):
        return found.statements
    return tuple(s for c in found.children for s in statements(c))


def of_program(program: pr.Program, name: str) -> pr.Statement:
    """The statement with that name in isl's notation."""
    return next(s for s in program.statements if isl.name(s.name) == name)
