"""The programs of a model without their code: what its kernels are made from, fused and laid out as they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polytc.graph.ir import Graph
from polytc.graph.plan import Array
from polytc.graph.planning import banded_constants, layouts
from polytc.graph.planning.operator_fusion import fuse
from polytc.graph.running import instance
from polytc.graph.running.executables import tests_on_host
from polytc.graph.specialisation.specialise import specialise
from polytc.options import Licence
from polytc.program.program import Program
from polytc.targets import registry


def kernels(graph: Graph, shapes: Mapping[str, Sequence[int]], target: str, licence: Licence
            ) -> tuple[list[tuple[str, Program]], bool]:
    """The label of the nodes and the program of each kernel, in order, for inputs of these shapes, else of those declared; and
    whether that is all: what follows a value that only a run has is left out. Raises CompileError for a model that does not
    compile."""
    types = {v.name: None if v.dtype is None else Array(v.dtype, tuple(shapes.get(v.name) or v.static_shape or ()))
             for v in graph.inputs}
    part = specialise(graph, types, by_value=lambda name, inputs: False, guards=tests_on_host(target))
    plan = banded_constants.compute_bands(part.plan)
    plan = fuse(layouts.choose(plan, registry.running(target).machine) if target != "evaluate" else plan)
    programs = instance.compiled_programs(plan, licence)
    return [(c.label, p) for c, p in zip(plan.calls, programs, strict=True)], part.rest is None and not part.hosts
