"""Runs the table of steps over a program, one after another, and records what each did and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polytc import decisions
from polytc.machine import Machine
from polytc.program.names import indices_beside_sizes
from polytc.program.program import Program
from polytc.program.sizes import Undecided
from polytc.rewrite.changes import changes
from polytc.rewrite.complex_numbers.statements import as_real
from polytc.rewrite.step import Decision, Reason, Step
from polytc.rewrite.tidy import open_remainders

Watch = Callable[[str, Callable[[], Program]], Program]
"""Runs a step of that name: where it is timed, dumped and checked."""


def as_written(program: Program) -> Program:
    """The program as it is without the steps: complex numbers in parts, remainders by open sizes as choices, which all that
    follows takes for granted. Raises Undecided for a remainder that may wrap around often."""
    return open_remainders.choose(as_real(program))


@dataclass(frozen=True)
class Record:
    """What became of one step for a machine. before, program: what came to it, and what it made; skipped: why it was left out,
    or ''; seconds: that it took; decision: that was taken, None where the record of decisions said that nothing be done."""

    of: Step
    machine: Machine
    before: Program
    program: Program
    seconds: float = 0.0
    skipped: str = ""
    decision: Decision | None = None

    @property
    def decided(self) -> tuple[Reason, ...]:
        """The reasons that the step gave."""
        return self.decision.reasons if self.decision is not None else ()

    @property
    def entries(self) -> tuple[decisions.Entry, ...]:
        """What was done, as lines of a record of decisions; none where the step was left out."""
        step = self.of
        if self.skipped or step.required:
            return ()
        return step.lines(self.decision) if self.decision is not None else (decisions.Entry(self.step, what=decisions.NONE),)

    @property
    def step(self) -> str:
        return self.of.name

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why it acted, or not; where it had nothing to choose, what changed."""
        if self.skipped or self.decided:
            return self.decided
        return changes(self.before, self.program)

    @property
    def acted(self) -> bool:
        return self.program is not self.before and self.program != self.before

    def __str__(self) -> str:
        lines = [f"left out, as {self.skipped}"] if self.skipped else list(map(str, self.reasons)) or ["nothing to do"]
        return "\n".join(f"{f'{self.step}  ' if n == 0 else '':22}{line}" for n, line in enumerate(lines))


def run(program: Program, machine: Machine, steps: Sequence[Step], watch: Watch | None = None,
        given: decisions.Record | None = None) -> tuple[Program, tuple[Record, ...]]:
    """The program behind the last step that is for such a machine, and the record of each. given: decisions that are taken
    already. Raises E710 for one that does not fit, Open where it asks for one that is open."""
    records = list[Record]()
    for step in steps:
        if machine.kind in step.kinds:
            if given is not None and given.asks and given.of(step.name) is None:
                _ask(program, machine, step, records)
            records.append(_done(program, machine, step, watch, given or decisions.Record()))
            program = records[-1].program
    return program, tuple(records)


def _ask(program: Program, machine: Machine, step: Step, before: Sequence[Record]) -> None:
    """Raises Open if the step has a choice."""
    if step.required or step.lacks(program):
        return
    try:
        ways = decisions.at_least_two(step.alternatives(program, machine))
    except Undecided:  # the step will be left out
        return
    if ways is not None:
        raise decisions.Open(tuple(e for r in before for e in r.entries), ways)


def _done(program: Program, machine: Machine, step: Step, watch: Watch | None, given: decisions.Record) -> Record:
    """One step. What asks for sizes that are open changes nothing."""
    lacks, asked = step.lacks(program), given.of(step.name)
    if asked and lacks:
        raise given.refused(asked[0], f"the step is left out, as {lacks}")
    if asked is not None and step.required:
        raise given.refused(next(e for e in given.entries if e.step == step.name), "the step is always done",
                            ["docs/accuracy.md says what it is for"])
    if lacks:
        return Record(step, machine, program, program, skipped=lacks)
    start, taken = time.perf_counter(), list[Decision | None]()

    def compute() -> Program:
        taken.append(step.given(program, machine, given))
        return indices_beside_sizes(step.applied(program, taken[-1])) if taken[-1] is not None else program
    try:
        made = watch(step.name, compute) if watch is not None else compute()
    except Undecided as size:
        if not program.sizes:
            raise
        return Record(step, machine, program, program, skipped=f"it depends on sizes that stay open ({size})")
    return Record(step, machine, program, made, time.perf_counter() - start, decision=taken[-1])
