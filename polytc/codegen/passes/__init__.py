"""Passes over the Loop AST, one idea a file, and the order in which they run."""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import loops
from polytc.codegen.lower import kernel as rebuilt
from polytc.codegen.passes import collapse, grid, promote, simplify, split, vectorize
from polytc.machine import Machine


def run(module: loops.Module, machine: Machine) -> loops.Module:
    """The module as targets take it: no point loops, elements in registers where they belong, dead scratch gone."""
    scratch = frozenset(b.name for b in module.scratch)
    passes = (
        simplify.simplify_kernel,
        split.split_kernel,
        lambda k: vectorize.expand_kernel(k, machine),
        grid.map_kernel,
        lambda k: promote.promote_kernel(k, machine, scratch),
        simplify.simplify_kernel,
        collapse.collapse_kernel,
    )
    kernels = module.kernels
    for step in passes:
        kernels = tuple(step(k) for k in kernels)
    done = promote.drop_dead_stores(replace(module, kernels=kernels))
    return replace(done, kernels=tuple(rebuilt(k.name, k.body, k.precise) for k in done.kernels))
