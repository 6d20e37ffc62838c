"""Statements one after another over a batch, in one launch: a work-group a member, which keeps what it hands on to itself.

    A[b,i] = X[b,i] - X[b,31-i];  C[b,i] = A[b,i] - A[b,31-i];  D[b,i] = C[b,i] * C[b,31-i]     with X[9000,32] on gpu
    ->  block0 b { parallel i // 32 { thread0 i % 32 { A[b,i] = X[b,i] - X[b,31 - i] } };
                   parallel i // 32 { thread0 i % 32 { C[b,i] = A[b,i] - A[b,31 - i] } };
                   parallel i // 32 { thread0 i % 32 { D[b,i] = C[b,i] * C[b,31 - i] } } }

Where each statement reads other elements than its own item made of the one before, such as the stages of a Fourier transform,
each would be a launch over all members, and the temporaries would go through memory in between. In a group the items meet at
barriers, and the temporaries of its member are in local memory. (Govindaraju et al., High Performance Discrete Fourier
Transforms on Graphics Processors, SC 2008, for the stages of a transform.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from polytc.machine import Estimate, Machine, estimates
from polytc.poly import isl
from polytc.poly.dependences import Dependences
from polytc.poly.nest import Nest
from polytc.poly.scop import Scop
from polytc.program import program as pr
from polytc.schedule.decisions import Chained, Decisions, Misfit
from polytc.schedule.facts import source_loops, storage_classes
from polytc.schedule.facts.conflicts import Rows
from polytc.schedule.facts.fusion_groups import Group
from polytc.schedule.facts.scheduler_constraints import question
from polytc.schedule.facts.storage_classes import Life
from polytc.schedule.facts.work_groups import is_cut
from polytc.schedule.gpu import batches, kernel_loops
from polytc.schedule.gpu import strategy as gpu
from polytc.schedule.tiling import point_loops, tile_sizes
from polytc.schedule.tiling.point_loops import Scene

FEWEST, LONGEST = 3, 64
"""Statements of a chain at least and at most: whether they are one is a question for isl."""
CLEARLY = 0.8
"""Of the time of launches that a group may take at most: the estimate leaves out that launches may move whole vectors."""
GROUP, LAUNCHES = "group", "launches"


@dataclass(frozen=True)
class _Chain:
    """nest: of one launch; items: of a group; time, apart: of that launch, and of launches one after another."""

    nest: Nest
    items: int
    time: Estimate
    apart: Estimate


def plan(scop: Scop, deps: Dependences, machine: Machine, made: Decisions) -> tuple[Nest, list[str]]:
    """The nest of a program without `for` loops, and what was decided, in lines. made: where decisions are noted, and given
    ones found."""
    found = _chain(scop, deps, machine)
    if found is None:
        return gpu.plan(scop.program, machine, made=made)
    first = scop.program.statements[0].name

    def read(given: Chained) -> str:
        if given.by not in (GROUP, LAUNCHES):
            raise Misfit(f"statements of a chain run in a {GROUP} or in {LAUNCHES}")
        return given.by
    times = {GROUP: found.time, LAUNCHES: found.apart}
    best = made.take("chain", first, lambda: GROUP if found.time.seconds < CLEARLY * found.apart.seconds else LAUNCHES,
                     lambda by: Chained(first, by), read,
                     options=lambda: sorted(((by, t.seconds) for by, t in times.items()), key=lambda x: x[1]))
    told = f"estimated: a group of {found.items} items a member {found.time}; launches {found.apart}"
    if best == GROUP:
        return found.nest, [f"one launch, {told}"]
    nest, notes = gpu.plan(scop.program, machine, made=made)
    return nest, [*notes, told]


def _chain(scop: Scop, deps: Dependences, machine: Machine) -> _Chain | None:
    """The program in one launch; None if it is no chain over a batch."""
    program = scop.program
    statements = program.statements
    if program.sizes or not FEWEST <= len(statements) <= LONGEST or any(is_cut(s) or s.bounds or s.atomic for s in statements):
        return None
    if not set.intersection(*({r.ends for r in s.ranges} for s in statements)):
        return None
    groups, _ = gpu.together(program, program, statements, machine, None, Decisions())
    if len(groups) < FEWEST and not any(len(g.statements) >= FEWEST and g.inner(0) for g in groups):
        return None
    try:
        asked = question(scop, deps, statements)
    except isl.QuotaExceeded:
        return None
    scene = Scene(program, point_loops.names(statements), asked.conflicts, machine)
    around: dict[str, Rows] = dict.fromkeys(asked.conflicts.indices, ())
    batch = batches.outermost(scene, source_loops.tree(asked.conflicts, statements), around)
    if batch is None:
        return None
    local = _local(program, machine, prod(tile_sizes.extent(scene, loop) for loop in batch.loops))
    found = kernel_loops.in_groups(scene, batch, around, 1.0, "G0", local)
    if found is None:
        return None
    moved = _moved(program, machine, statements, local)
    launch = Estimate(launches=machine.costs.launches.launch)
    together = launch + estimates.longer(found.time, moved)
    return _Chain(found.nest, prod(found.items), together, sum((_launch(program, machine, g) for g in groups), Estimate()))


def _local(program: pr.Program, machine: Machine, members: int) -> frozenset[str]:
    """The temporaries whose parts that are a member's have room in local memory; those whose lives are apart share it."""
    found, room = list[Life](), machine.local_bytes if machine.fast_local_memory else 0
    for t in map(program.tensor, program.temporaries):
        used = [n for n, s in enumerate(program.statements) if t.name in (s.target, *(r.tensor for r in pr.reads(s)))]
        life = Life(t.name, min(used), max(used), t.size * t.dtype.bytes // members, t.dtype)
        if storage_classes.needed([*found, life]) <= room:
            found.append(life)
    return frozenset(x.name for x in found)


def _launch(program: pr.Program, machine: Machine, group: Group) -> Estimate:
    """Of one of the launches one after another: what its items wait for, or what it moves."""
    costs = machine.costs.launches
    busy = min(prod(group.extents), costs.items * machine.cores)
    waits = costs.step * sum(ceil(s.points / busy) for s in group.statements)
    moved = _moved(program, machine, group.statements, frozenset())
    return Estimate(launches=costs.launch) + estimates.longer(Estimate(arithmetic=waits), moved)


def _moved(program: pr.Program, machine: Machine, statements: tuple[pr.Statement, ...], local: frozenset[str]) -> Estimate:
    """What statements move from and to memory, each tensor once a statement."""
    found = 0
    for s in statements:
        touched = {s.target, *(r.tensor for r in pr.reads(s))} - local
        found += sum(min(t.size, s.points) * t.dtype.bytes for t in map(program.tensor, touched))
    return estimates.of_all_units(machine, found)
