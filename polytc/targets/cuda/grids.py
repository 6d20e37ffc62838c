"""What a launch may be: blocks of so many threads, and blocks on one axis where a grid has no room for them on several, since
on the axes y and z it has 65535 at most.

    block1 for i in 0:100000 { block0 for j in 0:8 { ... } }
    ->  block0 for i in 0:100000 { block0 for j in 0:8 { ... } }          j is blockIdx.x % 8, i is blockIdx.x / 8

Sizes that are not fixed may be as large.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from polytc import errors
from polytc.codegen import loops, ndrange, traverse
from polytc.program.sizes import Size

MOST = 65535
"""Blocks on the axes y and z (CUDA C++ Programming Guide, technical specifications per compute capability)."""
THREADS, DEEPEST = 1024, 64
"""Threads of a block, and on its axis z (the same table); HIP has no fewer."""


def fitted(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel, prepared for launches, whose blocks are all on axis x where y or z could have too many. Raises TargetError
    E505 for blocks that are too large."""
    found = ndrange.extract(kernel)
    if prod(found.items) > THREADS or found.items[2] > DEEPEST:
        raise errors.fail("E505", f"kernel '{kernel.name}': a block of {' x '.join(map(str, found.items))} threads",
                          kind=errors.TargetError, notes=[
                              f"CUDA allows {THREADS} threads, {DEEPEST} of them on the axis z: make thread loops smaller"])
    if all(isinstance(n, int) and not isinstance(n, Size) and n <= MOST for n in found.groups[1:]):
        return kernel

    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        return replace(s, axis=0) if isinstance(s, loops.For) and s.kind == "block" else s
    return replace(kernel, body=traverse.map_stmt(kernel.body, on_stmt, lambda e: e))
