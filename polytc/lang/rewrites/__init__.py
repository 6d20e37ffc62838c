"""Rewrites from Program to Program, one idea a file, and the order in which they run."""

from __future__ import annotations

from polytc.lang.program import Program
from polytc.lang.rewrites import coalesce, inline, lanes, pad, unit
from polytc.machine import Machine


def run(program: Program, machine: Machine) -> Program:
    """The program that is scheduled; it computes the same outputs (float reductions up to reassociation)."""
    program = inline.inline(program)
    program = unit.drop_unit_indices(program)
    program = pad.materialise(program)
    program = coalesce.coalesce(program)
    if machine.kind == "cpu" and not program.precise:
        program = lanes.split_reductions(program, machine)
    return program
