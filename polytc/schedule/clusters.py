"""Fusion at the outer loops alone: groups, each with loops and tiles of its own, under the coincident loops that they share.

    for c, h, w: P[c,h,w] = pad(X);   for c, h, w: O[c,h,w] += P[c,h+r,w+s]*W[c,r,s]
    ->  for c { for h, w: P[c,h,w] = pad(X);   for h, w: O[c,h,w] += P[c,h+r,w+s]*W[c,r,s] }

What one group makes for the next is then a slice that stays in the caches (codegen.passes.contract keeps only that), and there
is one parallel region where there were several. Groups are clustered if each reads what the others made in the same iteration
of the shared loops, if that is worth keeping in cache and fits there, and if no contraction loses the reuse of an operand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from polytc.lang import program as pr
from polytc.lang.scalars import I64
from polytc.machine import Machine
from polytc.schedule.groups import Group, aligned, hides, is_contraction
from polytc.schedule.strides import of_statement

FEWEST = 8
"""Iterations of a loop that give an operand enough reuse, and shared iterations that a cluster keeps at least for threads."""
LARGEST = 96
"""Statements of a cluster."""


@dataclass(frozen=True)
class Cluster:
    """groups: in order, as they were. rows[r]: for each group the number of its row that is shared loop r, outermost first; no
    rows for a group alone."""

    groups: tuple[Group, ...]
    rows: tuple[tuple[int, ...], ...] = ()

    @property
    def whole(self) -> Group:
        """All statements under the shared loops alone."""
        first = self.groups[0]
        return Group(tuple(s for g in self.groups for s in g.statements),
                     tuple(tuple(i for g, r in zip(self.groups, row, strict=True) for i in g.rows[r]) for row in self.rows),
                     tuple(first.ranges[row[0]] for row in self.rows))

    def part(self, position: int) -> Group:
        """A group as it is inside the shared loops: its statements with the shared indices fixed, its other rows."""
        group = self.groups[position]
        shared = [row[position] for row in self.rows]
        fixed = tuple(_fixed(s, {group.rows[r][n]: group.ranges[r][0] for r in shared}) for n, s in enumerate(group.statements))
        kept = [r for r in range(len(group.rows)) if r not in shared]
        return Group(fixed, tuple(group.rows[r] for r in kept), tuple(group.ranges[r] for r in kept))


def _fixed(s: pr.Statement, values: dict[str, int]) -> pr.Statement:
    """The statement for one value of some indices."""
    numbers: dict[str, pr.Expr] = {name: pr.Const(value, I64) for name, value in values.items()}
    return replace(s, value=pr.substitute(s.value, numbers), subscripts=tuple(pr.substitute(x, numbers) for x in s.subscripts),
                   where=tuple(pr.substitute(x, numbers) for x in s.where),
                   bounds=tuple(replace(b, lower=pr.substitute(b.lower, numbers), upper=pr.substitute(b.upper, numbers))
                                for b in s.bounds if b.index not in values),
                   ranges=tuple(r for r in s.ranges if r.index not in values))


def clusters(program: pr.Program, groups: tuple[Group, ...], machine: Machine, around: int = 1) -> tuple[Cluster, ...]:
    """Neighbouring groups joined greedily, in order. around: iterations of the loops that the groups share already."""
    found: list[Cluster] = []
    for group in groups:
        joined = _join(program, found[-1], group, machine, around) if found else None
        if joined is not None:
            found[-1] = joined
        else:
            found.append(Cluster((group,)))
    return tuple(found)


def _join(program: pr.Program, cluster: Cluster, new: Group, machine: Machine, around: int) -> Cluster | None:
    """The cluster with one group more, under as many shared loops as pay."""
    first = cluster.groups[0]
    rows = cluster.rows or tuple((r,) for r in range(len(first.rows)))
    whole = Cluster(cluster.groups, rows).whole
    if len(whole.statements) + len(new.statements) > LARGEST or hides(whole, new):
        return None
    written = {s.target: n for n, s in enumerate(whole.statements)}
    shared: list[tuple[int, ...]] = []
    for r, row in enumerate(rows):
        if _along_memory(program, whole, r):
            continue
        taken = {x[-1] for x in shared}
        match = next((n for n in range(len(new.rows)) if n not in taken and aligned(whole, r, new, n, written)), None)
        if match is not None:
            shared.append((*row, match))
    candidates = (Cluster((*cluster.groups, new), tuple(shared[:depth])) for depth in range(len(shared), 0, -1))
    return next((c for c in candidates if _pays(program, cluster, c, machine, around)), None)


def _along_memory(program: pr.Program, whole: Group, row: int) -> bool:
    """Does some access walk contiguously in this loop? Then it had better be a vector loop inside."""
    return whole.extents[row] >= FEWEST and any(a.stride(whole.rows[row][n]) == 1 for n, s in enumerate(whole.statements)
                                                for a in of_statement(program, s))


def _pays(program: pr.Program, before: Cluster, joined: Cluster, machine: Machine, around: int) -> bool:
    """Is what flows from the groups to the new one too large for the first cache, but its slice small enough for the second?
    And does every contraction keep a loop in which it reuses what the shared loops do not change?"""
    count = prod(joined.whole.extents)
    wanted = {r.tensor for s in joined.groups[-1].statements for r in pr.reads(s)}
    made = {s.target for g in joined.groups for s in g.statements} & set(program.temporaries)
    sizes = {name: program.tensor(name).size * program.tensor(name).dtype.bytes // around for name in made}
    ready = {s.target for g in before.groups for s in g.statements}
    flow = max((sizes[name] for name in made & wanted & ready), default=0)
    first, second = machine.caches[0].bytes, machine.caches[min(1, len(machine.caches) - 1)].bytes
    if count < FEWEST or 2 * flow <= first or sum(sizes.values()) > second * count:
        return False
    return all(_keeps_reuse(g, {row[n] for row in joined.rows}) for n, g in enumerate(joined.groups))


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
