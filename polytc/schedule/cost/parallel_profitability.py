"""Is a piece of work large enough for several threads?

What one thread wrote another must fetch from its cache, at a tenth of the speed of its own. So a kernel that runs on one thread
among others that run on several is slower than its own work says, and only those stay on one that take no longer than opening
a region does. Work is counted in elements that a thread moves; arithmetic counts where there is more of it than of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from polytc.machine import Machine
from polytc.machine.costs import Arithmetic
from polytc.program import program as pr
from polytc.program.calls.matrix_rows import is_rows_call
from polytc.schedule.facts.fusion_groups import is_contraction, reduced_indices

CHEAP = frozenset({"min", "max", "abs", "floor", "ceil", "round", "trunc", "fma", "muladd", "sqrt", "clamp", "isnan", "isinf",
                   "isfinite", "signbit", "copysign", "fdim", "word"})
"""Calls that are one or two instructions."""


def pays(moved: float, machine: Machine) -> bool:
    """Are several threads faster for so many elements moved?"""
    return moved >= machine.costs.threads.elements


def work(program: pr.Program, statements: Iterable[pr.Statement], machine: Machine) -> float:
    """Elements that one thread could move in the time of these statements."""
    return sum(_work(program, s, machine.costs.arithmetic) for s in statements)


def _work(program: pr.Program, s: pr.Statement, costs: Arithmetic) -> float:
    touched = [s.target, *{r.tensor for r in pr.reads(s)}]
    moved = sum(min(s.points, program.tensor(n).size) for n in touched)
    arithmetic = s.points / (costs.reuse if is_contraction(s) else costs.reduction if reduced_indices(s) else 1)
    calls = sum(isinstance(e, pr.Call) and e.fn not in CHEAP and not e.fn.startswith("dot_") and not is_rows_call(e.fn)
                for e in pr.walk(s.value))
    return max(moved, arithmetic) + calls * s.points * costs.elementary
