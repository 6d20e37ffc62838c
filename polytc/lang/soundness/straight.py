"""The proofs for programs that run from top to bottom: which elements statements write, and what others read of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from polytc.lang.report import Report
from polytc.lang.soundness import check, resets
from polytc.lang.soundness.coverage import Coverage, Image
from polytc.lang.soundness.place import Placing
from polytc.lang.soundness.proof import CHECKED
from polytc.lang.typing.declare import Declarations
from polytc.program import program as pr

CHOSEN = "a condition on values leaves elements unwritten: choose their values too, `Y[i] = v[i] > 0 ? v[i] : 0`"
"""The note that leads from `where` to a choice."""


def check_straight(found: Placing, d: Declarations, presume: bool, report: Report) -> None:
    """Statements are independent, read what has been written, and leave no holes in outputs. presume: a run tells whether
    scatters leave some."""
    written = _Written(found, d, presume, report)
    for place, s in enumerate(found.placed):
        if s is not None:
            written.go_on(place, s)
    for n in d.outputs if written.complete else ():
        written.need(n, len(found.placed), partial(check.check_complete, n, written.coverage[n], d.spans.get(n)))


class _Written:
    """What has been written so far. started: tensors that some statement wrote; complete: is every statement known?"""

    def __init__(self, found: Placing, d: Declarations, presume: bool, report: Report) -> None:
        self.found, self.presume, self.report = found, presume, report
        self.coverage = {n: Coverage(found.hulls[n]) for n in found.hulls}
        for n in d.inputs:
            self.coverage[n].add(Image(found.hulls[n]))
        self.complete = all(s is not None for s in found.placed)
        self.started = set(d.inputs)
        self.last = {s.lowered.target: k for k, s in enumerate(found.placed) if s is not None and s.lowered.op is None}
        self.scattered, self.masked = set[str](), set[str]()

    def go_on(self, place: int, s: check.Placed) -> None:
        """One more statement."""
        lowered = s.lowered
        own = self.coverage[lowered.target]
        fresh = lowered.target not in self.started
        self.started.add(lowered.target)
        if s.vacant:
            if lowered.op is not None and fresh:
                own.add(Image(own.hull))
            elif resets.restarts(lowered) and not resets.restarted(s).vacant:
                own.add(self.found.images[place])
            return
        check.check_independent(s, self.report)
        self.reads(place, s, fresh)
        self.writes(place, s, fresh)

    def reads(self, place: int, s: check.Placed, fresh: bool) -> None:
        """What a statement reads has been written."""
        for read in dict.fromkeys(n for e in s.lowered.expressions for n in pr.walk(e) if isinstance(n, pr.Read)):
            if self.complete and (read.tensor != s.lowered.target or not fresh):
                self.need(read.tensor, place, partial(check.check_written, s, read, self.coverage[read.tensor]))

    def writes(self, place: int, s: check.Placed, fresh: bool) -> None:
        """What a statement writes, each element once."""
        lowered, own = s.lowered, self.coverage[s.lowered.target]
        if lowered.op is None:
            if not s.scattered and not lowered.limits:
                check.check_injective(s, self.report)
        elif fresh:
            own.add(Image(own.hull))
        elif lowered.source.reset and resets.box(s) is None:
            check.check_injective(resets.restarted(s), self.report)
        elif not lowered.source.reset and self.complete:
            self.need(lowered.target, place, partial(check.check_written, s, None, own))
        if lowered.op is None and s.scattered:
            self.scattered.add(lowered.target)
        if lowered.op is None and lowered.masks:
            self.masked.add(lowered.target)
        assigned = lowered.op is None and not (s.scattered or lowered.limits or lowered.masks)
        if assigned or lowered.source.reset:  # other updates write only what is written already
            own.add_domain(s.forms, s.domain)
            own.add(self.found.images[place])

    def need(self, tensor: str, place: int, test: Callable[[Report], bool]) -> None:
        """Elements that are read at a place have been written, or are presumed to be: those of a tensor that scatters write,
        when the last of its assignments is over. The rest of the program may then rely on it."""
        trial = Report(self.report.source)
        if test(trial):
            return
        if tensor in self.scattered and self.last[tensor] < place:
            if self.presume:
                self.coverage[tensor].add(Image(self.coverage[tensor].hull))
                return
            trial.found = [replace(x, notes=(*x.notes, CHECKED)) for x in trial.found]
        elif tensor in self.masked:
            trial.found = [replace(x, notes=(*x.notes, CHOSEN)) for x in trial.found]
        self.report.found += [x for x in trial.found if x not in self.report.found]
