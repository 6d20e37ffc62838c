"""Passes over the Loop AST, one idea a file, and the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

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


def run(module: loops.Module, machine: Machine) -> loops.Module:
    """The module as targets take it: no point loops, elements in registers where they belong, dead scratch gone."""
    scratch = frozenset(b.name for b in module.scratch)
    module = hostloops.split(module, hostloops.GRID)
    module = _each(module, (
        narrow.narrow_kernel,
        simplify.simplify_kernel,
        split.split_kernel,
        lambda k: version.version_kernel(k, machine),
        lambda k: vectorize.expand_kernel(k, machine),
        fuse.fuse_kernel,
        grid.name_items,
    ))
    module = contract.contract(module, machine, items.phased)
    module = _each(module, (
        grid.map_kernel,
        lambda k: transpose.transpose_kernel(k, machine),
        lambda k: promote.promote_kernel(k, machine, scratch),
    ))
    module = contract.contract(promote.drop_dead_stores(module), machine)
    module = _each(module, (
        simplify.simplify_kernel,
        chains.shorten_kernel,
        reciprocal.use_reciprocals,
        lambda k: collapse.collapse_kernel(k, machine),
        lambda k: banks.pad_kernel(k, machine),
        barriers.insert,
    ))
    kernels = (rebuilt(k, k.body) for k in module.kernels if k.body != loops.Block(()))
    return hostloops.merge(replace(module, kernels=tuple(kernels)))


def _each(module: loops.Module, passes: Sequence[Callable[[loops.Kernel], loops.Kernel]]) -> loops.Module:
    kernels = module.kernels
    for step in passes:
        kernels = tuple(step(k) for k in kernels)
    return replace(module, kernels=kernels)
