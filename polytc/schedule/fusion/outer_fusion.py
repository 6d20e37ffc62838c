"""Fusion at the outer loops alone: groups, each with loops and tiles of its own, under the coincident loops that they share.

    P[c,h,w] = (X[c,h-1,w-1] else 0) where h in 0:58, w in 0:58;  O[c,h,w] += P[c,h+r,w+s]*W[c,r,s]
                                                                with X[64,56,56], W[64,3,3]
    ->  parallel c { for h, w // 32, vector w % 32 { P[c,h,w] = (X[c,h-1,w-1] else 0.0) }
                     for h // 6, w // 16 { unroll r, s, h % 6, vector w % 16 { O[c,h,w] += P[c,h+r,w+s]*W[c,r,s] } } }

What one group makes for the next is then a slice that stays in the caches (codegen.passes.array_contraction keeps only that),
and there is one parallel region where there were several. Groups are clustered if each reads what the others made in the same
iteration of the shared loops, if that is worth keeping in cache and fits there, and if no contraction loses the reuse of an
operand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.schedule.decisions import Decisions, Misfit, Outer
from polytc.schedule.facts.fusion_groups import Group, aligned, hides_conflict, is_contraction
from polytc.schedule.facts.strides import of_statement
from polytc.schedule.fusion import panel_blocks
from polytc.schedule.fusion.cluster import Cluster

FEWEST = 8
"""Iterations of a loop that give an operand enough reuse, and shared iterations that a cluster keeps at least for threads."""
LARGEST = 96
"""Statements of a cluster."""
NARROW = 64
"""Bytes of the largest tensor for one of a tensor whose walk does not count."""
ALONE = "none"
"""What a group joins that shares no outer loops with those before it."""


def clusters(program: pr.Program, groups: tuple[Group, ...], machine: Machine, around: int = 1,
             made: Decisions | None = None) -> tuple[Cluster, ...]:
    """Neighbouring groups joined greedily, in order. around: iterations of the loops that the groups share already; made: where
    decisions are noted, and given ones found."""
    found: list[Cluster] = []
    for group in groups:
        found[-2:] = _decided(program, found[-2:], group, machine, around, made)
    return tuple(found)


def _decided(program: pr.Program, last: list[Cluster], group: Group, machine: Machine, around: int, made: Decisions | None
             ) -> list[Cluster]:
    """What takes the place of the last clusters to take the group in."""
    alone, places = [*last, Cluster((group,))], _places(last)
    joins = [(p, list(_joined(program, p.cluster, group, machine))) for p in places]

    def own() -> list[Cluster]:
        found, joins_last = list[list[Cluster]](), False
        for place, candidates in joins:
            if place.leads_away and joins_last:
                continue
            joined = next((c for c in candidates if _pays(program, place.cluster, c, machine, around)), None)
            if joined is not None and not (place.leads_away and _gain(program, joined) <= _gain(program, last[-1])):
                found.append([*place.before, joined])
                joins_last |= place.cluster is last[-1]
        return max(found, key=lambda c: _gain(program, c[-1]), default=alone)

    if made is None or not any(candidates for _, candidates in joins):
        return own()
    options = ([*place.before, c] for place, candidates in joins for c in candidates)
    return made.take("outer", group.statements[0].name, own, lambda tail: _written(tail[-1]),
                     lambda given: _read(program, last, group, given),
                     options=lambda: ((tail, None) for tail in (*options, alone)))


@dataclass(frozen=True)
class _Place:
    """A cluster that the next group may join, and what comes before it then. leads_away: from the last cluster its last
    group."""

    before: tuple[Cluster, ...]
    cluster: Cluster
    leads_away: bool = False


def _places(last: list[Cluster]) -> list[_Place]:
    """The last cluster; that before it, if the last one may run before that; and the last group of the last one, which leaves
    the others."""
    found = [_Place(tuple(last[:-1]), last[-1])] if last else []
    if len(last) == 2 and may_swap(_with_rows(last[0]).whole, _with_rows(last[1]).whole):
        found.append(_Place((last[1],), last[0]))
    if last and last[-1].rows:
        found.append(_Place((*last[:-1], last[-1].without_last), Cluster(last[-1].groups[-1:]), leads_away=True))
    return found


def _written(cluster: Cluster) -> Outer:
    """The line of the last group of a cluster."""
    first = cluster.groups[0]
    if len(cluster.groups) == 1:
        return Outer(first.statements[0].name, ALONE)
    rows = tuple(first.rows[row[0]][0] for row in cluster.rows)
    return Outer(cluster.groups[-1].statements[0].name, first.statements[0].name, rows, cluster.block)


def _read(program: pr.Program, last: list[Cluster], group: Group, given: Outer) -> list[Cluster]:
    """What a line says of a group. Raises Misfit."""
    possible = {p.cluster.groups[0].statements[0].name: p for p in _places(last)}
    if given.joins == ALONE and not given.rows and given.block == 1:
        return [*last, Cluster((group,))]
    if given.joins not in possible:
        raise Misfit(f"it can join {', '.join(possible)} or {ALONE}")
    place, joined = possible[given.joins], possible[given.joins].cluster
    if given.block != 1 and joined.block == 1:
        return [*place.before, panel_blocks.given(program, joined, group, given)]
    names = {joined.groups[0].rows[row[0]][0]: row for row in shared_rows(joined, group)}
    rows = tuple(names[i] for i in given.rows if i in names)
    if not rows or tuple(sorted(rows, key=list(names.values()).index)) != rows or len(rows) != len(given.rows):
        raise Misfit(f"the loops that it can share with {given.joins} are {', '.join(names) or 'none'}, in this order")
    if given.block != joined.block:
        raise Misfit(f"{given.joins} runs in blocks of {joined.block}")
    return [*place.before, replace(joined, groups=(*joined.groups, group), rows=rows)]


def _gain(program: pr.Program, joined: Cluster) -> int:
    """Bytes that the last group reads of what the others made."""
    wanted = {r.tensor for s in joined.groups[-1].statements for r in pr.reads(s)}
    made = {s.target for g in joined.groups[:-1] for s in g.statements} & wanted
    return sum(program.tensor(n).size * program.tensor(n).dtype.bytes for n in made)


def may_swap(a: Group, b: Group) -> bool:
    """May the groups change places? Neither touches what the other writes."""
    written = [{s.target for s in g.statements} for g in (a, b)]
    touched = [names | {r.tensor for s in g.statements for r in pr.reads(s)} for names, g in zip(written, (a, b), strict=True)]
    return not (touched[0] & written[1] or touched[1] & written[0])


def handed_on(program: pr.Program, groups: tuple[Group, ...]) -> set[str]:
    """The temporaries that one group makes and another one reads."""
    made = [{s.target for s in g.statements} for g in groups]
    read = [{r.tensor for s in g.statements for r in pr.reads(s)} for g in groups]
    between = {n for k, names in enumerate(made) for m, wanted in enumerate(read) if m != k for n in names & wanted}
    return between & set(program.temporaries)


def _with_rows(cluster: Cluster) -> Cluster:
    """A group alone shares all of its rows with itself."""
    return cluster if cluster.rows else Cluster(cluster.groups, tuple((r,) for r in range(len(cluster.groups[0].rows))))


def shared_rows(cluster: Cluster, new: Group) -> tuple[tuple[int, ...], ...]:
    """The shared loops of a cluster that a group has, too: it uses what the others made in the same iteration."""
    cluster = _with_rows(cluster)
    whole = cluster.whole
    if len(whole.statements) + len(new.statements) > LARGEST or hides_conflict(whole, new):
        return ()
    written = {s.target: n for n, s in enumerate(whole.statements)}
    shared: list[tuple[int, ...]] = []
    for r, row in enumerate(cluster.rows):
        taken = {x[-1] for x in shared}
        match = next((n for n in range(len(new.rows)) if n not in taken and aligned(whole, r, new, n, written)), None)
        if match is not None:
            shared.append((*row, match))
    return tuple(shared)


def _joined(program: pr.Program, cluster: Cluster, new: Group, machine: Machine) -> Iterator[Cluster]:
    """The cluster with one group more: as many shared loops as there may be, then fewer, then blocks of panels."""
    rows, whole = _with_rows(cluster).rows, _with_rows(cluster).whole
    along = {row for r, row in enumerate(rows) if cluster.block == 1 and _along_memory(program, whole, r)}
    shared = [row for row in shared_rows(cluster, new) if row[:-1] not in along]
    for depth in range(len(shared), 0, -1):
        yield replace(cluster, groups=(*cluster.groups, new), rows=tuple(shared[:depth]))
    if len(cluster.groups) == 1:
        yield from panel_blocks.joined(program, cluster.groups[0], new, machine)


def _along_memory(program: pr.Program, whole: Group, row: int) -> bool:
    """Does some access walk contiguously in this loop? Then it had better be a vector loop inside. What is much smaller than
    other tensors does not count: there is an element of it for each row of those."""
    largest = max(a.bytes for s in whole.statements for a in of_statement(program, s))
    return whole.extents[row] >= FEWEST and any(
        a.stride(whole.rows[row][n]) == 1 and NARROW * a.bytes > largest
        for n, s in enumerate(whole.statements) for a in of_statement(program, s))


def _pays(program: pr.Program, before: Cluster, joined: Cluster, machine: Machine, around: int) -> bool:
    """Is what flows from the groups to the new one too large for the first cache, but its slice small enough for the second?
    And does every contraction keep a loop in which it reuses what the shared loops do not change?"""
    if joined.block > 1 and before.block == 1:
        return panel_blocks.pays(program, joined, machine)
    count = joined.whole.iterations
    wanted = {r.tensor for s in joined.groups[-1].statements for r in pr.reads(s)}
    sizes = {n: program.tensor(n).size * program.tensor(n).dtype.bytes // around for n in handed_on(program, joined.groups)}
    ready = {s.target for g in before.groups for s in g.statements}
    flow = max((sizes[name] for name in sizes.keys() & wanted & ready), default=0)
    flow = max(flow, _read_again(program, joined) // around)
    first, second = machine.caches[0].bytes, machine.second_cache.bytes
    if count < FEWEST or 2 * flow <= first or sum(sizes.values()) > second * count:
        return False
    return all(_keeps_reuse(g, {row[n] for row in joined.rows}) for n, g in enumerate(joined.groups))


def _read_again(program: pr.Program, joined: Cluster) -> int:
    """Bytes of the largest tensor that the last group reads, and others before it, in the same iterations of the shared loops.
    Sums of products read what is laid out for their tiles, again and again."""
    *before, last = range(len(joined.groups))
    if any(s.op == "+" and is_contraction(s) for g in joined.groups for s in g.statements):
        return 0
    places = [_places_of_rows(joined, n) for n in (*before, last)]
    common = {t: d for t, d in places[last].items() if d and any(places[n].get(t) == d for n in before)}
    return max((program.tensor(t).size * program.tensor(t).dtype.bytes for t in common), default=0)


def _places_of_rows(joined: Cluster, n: int) -> dict[str, tuple[int, ...]]:
    """Of each tensor that a group reads and nobody writes: the dimensions that the shared loops walk over; none if several
    reads differ."""
    written = {s.target for g in joined.groups for s in g.statements}
    found = dict[str, tuple[int, ...]]()
    group = joined.groups[n]
    for m, s in enumerate(group.statements):
        names = [group.rows[row[n]][m] for row in joined.rows]
        for r in pr.reads(s):
            if r.tensor not in written:
                place = tuple(r.subscripts.index(pr.Index(i)) for i in names if pr.Index(i) in r.subscripts)
                place = place if len(place) == len(names) else ()
                found[r.tensor] = place if found.setdefault(r.tensor, place) == place else ()
    return found


def _keeps_reuse(group: Group, shared: set[int]) -> bool:
    """Each operand that a contraction reads again in a shared loop has another loop of its own that does."""
    kept = [r for r in range(len(group.rows)) if r not in shared and group.extents[r] >= FEWEST]
    for n, s in enumerate(group.statements):
        if is_contraction(s):
            for read in pr.reads(s):
                names = {e.name for e in pr.walk(read) if isinstance(e, pr.Index)}
                if any(group.rows[r][n] not in names for r in shared) and all(group.rows[r][n] in names for r in kept):
                    return False
    return True
