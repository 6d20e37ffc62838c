"""What runs a program, as it was asked for: a target or the evaluator, a schedule, indices that are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from polytc import compiler
from polytc.codegen.target import Executable, Target
from polytc.machine import Machine
from polytc.options import REQUESTS
from polytc.program.inputs import numbers as number_inputs
from polytc.program.program import Program
from polytc.rewrite.index_checks import decides
from polytc.rewrite.unwritten_elements import check_memory
from polytc.runtime import packages
from polytc.runtime.arrays import argument_error
from polytc.runtime.checked import Checked
from polytc.runtime.reference import Reference
from polytc.schedule.user.recipe import Recipe
from polytc.targets import registry

Build: TypeAlias = Callable[[dict[str, tuple[int, ...]]], Program]
"""The program of a text for these shapes."""


def with_numbers(program: Program, numbers: Mapping[str, complex], build: Build,
                 load: Callable[[Program, Build], Executable]) -> Executable:
    """The code of a program in which numbers stand that its caller gives: the same code for other floats where these are data,
    see program.inputs.numbers. build: the program for other shapes; load: code of a program, and of those of other shapes."""
    made, arrays = number_inputs.as_inputs(program, numbers)
    executable = load(made, lambda shapes: number_inputs.as_inputs(build(shapes), numbers)[0])
    places = dict(enumerate(arrays.values(), start=len(program.inputs)))
    return packages.keep(executable, places, len(made.arrays)) if places else executable


def load(program: Program, target: str | Target, threads: int | None, schedule: str | Recipe | None) -> Executable:
    """What runs the program: code for a target, or the reference evaluator where 'evaluate' asks for it."""
    if program.checked:
        whole, checks = check_memory(program)
        if checks and schedule not in REQUESTS:
            raise argument_error("E410", "checked=True adds statements, of which a given schedule says nothing",
                                 "leave schedule= away, or check with the automatic schedule first")
        made = load(whole, target, threads, schedule)
        return Checked(made, program, checks, lambda p: load(p, target, threads, schedule)) if checks else made
    if target == "evaluate":
        made = Reference(program)
        return Checked(made, program, (), Reference) if decides(program) else made
    wanted = request(schedule, registry.here(target).machine) if isinstance(schedule, Recipe) else schedule
    return compiler.compile_program(program, target, threads, wanted)


def request(schedule: str | Recipe | None, machine: Machine) -> str | None:
    """What the compiler is asked for: a recipe as text, completed for the machine."""
    return schedule.request(machine) if isinstance(schedule, Recipe) else schedule
