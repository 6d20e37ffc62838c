"""The plans of a library: one for fixed sizes, several that serve all sizes of the ranges that are declared.

    x: f32[n, 64], n from 1 to 4096   ->  a plan for n = 1, and one for all n from 2 on
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from polytc.errors import CompileError, ModelError, fail
from polytc.graph.ir import Graph
from polytc.graph.library.assembly import Kernel, KernelTable
from polytc.graph.open_graph import OpenGraph
from polytc.graph.part_options import Options
from polytc.graph.plan import Array, Plan
from polytc.graph.planning import size_samples
from polytc.graph.planning.preparation import prepared
from polytc.graph.running import instance
from polytc.graph.running.instance import Progress
from polytc.graph.running.open_kernels import OpenKernels
from polytc.graph.running.open_plans import OpenPlan
from polytc.graph.specialisation.part import Part
from polytc.graph.specialisation.specialise import specialise
from polytc.options import Licence
from polytc.program.program import Program
from polytc.program.traces.formulas import Guard, Terms, add, constant
from polytc.program.traces.traced import Trace
from polytc.program.traces.values import Guards
from polytc.targets.llvm.standalone.chain import OpenSize
from polytc.targets.llvm.target import LLVMTarget

LOOKED_AT = 20_000
"""Sets of sizes that are looked at: all of them if there are no more, else as many by chance, and the ends of the ranges."""

MOST = 32
"""Plans of a library for one kind of processor. Models have one to five."""

REFUSED = 64
"""Sets of sizes that a model may refuse: code says so (BAD_SIZE)."""

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Coded:
    """A call's code. sizes: formulas of those that it takes, None if it takes none; workspace: type and elements of the
    temporaries that it wants."""

    kernel: Kernel
    sizes: tuple[Any, ...] | None = None
    workspace: tuple[tuple[Any, Any], ...] = ()


@dataclass(frozen=True)
class Found:
    """A plan with its code. trace: of its sizes, None if there are none; guards: what sizes must meet."""

    plan: Plan
    codes: Sequence[Coded]
    trace: Trace | None
    guards: tuple[Guard, ...]


def whole(part: Part) -> Plan:
    """The plan of a model that asks nothing of a run. Raises E621 where there is none."""
    if part.hosts or part.rest is not None:
        late = part.behind or ["an output"]
        raise fail("E621", f"{late[0]} needs polytc in the run", kind=ModelError, notes=[
            "shapes or branches that depend on the data, and nodes of the fallback, cannot be compiled ahead of time",
            *(f"so does {name}" for name in late[1:9])])
    return part.plan


class Planner:
    """Finds the plans of a graph for one kind of processor. table: takes the kernels."""

    def __init__(self, graph: Graph, target: LLVMTarget, licence: Licence, table: KernelTable, progress: Progress | None,
                 typical: Sizes) -> None:
        self.graph, self.target, self.licence, self.table, self.progress = graph, target, licence, table, progress
        self.kernels = OpenKernels(self._start)
        options = Options(self._start, licence, strict=True, progress=progress, machine=target.machine, kernels=self.kernels,
                          typical=typical)
        self._open = OpenGraph(graph, options, derived=False)

    def _start(self, program: Program) -> Future[Any]:
        ready: Future[Any] = Future()
        ready.set_result(self.table.of(program, self.target, program.name))
        return ready

    def fixed(self, types: Mapping[str, Array | None], guards: tuple[Guard, ...] = ()) -> Found:
        """The plan for inputs of these types."""
        plan = prepared(whole(specialise(self.graph, types)), self.target.machine)
        codes = []
        for k, program in enumerate(instance.compiled_programs(plan, self.licence)):
            if self.progress:
                self.progress(k, len(plan.calls), plan.calls[k].label)
            codes.append(Coded(self.table.of(program, self.target, plan.calls[k].label)))
        return Found(plan, codes, None, guards)

    def ranges(self, types: Mapping[str, Array | None], sizes: Sequence[OpenSize]) -> list[Found]:
        """The plans that serve all sets of sizes which are looked at, the first of them the largest sizes. types: of the inputs
        for some sizes. Raises E621 where there are too many, and what specialisation raises of the largest sizes."""
        found: list[Found] = []
        serve: list[Guards] = []
        refused = 0
        for point in points(sizes):
            if any(guards.met(point) for guards in serve):
                continue
            try:
                made = self._at(size_samples.types_at(self.graph.inputs, types, point), point)
            except CompileError:
                refused += 1
                if not found or refused > REFUSED:
                    raise
                continue
            found.append(made)
            serve.append(Guards(tuple(point), made.guards))
            if len(found) > MOST:
                raise fail("E621", f"the code would have more than {MOST} parts for these sizes", kind=ModelError,
                           notes=[*self._reasons(), "declare smaller ranges, or compile for fixed sizes"])
        return found

    def _reasons(self) -> list[str]:
        """Why there is no code for all sizes."""
        alone = [f"{name} has code for given sizes only: {why}" for name, why in list(self.kernels.fixed.items())[:4]]
        return [*alone, *filter(None, [self._open.failure])]

    def _at(self, types: Mapping[str, Array | None], point: Sizes) -> Found:
        """The plan for some sizes, and for as many others as may be."""
        opened = self._open.find(types, {}, None)
        if opened is not None and _complete(opened[0]):
            return self._of(opened[0], point)
        return self.fixed(types, tuple(_is(n, v) for n, v in point.items()))

    def _of(self, plan: OpenPlan, point: Sizes) -> Found:
        codes = [Coded(s.code, None if s.sizes is None else tuple(s.sizes.values()), s.workspace) for s in plan.steps]
        one = [_is(n, v) for n, v in point.items() if n not in plan.trace.sizes]
        return Found(plan.plan, codes, plan.trace, (*one, *plan.trace.conditions))


def _complete(plan: OpenPlan) -> bool:
    """Has each call code for all sizes, and can numbers that follow from sizes be written without Python?"""
    halves = any(a.dtype == object and plan.plan.types[n].dtype.numpy.kind == "f" and plan.plan.types[n].dtype.bits < 32
                 for n, a in plan.plan.constants.items())
    return not halves and all(s.code is not None for s in plan.steps)


def _size(name: str) -> Terms:
    return (((name,), 1),)


def _is(name: str, value: int) -> Guard:
    return add(_size(name), constant(-value)), "=="


def points(sizes: Sequence[OpenSize]) -> Iterator[Sizes]:
    """Sets of sizes to look at, those at the ends of the ranges first."""
    names = [s.name for s in sizes]
    ends = [dict.fromkeys((s.largest, s.least, min(s.largest, max(s.least, 2)))) for s in sizes]
    seen = set()
    for numbers in itertools.islice(itertools.product(*ends), LOOKED_AT):
        seen.add(numbers)
        yield dict(zip(names, numbers, strict=True))
    if math.prod(s.largest - s.least + 1 for s in sizes) <= LOOKED_AT:
        every: Iterator[tuple[int, ...]] = itertools.product(*(range(s.least, s.largest + 1) for s in sizes))
    else:
        chance = random.Random(0)
        every = (tuple(chance.randint(s.least, s.largest) for s in sizes) for _ in range(LOOKED_AT))
    for numbers in every:
        if numbers not in seen:
            yield dict(zip(names, numbers, strict=True))
