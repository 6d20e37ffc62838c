"""Rewrites from Program to Program, one idea a file, and the order in which they run."""

from __future__ import annotations

from polytc.lang.program import Program
from polytc.lang.rewrites import coalesce, digits, inline, pad, unit


def run(program: Program) -> Program:
    """An equal program with fewer temporaries, indices and guards; no float operation is reassociated."""
    program = inline.inline(program)
    program = unit.drop_unit_indices(program)
    program = digits.split(program)
    program = pad.materialise(pad.drop_guards(program))
    return coalesce.coalesce(program)
