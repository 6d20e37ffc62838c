"""Is a piece of work large enough for several threads?

What one thread wrote another must fetch from its cache, at a tenth of the speed of its own. So a kernel that runs on one thread
among others that run on several is slower than its own work says, and only those stay on one that take no longer than opening
a region does. Work is counted in elements that a thread moves; arithmetic counts where there is more of it than of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from polytc.program import program as pr
from polytc.schedule.facts.fusion_groups import is_contraction, reduced_indices

SHARED = 25_000
"""Elements moved, from which several threads are faster: some three microseconds of one."""
REUSE, REDUCTION = 16, 4
"""Multiply-adds of a register tile, and steps of another reduction, that take as long as moving an element."""
ELEMENTARY = 8
"""Elements that could be moved in the time of one exp."""
CHEAP = frozenset({"min", "max", "abs", "floor", "ceil", "round", "trunc", "fma", "sqrt", "clamp", "isnan", "word"})
"""Calls that are one or two instructions."""


def work(program: pr.Program, statements: Iterable[pr.Statement]) -> float:
    """Elements that one thread could move in the time of these statements."""
    return sum(_work(program, s) for s in statements)


def _work(program: pr.Program, s: pr.Statement) -> float:
    touched = [s.target, *{r.tensor for r in pr.reads(s)}]
    moved = sum(min(s.points, program.tensor(n).size) for n in touched)
    arithmetic = s.points / (REUSE if is_contraction(s) else REDUCTION if reduced_indices(s) else 1)
    calls = sum(isinstance(e, pr.Call) and e.fn not in CHEAP and not e.fn.startswith("dot_") for e in pr.walk(s.value))
    return max(moved, arithmetic) + calls * s.points * ELEMENTARY
