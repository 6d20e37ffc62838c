"""Runs the table of steps over a program, one after another, and records what each did and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polytc.machine import Machine
from polytc.program.program import Program
from polytc.program.sizes import Undecided
from polytc.rewrite.changes import changes
from polytc.rewrite.step import Reason, Step

Watch = Callable[[str, Callable[[], Program]], Program]
"""Runs a step of that name: where it is timed, dumped and checked."""


@dataclass(frozen=True)
class Record:
    """What became of one step for a machine. before, program: what came to it, and what it made; skipped: why it was left out,
    or ''; seconds: that it took; decided: the reasons that it gave."""

    of: Step
    machine: Machine
    before: Program
    program: Program
    seconds: float = 0.0
    skipped: str = ""
    decided: tuple[Reason, ...] = ()

    @property
    def step(self) -> str:
        return self.of.name

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why it acted, or not; where it had nothing to choose, what changed."""
        if self.skipped or self.decided:
            return self.decided
        return self.of.tell(self.before, self.machine) if self.of.tell is not None else changes(self.before, self.program)

    @property
    def acted(self) -> bool:
        return self.program is not self.before and self.program != self.before

    def __str__(self) -> str:
        lines = [f"left out, as {self.skipped}"] if self.skipped else list(map(str, self.reasons)) or ["nothing to do"]
        return "\n".join(f"{self.step if n == 0 else '':16}{line}" for n, line in enumerate(lines))


def run(program: Program, machine: Machine, steps: Sequence[Step], watch: Watch | None = None
        ) -> tuple[Program, tuple[Record, ...]]:
    """The program behind the last step that is for such a machine, and the record of each."""
    records = []
    for step in steps:
        if machine.kind in step.kinds:
            records.append(_done(program, machine, step, watch))
            program = records[-1].program
    return program, tuple(records)


def _done(program: Program, machine: Machine, step: Step, watch: Watch | None) -> Record:
    """One step. What asks for sizes that are open changes nothing."""
    lacks = step.lacks(program)
    if lacks:
        return Record(step, machine, program, program, skipped=lacks)
    start, reasons = time.perf_counter(), list[Reason]()

    def compute() -> Program:
        decision = step.decide(program, machine)
        reasons.extend(decision.reasons)
        return step.applied(program, decision)
    try:
        made = watch(step.name, compute) if watch is not None else compute()
    except Undecided as size:
        if not program.sizes:
            raise
        return Record(step, machine, program, program, skipped=f"it depends on sizes that stay open ({size})")
    return Record(step, machine, program, made, time.perf_counter() - start, decided=tuple(reasons))
