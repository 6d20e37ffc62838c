"""The steps that divide programs among the items of GPUs: what they decide, what others may, and blocks for sums that are long
although items share them.

`local_tiles` and `work_groups_in_loops` are a Staging each. Whether a sum is long shows in what is made of a division, so that
its blocks (rewrite.long_sums) are a line like the others, and the division is one of the program with these blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.generalise import numeric
from polytc.rewrite import long_sums
from polytc.rewrite.gpu import division, local_tiles, split_reduction, work_groups_in_loops
from polytc.rewrite.gpu.division import ATOMICS, BLOCKS, PARTS, Cut, Divided, Division
from polytc.rewrite.step import Decision, Option, Places
from polytc.schedule.facts.fusion_groups import Group


@dataclass(frozen=True)
class Staging:
    """stage: what a division makes of a program, for a machine; survey: asks for all of its decisions, with no need to make
    anything."""

    stage: Callable[[pr.Program, Division, Machine], pr.Program]
    survey: Callable[[pr.Program, Division, Machine], object]

    def decide(self, program: pr.Program, machine: Machine) -> Decision:
        """The sums that need blocks, and how groups and items divide the program that has them."""
        blocks = self._long(program, machine)
        own = division.own(machine)
        self.survey(_with_blocks(program, blocks), own, machine)
        return Decision(machine, (*blocks, *own.choices), tuple(own.why.rows))

    def apply(self, program: pr.Program, decision: Decision) -> pr.Program:
        """The program divided so. Where that leaves sums long, they get blocks, whatever was decided."""
        program, given = _with_blocks(program, decision.choices), division.Given(decision.machine, decision.choices)
        staged = self.stage(program, given.division, decision.machine)
        long = long_sums.long(program, staged)
        return self.stage(long_sums.split_sums(program, long), given.division, decision.machine) if long else staged

    def fits(self, program: pr.Program, machine: Machine, choices: tuple[Any, ...]) -> tuple[Any, str] | None:
        """The first line that does not fit, and why."""
        names, typical = {s.name for s in program.statements}, numeric(program)
        for x in choices:
            if x.by not in division.WAYS:
                return x, f"`by` is {', '.join(division.WAYS)}"
            if x.by == BLOCKS and (x.statement not in names or long_sums.cut(typical, typical.statement(x.statement)) is None):
                return x, f"there is no long sum {x.statement}"
        given = division.Given(machine, choices)
        self.survey(_with_blocks(program, choices), given.division, machine)
        misfit = next(((x, why) for x in choices for why in [given.misfits.get(x)] if why is not None), None)
        lost = next((x for x in choices if x.by != BLOCKS and x not in given.met), None)
        return misfit if misfit is not None or lost is None else (lost, f"no group of statements begins with {lost.statement}")

    def options(self, program: pr.Program, machine: Machine) -> Iterator[Places]:
        """The places with reductions in parts as polytc has them, then with one of them otherwise: what may be done with each
        group."""
        own = [x for x in self.decide(program, machine).choices if x.by in (BLOCKS, PARTS, ATOMICS)]
        yield self._places(program, tuple(own), machine)
        for x in self._other_parts(program, tuple(own), machine):
            kept = [y for y in own if y.statement != x.statement or y.by == BLOCKS]
            yield self._places(program, (*kept, *((x,) if x.steps else ())), machine)

    def _places(self, program: pr.Program, fixed: tuple[Divided, ...], machine: Machine) -> Places:
        """What may be done with each group where blocks and parts are decided."""
        places, given = [[Option(fixed)]], division.Given(machine, fixed)

        def collected(program: pr.Program, group: Group) -> Cut | None:
            cuts = list(division.candidates(program, group, machine))
            if cuts:
                places.append([Option(), *(Option((division.written(group, cut),), cost) for cut, cost in cuts)])
            return None
        self.survey(_with_blocks(program, fixed), Division(given.parts, collected), machine)
        return places

    def _other_parts(self, program: pr.Program, own: tuple[Divided, ...], machine: Machine) -> Iterator[Divided]:
        """Each reduction in another number of parts than polytc has them; without `steps`: undivided."""
        found, mine = list[Divided](), {x.statement: x for x in own if x.by in (PARTS, ATOMICS)}

        def collected(typical: pr.Program, s: pr.Statement, open_: set[str]) -> None:
            line = mine.get(s.name)
            found.extend([Divided(s.name, PARTS)] if line is not None else [])
            for index, most in split_reduction.indices(typical, s, open_).items():
                counts = [n for n in COUNTS if n <= most and (line is None or (line.along, line.steps) != ((index,), (n,)))]
                found.extend(Divided(s.name, PARTS, along=(index,), steps=(n,)) for n in counts)
            shapes = (division.of_parts(s, by) for by in split_reduction.histograms(typical, s, open_, machine))
            found.extend(x for x in shapes if x != line)
        self.survey(_with_blocks(program, own), Division(collected, lambda program, group: None), machine)
        yield from found

    def _long(self, program: pr.Program, machine: Machine) -> tuple[Divided, ...]:
        """The sums that need blocks."""
        typical = numeric(program)
        if program.precise or all(prod(long_sums.terms(s, long_sums.summed(typical, s))) <= long_sums.LIMIT
                                  for s in typical.statements):
            return ()
        long = long_sums.long(program, self.stage(program, division.own(machine), machine))
        return tuple(Divided(s.name, BLOCKS) for s in program.statements if s.name in long)


COUNTS = (2, 4, 8, 16, 32, 64, 128, 256)
"""Parts of a reduction that there are to choose from."""


def _with_blocks(program: pr.Program, choices: tuple[Divided, ...]) -> pr.Program:
    names = frozenset(x.statement for x in choices if x.by == BLOCKS)
    return long_sums.split_sums(program, names) if names else program


STRAIGHT = Staging(lambda program, by, machine: local_tiles.map_to_work_groups(program, by),
                   lambda program, by, machine: local_tiles.survey(program, by))
"""Programs without `for` loops."""
IN_LOOPS = Staging(work_groups_in_loops.map_to_work_groups, work_groups_in_loops.map_to_work_groups)
"""What `for` loops hold; whether that is divided depends on what is made of it."""
