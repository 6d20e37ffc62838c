"""The strategy for programs with `for` loops: each loop nest through isl's scheduler and tiles, what is between as before.

    for i in 0:512 { S[i,j] = (S[i-1,j] else 0) + X[i,j] };  Y[i,j] = S[511,j] - S[i,j]         with X[512,512] on avx512
    ->  parallel j // 64, for i, vector j { S[i,j] = (S[i-1,j] else 0.0) + X[i,j] }
        parallel i, j // 32, vector j % 32 { Y[i,j] = S[511,j] - S[i,j] }

isl's scheduler (Verdoolaege & Janssens, Scheduling for PPCG, 2017) finds the bands of loops that may be permuted, with skewed
time loops where need be; `wavefront` tiles them and finds parallel loops, `point_loops` orders what is inside of tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from polytc.machine import Machine
from polytc.poly import isl, nest, scheduler
from polytc.poly.dependences import Dependences
from polytc.poly.nest import Nest
from polytc.poly.scop import Scop
from polytc.program import program as pr
from polytc.schedule.cpu import strategy as cpu
from polytc.schedule.decisions import BandTiled, Decisions, Misfit
from polytc.schedule.facts import bands, scheduler_constraints, source_loops, total_order
from polytc.schedule.facts.conflicts import Rows
from polytc.schedule.fusion import policies
from polytc.schedule.tiling import point_loops, tile_sizes, wavefront

Choice: TypeAlias = Callable[[point_loops.Scene, bands.PermutableBand, dict[str, Rows]], tile_sizes.Plan]
"""Decides how a band runs, inside of loops whose rows stand still."""


def plan(scop: Scop, deps: Dependences, machine: Machine, choose: Choice = tile_sizes.plan, policy: str | None = None,
         made: Decisions | None = None) -> tuple[Nest, list[str]]:
    """The nest of a program with `for` loops, and what was decided, in lines. Not yet proved. choose: how a band runs; policy:
    of the fusion of statements outside of loops (in a loop, isl's bands decide); made: where decisions are noted, and given
    ones found."""
    made = made or Decisions()
    choose = _with_given(choose, made)
    parts: list[Nest] = []
    notes: list[str] = []
    for x in pr.stretches(scop.program.statements):
        if isinstance(x, pr.Loop):
            inside, found = _loop(scop, deps, machine, x, f"N{len(parts)}", choose)
            notes += found
        else:
            part = replace(scop.program, statements=x)
            shared = policies.decide(part, machine, policy or policies.DEFAULT, made)
            inside = cpu.nest(part, machine, f"F{len(parts)}", shared, made)
        parts.append(inside)
    return parts[0] if len(parts) == 1 else nest.Sequence(tuple(parts)), notes


def _with_given(choose: Choice, made: Decisions) -> Choice:
    """As `choose`, but for the bands whose tiles are given."""
    def chosen(scene: point_loops.Scene, band: bands.PermutableBand, fixed: dict[str, Rows]) -> tile_sizes.Plan:
        first = scene.statements[bands.statements(band)[0]].name

        def read(given: BandTiled) -> tile_sizes.Plan:
            extents = [tile_sizes.extent(scene, loop) for loop in band.loops]
            if len(given.sizes) != len(extents) or any(not 0 <= n <= e for n, e in zip(given.sizes, extents, strict=True)):
                raise Misfit(f"`sizes` has {len(extents)} numbers, of loops of {', '.join(map(str, extents))} iterations")
            return tile_sizes.given(scene, band, fixed, [n or None for n in given.sizes])
        return made.take("band", first, lambda: choose(scene, band, fixed),
                         lambda plan: BandTiled(first, tuple(n or 0 for n in plan.sizes)), read,
                         options=lambda: ((p, p.time.seconds) for p in tile_sizes.candidates(scene, band, fixed)))
    return chosen


def _loop(scop: Scop, deps: Dependences, machine: Machine, loop: pr.Loop, name: str, choose: Choice
          ) -> tuple[Nest, list[str]]:
    """One loop nest: the loops of isl's scheduler, or those of the text if it finds none in time."""
    program, notes = scop.program, list[str]()
    if total_order.is_totally_ordered(program, loop):
        return nest.in_order((loop,), 0), [f"loop {loop.label}: each instance needs the one before"]
    try:
        asked = scheduler_constraints.question(scop, deps, loop.statements)
    except isl.QuotaExceeded as e:
        return nest.in_order((loop,), 0), [f"loop {loop.label}: program order: {e}"]
    try:
        tree = asked.answer(scheduler.find(asked.constraints, scheduler.SYMBOLIC_ATTEMPTS))
    except (isl.QuotaExceeded, isl.Unschedulable, bands.Unreadable) as e:
        tree = source_loops.tree(asked.conflicts, (loop,))
        notes.append(f"loop {loop.label}: the loops of the text, as isl's scheduler gives up: {e}")
    scene = point_loops.Scene(program, point_loops.names(loop.statements), asked.conflicts, machine)
    return _tree(scene, tree, name, choose, notes), notes


def _tree(scene: point_loops.Scene, tree: bands.Tree, name: str, choose: Choice, notes: list[str]) -> Nest:
    match tree:
        case bands.Cut():
            raise AssertionError("statements are cut for GPUs alone")
        case nest.Leaf():
            return nest.Leaf(scene.statements[tree.statement].name)
        case nest.Sequence():
            return nest.Sequence(tuple(_tree(scene, x, f"{name}.{n}", choose, notes) for n, x in enumerate(tree.children)))
        case bands.PermutableBand():
            chosen = choose(scene, tree, dict.fromkeys(bands.statements(tree), ()))
            if not any(chosen.sizes) and not chosen.parallel:
                chosen = replace(chosen, inside=point_loops.straight(scene, chosen.inside))
            notes.append(tile_sizes.describe(scene, tree, chosen))
            return wavefront.nest(scene, tree, chosen, name)
