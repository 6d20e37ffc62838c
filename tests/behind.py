"""Programs behind a step of the table of rewrites."""

from __future__ import annotations

from polytc.machine import AVX512, Machine
from polytc.program.program import Program
from polytc.rewrite import pipeline
from polytc.rewrite.table import STEPS


def behind(name: str, program: Program, machine: Machine = AVX512) -> Program:
    """The program behind the last step of that name, as a machine gets it."""
    _, records = pipeline.run(program, machine, STEPS)
    return next(r.program for r in reversed(records) if r.step == name)


def rewritten(program: Program, machine: Machine = AVX512) -> Program:
    """The program behind all steps, of which lower_program says as much after doing a lot more."""
    return pipeline.run(program, machine, STEPS)[0]
