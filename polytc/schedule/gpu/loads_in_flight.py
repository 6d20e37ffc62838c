"""Elementwise groups for GPUs whose items have several elements each, so that the loads of as many are under way together.

    Y[i,j] = X[i,j-1] + X[i,j+1]                                with X[4096,4096] on gpu
    ->  block1 i // 32, block0 j // 32, thread1 i // 4 % 8, thread0 j % 32, unroll i % 4 { Y[i,j] = X[i,j-1] + X[i,j+1] }

What a unit gets from memory in the time that one load takes is what its items have asked for until then (Little's law; Volkov,
Better Performance at Lower Occupancy, GTC 2010): with one element each, all items that a unit can hold ask for too little.
Neighbouring rows share what they read, too. Where items move vectors (vector_accesses.py), these are as many elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.schedule.facts.fusion_groups import Group
from polytc.schedule.gpu.vector_accesses import is_elementwise

MOST = 4
"""Elements of an item at most: each has its registers, and its own code."""


def of_group(program: pr.Program, group: Group, row: int, machine: Machine) -> int:
    """Iterations of a row of a group that an item does, one after another."""
    if not all(is_elementwise(s, group, n) for n, s in enumerate(group.statements)):
        return 1
    return iterations(program, group.statements, prod(group.extents), group.extents[row], machine)


def iterations(program: pr.Program, statements: Sequence[pr.Statement], instances: float, extent: int, machine: Machine) -> int:
    """Iterations of a loop that an item does, where the instances are one item's each: a power of two, and 1 where all of them
    are under way at once anyway. instances: at once, of each statement; extent: of the loop."""
    asked, costs = max(_bytes(program, s) for s in statements), machine.costs.groups
    most = min(MOST, extent, instances / (machine.costs.launches.items * machine.cores))
    each = 1
    while 2 * each <= most and each * asked < costs.in_flight:
        each *= 2
    return each


def _bytes(program: pr.Program, s: pr.Statement) -> int:
    """What an instance asks memory for: an element of each tensor that it reads, as neighbours ask for the others."""
    return sum(program.tensor(t).dtype.bytes for t in {r.tensor for r in pr.reads(s)})
