"""A model compiled ahead of time: an object file, a C header, the weights, and a small C program that runs it.

    NAME.o NAME.h NAME.weights main.c       cc -O2 main.c NAME.o -lm -lpthread -o NAME
    NAME_weights.S                          the weights as a part of the program
    NAME.pc NAMEConfig.cmake                for pkg-config and CMake

Everything that follows from the weights alone, such as packed operands, is computed now and lies in the file of the weights.
Nothing of Python is needed to run the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import polytc
from polytc import errors
from polytc.codegen import weight_file
from polytc.graph.ir import Graph
from polytc.graph.library import headers, packaging, plans, processors, ranges, sample_program
from polytc.graph.library.assembly import KernelTable
from polytc.graph.library.chains import WeightStore, fitting
from polytc.graph.library.plans import Found, Sizes
from polytc.graph.plan import Array, Plan
from polytc.graph.planning.operator_fusion import fuse
from polytc.graph.running.instance import Progress
from polytc.graph.specialisation.specialise import specialise
from polytc.options import Licence, check_checked, check_licence, check_unchecked
from polytc.program.traces.values import at
from polytc.targets.llvm.standalone import module
from polytc.targets.llvm.standalone.chain import Argument, Chain, OpenSize
from polytc.targets.llvm.target import LLVMTarget

errors.register(E621="model that cannot be compiled ahead of time")


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


def export(graph: Graph, folder: str | Path, shapes: Mapping[str, Sequence[int | str]] | None = None, processor: str = "host",
           name: str = "", algebra: str | None = None, progress: Progress | None = None, fast: bool = False,
           sizes: Mapping[str, int | tuple[int, int]] | None = None, typical: Sizes | None = None) -> Files:
    """Write the model into a folder, which is made if it is not there.

    shapes: of the inputs, where others than those declared are meant, in numbers and names. sizes: the range (least, largest)
    of each name that stays open, or the largest; `typical`: values of them that code should be fast for. processor: a key of
    processors.PROCESSORS. name: of the files and the prefix of the functions; that of the graph if not said. Raises ModelError
    E621 for an unknown processor, an input without a shape and sizes that cannot stay open, and what specialisation raises.
    """
    kinds = processors.named(processor)
    opened, types, open_sizes = ranges.declared(graph, shapes or {}, sizes or {})
    if check_checked(None):
        _no_checks(specialise(opened, types, checked=True).plan)
    making = _Making(opened, open_sizes, types, check_licence(algebra, fast), progress, typical or {})
    targets = [LLVMTarget(m) for m in kinds.machines]
    chain, weights = making.run(headers.identifier(name or graph.name), targets)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(folder / f"{chain.name}.o", folder / f"{chain.name}.h", folder / f"{chain.name}.weights", folder / "main.c",
                  tuple(folder / name for name in packaging.texts(chain)), chain.weights, chain.arena)
    files.code.write_bytes(module.object_file(chain, targets, kinds.triple))
    files.header.write_text(headers.header(opened, chain), encoding="utf-8")
    files.main.write_text(sample_program.text(chain.name), encoding="utf-8")
    for path in files.packages:
        path.write_text(packaging.texts(chain)[path.name], encoding="utf-8")
    weight_file.write(weights, files.weights)
    return files


def plan_of(graph: Graph, shapes: Mapping[str, Sequence[int]], *, guards: bool = True) -> Plan:
    """The calls of a model for these shapes, which ask nothing of polytc in a run; inner values are stored as the model says.
    guards: may calls have some? Raises E621 where there are no such calls, E410 where POLYTC_CHECK_INDICES asks for what they
    do not do, and what specialisation raises."""
    _, types, _ = ranges.declared(graph, shapes, {})
    plan = plans.whole(specialise(graph, types, guards=guards, checked=check_checked(None)))
    _no_checks(plan)
    return fuse(plan)


def _no_checks(plan: Plan) -> None:
    """Raises ArgumentError E410 where a run would have to look at indices."""
    if plan.index_checks:
        check_unchecked("a model that is compiled ahead of time")


@dataclass(frozen=True)
class _Making:
    """A model that becomes a chain. types: of the inputs for the largest sizes."""

    graph: Graph
    sizes: tuple[OpenSize, ...]
    types: Mapping[str, Array | None]
    licence: Licence
    progress: Progress | None
    typical: Sizes

    def run(self, name: str, targets: Sequence[LLVMTarget]) -> tuple[Chain, list[np.ndarray]]:
        """The chain and its weights. targets: for the kinds of processors."""
        table, store = KernelTable(), WeightStore()
        made = [m for k, target in enumerate(targets) for m in fitting(self._plans(target, table), k, store, self.sizes)]
        makers, variants = zip(*made, strict=True)
        sources = tuple(k.lowered.source for k in table.all)
        own = max((int(s.options["arena_bytes"]) for s in sources), default=0)
        arena, scratch, numbers = map(max, zip(*((m.arena, m.scratch, m.numbers) for m in makers), strict=True))
        plan: Plan = makers[0].plan  # for the largest sizes
        inputs, outputs = (tuple(self._argument(plan, v) for v in values) for values in (plan.inputs, plan.outputs))
        header = weight_file.header(store.arrays) if store.arrays else ()
        return Chain(name, sources, tuple(t.machine for t in targets), variants, header, arena, scratch, own, inputs, outputs,
                     self.sizes, numbers, f"polytc {polytc.__version__}"), store.arrays

    def _plans(self, target: LLVMTarget, table: KernelTable) -> list[Found]:
        planner = plans.Planner(self.graph, target, self.licence, table, self.progress, self.typical)
        if not self.sizes:
            return [planner.fixed(self.types)]
        return planner.ranges(self.types, self.sizes)

    def _argument(self, plan: Plan, value: str) -> Argument:
        """What a value of the caller is said to be, for the largest sizes."""
        t = plan.types[value]
        return Argument(value, t.dtype.name, at(t.shape, {s.name: s.largest for s in self.sizes}), t.dtype.bytes)
