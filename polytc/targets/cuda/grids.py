"""Blocks on one axis where a grid has no room for them on several: on the axes y and z a grid has 65535 at most.

    block1 for i in 0:100000 { block0 for j in 0:8 { ... } }
    ->  block0 for i in 0:100000 { block0 for j in 0:8 { ... } }          j is blockIdx.x % 8, i is blockIdx.x / 8

Sizes that are not fixed may be as large.
"""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import loops, ndrange, traverse

MOST = 65535
"""Blocks on the axes y and z (CUDA C++ Programming Guide, technical specifications per compute capability)."""


def fitted(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel, prepared for launches, whose blocks are all on axis x where y or z could have too many."""
    groups = ndrange.extract(kernel).groups[1:]
    if all(isinstance(n, int) and not _is_open(n) and n <= MOST for n in groups):
        return kernel

    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        return replace(s, axis=0) if isinstance(s, loops.For) and s.kind == "block" else s
    return replace(kernel, body=traverse.map_stmt(kernel.body, on_stmt, lambda e: e))


def _is_open(n: object) -> bool:
    return type(n) is not int
