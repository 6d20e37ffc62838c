"""Rewrites from Program to Program, one idea a file, and the order in which they run."""

from __future__ import annotations

from polytc.program.program import Program
from polytc.rewrite.tidy import coalesce, compact, digits, inline, pad, rounding, scan, taps, unit


def run(program: Program, *, padded: bool = True) -> Program:
    """An equal program with fewer temporaries, indices and guards, and fewer operations; no float operation is reassociated.
    Programs with `for` loops, or with ranges in memory, stay as they are. padded: guarded reads may become reads of copies."""
    if program.sequential or program.dynamic:
        return program
    program = rounding.cut_first(inline.inline(program))
    program = unit.drop_unit_indices(program)
    program = digits.split(program)
    program = scan.simplify_prefixes(pad.drop_guards(taps.split(program)))
    program = compact.compact(pad.materialise(program) if padded else program)
    return coalesce.coalesce(program)
