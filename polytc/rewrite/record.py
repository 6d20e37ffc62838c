"""The record of all decisions of a compilation (polytc.decisions): of the steps of rewriting, and of schedules."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from polytc import errors
from polytc.decisions import Entry, Record
from polytc.machine import Machine
from polytc.rewrite import table
from polytc.rewrite.pipeline import Record as StepRecord
from polytc.schedule.decisions import KINDS
from polytc.schedule.tree import Schedule


def check(record: Record, machine: Machine) -> None:
    """Raises E709 for a line of a step that there is not, E710 for one of a schedule that says nothing."""
    own = [s.name for s in table.steps() if machine.kind in s.kinds]
    known = [*dict.fromkeys(own), *KINDS]
    for e in record.entries:
        if e.step not in known:
            near = difflib.get_close_matches(e.step, known, 1)
            told = [f"`{near[0]}`?"] if near else []
            raise errors.fail("E709", f"there is no step {e.step!r} for {machine.kind}s", e.span, source=record.source,
                              notes=[*told, f"the steps are {', '.join(known)}"])
        if e.step in KINDS and e.what:
            raise record.refused(e, f"`{e.what}` says nothing of a schedule")


def collected(steps: Sequence[StepRecord], schedules: Sequence[Schedule]) -> Record:
    """What was decided, in order."""
    return Record((*(e for s in steps for e in s.entries), *_of(schedules)))


def check_used(record: Record, schedules: Sequence[Schedule]) -> None:
    """Raises E710 for a line about a schedule that none of them met."""
    taken = _of(schedules)
    met = {(e.step, e.statement) for e in taken}
    for e in record.entries:
        if e.step in KINDS and e.statement and (e.step, e.statement) not in met:
            names = [t.statement for t in taken if t.step == e.step]
            told = f"`{e.step}` lines are about {', '.join(names)}" if names else f"the schedule has no `{e.step}`"
            raise record.refused(e, f"no such line is asked for; {told}", [s.how for s in schedules if s.how][-1:])


def _of(schedules: Sequence[Schedule]) -> tuple[Entry, ...]:
    return tuple(e for s in schedules for e in s.decisions)

