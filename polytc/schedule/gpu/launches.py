"""The strategy for GPUs and programs with `for` loops: which loops the host runs, and which a launch.

    for t in 0:100 { B[i] = A[i-1] + A[i+1];  A[i] = B[i] where i in 1:199999 }                 with inout A[200000] on gpu
    ->  for t { block0 i // 256, thread0 i % 256 { B[i] = A[i-1] + A[i+1] }
                block0 i // 256, thread0 i % 256 { A[i] = B[i] } }

Loops that carry dependences run outside, so that what is inside is parallel: as the text has them, or where that leaves too
little, as isl's scheduler does (Feautrier, Some Efficient Solutions to the Affine Scheduling Problem, 1992; Verdoolaege &
Janssens, Scheduling for PPCG, 2017), which finds wavefronts: for Gauss-Seidel the host counts w = 4*t + 2*i + j, and a launch
runs over t and i. Which of them is best, and when a single group is quicker than launches, is an estimate of their times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Estimate, Machine
from polytc.poly import isl, nest, scheduler
from polytc.poly.dependences import Dependences
from polytc.poly.nest import Nest
from polytc.poly.scop import Scop
from polytc.program import kinds
from polytc.program import program as pr
from polytc.schedule.decisions import Decisions, LoopMapped, Misfit
from polytc.schedule.facts import bands, source_loops, work_groups
from polytc.schedule.facts.bands import Tree
from polytc.schedule.facts.conflicts import Rows
from polytc.schedule.facts.scheduler_constraints import Question, question
from polytc.schedule.gpu import batches, kernel_loops, loads_in_flight, tile_wavefronts
from polytc.schedule.gpu import strategy as gpu
from polytc.schedule.tiling import point_loops, tile_sizes
from polytc.schedule.tiling.point_loops import Scene


@dataclass(frozen=True)
class Planned:
    """What runs a tree. time: estimated, of one iteration of the loops around; parallel: does it hold loops of a launch? how:
    what was decided, in lines."""

    nest: Nest
    time: Estimate
    parallel: bool
    how: tuple[str, ...] = ()


def plan(scop: Scop, deps: Dependences, machine: Machine, policy: str | None = None, open_: bool = False,
         made: Decisions | None = None) -> tuple[Nest, list[str]]:
    """The nest of a program with `for` loops, and what was decided, in lines. Not yet proved. policy: of the fusion of
    statements outside of loops; open_: its sizes are representative ones; made: where decisions are noted, and given ones
    found."""
    made = made or Decisions()
    parts: list[Nest] = []
    notes: list[str] = []
    for x in work_groups.stretches(scop.program.statements):
        if isinstance(x, pr.Loop):
            chosen = _loop(scop, deps, machine, x, f"N{len(parts)}", open_, made)
            inside, found = chosen.nest, [*chosen.how]
        else:
            inside, found = gpu.plan(replace(scop.program, statements=x), machine, policy, vectors=not open_,
                                     prefix=f"F{len(parts)}", made=made)
        parts.append(inside)
        notes += found
    return parts[0] if len(parts) == 1 else nest.Sequence(tuple(parts)), notes


def _loop(scop: Scop, deps: Dependences, machine: Machine, loop: pr.Loop, name: str, open_: bool, made: Decisions
          ) -> Planned:
    """One loop nest: in the loops of the text, or in those of isl's scheduler if these are estimated to take less."""
    try:
        asked = question(scop, deps, tuple(s for s in loop.statements if not work_groups.is_cut(s)))
    except isl.QuotaExceeded as e:
        return Planned(nest.in_order((loop,), 0), Estimate(), False, (f"loop {loop.label}: program order: {e}",))
    scene = Scene(scop.program, point_loops.names(loop.statements), asked.conflicts, machine)
    mapping = _Mapping(scene, open_)
    written = source_loops.tree(asked.conflicts, (loop,))
    found = {"the text": mapping.whole(written, name)}
    notes: list[str] = []
    if source_loops.is_poor(asked.conflicts, written) and not bands.has_cut(written):
        for title, coincident in (("isl's scheduler", True), ("tiles", False)):
            try:
                tree = _asked(scop, asked, coincident)
            except (isl.QuotaExceeded, isl.Unschedulable, bands.Unreadable) as e:
                notes.append(f"isl's scheduler gives up: {e}")
                break
            planned = mapping.whole(tree, name) if coincident else mapping.tiles(tree, name)
            found |= {title: planned} if planned is not None else {}
    first, by = loop.statements[0].name, dict(zip(HOW, ("text", "isl", "tiles"), strict=True))

    def read(given: LoopMapped) -> str:
        possible = {by[title]: title for title in found}
        if given.by not in possible:
            raise Misfit(f"the loop {loop.label} can be mapped by {', '.join(possible)}")
        return possible[given.by]
    best = made.take("loop", first, lambda: min(found, key=lambda title: found[title].time.seconds),
                     lambda title: LoopMapped(first, by[title]), read,
                     options=lambda: sorted(((t, p.time.seconds) for t, p in found.items()), key=lambda x: x[1]))
    estimates = "; ".join(f"{title} {p.time}" for title, p in found.items())
    return replace(found[best], how=(f"loop {loop.label}: {HOW[best]}, estimated: {estimates}", *found[best].how, *notes))


HOW = {"the text": "the loops of the text", "isl's scheduler": "the loops of isl's scheduler", "tiles": "wavefronts of tiles"}
"""What a loop is mapped from."""


def _asked(scop: Scop, asked: Question, coincident: bool) -> Tree:
    """What isl's scheduler finds. coincident: with loops that carry nothing as far out as can be, else with bands as large as
    can be. Raises isl.QuotaExceeded, isl.Unschedulable, bands.Unreadable."""
    scop.ctx.set_schedule_outer_coincidence(int(coincident))
    try:
        return asked.answer(scheduler.find(asked.constraints, scheduler.SYMBOLIC_ATTEMPTS))
    finally:
        scop.ctx.set_schedule_outer_coincidence(0)


@dataclass(frozen=True)
class _Mapping:
    """How trees run on a GPU. open: sizes are not fixed, so that a group may be too small for what there is to do."""

    scene: Scene
    open: bool

    def whole(self, tree: Tree, name: str) -> Planned:
        """name: the names of bands begin with it."""
        return self.of(tree, dict.fromkeys(bands.statements(tree), ()), 1.0, name)

    def of(self, tree: Tree, fixed: dict[str, Rows], around: float, name: str) -> Planned:
        """fixed: the rows of the loops around; around: their iterations."""
        match tree:
            case nest.Leaf():
                s = self.scene.statements[tree.statement]
                return Planned(nest.Leaf(s.name), self.time(s.points / around), False)
            case bands.Cut():
                return self.cut(tuple(self.scene.statements[s] for s in tree.statements), around, name)
            case nest.Sequence():
                parts = [self.of(x, fixed, around, f"{name}.{n}") for n, x in enumerate(tree.children)]
                return Planned(nest.Sequence(tuple(p.nest for p in parts)), sum((p.time for p in parts), Estimate()),
                               any(p.parallel for p in parts), tuple(x for p in parts for x in p.how))
            case bands.PermutableBand() if any(loop.coincident for loop in tree.loops):
                return self.launch(tree, fixed, around, name)
            case bands.PermutableBand():
                return self.outside(tree, fixed, around, name)

    def time(self, instances: float) -> Estimate:
        """Of a launch with so many instances that wait for memory, one after another."""
        costs = self.scene.machine.costs.launches
        return Estimate(arithmetic=costs.step * instances, launches=costs.launch)

    def cut(self, statements: tuple[pr.Statement, ...], around: float, name: str) -> Planned:
        """Statements that are cut: a launch of their own. Instances of an item that do not wait for each other count as one."""
        machine = self.scene.machine
        count = sum(serialized_instances(s, machine.costs.launches.items * machine.cores) for s in statements)
        return Planned(gpu.nest_of_ranges(statements, name), self.time(count / around), True)

    def outside(self, band: bands.PermutableBand, fixed: dict[str, Rows], around: float, name: str) -> Planned:
        """A band that carries dependences in all its loops: run by the host, or inside of a launch of one group."""
        trips = float(prod(tile_sizes.extent(self.scene, loop) for loop in band.loops))
        inner = {s: (*fixed[s], *(loop.row(s) for loop in band.loops)) for s in bands.statements(band)}
        child = self.of(band.child, inner, around * max(1.0, trips), f"{name}.in")    # none at a typical size of 1: `1:n`
        members = kernel_loops.members(self.scene, band.loops)
        if not child.parallel:
            points_ = sum(self.scene.statements[s].points for s in bands.statements(band))
            return Planned(nest.Band(name, members, child.nest), self.time(points_ / around), False)
        host = Planned(nest.Band(name, members, child.nest), trips * child.time, True, child.how)
        if self.open or bands.has_cut(band):
            return host
        group = kernel_loops.plan(self.scene, band, fixed, around, name)
        shape, most = " x ".join(map(str, group.items)), self.scene.machine.max_work_group or 256
        how = f"{', '.join(bands.statements(band))} in one group of {shape} items by turns (a group has {most} at most)"
        alone = Planned(group.nest, Estimate(launches=self.scene.machine.costs.launches.launch) + group.time, True, (how,))
        return min((host, alone, *self.groups(band, fixed, around, name)), key=lambda p: p.time.seconds)

    def tiles(self, tree: Tree, name: str) -> Planned | None:
        """The tree in wavefronts of tiles, if it is a band that carries dependences in all of several loops."""
        found = tile_wavefronts.plan(self.scene, tree, name) if isinstance(tree, bands.PermutableBand) else None
        return None if found is None else Planned(found.nest, found.time, True)

    def launch(self, band: bands.PermutableBand, fixed: dict[str, Rows], around: float, name: str) -> Planned:
        """A band with loops that carry nothing: the grid of a launch; or each part of what is inside in a launch of its own,
        where that has more such loops; or loops inside that carry something are the host's, and those within it join."""
        whole, child = self.grid(band, fixed, around, name), band.child
        if not all(loop.coincident for loop in band.loops):
            return whole
        whole = min((whole, *self.groups(band, fixed, around, name)), key=lambda p: p.time.seconds)
        if isinstance(child, nest.Sequence):
            other: Tree = nest.Sequence(tuple(_under(band.loops, x) for x in child.children))
        elif isinstance(child, bands.PermutableBand) and not any(map(_is_free, child.loops)) and _has_free(child.child):
            other = bands.PermutableBand(child.loops, _under(band.loops, child.child))
        else:
            return whole
        return min((whole, self.of(other, fixed, around, name)), key=lambda p: p.time.seconds)

    def grid(self, band: bands.PermutableBand, fixed: dict[str, Rows], around: float, name: str) -> Planned:
        """One launch: up to three loops that carry nothing become work-groups and items, all others run in each item."""
        loops, child = kernel_loops.parallel_prefix_loops(band)
        free = [loop for loop in loops if loop.coincident]
        chosen = kernel_loops.contiguous_first(self.scene, free, fixed)[:3]
        extents = [tile_sizes.extent(self.scene, loop) for loop in chosen]
        rest = tuple(loop for loop in loops if loop not in chosen)
        repeated = min(1, len(chosen) - 1)                # the axis along which an item has several iterations
        only = repeated == 0                              # then they are as far apart as a group has items
        each = 1 if rest else self.elements(child, extents[repeated], around)
        extents[repeated] = -(-extents[repeated] // each)
        items = gpu.items(extents, self.scene.machine)
        inside = kernel_loops.sequential_nest(self.scene, child, f"{name}.in")
        body = nest.Band(f"{name}.item", kernel_loops.members(self.scene, rest), inside) if rest else inside
        mapped = [(axis, loop, size, each if axis == repeated else 1)
                  for axis, (loop, size) in enumerate(zip(chosen, items, strict=True))][::-1]
        blocks = tuple(kernel_loops.member(self.scene, loop, kinds.group(axis), size * n) for axis, loop, size, n in mapped)
        threads = [kernel_loops.member(self.scene, loop, kinds.item(axis), 1 if only else n, size)
                   for axis, loop, size, n in mapped]
        if each > 1:
            threads.append(kernel_loops.member(self.scene, chosen[repeated], "unroll", items[0] if only else 1, each))
        made = nest.Band(name, blocks, nest.Band(f"{name}.thread", tuple(threads), body, whole=True), whole=True)
        busy = min(prod(extents), self.scene.machine.costs.launches.items * self.scene.machine.cores)
        count = sum(self.scene.statements[s].points for s in bands.statements(band))
        return Planned(made, self.time(max(1.0, count / around / busy)), True)

    def groups(self, band: bands.PermutableBand, fixed: dict[str, Rows], around: float, name: str) -> tuple[Planned, ...]:
        """One launch with a group for each member of a batch, whose items divide what there is to do at each step of it."""
        if self.open or bands.has_cut(band) or isinstance(band.child, nest.Leaf):
            return ()
        batch = batches.outermost(self.scene, band, fixed)
        found = kernel_loops.in_groups(self.scene, batch, fixed, around, name) if batch is not None else None
        if found is None:
            return ()
        shape = " x ".join(map(str, found.items))
        how = f"{', '.join(bands.statements(band))} in a group of {shape} items for each iteration of what carries nothing"
        return (Planned(found.nest, Estimate(launches=self.scene.machine.costs.launches.launch) + found.time, True, (how,)),)

    def elements(self, inside: Tree, extent: int, around: float) -> int:
        """Iterations of a loop that an item does of a statement that neither reads nor adds to what it writes."""
        if self.open or not isinstance(inside, nest.Leaf):
            return 1
        s = self.scene.statements[inside.statement]
        if s.op is not None or pr.scatters(s) or s.target in {r.tensor for r in pr.reads(s)}:
            return 1
        return loads_in_flight.iterations(self.scene.program, (s,), s.points / around, extent, self.scene.machine)


def serialized_instances(s: pr.Statement, busy: int) -> float:
    """Instances of a cut statement one after another, where at most so many items are busy."""
    items = prod(r.extent for r in s.ranges if kinds.is_mapped(r.kind))
    beside = prod(r.extent for r in s.ranges if r.kind in ("unroll", "vector"))
    return s.points / beside / min(items, busy)


def _has_free(tree: Tree) -> bool:
    """Is a loop in it that carries nothing, outermost in some part?"""
    if isinstance(tree, nest.Sequence):
        return any(map(_has_free, tree.children))
    return isinstance(tree, bands.PermutableBand) and any(map(_is_free, tree.loops))


def _is_free(loop: bands.LinearLoop) -> bool:
    """Does it carry nothing?"""
    return loop.coincident


def _under(loops: tuple[bands.LinearLoop, ...], tree: Tree) -> Tree:
    """The loops around a part of what they were around."""
    mine = tuple(loop.only(bands.statements(tree)) for loop in loops)
    if isinstance(tree, bands.PermutableBand) and all(loop.coincident for loop in tree.loops):
        return bands.PermutableBand((*mine, *tree.loops), tree.child)
    return bands.PermutableBand(mine, tree)
