"""The kernels of a plan, made ahead of any run: calls of equal programs share one, and what follows from the weights alone is
computed now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from polytc import keys
from polytc.codegen.target import Binary, Target
from polytc.compiler import Lowered, compile_program, described, lower_program
from polytc.graph.plan import Call, Plan
from polytc.options import Licence
from polytc.program.program import Program
from polytc.runtime.packages import aligned


@dataclass(frozen=True)
class Kernel:
    """A lowered program that calls share. number: among the kernels, in order of first use. arrays: for each argument its
    number among the call's inputs, then outputs, then what the prologue makes, then temporaries of open sizes and the sizes.
    label: of the first call."""

    number: int
    lowered: Lowered
    arrays: tuple[int, ...]
    label: str

    @property
    def binary(self) -> Binary:
        """Without code: what the source says about itself."""
        return Binary.of(self.lowered.source, b"", **described(self.lowered))


class KernelTable:
    """The kernels of one library, each program once for each target. all: those made so far, in order."""

    def __init__(self) -> None:
        self.all: list[Kernel] = []
        self._known: dict[str, Kernel] = {}

    def of(self, program: Program, target: Target, label: str) -> Kernel:
        """The code of a program that knows its constants and its licence."""
        key = keys.key(program, target, None)
        if key not in self._known:
            lowered = lower_program(program, target)
            args = lowered.source.module.args
            arrays = (*program.arrays, *made_names(lowered), *(b.name for b in args[len(lowered.loops.args):]))
            places = tuple(arrays.index(b.name) for b in args)
            self._known[key] = Kernel(len(self.all), lowered, places, label)
            self.all.append(self._known[key])
        return self._known[key]


class Kernels:
    """The kernels of the calls of one plan. all: those made so far, in order."""

    def __init__(self, plan: Plan, target: Target, licence: Licence) -> None:
        self.plan, self.target, self.licence = plan, target, licence
        self.table = KernelTable()

    @property
    def all(self) -> list[Kernel]:
        return self.table.all

    def of(self, call: Call) -> Kernel:
        """The code of a call; one for all calls of equal programs."""
        constants = self.plan.constants
        fixed = tuple(own for own, value in zip(call.program.inputs, call.inputs) if self.plan.base(value) in constants)
        program = replace(call.program, constants=fixed).licensed(self.licence)
        return self.table.of(program, self.target, call.label)

    def made(self, lowered: Lowered, values: Sequence[str]) -> list[np.ndarray]:
        """What follows from the constants among a call's values, in the order of `made_names`."""
        return made(self.plan, lowered, values)


def made(plan: Plan, lowered: Lowered, values: Sequence[str]) -> list[np.ndarray]:
    """What the code of a call makes of the constants among its values, in the order of `made_names`."""
    once = lowered.prologue
    if once is None:
        return []
    buffers = {b.name: b for b in once.loops.args}
    results = {n: aligned(buffers[n]) for n in once.program.outputs}
    given = [_constant(plan, v) for v in prologue_values(lowered, values)]
    compile_program(once.program, "cpu", 1).run([*given, *results.values()])
    return [results[n] for n in made_names(lowered)]


def prologue_values(lowered: Lowered, values: Sequence[str]) -> list[str]:
    """The constants among a call's values from which its code makes something."""
    order = lowered.program.arrays
    return [values[order.index(n)] for n in lowered.prologue.program.inputs] if lowered.prologue is not None else []


def _constant(plan: Plan, value: str) -> np.ndarray:
    return np.ascontiguousarray(plan.constants[plan.base(value)]).reshape(plan.types[value].shape)


def made_names(lowered: Lowered) -> tuple[str, ...]:
    """Names of what the prologue computes, in the order of the compiled package."""
    once = lowered.prologue
    return () if once is None else tuple(b.name for b in once.loops.args if b.name in once.program.outputs)


def own_outputs(plan: Plan) -> dict[str, int]:
    """Values that are computed right into an output: base -> number of the first output that shows it."""
    found: dict[str, int] = {}
    for j, value in enumerate(plan.outputs):
        base = plan.base(value)
        if base not in plan.inputs and base not in plan.constants:
            found.setdefault(base, j)
    return found


def late_outputs(plan: Plan) -> Iterator[tuple[int, str]]:
    """Outputs that are inputs, constants, or other outputs as well, and must be copied: number and value."""
    own = own_outputs(plan)
    for j, value in enumerate(plan.outputs):
        if own.get(plan.base(value)) != j:
            yield j, value
