"""Programs with `for` loops for GPUs: the contractions and reductions in loops, and between them, cut as others are.

    for t in 0:9 { s[t] += X[t,i] }                     with inout s[9], X[9,300] on gpu
    ->  for t in 0:9 {
            s_own[group,item] = s[t]
            s_mine[group,item] += X[t, item + 64*round] where item in 0:64, round in 0:5
            s_part[group,item] = s_mine[group,item]
            ...
            s[t] = s_own[group,item]
        }

An iteration of the loops around is a program of its own, in which their indices stand still (rewrite.gpu.local_tiles).
schedule.gpu.launches finds the cut statements by the kinds of their ranges, and lets the host run the loops. Where launches
take longer than the items of one group, all of a loop stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from math import prod

from polytc.machine import Estimate, Machine
from polytc.program import program as pr
from polytc.program.generalise import numeric
from polytc.program.names import Names
from polytc.rewrite.gpu import local_tiles
from polytc.rewrite.gpu.division import Division
from polytc.rewrite.gpu.enclosing import Enclosing
from polytc.schedule.facts.fusion_groups import coincident_indices
from polytc.schedule.facts.work_groups import is_cut, kernels
from polytc.schedule.gpu import kernel_loops, launches


def map_to_work_groups(program: pr.Program, division: Division, machine: Machine) -> pr.Program:
    """The program with what its loops hold cut as somebody decides. machine: tells whether that pays, where the decision weighs
    it."""
    if program.dynamic or program.precise:
        division.why.declines("", "divided: " + ("precise: operations keep the order of the text" if program.precise else
                                                 "ranges in memory tell how much there is to do"))
        return program
    names, tensors, statements = Names.of(program), program.tensors, list[pr.Statement]()
    for x in pr.stretches(program.statements):
        before = x.statements if isinstance(x, pr.Loop) else x
        if all(map(is_cut, before)):                          # by a step before
            statements += before
            continue
        told, chosen = len(division.why.rows), len(division.choices)
        cut = _cut(replace(program, tensors=tensors), before, division, names)
        if isinstance(x, pr.Loop) and division.weighs and (kept := _kept(program, before, cut, machine)):
            del division.why.rows[told:], division.choices[chosen:]
            division.why.declines(x.label, kept)
            statements += before
        else:
            statements += cut.statements
            tensors = cut.tensors
    return local_tiles.without_unused_tensors(replace(program, tensors=tensors, statements=tuple(statements)))


def _cut(program: pr.Program, chosen: tuple[pr.Statement, ...], division: Division, names: Names) -> pr.Program:
    """The program of neighbouring statements alone, cut where they can be."""
    tensors, statements = program.tensors, list[pr.Statement]()
    for around, run in _runs(chosen):
        others = tuple(s for s in program.statements if s not in run)
        inside = tuple(_inside(s) for s in run)
        alone = replace(program, tensors=tensors, statements=inside)
        made = local_tiles.map_statements(alone, division, names, Enclosing(around, others))
        if any(is_cut(s) for s in made.statements):
            tensors = made.tensors
            run = tuple(replace(s, ranges=(*around, *s.ranges), loops=run[0].loops) for s in made.statements)
        statements += run
    return replace(program, tensors=tensors, statements=tuple(statements))


def _inside(s: pr.Statement) -> pr.Statement:
    """The statement in one iteration of the loops around it."""
    return replace(s, ranges=s.ranges[s.depth:], loops=())


def _runs(statements: tuple[pr.Statement, ...]) -> Iterator[tuple[tuple[pr.Range, ...], tuple[pr.Statement, ...]]]:
    """Neighbours in the same iterations of the same loops, and these."""
    for (_, around), run in groupby(statements, key=lambda s: (s.loops, s.ranges[:s.depth])):
        yield around, tuple(run)


def _kept(program: pr.Program, before: tuple[pr.Statement, ...], cut: pr.Program, machine: Machine) -> str:
    """Why a loop stays as it is; '' if its launches take less time with its statements cut than without, and than one group.
    By the loops of the text; of an open size there are no single groups."""
    typical = numeric(replace(program, statements=before)).statements
    host, divided = _launched(typical, machine), _launched(numeric(cut).statements, machine)
    if not program.sizes and _in_one_group(typical, machine).seconds <= min(host.seconds, divided.seconds):
        return f"divided: one group takes {_in_one_group(typical, machine)}; launches {divided}"
    return "" if divided.seconds < host.seconds else f"divided: launches take {divided} with its statements cut; {host} without"


def _launched(statements: tuple[pr.Statement, ...], machine: Machine) -> Estimate:
    """The time with a launch for each statement, or for those that are cut together."""
    total, costs = Estimate(), machine.costs.launches
    for around, run in _runs(statements):
        trips, most = prod(r.extent for r in around), costs.items * machine.cores
        for kernel in kernels(run):
            cut = is_cut(kernel[0])
            waits = [launches.serialized_instances(s, most) / trips if cut else _waits(s, most) for s in kernel]
            total += trips * Estimate(arithmetic=costs.step * sum(waits), launches=costs.launch * (1 if cut else len(kernel)))
    return total


def _in_one_group(statements: tuple[pr.Statement, ...], machine: Machine) -> Estimate:
    """The time of one group for all."""
    phases = (prod(r.extent for r in s.ranges[:s.depth]) * kernel_loops.phase_time(machine, _waits(s, machine.max_work_group))
              for s in statements)
    return sum(phases, Estimate(launches=machine.costs.launches.launch))


def _waits(s: pr.Statement, busy: int) -> float:
    """Instances of a statement in one iteration, one after another, of which at most so many items run some."""
    one = _inside(s)
    free = set(coincident_indices(one))
    return one.points / min(busy, prod(r.extent for r in one.ranges if r.index in free))
