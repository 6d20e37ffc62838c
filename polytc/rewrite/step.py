"""A step: one rewrite from Program to Program, with a name, what it needs, and two functions.

    decide(program, machine) -> Decision(choices, reasons)      looks, and says why; changes nothing
    apply(program, decision) -> Program                         does what was decided, and decides nothing

A step without choices does the same to every program; what it did is told by what changed (changes.py). What a record of
decisions (polytc.decisions) says of a step takes the place of its own decision, if it fits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from polytc import decisions
from polytc.decisions import Entry, Record, Way
from polytc.machine import Machine, estimates
from polytc.program.program import Program
from polytc.schedule.facts import work_groups

KINDS = frozenset(("cpu", "gpu"))
CPU, GPU = frozenset(("cpu",)), frozenset(("gpu",))


@dataclass(frozen=True)
class Need:
    """What a program has to be for a step. text: why the step is left out, where it is not."""

    text: str
    holds: Callable[[Program], bool]


STRAIGHT = Need("it has `for` loops, or ranges in memory", lambda p: not p.sequential and work_groups.is_straight(p.statements))
STRAIGHT_LAUNCHES = Need("it has `for` loops, or ranges in memory", lambda p: work_groups.is_straight(p.statements))
"""`for` loops inside of kernels may be."""
LOOPED = Need("it has no `for` loops", lambda p: p.sequential or p.dynamic)
FIXED_RANGES = Need("it has no `for` loops, or ranges in memory", lambda p: p.sequential and not p.dynamic)
OPEN = Need("no size stays open", lambda p: bool(p.sizes))
NOT_PRECISE = Need("precise: operations keep the order of the text", lambda p: not p.precise)
NOT_DIRECT = Need("direct: no algorithm with fewer products", lambda p: not p.direct)


@dataclass(frozen=True)
class Reason:
    """Why a step acted on a statement, or did not. statement: its name before the step; '' for the program as a whole."""

    statement: str
    acted: bool
    text: str

    def __str__(self) -> str:
        told = self.text if self.acted else f"not {self.text}"
        return f"{self.statement}: {told}" if self.statement else told


class Reasons:
    """Collects reasons while a step decides."""

    def __init__(self) -> None:
        self.rows: list[Reason] = []

    def acts(self, statement: str, text: str) -> None:
        self.rows.append(Reason(statement, True, text))

    def declines(self, statement: str, text: str) -> None:
        self.rows.append(Reason(statement, False, text))


@dataclass(frozen=True)
class Decision:
    """machine: what it was made for. choices: what the step is to do, one a place, of the step's own type."""

    machine: Machine
    choices: tuple[Any, ...] = ()
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Option:
    """What a step may do at one place. choices: none for nothing; cost: seconds, on GPUs multiply-adds of an item, None where
    no estimate decides."""

    choices: tuple[Any, ...] = ()
    cost: float | None = None


def counted(choices: tuple[Any, ...], cycles: float | None, machine: Machine) -> Option:
    """An option whose cycles on one core are counted."""
    return Option(choices, None if cycles is None else estimates.arithmetic(machine, cycles).seconds)


Places = Sequence[Sequence[Option]]
"""For each place of a program where a step has a choice, what it may do there."""
Options = Callable[[Program, Machine], Iterable[Places]]
"""The places of a program; several times where it depends on a choice which places there are, that of the step itself first."""
Decide = Callable[[Program, Machine], Decision]
Apply = Callable[[Program, Decision], Program]
Fits = Callable[[Program, Machine, Any], str]
"""Why a choice does not fit a program; '' if it does."""
FitTogether = Callable[[Program, Machine, tuple[Any, ...]], tuple[Any, str] | None]
"""The first of all choices that does not fit, and why."""


def independent(places: Callable[[Program, Machine], Places]) -> Options:
    """The options of a step whose places depend on no choice."""
    return lambda program, machine: (places(program, machine),)


def always(program: Program, machine: Machine) -> Decision:
    """The decision of a step without choices."""
    return Decision(machine)


@dataclass(frozen=True)
class Step:
    """name: by which it is printed, dumped and watched. does: in a line. kinds: of machines. needs: of the program as it comes
    to the step. open_sizes: right for all sizes where some stay open. decide: `always` where the step has no choices; if
    another one chooses nothing, the program stays as it is. choice: the type of its choices, None where it has none; fits:
    judges one that somebody else made; fit_together: judges all of them in place of that, where one is about what others make;
    options: what `decide` chooses from; in_turn: each choice is about what those before it made of the program. required:
    always done, so that no record says anything of it: without it results would not be what docs/accuracy.md says, or constants
    not what Program.constants says."""

    name: str
    does: str
    apply: Apply
    decide: Decide = always
    kinds: frozenset[str] = KINDS
    needs: tuple[Need, ...] = field(default=())
    open_sizes: bool = False
    choice: type[Any] | None = None
    fits: Fits = lambda program, machine, choice: ""
    fit_together: FitTogether | None = None
    options: Options = lambda program, machine: ()
    in_turn: bool = False
    required: bool = False

    def run(self, program: Program, machine: Machine) -> Program:
        """The program behind the step; the same one where it is left out."""
        return program if self.lacks(program) else self.applied(program, self.decide(program, machine))

    def applied(self, program: Program, decision: Decision) -> Program:
        """The program with what was decided; the same one if nothing was."""
        return self.apply(program, decision) if decision.choices or self.decide is always else program

    def given(self, program: Program, machine: Machine, record: Record) -> Decision | None:
        """What a record says that is done; None: nothing. Where it is silent, the step decides. Raises E710 for what does not
        fit."""
        entries = record.of(self.name)
        if entries is None:
            return self.decide(program, machine)
        if not entries:
            return None
        if self.choice is None:
            odd = next((e for e in entries if e.what != decisions.ALL or e.statement), None)
            if odd is not None:
                raise record.refused(odd, "the step has no choices", [f"`{self.name}: all` or `{self.name}: none`"])
            return self.decide(program, machine)
        return Decision(machine, self._fitting(program, machine, record, entries), (Reason("", True, "as given"),))

    def _fitting(self, program: Program, machine: Machine, record: Record, entries: tuple[Entry, ...]) -> tuple[Any, ...]:
        assert self.choice is not None
        found = list[Any]()
        if self.fit_together is not None:
            found += (decisions.choice(self.choice, e, record) for e in entries)
            misfit = self.fit_together(program, machine, tuple(found))
            if misfit is not None:
                raise record.refused(entries[found.index(misfit[0])], misfit[1])
            return tuple(found)
        for e in entries:
            choice = decisions.choice(self.choice, e, record)
            if choice.statement not in {s.name for s in program.statements}:
                names = ", ".join(s.name for s in program.statements)
                raise record.refused(e, f"there is no statement {choice.statement!r}", [f"before this step there are {names}"])
            why = self.fits(program, machine, choice)
            if why:
                raise record.refused(e, why)
            if self.in_turn:
                program = self.apply(program, Decision(machine, (choice,)))
            found.append(choice)
        return tuple(found)

    def alternatives(self, program: Program, machine: Machine) -> Iterator[Way]:
        """What may be done instead of what the step decides, which is the first; the others in the order of their cost, where
        there is one. The combinations of what may be done at all places are made as they are asked for."""
        own = self.decide(program, machine)
        if self.choice is None:
            yield Way(self.lines(own))
            if self.apply(program, own) != program:
                yield Way((Entry(self.name, what=decisions.NONE),))
            return
        for number, places in enumerate(self.options(program, machine) or ((),)):
            if number == 0:
                yield Way(self.lines(own), _cost(own, places))
            for found in _combinations(tuple(map(_ordered, places))):
                choices = tuple(c for o in found for c in o.choices)
                if choices != own.choices and self._fit(program, machine, choices):
                    yield Way(self.lines(Decision(machine, choices)), _total(found))

    def lines(self, decision: Decision) -> tuple[Entry, ...]:
        """A decision as lines of a record."""
        if self.choice is None:
            return (Entry(self.name, what=decisions.ALL),)
        if not decision.choices:
            return (Entry(self.name, what=decisions.NONE),)
        why = {r.statement.split(", ")[0]: r.text for r in reversed(decision.reasons) if r.acted}
        return tuple(decisions.entry(self.name, c, why.get(c.statement, "")) for c in decision.choices)

    def _fit(self, program: Program, machine: Machine, choices: tuple[Any, ...]) -> bool:
        if self.fit_together is not None:
            return self.fit_together(program, machine, choices) is None
        for choice in choices:
            if self.fits(program, machine, choice):
                return False
            program = self.apply(program, Decision(machine, (choice,))) if self.in_turn else program
        return True

    def lacks(self, program: Program) -> str:
        """Why the step is left out for a program; '' if it is not."""
        if program.sizes and not self.open_sizes:
            return "sizes stay open"
        return next((n.text for n in self.needs if not n.holds(program)), "")


def unconditional(rewrite: Callable[[Program], Program]) -> Apply:
    """The `apply` of a rewrite that needs no decision."""
    return lambda program, _: rewrite(program)


def _ordered(options: Sequence[Option]) -> list[Option]:
    """Those with an estimate first."""
    return sorted(options, key=lambda o: o.cost if o.cost is not None else inf)


def _cost(own: Decision, places: Places) -> float | None:
    """The cost of what a step decides, if it is among the options."""
    mine = set(own.choices)
    chosen = [max((o for o in options if set(o.choices) <= mine), key=lambda o: len(o.choices)) for options in places]
    return _total(chosen) if {c for o in chosen for c in o.choices} == mine else None


def _total(options: Sequence[Option]) -> float | None:
    """The cost of all; None if something has none."""
    costs = [o.cost for o in options if o.cost is not None]
    return sum(costs) if costs and all(o.cost is not None or not o.choices for o in options) else None


def _rank(option: Option, place: Sequence[Option]) -> float:
    """The cost by which options are ordered: of those without an estimate 0, where others have one more than all of these."""
    return option.cost if option.cost is not None else 2 * max((o.cost for o in place if o.cost is not None), default=0.0)


def _combinations(places: Sequence[Sequence[Option]]) -> Iterator[tuple[Option, ...]]:
    """An option of each place, the combinations in the order of their costs. places: with their options in order."""
    def entry(at: tuple[int, ...]) -> tuple[float, int, tuple[int, ...]]:
        return sum(_rank(place[n], place) for place, n in zip(places, at, strict=True)), sum(at), at
    heap, seen = [entry((0,) * len(places))], {(0,) * len(places)}
    while heap:
        at = heapq.heappop(heap)[2]
        yield tuple(place[n] for place, n in zip(places, at, strict=True))
        for p, n in enumerate(at):
            following = (*at[:p], n + 1, *at[p + 1:])
            if n + 1 < len(places[p]) and following not in seen:
                seen.add(following)
                heapq.heappush(heap, entry(following))
