"""What exported code says about itself: the program, its schedule, and the statements of each kernel."""

from __future__ import annotations

from polytc import errors
from polytc.compiler import Lowered
from polytc.poly import isl
from polytc.program import program as pr
from polytc.schedule.user import pseudocode, reading

MOST = 60
"""Lines of a program or a schedule that are worth a comment; of longer ones only the first are written."""

WIDEST, NOTE = 140, 100
"""Characters of such a line, and of a comment inside of a kernel."""


def about(lowered: Lowered) -> tuple[str, ...]:
    """The program as it was written, and the schedule of what is computed for it."""
    lines = _cut(str(lowered.program).splitlines())
    schedule = _cut(_loops(lowered))
    how = lowered.schedule.how
    return (*lines, *(("", f"Schedule: {how}" if how else "Schedule", *schedule) if schedule or how else ()))


def statements(lowered: Lowered) -> dict[str, str]:
    """Statement -> its name and what it computes, or at least from what, for one line."""
    return {s.name: _note(s) for s in lowered.rewritten.statements}


def _note(s: pr.Statement) -> str:
    text = f"{s.name}: {pseudocode.statement(s)}"
    reads = dict.fromkeys(r.tensor for r in pr.walk(s.value) if isinstance(r, pr.Read))
    return text if len(text) <= NOTE else f"{s.name}: {s.target} from {', '.join(reads) or 'numbers'}"[:NOTE]


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
