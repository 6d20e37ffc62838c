"""Passes over the Loop AST, one idea a file, and the order in which they run.

    polytc emit --stage vectorize        prints the loops behind a pass
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from polytc.codegen import loops
from polytc.codegen.lower import rebuilt
from polytc.codegen.passes import (
    banks,
    barriers,
    chains,
    collapse,
    contract,
    fuse,
    grid,
    hostloops,
    items,
    narrow,
    promote,
    reciprocal,
    simplify,
    split,
    transpose,
    vectorize,
    version,
)
from polytc.machine import Machine

Apply = Callable[[loops.Module, Machine, frozenset[str]], loops.Module]
"""The module, the machine, and the names of the buffers that were scratch before the first pass."""
Watch = Callable[[str, Callable[[], loops.Module]], loops.Module]
"""Runs a pass of that name: where it is timed, dumped and checked."""


@dataclass(frozen=True)
class Pass:
    """name: by which it is printed, dumped and watched. does: in a line."""

    name: str
    does: str
    apply: Apply


def _kernels(apply: Callable[[loops.Kernel], loops.Kernel]) -> Apply:
    """The pass that does the same to each kernel."""
    return lambda module, *_: replace(module, kernels=tuple(map(apply, module.kernels)))


def _tuned(apply: Callable[[loops.Kernel, Machine], loops.Kernel]) -> Apply:
    """The pass that does to each kernel what is good for the machine."""
    return lambda module, machine, _: replace(module, kernels=tuple(apply(k, machine) for k in module.kernels))


def _promoted(module: loops.Module, machine: Machine, scratch: frozenset[str]) -> loops.Module:
    return replace(module, kernels=tuple(promote.promote_kernel(k, machine, scratch) for k in module.kernels))


def settled(module: loops.Module) -> loops.Module:
    """The module without empty kernels, the others with the arguments that they use, and in common loops of the host: passes
    leave that to the last one."""
    kernels = tuple(rebuilt(k, k.body) for k in module.kernels if k.body != loops.Block(()))
    return hostloops.merge(replace(module, kernels=kernels))


PASSES: tuple[Pass, ...] = (
    Pass("host_loops", "loops around launches go to the host", lambda m, *_: hostloops.split(m, hostloops.GRID)),
    Pass("narrow", "conditions on a loop's variable become its bounds", _kernels(narrow.narrow_kernel)),
    Pass("simplify", "expressions become shorter", _kernels(simplify.simplify_kernel)),
    Pass("split", "whole tiles and the last, partial one get loops of their own", _kernels(split.split_kernel)),
    Pass("version", "where bounds of point loops vary, whole tiles get code of their own", _tuned(version.version_kernel)),
    Pass("vectorize", "point loops become vectors", _tuned(vectorize.expand_kernel)),
    Pass("fuse", "a loop runs together with an earlier one that makes what it reads", _kernels(fuse.fuse_kernel)),
    Pass("items", "work-items get names", _kernels(grid.name_items)),
    Pass("contract_phases", "scratch of work-items shrinks to what is alive between barriers",
         lambda m, machine, _: contract.contract(m, machine, items.phased)),
    Pass("grid", "loops over groups and items get constant bounds, and one guard inside", _kernels(grid.map_kernel)),
    Pass("transpose", "vectors across memory are read along it, and transposed in registers",
         _tuned(transpose.transpose_kernel)),
    Pass("promote", "elements that loops reuse stay in registers", _promoted),
    Pass("contract", "stores that nobody reads go, and scratch shrinks to what is alive at once",
         lambda m, machine, _: contract.contract(promote.drop_dead_stores(m), machine)),
    Pass("simplify_again", "expressions become shorter", _kernels(simplify.simplify_kernel)),
    Pass("chains", "in a recurrence, what waits for the iteration before comes last", _kernels(chains.shorten_kernel)),
    Pass("reciprocal", "divisions become products, where that is licensed", _kernels(reciprocal.use_reciprocals)),
    Pass("collapse", "parallel loops in each other become one", _tuned(collapse.collapse_kernel)),
    Pass("banks", "rows of local memory are padded against bank conflicts", _tuned(banks.pad_kernel)),
    Pass("barriers", "barriers stand where items need what others made", _kernels(barriers.insert)),
    Pass("merge", "empty kernels go, and launches share loops of the host", lambda m, *_: settled(m)),
)


def run(module: loops.Module, machine: Machine, watch: Watch | None = None) -> loops.Module:
    """The module as targets take it: no point loops, elements in registers where they belong, dead scratch gone."""
    scratch = frozenset(b.name for b in module.scratch)
    for step in PASSES:
        def compute(step: Pass = step, before: loops.Module = module) -> loops.Module:
            return step.apply(before, machine, scratch)
        module = watch(step.name, compute) if watch is not None else compute()
    return module
