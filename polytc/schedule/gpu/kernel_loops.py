"""Loop nests inside of a launch: what each work-item runs by itself, and whole programs in one work-group.

    for t in 0:100 { B[i] = A[i-1] + A[i+1];  A[i] = B[i] where i in 1:1999 }                   with inout A[2000] on gpu
    ->  block0 0, for t { parallel i // 256, thread0 i % 256 { B[i] = A[i-1] + A[i+1] }
                          parallel i // 256, thread0 i % 256 { A[i] = B[i] } }

In one group the items meet at barriers (codegen.passes.barriers) where launches would follow one another: quicker, as long as
the items of a group can do what there is to do at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from math import ceil, prod

from polytc.machine import Estimate, Machine
from polytc.poly.nest import Band, Leaf, Member, Nest, Sequence
from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, add
from polytc.schedule.cost.footprints import row_ends
from polytc.schedule.facts import bands
from polytc.schedule.facts.bands import LinearLoop, Tree
from polytc.schedule.facts.conflicts import Rows, reduced, text
from polytc.schedule.facts.strides import vector_score
from polytc.schedule.gpu import batches
from polytc.schedule.gpu import strategy as gpu
from polytc.schedule.tiling import tile_sizes
from polytc.schedule.tiling.point_loops import Scene

MANY = 1 << 30
"""Iterations of loops that a group has to divide, whatever they are."""


@dataclass(frozen=True)
class Plan:
    """time: estimated, of one iteration of the loops around; items: of the group along each axis, where it is one group."""

    nest: Nest
    time: Estimate
    items: tuple[int, ...] = ()


def phase_time(machine: Machine, instances: float, near: bool = False) -> Estimate:
    """Of so many instances one after another for all items of a group, and of the barrier behind them. near: what they touch
    lies in local memory."""
    costs = machine.costs.launches
    if near:
        return Estimate(arithmetic=costs.local_step * instances)
    return Estimate(arithmetic=costs.group_step * instances, barriers=costs.barrier)


def member(scene: Scene, loop: LinearLoop, kind: str = "sequential", divisor: int = 1, modulus: int = 0) -> Member:
    """The loop, or that over its tiles of `divisor` iterations, as a member of a band of the nest; modulus: its place among so
    many, or 0. Tiles begin at the first iteration, if that is below 0, else at 0, where memory begins."""
    first = min(0, *(row_ends(scene.statements[s], r)[0] for s, r in loop.rows)) if divisor > 1 or modulus else 0

    def part(row: Linear) -> str:
        found = text(replace(row, constant=row.constant - first))
        found = f"floor(({found})/{divisor})" if divisor > 1 else found
        return f"({found}) mod {modulus}" if modulus else found
    return Member(tuple((scene.statements[s].name, part(r)) for s, r in loop.rows), kind, loop.coincident)


def members(scene: Scene, loops: tuple[LinearLoop, ...]) -> tuple[Member, ...]:
    """Sequential members."""
    return tuple(member(scene, loop) for loop in loops)


def sequential_nest(scene: Scene, tree: Tree, name: str) -> Nest:
    """The tree as one work-item runs it."""
    match tree:
        case Leaf():
            return Leaf(scene.statements[tree.statement].name)
        case bands.Cut():
            raise AssertionError("groupwise: cut statements are a launch")
        case Sequence():
            return Sequence(tuple(sequential_nest(scene, x, f"{name}.{n}") for n, x in enumerate(tree.children)))
        case bands.PermutableBand():
            return Band(name, members(scene, tree.loops), sequential_nest(scene, tree.child, f"{name}.in"))


def parallel_prefix_loops(band: bands.PermutableBand) -> tuple[tuple[LinearLoop, ...], Tree]:
    """The loops of a band and of those that stand alone in it while all of them carry nothing, and what is inside."""
    loops, child = band.loops, band.child
    while isinstance(child, bands.PermutableBand) and all(loop.coincident for loop in loops):
        loops, child = (*loops, *child.loops), child.child
    return loops, child


def contiguous_first(scene: Scene, loops: list[LinearLoop], fixed: dict[str, Rows]) -> list[LinearLoop]:
    """Loops that carry nothing in the order of axes: first the one in which most accesses are contiguous, then the others from
    the innermost."""
    def score(n: int) -> tuple[int, int]:
        total = 0
        others = [loop for k, loop in enumerate(loops) if k != n]
        for s, row in loops[n].rows:
            left = reduced(row, (*fixed[s], *(x.row(s) for x in others)))
            names = {i: r.index for r, i in zip(scene.statements[s].ranges, scene.conflicts.indices[s], strict=True)}
            if len(left.terms) == 1 and len(row.terms) == 1:
                total += vector_score(scene.accesses(s), names[left.terms[0][0]]) * scene.statements[s].points
        return total, n
    return [loops[n] for n in sorted(range(len(loops)), key=score, reverse=True)]


def plan(scene: Scene, tree: Tree, fixed: dict[str, Rows], around: float, name: str) -> Plan:
    """The tree in one work-group. fixed: rows of the loops around; around: their iterations."""
    axes = gpu.items([MANY] * min(2, max(1, _most(tree))), scene.machine)
    inside = _Group(scene, tuple(axes)).of(tree, fixed, around, f"{name}.in")
    rows = tuple((scene.statements[s].name, "0") for s in bands.statements(tree))
    return Plan(Band(name, (Member(rows, kinds.group(0), coincident=True),), inside.nest), inside.time, tuple(axes))


def in_groups(scene: Scene, band: bands.PermutableBand, fixed: dict[str, Rows], around: float, name: str,
              local: frozenset[str] = frozenset()) -> Plan | None:
    """A band all of whose loops carry nothing: a work-group an iteration, whose items divide what is inside and meet at
    barriers. None where the band has more loops than a grid, inside has nothing to divide, or neighbours in memory would be of
    different groups. local: tensors that come to lie in local memory. See `plan`."""
    extents = _widest(scene, band.child)
    if len(band.loops) > len(kinds.AXES) or not extents or any(_walks_memory(scene, loop) for loop in band.loops):
        return None
    boxes = not any(scene.statements[s].where for s in bands.statements(band))
    axes = gpu.items([_most_instances(scene, band.child)] if boxes else extents[:2], scene.machine)
    inner = {s: (*fixed[s], *(loop.row(s) for loop in band.loops)) for s in bands.statements(band)}
    count = prod(tile_sizes.extent(scene, loop) for loop in band.loops)
    inside = _Group(scene, tuple(axes), local).of(band.child, inner, around * count, f"{name}.in")
    groups = tuple(member(scene, loop, kinds.group(axis)) for axis, loop in enumerate(reversed(band.loops)))[::-1]
    at_once = scene.machine.cores * _groups_at_once(scene, prod(axes), local, count)
    return Plan(Band(name, groups, inside.nest), ceil(count / at_once) * inside.time, tuple(axes))


def _walks_memory(scene: Scene, loop: LinearLoop) -> bool:
    """Is some access contiguous along a loop over one index?"""
    return any(a.stride(batches.index_of(scene, s, row)) == 1 for s, row in loop.rows for a in scene.accesses(s))


def _groups_at_once(scene: Scene, items: int, local: frozenset[str], members: int) -> int:
    """Groups of so many items that are under way in a unit, each with its part of what lies in local memory."""
    machine, costs = scene.machine, scene.machine.costs.launches
    warp = machine.warp or 1
    own = sum(scene.program.tensor(t).size * scene.program.tensor(t).dtype.bytes for t in local) // members
    room = machine.unit_local_bytes or machine.local_bytes
    return max(1, min(costs.groups, costs.items // (-(-items // warp) * warp), room // own if own else costs.groups))


def _most_instances(scene: Scene, tree: Tree) -> int:
    """Iterations at once of the loops that items may divide, at most."""
    match tree:
        case Leaf() | bands.Cut():
            return 1
        case Sequence():
            return max(_most_instances(scene, x) for x in tree.children)
        case bands.PermutableBand():
            free = _largest(scene, [loop for loop in parallel_prefix_loops(tree)[0] if loop.coincident])
            return prod(tile_sizes.extent(scene, loop) for loop in free) if free else _most_instances(scene, tree.child)


def _largest(scene: Scene, loops: list[LinearLoop]) -> list[LinearLoop]:
    """The two longest of several loops, in their order: those that items divide, numbered through. Of three numbers' digits isl
    makes no good text."""
    kept = sorted(range(len(loops)), key=lambda n: -tile_sizes.extent(scene, loops[n]))[:2]
    return [loops[n] for n in sorted(kept)]


def _widest(scene: Scene, tree: Tree) -> list[int]:
    """The iterations of the loops that items may divide, the largest in the tree along each axis, the fastest first."""
    match tree:
        case Leaf() | bands.Cut():
            return []
        case Sequence():
            found = [_widest(scene, x) for x in tree.children]
            return [max(n) for n in zip_longest(*found, fillvalue=1)]
        case bands.PermutableBand():
            free = [loop for loop in parallel_prefix_loops(tree)[0] if loop.coincident]
            return [tile_sizes.extent(scene, loop) for loop in reversed(free)] or _widest(scene, tree.child)


def _most(tree: Tree) -> int:
    """Loops at once around a statement, at most."""
    match tree:
        case Leaf() | bands.Cut():
            return 0
        case Sequence():
            return max(map(_most, tree.children))
        case bands.PermutableBand():
            free = sum(loop.coincident for loop in parallel_prefix_loops(tree)[0])
            return free or _most(tree.child)


@dataclass(frozen=True)
class _Group:
    """axes: items along them, one for all loops together or two; local: tensors in local memory."""

    scene: Scene
    axes: tuple[int, ...]
    local: frozenset[str] = frozenset()

    def of(self, tree: Tree, fixed: dict[str, Rows], around: float, name: str) -> Plan:
        """See `plan`."""
        if not _most(tree):
            return self.alone(tree, around, name)
        match tree:
            case Leaf() | bands.Cut():
                raise AssertionError("groupwise: a statement has no loops that items could divide")
            case Sequence():
                parts = [self.of(x, fixed, around, f"{name}.{n}") for n, x in enumerate(tree.children)]
                return Plan(Sequence(tuple(p.nest for p in parts)), sum((p.time for p in parts), Estimate()))
            case bands.PermutableBand() if any(loop.coincident for loop in tree.loops):
                return self.phase(tree, fixed, around, name)
        trips = float(prod(tile_sizes.extent(self.scene, loop) for loop in tree.loops))
        inner = {s: (*fixed[s], *(loop.row(s) for loop in tree.loops)) for s in bands.statements(tree)}
        child = self.of(tree.child, inner, around * trips, f"{name}.in")
        return Plan(Band(name, members(self.scene, tree.loops), child.nest), trips * child.time)

    def alone(self, tree: Tree, around: float, name: str) -> Plan:
        """A tree without loops that items could divide: the first item runs it."""
        points = sum(self.scene.statements[s].points for s in bands.statements(tree))
        rows = tuple((self.scene.statements[s].name, "0") for s in bands.statements(tree))
        first = tuple(Member(rows, kinds.item(axis), coincident=True) for axis in reversed(range(len(self.axes))))
        one = sequential_nest(self.scene, tree, f"{name}.one")
        return Plan(Band(name, first, one), phase_time(self.scene.machine, points / around))

    def phase(self, band: bands.PermutableBand, fixed: dict[str, Rows], around: float, name: str) -> Plan:
        """A band whose loops that carry nothing the items divide among themselves, in rounds between which nobody waits."""
        loops, child = parallel_prefix_loops(band)
        free = contiguous_first(self.scene, [loop for loop in loops if loop.coincident], fixed)
        free = _largest(self.scene, free) if len(self.axes) == 1 else free[:len(self.axes)]
        numbered = tuple(free) if len(self.axes) == 1 < len(free) else ()     # the fastest first: digits from the last one on
        rest = (*numbered, *(loop for loop in loops if loop not in free))
        total = prod(self.axes)
        rounds: list[Member] = []
        threads: list[Member] = []
        if len(free) == 1 or len(self.axes) == 1:
            whole = _numbered(self.scene, free)
            rounds.append(member(self.scene, whole, "parallel", total))
            for axis, size in enumerate(self.axes):
                threads.append(member(self.scene, whole, kinds.item(axis), prod(self.axes[:axis]), size))
        else:
            for axis, (loop, size) in enumerate(zip(free, self.axes, strict=True)):
                rounds.append(member(self.scene, loop, "parallel", size))
                threads.append(member(self.scene, loop, kinds.item(axis), modulus=size))
        body = sequential_nest(self.scene, child, f"{name}.one")
        if rest:
            body = Band(f"{name}.item", members(self.scene, rest), body)
        items = Band(f"{name}.thread", tuple(reversed(threads)), body, whole=True)
        made = Band(name, tuple(reversed(rounds)), items, whole=True)
        points = sum(self.scene.statements[s].points for s in bands.statements(band))
        busy = min(total, prod(tile_sizes.extent(self.scene, loop) for loop in free))
        return Plan(made, phase_time(self.scene.machine, ceil(max(1.0, points / around / busy)), self.near(band)))

    def near(self, band: bands.PermutableBand) -> bool:
        """Does all that the statements of a band touch lie in local memory, or is read by all groups and in the first cache?"""
        statements = [self.scene.statements[s] for s in bands.statements(band)]
        if not self.local or not {s.target for s in statements} <= self.local:
            return False
        others = {r.tensor for s in statements for r in pr.reads(s)} - self.local
        return sum(t.size * t.dtype.bytes for t in map(self.scene.program.tensor, others)) <= self.scene.machine.local_bytes


def _numbered(scene: Scene, loops: list[LinearLoop]) -> LinearLoop:
    """One loop over the iterations of several, numbered through, the first the fastest; of one, that loop."""
    if len(loops) == 1:
        return loops[0]
    rows: dict[str, Linear] = {s: Affine(0, ()) for s, _ in loops[0].rows}
    stride = 1
    for loop in loops:
        first = min(row_ends(scene.statements[s], r)[0] for s, r in loop.rows)
        rows = {s: add(rows[s], replace(r, constant=r.constant - first), stride) for s, r in loop.rows}
        stride *= tile_sizes.extent(scene, loop)
    return LinearLoop(tuple(sorted(rows.items())), True)
