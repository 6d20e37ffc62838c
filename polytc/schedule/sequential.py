"""The strategy for programs with `for` loops: each loop nest through isl's scheduler and tiles, what is between as before.

isl's scheduler (Verdoolaege & Janssens, Scheduling for PPCG, 2017) finds the bands of loops that may be permuted, with skewed
time loops where need be; `wavefront` tiles them and finds parallel loops, `points` orders what is inside of tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import islpy

from polytc.lang import program as pr
from polytc.machine import Machine
from polytc.poly import isl, nest, scheduler, symbolic, uniform
from polytc.poly.dependences import Dependences
from polytc.poly.nest import Nest
from polytc.poly.scop import Scop
from polytc.schedule import bands, chains, cpu, fusion, gpu, points, sizes, wavefront
from polytc.schedule.conflicts import Conflicts, Rows

Choice: TypeAlias = Callable[[points.Scene, bands.Band, dict[str, Rows]], sizes.Plan]
"""Decides how a band runs, inside of loops whose rows stand still."""
POSING = 3_000_000
"""isl operations for what the scheduler is asked: the dependences with symbolic sizes."""


def plan(scop: Scop, deps: Dependences, machine: Machine, choose: Choice = sizes.plan, policy: str | None = None
         ) -> tuple[Nest, list[str]]:
    """The nest of a program with `for` loops, and what was decided, in lines. Not yet proved. choose: how a band runs; policy:
    of the fusion of statements outside of loops (in a loop, isl's bands decide)."""
    parts: list[Nest] = []
    notes: list[str] = []
    for x in pr.stretches(scop.program.statements):
        if isinstance(x, pr.Loop):
            inside, found = _loop(scop, deps, machine, x, f"N{len(parts)}", choose)
            notes += found
        else:
            part = replace(scop.program, statements=x)
            shared = fusion.choose(part, machine, policy or fusion.DEFAULT)
            inside = cpu.nest(part, machine, f"F{len(parts)}", shared)
        parts.append(inside)
    return parts[0] if len(parts) == 1 else nest.Sequence(tuple(parts)), notes


def _loop(scop: Scop, deps: Dependences, machine: Machine, loop: pr.Loop, name: str, choose: Choice
          ) -> tuple[Nest, list[str]]:
    """One loop nest; in the order of the text if isl's scheduler finds nothing in time."""
    program = scop.program
    if chains.is_chain(program, loop):
        return nest.in_order((loop,), 0), [f"loop {loop.label}: each instance needs the one before"]
    try:
        asked = question(scop, deps, loop.statements)
        tree = asked.answer(scheduler.find(asked.constraints, scheduler.QUICK))
    except (isl.QuotaExceeded, isl.Unschedulable, bands.Unreadable) as e:
        return nest.in_order((loop,), 0), [f"loop {loop.label}: program order, as isl's scheduler gives up: {e}"]
    scene = points.Scene(program, points.names(loop.statements), asked.conflicts, machine)
    notes: list[str] = []
    return _tree(scene, tree, name, choose, notes), notes


@dataclass(frozen=True)
class Question:
    """What isl's scheduler is asked about some statements, and their dependences, with symbolic sizes."""

    constraints: islpy.ScheduleConstraints
    conflicts: Conflicts
    known: symbolic.Symbols

    def answer(self, found: islpy.Schedule) -> bands.Tree:
        """Its answer as bands. Raises bands.Unreadable."""
        return bands.read(found, self.known.number, self.conflicts.indices)


def question(scop: Scop, deps: Dependences, chosen: tuple[pr.Statement, ...]) -> Question:
    """The question about some statements. Raises isl.QuotaExceeded."""
    indices = {isl.name(s.name): tuple(map(isl.name, s.indices)) for s in chosen}
    known = symbolic.symbols(chosen)
    constraints, conflicts = isl.bounded(scop.ctx, POSING, lambda: _posed(scop, deps, indices, known))
    return Question(constraints, conflicts, known)


def _posed(scop: Scop, deps: Dependences, indices: dict[str, tuple[str, ...]], known: symbolic.Symbols
           ) -> tuple[islpy.ScheduleConstraints, Conflicts]:
    """The scheduler's question about the statements that have the indices, and their dependences."""
    ours = islpy.UnionSet.empty(scop.domain.get_space())
    for piece in isl.sets(scop.domain):
        if piece.get_tuple_name() in indices:
            ours = ours.union(piece.to_union_set())

    def lifted(u: islpy.UnionMap) -> islpy.UnionMap:
        return symbolic.relation(u.intersect_domain(ours).intersect_range(ours), known)
    order, everything, flow = lifted(deps.order), lifted(deps.all), lifted(deps.flow)
    instances = symbolic.domain(ours, known)
    near = uniform.nearest((order, everything, flow), instances)
    constraints = (islpy.ScheduleConstraints.on_domain(instances).set_context(symbolic.context(scop.ctx, known))
                   .set_validity(near[0]).set_coincidence(near[1]).set_proximity(near[2]))
    return constraints, Conflicts.of(indices, order, everything, lifted(deps.reduction))


def _tree(scene: points.Scene, tree: bands.Tree, name: str, choose: Choice, notes: list[str]) -> Nest:
    match tree:
        case bands.Leaf():
            return nest.Leaf(scene.statements[tree.statement].name)
        case bands.Cut():
            return gpu.staged(tuple(scene.statements[s] for s in tree.statements), name)
        case bands.Sequence():
            return nest.Sequence(tuple(_tree(scene, x, f"{name}.{n}", choose, notes) for n, x in enumerate(tree.parts)))
        case bands.Band():
            chosen = choose(scene, tree, dict.fromkeys(bands.statements(tree), ()))
            if not any(chosen.sizes) and not chosen.parallel:
                chosen = replace(chosen, inside=points.straight(scene, chosen.inside))
            notes.append(sizes.describe(scene, tree, chosen))
            return wavefront.nest(scene, tree, chosen, name)
