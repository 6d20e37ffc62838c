"""A model compiled ahead of time: an object file, a C header, the weights, and a small C program that runs it.

    NAME.o NAME.h NAME.weights main.c       cc -O2 main.c NAME.o -lm -lpthread -o NAME
    NAME_weights.S                          the weights as a part of the program
    NAME.pc NAMEConfig.cmake                for pkg-config and CMake

Everything that follows from the weights alone, such as packed operands, is computed now and lies in the file of the weights.
Nothing of Python is needed to run the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import polytc
from polytc import errors, machine
from polytc.codegen import weight_file
from polytc.errors import ModelError, fail
from polytc.graph.ir import Graph
from polytc.graph.plan import Array, Call, Guard, Plan
from polytc.graph.planning import branch_guards, layouts, memory
from polytc.graph.planning.operator_fusion import fuse
from polytc.graph.running.instance import Progress, lifetimes
from polytc.graph.specialisation.part import Part
from polytc.graph.specialisation.specialise import specialise
from polytc.graph.tools import assembly, headers, packaging, sample_program
from polytc.machine import ALIGNMENT, Machine
from polytc.options import Licence, check_checked, check_licence, check_unchecked
from polytc.targets.llvm.standalone import module
from polytc.targets.llvm.standalone.chain import ARENA, OWN, SCRATCH, WEIGHTS, Argument, Chain, Copy, Place, Skip, Step
from polytc.targets.llvm.target import LLVMTarget

errors.register(E621="model that cannot be compiled ahead of time")

PROCESSORS: Mapping[str, tuple[Machine | None, str]] = {
    "host": (None, ""),
    "x86-64-v3": (replace(machine.AVX2, cpu="x86-64-v3"), "x86_64-unknown-linux-gnu"),
    "x86-64-v4": (replace(machine.AVX512, cpu="x86-64-v4"), "x86_64-unknown-linux-gnu"),
    "aarch64": (machine.NEON, "aarch64-unknown-linux-gnu"),
}
"""name -> the machine to make code for, None for this one, and LLVM's triple."""


@dataclass(frozen=True)
class Files:
    """What was written. packages: for assemblers, pkg-config and CMake; bytes: of the weights and the memory of a run."""

    code: Path
    header: Path
    weights: Path
    main: Path
    packages: tuple[Path, ...]
    weight_bytes: int
    arena_bytes: int


def export(graph: Graph, folder: Path, shapes: Mapping[str, Sequence[int]] | None = None, processor: str = "host",
           name: str = "", algebra: str | None = None, progress: Progress | None = None, fast: bool = False) -> Files:
    """Write the model for fixed shapes of its inputs into a folder, which is made if it is not there.

    shapes: of the inputs whose declared shapes have names in them. processor: a key of PROCESSORS. name: of the files and the
    prefix of the functions; that of the graph if not said. Raises ModelError E621 for an unknown processor or an input
    without a shape, and what specialisation raises.
    """
    if processor not in PROCESSORS:
        raise fail("E621", f"there is no processor {processor!r}", kind=ModelError,
                   notes=[f"those are {', '.join(PROCESSORS)}"])
    given, triple = PROCESSORS[processor]
    target = LLVMTarget(given)
    plan = plan_of(graph, shapes or {}, target.machine)
    made = _Assembly(plan, target, headers.identifier(name or graph.name), check_licence(algebra, fast), progress)
    chain, weights = made.run()
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(folder / f"{chain.name}.o", folder / f"{chain.name}.h", folder / f"{chain.name}.weights", folder / "main.c",
                  tuple(folder / name for name in packaging.texts(chain)), chain.weights, chain.arena)
    files.code.write_bytes(module.object_file(chain, target, triple))
    files.header.write_text(headers.header(plan, chain), encoding="utf-8")
    files.main.write_text(sample_program.text(chain.name), encoding="utf-8")
    for path in files.packages:
        path.write_text(packaging.texts(chain)[path.name], encoding="utf-8")
    weight_file.write(weights, files.weights)
    return files


def plan_of(graph: Graph, shapes: Mapping[str, Sequence[int]], machine: Machine | None = None, *, guards: bool = True) -> Plan:
    """The calls of a model for these shapes, which ask nothing of polytc in a run. machine: which decides how inner values are
    stored, as the model says for None. guards: may calls have some? Raises E621 where there are no such calls, E410 where
    POLYTC_CHECK_INDICES asks for what they do not do, and what specialisation raises."""
    plan = _whole(specialise(graph, _types(graph, shapes), guards=guards, checked=check_checked(None)))
    if plan.index_checks:
        check_unchecked("a model that is compiled ahead of time")
    return fuse(plan if machine is None else layouts.choose(plan, machine))


def _types(graph: Graph, given: Mapping[str, Sequence[int]]) -> dict[str, Array | None]:
    found: dict[str, Array | None] = {}
    for v in graph.inputs:
        shape = tuple(given[v.name]) if v.name in given else v.static_shape
        if shape is None or v.dtype is None:
            raise fail("E621", f"the input {v} has no fixed type and shape", kind=ModelError, notes=[
                "code that is compiled ahead of time is for one set of shapes: say which"])
        found[v.name] = Array(v.dtype, shape)
    return found


def _whole(part: Part) -> Plan:
    """The plan of a model that asks nothing of a run."""
    if part.hosts or part.rest is not None:
        late = [h.label for h in part.hosts] + [n.label for n in (part.rest.nodes if part.rest is not None else ())]
        raise fail("E621", f"{late[0]} needs polytc in the run", kind=ModelError, notes=[
            "shapes or branches that depend on the data, and nodes of the fallback, cannot be compiled ahead of time",
            *(f"so does {name}" for name in late[1:9])])
    return part.plan


class _Assembly:
    """State of one walk over the calls of a plan."""

    def __init__(self, plan: Plan, target: LLVMTarget, name: str, licence: Licence, progress: Progress | None) -> None:
        self.plan, self.name, self.progress = plan, name, progress
        self.memory = memory.plan(lifetimes(plan))
        self.kernels = assembly.Kernels(plan, target, licence)
        self.weights: list[np.ndarray] = []
        self.size = 0
        self.stored: dict[str, Place] = {}
        self.outputs = {base: self.output(j) for base, j in assembly.own_outputs(plan).items()}

    def output(self, number: int) -> Place:
        return Place(OWN + len(self.plan.inputs) + number)

    def run(self) -> tuple[Chain, list[np.ndarray]]:
        steps, scratch = list[Step | Skip](), 0
        for k, length in branch_guards.guard_jumps([c.guards for c in self.plan.calls]):
            if isinstance(k, Guard):
                steps.append(Skip(self.place(k.value), k.taken, length))
                continue
            call = self.plan.calls[k]
            if self.progress:
                self.progress(k, len(self.plan.calls), call.label)
            step = self.step(call)
            steps.append(step)
            scratch = max(scratch, step.arena)
        sources = tuple(k.lowered.source for k in self.kernels.all)
        own = max((int(s.options["arena_bytes"]) for s in sources), default=0)
        copies = tuple(Copy(self.place(value), self.output(j), size) for j, value, size in assembly.late_outputs(self.plan))
        header = weight_file.header(self.weights) if self.weights else ()
        return Chain(self.name, sources, tuple(steps), copies, header, self.memory.bytes, scratch, own,
                     tuple(map(self.argument, self.plan.inputs)), tuple(map(self.argument, self.plan.outputs)),
                     f"polytc {polytc.__version__}"), self.weights

    def argument(self, value: str) -> Argument:
        """What a value of the caller is said to be."""
        t = self.plan.types[value]
        return Argument(value, t.dtype.name, t.shape, math.prod(t.shape) * t.dtype.bytes)

    def step(self, call: Call) -> Step:
        kernel = self.kernels.of(call)
        values = [*call.inputs, *call.outputs]
        made = [self.store(a) for a in self.kernels.made(kernel.lowered, values)]
        places = [made[n - len(values)] if n >= len(values) else self.place(values[n]) for n in kernel.arrays]
        arena = 0
        for buffer in kernel.lowered.source.module.scratch:
            places.append(Place(SCRATCH, arena))
            arena += -(-max(1, buffer.size * buffer.dtype.bytes) // ALIGNMENT) * ALIGNMENT
        return Step(kernel.number, tuple(places), arena)

    def place(self, value: str) -> Place:
        """Where a value lies."""
        base = self.plan.base(value)
        if base in self.plan.inputs:
            return Place(OWN + self.plan.inputs.index(base))
        if base in self.outputs:
            return self.outputs[base]
        if base in self.plan.constants:
            if base not in self.stored:
                self.stored[base] = self.store(self.plan.constants[base])
            return self.stored[base]
        return Place(ARENA, self.memory.offsets[base])

    def store(self, array: np.ndarray) -> Place:
        place = Place(WEIGHTS, weight_file.BYTES + self.size)
        self.weights.append(array)
        self.size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return place
