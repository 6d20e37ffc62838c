"""Scop -> Dependences: which instance must run before which."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import islpy

from polytc.poly import isl
from polytc.poly.legality import Accesses
from polytc.poly.scop import Scop
from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.calls import published

PIECES = 64
"""Convex pieces of the dependences between two accesses: beyond that isl works on them for seconds, not counting operations."""


@dataclass(frozen=True)
class Dependences:
    """Pairs of instances, memory-based: every ordered pair that touches one element, at least one of them writing.

    flow: write then read; anti: read then write; output: write then write.
    reduction: pairs of instances of one update statement that meet in one element. They may run in any order, so they do not
        constrain the order (`order` leaves them out), but not at once, so they do constrain parallelism (`all` keeps them).
        Taking them out of value-based dependences would be unsound; see Note [Reductions].
    coarse: what exact ones need, where these are all pairs of instances of statements that touch one tensor. '' if exact.
    atomic: those of `reduction` whose statement is atomic: items of a GPU may run them at once.
    awaited: those of `flow` whose reader waits for what the writer publishes (program.calls): groups of a GPU may run them
        at once, if they begin in the order of their loops.
    accesses: what instances read and what they write, to name the element of a broken dependence; None: not known.

    Note [Reductions]: with value-based flow only the last instance of a reduction has a dependence on a reader. If the
    reduction were then reordered, another instance would be last and nothing would keep the reader after it. Memory-based
    dependences hold between every instance and the reader, so removing the self pairs loses nothing.
    """

    flow: islpy.UnionMap
    anti: islpy.UnionMap
    output: islpy.UnionMap
    reduction: islpy.UnionMap
    coarse: str = ""
    accesses: Accesses | None = None
    atomic: islpy.UnionMap | None = None
    awaited: islpy.UnionMap | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """isl's relations belong to a context, which stays in its process: they are read again, all in one."""
        return _read, (tuple(str(x) for x in (self.flow, self.anti, self.output, self.reduction)), self.coarse,
                       None if self.accesses is None else tuple(map(str, self.accesses)),
                       *(None if x is None else str(x) for x in (self.atomic, self.awaited)))

    @property
    def all(self) -> islpy.UnionMap:
        """What a parallel or vector loop must not carry."""
        return self.flow.union(self.anti).union(self.output)

    def kept_apart(self, kind: str) -> islpy.UnionMap:
        """What a loop of a kind must not carry whose iterations may run at once: atomic updates by groups and items of a GPU
        may meet, and its groups may wait for what others publish."""
        found = self.all.subtract(self.atomic) if kinds.is_mapped(kind) and self.atomic is not None else self.all
        return found.subtract(self.awaited) if kinds.is_group(kind) and self.awaited is not None else found

    @property
    def reducible(self) -> islpy.UnionMap:
        """What a reduce loop may carry, whose iterations have partial results: those of an atomic update have none."""
        return self.reduction.subtract(self.atomic) if self.atomic is not None else self.reduction

    @property
    def order(self) -> islpy.UnionMap:
        """What every schedule must respect."""
        return self.all.subtract(self.reduction)

    def __str__(self) -> str:
        return "\n".join(f"{title}: {value}" for title, value in (
            ("flow", self.flow), ("anti", self.anti), ("output", self.output), ("reduction", self.reduction)))


def _read(relations: tuple[str, ...], coarse: str, accesses: tuple[str, ...] | None, atomic: str | None,
          awaited: str | None) -> Dependences:
    """Copied or unpickled dependences, in a context of their own."""
    ctx = isl.new_context()
    flow, anti, output, reduction = (islpy.UnionMap.read_from_str(ctx, text) for text in relations)
    reads, writes = (islpy.UnionMap.read_from_str(ctx, text) for text in accesses or ("{ }", "{ }"))
    return Dependences(flow, anti, output, reduction, coarse, None if accesses is None else (reads, writes),
                       *(None if x is None else islpy.UnionMap.read_from_str(ctx, x) for x in (atomic, awaited)))


def analyse(scop: Scop, operations: int = isl.BUDGET) -> Dependences:
    """All dependences of the program's order. Reads of a gather are over-approximated, so its dependences are too.

    operations: isl's budget; where it is not enough the result is coarse.
    """
    try:
        found = isl.bounded(scop.ctx, operations, lambda: _exact(scop))
    except isl.QuotaExceeded as e:
        found = _coarse(scop, str(e))
    return replace(found, accesses=(scop.reads, scop.writes))


def _coarse(scop: Scop, why: str) -> Dependences:
    """All pairs of instances, in the program's order, of statements that touch one tensor and of which one writes it."""
    statements = scop.program.statements
    spaces = {s.get_tuple_name(): s.get_space() for s in isl.sets(scop.domain)}

    def between(sources: Callable[[pr.Statement], set[str]], sinks: Callable[[pr.Statement], set[str]]) -> islpy.UnionMap:
        found = islpy.UnionMap.empty(scop.domain.get_space())
        for (m, first), (n, second) in product(enumerate(statements), repeat=2):
            if sources(first) & sinks(second):
                a, b = (spaces[isl.name(s.name)] for s in (first, second))
                pairs = islpy.Map.lex_lt(a) if m == n else islpy.Map.universe(a.map_from_domain_and_range(b))
                order = _before(scop, m, n)
                found = found.union((pairs if order is None else pairs.intersect(order)).to_union_map())
        return found

    def writes(s: pr.Statement) -> set[str]:
        return {s.target}

    def reads(s: pr.Statement) -> set[str]:
        return {r.tensor for r in pr.reads(s)} | (set() if s.op is None else {s.target})
    return Dependences(between(writes, reads), between(reads, writes), between(writes, writes),
                       islpy.UnionMap.empty(scop.domain.get_space()), why)


def _exact(scop: Scop) -> Dependences:
    """The pairs that touch one element.

    Memory-based dependences need no search for the last write (Feautrier, Dataflow Analysis of Array and Scalar References,
    IJPP 1991): they are the pairs of accesses to one element in the order of the program.
    """
    statements = scop.program.statements
    place = {isl.name(s.name): n for n, s in enumerate(statements)}
    before = functools.cache(lambda first, second: _before(scop, first, second))

    @functools.cache  # what a statement reads and writes is often the same
    def coalesced(*several: islpy.Map) -> islpy.Map:
        return functools.reduce(lambda a, b: a.union(b), several).coalesce()

    @functools.cache
    def meeting(source: islpy.Map, sink: islpy.Map) -> islpy.Map | None:
        """The pairs, in the order of the program; None if these statements never are."""
        first, second = place[_instances(source)], place[_instances(sink)]
        if first > second and not pr.common_loops(statements[first], statements[second]):
            return None
        pairs = source.apply_range(sink.reverse())
        if pairs.n_basic_map() > PIECES:
            raise isl.QuotaExceeded(f"more than {PIECES} pieces")
        order = before(first, second)
        return pairs if order is None else pairs.intersect(order)

    def between(sources: islpy.UnionMap, sinks: islpy.UnionMap) -> islpy.UnionMap:
        touching: dict[str, list[islpy.Map]] = {}
        for sink in isl.maps(sinks):
            touching.setdefault(sink.get_tuple_name(islpy.dim_type.out), []).append(sink)
        found: dict[tuple[str, str], list[islpy.Map]] = {}
        for source in isl.maps(sources):
            for sink in touching.get(source.get_tuple_name(islpy.dim_type.out), ()):
                pairs = meeting(source, sink)
                if pairs is not None:
                    found.setdefault((_instances(source), _instances(sink)), []).append(pairs)
        result = islpy.UnionMap.empty(scop.domain.get_space())
        for several in found.values():
            result = result.union(coalesced(*several).to_union_map())
        return result

    reduction, atomic = _meeting(scop)
    return Dependences(between(scop.writes, scop.reads), between(scop.reads, scop.writes), between(scop.writes, scop.writes),
                       reduction, atomic=atomic, awaited=_awaited(scop, meeting))


def _awaited(scop: Scop, meeting: Callable[[islpy.Map, islpy.Map], islpy.Map | None]) -> islpy.UnionMap | None:
    """Pairs of instances of which the second one waits for what the first one publishes; None where nothing waits."""
    waiting = {s.name: published.awaited(s) for s in scop.program.statements}
    writes = {write.get_tuple_name(islpy.dim_type.in_): write for write in isl.maps(scop.writes)}
    found: islpy.UnionMap | None = None
    for source in filter(published.publishes, scop.program.statements):
        for sink in scop.program.statements:
            if source.target in waiting[sink.name]:
                pairs = meeting(writes[isl.name(source.name)], scop.reading(sink, source.target))
                if pairs is not None:
                    found = pairs.to_union_map() if found is None else found.union(pairs.to_union_map())
    return found


def _instances(accesses: islpy.Map) -> str:
    """Whose instances access something."""
    return str(accesses.get_tuple_name(islpy.dim_type.in_))


def _before(scop: Scop, first: int, second: int) -> islpy.Map | None:
    """The pairs of instances of two statements (by their places in the text) of which the first one runs before the second;
    None for all.

    Statements that share loops run in the order of these loops' indices, within one iteration in the order of the text. The
    instances of one statement are in the order of all its indices if it reads what it writes (updates, scans), or if memory
    decides where it writes (scatters, ranges in memory): others are independent within one iteration.
    """
    a, b = scop.program.statements[first], scop.program.statements[second]
    depth = pr.common_loops(a, b)
    if first < second and not depth:
        return None
    if first == second and (a.op is not None or pr.overlaps(a) or any(r.tensor == a.target for r in pr.reads(a))):
        depth = len(a.ranges)
    return earlier(scop.ctx, a, b, depth, True, first < second)


def earlier(ctx: islpy.Context, a: pr.Statement, b: pr.Statement, depth: int, less: bool, same: bool) -> islpy.Map:
    """The pairs of instances of two statements whose first `depth` indices are lexicographically less (if `less`), or are the
    same (if `same`)."""
    equal = [" and ".join(f"a{k} = b{k}" for k in range(depth)) or "true"] if same else []
    strictly = [" and ".join([*(f"a{k} = b{k}" for k in range(d)), f"a{d} < b{d}"]) for d in range(depth)] if less else []
    ins, outs = (f"{isl.name(s.name)}[{', '.join(f'{x}{k}' for k in range(len(s.ranges)))}]" for s, x in ((a, "a"), (b, "b")))
    return islpy.Map.read_from_str(ctx, f"{{ {ins} -> {outs} : {' or '.join(strictly + equal) or 'false'} }}")


def _meeting(scop: Scop) -> tuple[islpy.UnionMap, islpy.UnionMap | None]:
    """Pairs of instances of one update that meet in one element, but for those in which one reads by itself what the other
    writes: these do not commute. (Within one iteration of all loops there are none.) And those of atomic updates, if there are
    any."""
    result = islpy.UnionMap.read_from_str(scop.ctx, "{ }")
    atomic: islpy.UnionMap | None = None
    known = {isl.name(s.name): s for s in scop.program.statements}
    for write in isl.maps(scop.updates):
        pairs = write.apply_range(write.reverse())
        s = known[write.get_tuple_name(islpy.dim_type.in_)]
        if s.loops:
            own = scop.reading(s, s.target)
            pairs = pairs.subtract(write.apply_range(own.reverse())).subtract(own.apply_range(write.reverse()))
        result = result.union(pairs.to_union_map())
        if s.atomic:
            atomic = pairs.to_union_map() if atomic is None else atomic.union(pairs.to_union_map())
    return result, atomic
