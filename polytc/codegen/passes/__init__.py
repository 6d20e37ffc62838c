"""Passes over the Loop AST, one idea a file, and the order in which they run.

    polytc emit --stage vectorize        prints the loops behind a pass
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from polytc.codegen import loops, verify
from polytc.codegen.lower import rebuilt
from polytc.codegen.passes import (
    array_contraction,
    bank_conflicts,
    barriers,
    collapse,
    guards_to_bounds,
    host_loops,
    index_set_splitting,
    interleaved_rows,
    launch_grid,
    loop_fusion,
    loop_versioning,
    reciprocal,
    recurrences,
    register_transpose,
    rerolling,
    scalar_replacement,
    simplify,
    unswitching,
    vectorize,
    work_items,
)
from polytc.codegen.passes.local_memory import double_buffers, shared_storage
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


def _knowing(apply: Callable[[loops.Kernel, Machine, frozenset[str]], loops.Kernel]) -> Apply:
    """The same of a pass that asks which buffers are scratch."""
    return lambda module, machine, scratch: replace(module, kernels=tuple(apply(k, machine, scratch) for k in module.kernels))


def without_empty(module: loops.Module) -> loops.Module:
    """The module without empty kernels, the others with the arguments that they use, and in common loops of the host: passes
    leave that to the last one."""
    kernels = tuple(rebuilt(k, k.body) for k in module.kernels if k.body != loops.Block(()))
    return host_loops.merge(replace(module, kernels=kernels))


PASSES: tuple[Pass, ...] = (
    Pass("host_loops", "loops around launches go to the host", lambda m, *_: host_loops.split(m, host_loops.GRID)),
    Pass("guards_to_bounds", "conditions on a loop's variable become its bounds", _kernels(guards_to_bounds.tighten_bounds)),
    Pass("simplify", "expressions become shorter", _kernels(simplify.simplify_kernel)),
    Pass("index_set_splitting", "whole tiles and the last, partial one get loops of their own",
         _kernels(index_set_splitting.split_kernel)),
    Pass("loop_versioning", "where bounds of point loops vary, whole tiles get code of their own",
         _knowing(loop_versioning.version_kernel)),
    Pass("vectorize", "point loops become vectors", _tuned(vectorize.expand_kernel)),
    Pass("loop_fusion", "a loop runs together with an earlier one that makes what it reads", _kernels(loop_fusion.fuse_kernel)),
    Pass("work_items", "work-items get names", _kernels(launch_grid.name_items)),
    Pass("phase_contraction", "scratch of work-items shrinks to what is alive between barriers",
         lambda m, machine, _: array_contraction.contract(m, machine, work_items.has_phases)),
    Pass("launch_grid", "loops over groups and items get constant bounds, and one guard inside",
         _kernels(launch_grid.map_kernel)),
    Pass("register_transpose", "vectors across memory are read along it, and transposed in registers",
         _tuned(register_transpose.transpose_kernel)),
    Pass("scalar_replacement", "elements that loops reuse stay in registers", _knowing(scalar_replacement.promote_kernel)),
    Pass("array_contraction", "stores that nobody reads go, and scratch shrinks to what is alive at once",
         lambda m, machine, _: array_contraction.contract(scalar_replacement.drop_dead_stores(m), machine)),
    Pass("shared_storage", "arrays in local memory whose lives are apart share storage", _tuned(shared_storage.share_kernel)),
    Pass("double_buffers", "tiles of the next step are copied while items compute with those of this one",
         _tuned(double_buffers.double_kernel)),
    Pass("simplify_again", "expressions become shorter", _kernels(simplify.simplify_kernel)),
    Pass("interleaved_rows", "vectors stored in strides into the same rows are interleaved, and stored whole",
         _tuned(interleaved_rows.interleave_kernel)),
    Pass("recurrences", "in a recurrence, what waits for the iteration before comes last",
         _kernels(recurrences.shorten_recurrences)),
    Pass("reciprocal", "divisions become products, where that is licensed", _kernels(reciprocal.use_reciprocals)),
    Pass("unswitching", "conditions that hold for whole loops, or for none of their iterations, are tested before them",
         _tuned(unswitching.unswitch_kernel)),
    Pass("rerolling", "many copies of a long statement become a loop again", _tuned(rerolling.reroll_kernel)),
    Pass("collapse", "parallel loops in each other become one", _tuned(collapse.collapse_kernel)),
    Pass("bank_conflicts", "rows of local memory are padded against bank conflicts", _tuned(bank_conflicts.pad_kernel)),
    Pass("barriers", "barriers stand where items need what others made", _kernels(barriers.insert_barriers)),
    Pass("merge", "empty kernels go, and launches share loops of the host", lambda m, *_: without_empty(m)),
)


def run(module: loops.Module, machine: Machine, watch: Watch | None = None) -> loops.Module:
    """The module as targets take it: no point loops, elements in registers where they belong, dead scratch gone."""
    scratch = frozenset(b.name for b in module.scratch)
    for step in PASSES:
        def compute(step: Pass = step, before: loops.Module = module) -> loops.Module:
            return step.apply(before, machine, scratch)
        module = watch(step.name, compute) if watch is not None else compute()
    return module


def verify_each(behind: Sequence[tuple[str, loops.Module]]) -> None:
    """AssertionError with the name of the first pass behind which loops break the invariant (see codegen/verify.py)."""
    for name, module in behind:
        try:
            verify.verify(without_empty(module))
        except AssertionError as e:
            raise AssertionError(f"pass {name!r}: {e}") from e


def verify_last(behind: Sequence[tuple[str, loops.Module]]) -> None:
    """As verify_each, where the loops behind the last pass break the invariant: to look at all of them takes longer than the
    passes."""
    try:
        verify.verify(behind[-1][1])
    except AssertionError:
        verify_each(behind)
        raise
