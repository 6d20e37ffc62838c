"""Statements that GPUs take apart, each part in a launch of its own: where the parts save more than their launches take.

    Y[i] = X[(i+1)%100000000] where i in 0:100000000            with X[100000000] on gpu
    ->  Y[i] = X[i+1] where i in 0:99999999
        Y[i] = X[i-99999999] where i in 99999999:100000000

What a part saves is what tells which piece a subscript is in, for each instance; of a sum, whose parts have loops and tiles of
their own, up to all that its one launch does; of the taps of a window the terms that meet no data. Small statements stay in
one launch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from polytc.machine import Machine
from polytc.machine.estimates import Estimate
from polytc.program import program as pr
from polytc.rewrite.step import Apply, Decide, Decision, Fits, Option, Options, Reasons, independent
from polytc.rewrite.tidy import borders, taps
from polytc.schedule.facts.fusion_groups import coincident_indices


@dataclass(frozen=True)
class Parts:
    """A statement is taken apart."""

    statement: str


Split: TypeAlias = Callable[[pr.Program, frozenset[str] | None], pr.Program]
"""The program with the statements of these names taken apart; None: all that can be."""
Times: TypeAlias = Callable[[pr.Program, pr.Statement, tuple[pr.Statement, ...], Machine], tuple[Estimate, Estimate]]
"""What a statement, and its parts, take beyond what both do."""

AHEAD = 4
"""Loads of an item that are under way at once."""


def apply(split: Split, program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the chosen statements taken apart."""
    return split(program, frozenset(c.statement for c in decision.choices))


def decide(split: Split, times: Times, program: pr.Program, machine: Machine) -> Decision:
    """The statements whose parts take less time, by the launches and what they save."""
    chosen, why = list[Parts](), Reasons()
    for s, parts in _candidates(split, program):
        whole, apart = times(program, s, parts, machine)
        told = f"{len(parts)} launches take {apart}; one {whole}"
        if len(parts) == 1:
            chosen.append(Parts(s.name))
            why.acts(s.name, "all instances are in one piece")
        elif apart.seconds < whole.seconds:
            chosen.append(Parts(s.name))
            why.acts(s.name, f"in parts: {told}")
        else:
            why.declines(s.name, f"in parts: {told}")
    return Decision(machine, tuple(chosen), tuple(why.rows))


def options(split: Split, times: Times, program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each statement that can be taken apart, that it is or not."""
    found = []
    for s, parts in _candidates(split, program):
        whole, apart = times(program, s, parts, machine)
        found.append([Option((), whole.seconds), Option((Parts(s.name),), apart.seconds)])
    return found


def fits(split: Split, program: pr.Program, machine: Machine, choice: Parts) -> str:
    """Why a statement cannot be taken apart; '' if it can."""
    known = any(s.name == choice.statement for s, _ in _candidates(split, program))
    return "" if known else f"{choice.statement} has no such parts"


def _candidates(split: Split, program: pr.Program) -> list[tuple[pr.Statement, tuple[pr.Statement, ...]]]:
    """The statements that can be taken apart, each with its parts."""
    found = []
    for s in program.statements:
        made = split(program, frozenset((s.name,)))
        others = {x.name for x in program.statements} - {s.name}
        parts = tuple(x for x in made.statements if x.name not in others and (x.target, x.op) == (s.target, s.op))
        if parts not in ((s,), ()):
            found.append((s, parts))
    return found


def time_of_borders(program: pr.Program, s: pr.Statement, parts: tuple[pr.Statement, ...], machine: Machine
                    ) -> tuple[Estimate, Estimate]:
    """The questions that tell pieces apart, of a sum all that its launch does, beside the launches."""
    asked = sum(1 for _ in borders.questions(s)) * machine.costs.groups.division * s.points
    tests = asked / machine.costs.groups.second * 1e-6 / machine.cores
    whole = Estimate(arithmetic=tests + (_sum(s, machine) if s.op is not None else 0.0))
    trips, launch = prod(int(r.extent) for r in s.ranges[:s.depth]), machine.costs.launches.launch
    return whole + Estimate(launches=trips * launch), Estimate(launches=trips * launch * len(parts))


def time_of_taps(program: pr.Program, s: pr.Statement, parts: tuple[pr.Statement, ...], machine: Machine
                 ) -> tuple[Estimate, Estimate]:
    """The terms of all launches, and the launches."""
    launch = Estimate(launches=machine.costs.launches.launch)
    apart = sum((Estimate(arithmetic=_sum(p, machine)) + launch for p in parts), Estimate())
    return Estimate(arithmetic=_sum(s, machine)) + launch, apart


def _sum(s: pr.Statement, machine: Machine) -> float:
    """Seconds of the terms of a sum: their multiply-adds, or what an item waits for, one after another."""
    costs, free = machine.costs, coincident_indices(s)
    items = min(prod(int(r.extent) for r in s.ranges if r.index in free), costs.launches.items * machine.cores)
    work = s.points * costs.groups.cached / costs.groups.second * 1e-6 / machine.cores
    return max(work, s.points / max(1, items) * costs.launches.step / AHEAD)


@dataclass(frozen=True)
class Functions:
    """What a step is made of."""

    apply: Apply
    decide: Decide
    fits: Fits
    options: Options


def _of(split: Split, times: Times) -> Functions:
    return Functions(lambda program, decision: apply(split, program, decision),
                     lambda program, machine: decide(split, times, program, machine),
                     lambda program, machine, choice: fits(split, program, machine, choice),
                     independent(lambda program, machine: options(split, times, program, machine)))


BORDERS = _of(borders.split, time_of_borders)
"""The step `borders` for GPUs."""
TAPS = _of(taps.split, time_of_taps)
"""The step `taps` for GPUs."""
