"""What exported code says about itself: the program, its schedule, and the statements of each kernel."""

from __future__ import annotations

from polytc import errors
from polytc.compiler import Lowered
from polytc.lang import program as pr
from polytc.poly import isl
from polytc.schedule import pseudocode, reading

MOST = 60
"""Lines of a program or a schedule that are worth a comment; of longer ones only the first are written."""

WIDEST = 140
"""Characters of such a line."""


def about(lowered: Lowered) -> tuple[str, ...]:
    """The program as it was written, and the schedule of what is computed for it."""
    lines = _cut(str(lowered.program).splitlines())
    schedule = _cut(_loops(lowered))
    how = lowered.schedule.how
    return (*lines, *(("", f"Schedule: {how}" if how else "Schedule", *schedule) if schedule or how else ()))


def tensors(lowered: Lowered) -> dict[str, tuple[str, ...]]:
    """Tensor -> the statements that write it."""
    found: dict[str, list[str]] = {}
    for s in lowered.rewritten.statements:
        found.setdefault(s.target, []).append(pr.format_statement(s))
    return {name: tuple(_cut(texts)) for name, texts in found.items()}


def _loops(lowered: Lowered) -> list[str]:
    """The schedule as a loop nest, where it is one and its loops have ranges in numbers."""
    if lowered.program.sizes:
        return []
    try:
        body = reading.body(lowered.schedule.tree, lowered.rewritten)
        return pseudocode.text(body, lowered.scop).splitlines()
    except (errors.PolytcError, isl.QuotaExceeded):
        return []


def _cut(lines: list[str]) -> list[str]:
    lines = [line if len(line) <= WIDEST else f"{line[:WIDEST - 4]} ..." for line in lines]
    return lines if len(lines) <= MOST else [*lines[:MOST], f"... {len(lines) - MOST} more lines"]
