"""Which work-groups scan together, and what of a row each takes, from a machine's numbers.

What a scan takes is what its kernels take one after another: a start each, and the longer of what memory needs for its bytes
and of what groups wait, one after another, for memory and for each other. One kernel moves fewest bytes, if there are rows
enough; three let groups share a row. An item that scans a row by itself touches lines of memory one element at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from polytc.machine import Estimate, Machine
from polytc.program import program as pr
from polytc.program.sizes import shortfall
from polytc.rewrite.gpu.scanned_tiles import local_bytes, tile_elements
from polytc.rewrite.gpu.work_group_scans import tiles
from polytc.rewrite.scan_statements import Scan

SHAPES = ((16, 16), (16, 8), (8, 16), (8, 8), (4, 8))
"""Items of a group that there are to choose from, along x and y: it takes x*x*y elements at once."""
TILES = (1, 2, 4, 8, 16, 32)
"""Tiles of a block that there are to choose from."""
AHEAD = 4
"""Loads of an item that are under way at once."""
MEETINGS = 5
"""Barriers of a tile."""
NEAR = 1.05
"""Times that count as equal: of these shapes the one with the largest tiles, which serves best where there is more to scan."""


@dataclass(frozen=True)
class Shape:
    """items: of a group along x and y; elements: of a block, 0 where a group scans whole rows; time: estimated."""

    items: tuple[int, int]
    elements: int
    time: Estimate


def is_along_memory(s: pr.Statement, found: Scan) -> bool:
    """Are neighbours of a scan neighbours in memory?"""
    return pr.Index(found.along.index) in pr.walk(s.subscripts[-1])


def fits(items: tuple[int, ...], count: int, found: Scan, machine: Machine) -> bool:
    """Can groups of so many items scan together? count: tiles of one, which hand what comes before them on in local memory."""
    both = len(items) == 2 and min(items) > 1 and prod(items) <= machine.max_work_group
    each = found.dtype.bytes
    return both and local_bytes((items[0], items[1]), each) + (count + 1) * each <= machine.local_bytes


def shapes(s: pr.Statement, found: Scan, machine: Machine) -> Iterator[Shape]:
    """All that there are to choose from, those with the largest tiles first: of scans along memory, where local memory is
    faster than the caches."""
    if machine.kind != "gpu" or not machine.fast_local_memory or not is_along_memory(s, found):
        return
    rows, extent = _rows(s, found), int(found.along.extent)
    for items in SHAPES:
        whole = tile_elements(items)
        if whole < (shortfall(found.along.extent) or 0):  # of an open size there might be no tile, and less
            continue
        if 2 * extent > whole and fits(items, tiles(extent, whole), found, machine):
            yield Shape(items, 0, _by_rows(rows, extent, items, found, machine))
        for n in TILES:
            if 2 * n * whole <= extent and fits(items, max(n, tiles(tiles(extent, n * whole), whole)), found, machine):
                yield Shape(items, n * whole, _by_blocks(rows, extent, n * whole, items, found, machine))


def best(s: pr.Statement, found: Scan, machine: Machine) -> Shape | None:
    """The shape that takes the least time; None if an item a row takes less, or there is none."""
    every = list(shapes(s, found, machine))
    least = min((x.time.seconds for x in every), default=None)
    if least is None or least >= alone(s, found, machine).seconds:
        return None
    items = next(x.items for x in every if x.time.seconds <= NEAR * least)
    return min((x for x in every if x.items == items), key=lambda x: x.time.seconds)


def alone(s: pr.Statement, found: Scan, machine: Machine) -> Estimate:
    """An item a row: of a sector of memory it takes an element at a time."""
    launches, rows, extent = machine.costs.launches, _rows(s, found), int(found.along.extent)
    waits = ceil(rows / (launches.items * machine.cores)) * extent * launches.step / AHEAD
    moved = _memory(2 * machine.costs.groups.sector * rows * extent * found.dtype.bytes, machine)
    return Estimate(launches=launches.launch) + _longer(Estimate(arithmetic=waits), moved)


def _rows(s: pr.Statement, found: Scan) -> int:
    return prod(int(r.extent) for r in s.ranges if r.index != found.along.index)


def _by_rows(rows: int, extent: int, items: tuple[int, int], found: Scan, machine: Machine) -> Estimate:
    """A group a row, tile after tile."""
    launches = machine.costs.launches
    turns = ceil(rows / _under_way(items, machine)) * tiles(extent, tile_elements(items))
    waits = turns * Estimate(arithmetic=launches.step, barriers=MEETINGS * launches.barrier)
    return Estimate(launches=launches.launch) + _longer(waits, _memory(2 * rows * extent * found.dtype.bytes, machine))


def _by_blocks(rows: int, extent: int, elements: int, items: tuple[int, int], found: Scan, machine: Machine) -> Estimate:
    """The sums of blocks, the scan of these, and the scan of each block."""
    launches, blocks = machine.costs.launches, tiles(extent, elements)
    turns = ceil(rows * blocks / _under_way(items, machine))
    waits = turns * Estimate(arithmetic=elements // tile_elements(items) * launches.step, barriers=2 * launches.barrier)
    sums = _longer(waits, _memory(rows * extent * found.dtype.bytes, machine))
    return Estimate(launches=launches.launch) + sums + _by_rows(rows, blocks, items, found, machine) + _by_rows(
        rows * blocks, elements, items, found, machine)


def _under_way(items: tuple[int, int], machine: Machine) -> int:
    """Groups of all units at once."""
    return machine.cores * max(1, machine.costs.launches.items // prod(items))


def _memory(count: float, machine: Machine) -> Estimate:
    """So many bytes, by all units."""
    return Estimate(memory=count / (machine.costs.groups.memory * machine.cores))


def _longer(a: Estimate, b: Estimate) -> Estimate:
    return max(a, b, key=lambda e: e.seconds)
