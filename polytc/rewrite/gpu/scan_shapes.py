"""Which work-groups scan together, and what of a row each takes, from a machine's numbers.

What a scan takes is what its kernels take one after another: a start each, and the longer of what memory needs for its bytes
and of what groups wait, one after another, for memory and for each other. One kernel moves fewest bytes, if there are rows
enough; three let groups share a row. An item that scans a row by itself touches lines of memory one element at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from polytc.machine import Estimate, Machine, estimates
from polytc.program import program as pr
from polytc.program.calls.published import parts
from polytc.program.scalars import DType
from polytc.program.sizes import shortfall
from polytc.rewrite.gpu.look_back import ROUNDS, windows
from polytc.rewrite.gpu.work_group_scans import columns, local_bytes, tile_elements, tiles
from polytc.rewrite.scan_statements import Scan

ACROSS = ((32, 8), (32, 4), (16, 16), (8, 32))
"""Items of a group that there are to choose from where those along x have a column each."""
SHAPES = ((16, 16), (16, 8), (8, 16), (8, 8), (4, 8))
"""Items of a group that there are to choose from, along x and y: it takes x*x*y elements at once."""
TILES = (1, 2, 4, 8, 16, 32)
"""Tiles of a block that there are to choose from."""
LOOK_BACK = "look_back"
AHEAD = 4
"""Loads of an item that are under way at once."""
MEETINGS = 5
"""Barriers of a tile."""
NEAR = 1.05
"""Times that count as equal: of these shapes the one with the largest tiles, which serves best where there is more to scan."""


@dataclass(frozen=True)
class Shape:
    """items: of a group along x and y; elements: of a block, 0 where a group scans whole rows; time: estimated; look_back: are
    blocks scanned in one pass?"""

    items: tuple[int, int]
    elements: int
    time: Estimate
    look_back: bool = False


def fits(items: tuple[int, ...], count: int, s: pr.Statement, found: Scan, machine: Machine, back: bool = False) -> bool:
    """Can groups of so many items scan together? count: tiles of one, which hand what comes before them on in local memory;
    back: do they look back, with what an item sees there?"""
    both = len(items) == 2 and min(items) > 1 and prod(items) <= machine.max_work_group
    across = columns(s, found) is not None
    seen = (prod(items) + items[-1]) * found.dtype.bytes if back else 0
    return both and local_bytes((items[0], items[1]), count, found.dtype.bytes, across) + seen <= machine.local_bytes


def cannot_look_back(items: tuple[int, ...], s: pr.Statement, found: Scan, machine: Machine) -> str:
    """Why groups of so many items do not find by themselves what comes before their blocks; '' if they may."""
    if not machine.waiting_groups:
        return "the machine does not say that groups may wait for others"
    if columns(s, found) is not None:
        return "groups look back along memory alone"
    blocks = tiles(found.along.extent, tile_elements((items[0], items[1]), False))
    return "" if int(windows(blocks, prod(items)).rounds) <= ROUNDS else f"an item would wait for more than {ROUNDS} windows"


def shapes(s: pr.Statement, found: Scan, machine: Machine) -> Iterator[Shape]:
    """All that there are to choose from, those with the largest tiles first, where local memory is faster than the caches."""
    if machine.kind != "gpu" or not machine.fast_local_memory:
        return
    extent, across = int(found.along.extent), columns(s, found)
    for items in ACROSS if across is not None else SHAPES:
        grid = _grid(s, found, items, across, machine)
        whole = grid.whole
        if whole < (shortfall(found.along.extent) or 0):  # of an open size there might be no tile, and less
            continue
        if across is not None and 2 * int(across.extent) <= items[0] and items != ACROSS[-1]:
            continue
        if 2 * extent > whole and fits(items, tiles(extent, whole), s, found, machine):
            yield Shape(items, 0, grid.by_rows(extent))
        if 2 * whole <= extent and not cannot_look_back(items, s, found, machine) and fits(items, 1, s, found, machine, True):
            yield Shape(items, whole, grid.looking_back(extent), True)
        for n in TILES:
            if 2 * n * whole <= extent and fits(items, max(n, tiles(tiles(extent, n * whole), whole)), s, found, machine):
                yield Shape(items, n * whole, grid.by_blocks(extent, n * whole))


def best(s: pr.Statement, found: Scan, machine: Machine) -> Shape | None:
    """The shape that takes the least time; None if an item a row takes less, or there is none."""
    every = list(shapes(s, found, machine))
    least = min((x.time.seconds for x in every), default=None)
    if least is None or least >= alone(s, found, machine).seconds:
        return None
    items = next(x.items for x in every if x.time.seconds <= NEAR * least)
    return min((x for x in every if x.items == items), key=lambda x: x.time.seconds)


def way(shape: Shape) -> str:
    """How rows are divided: 'rows' where they are not, in 'blocks' by three launches, or in blocks that 'look_back'."""
    return LOOK_BACK if shape.look_back else "blocks" if shape.elements else "rows"


def ways(s: pr.Statement, found: Scan, machine: Machine) -> dict[str, Shape]:
    """The quickest shape of each way."""
    best = dict[str, Shape]()
    for x in shapes(s, found, machine):
        if way(x) not in best or x.time.seconds < best[way(x)].time.seconds:
            best[way(x)] = x
    return best


def alone(s: pr.Statement, found: Scan, machine: Machine) -> Estimate:
    """An item a row or column. Of rows an item takes one element of a sector of memory at a time."""
    launches, rows, extent = machine.costs.launches, _rows(s, found), int(found.along.extent)
    sector = machine.costs.groups.sector if columns(s, found) is None else 1
    waits = ceil(rows / (launches.items * machine.cores)) * extent * launches.step / AHEAD
    moved = estimates.of_all_units(machine, 2 * sector * rows * extent * found.dtype.bytes)
    return Estimate(launches=launches.launch) + estimates.longer(Estimate(arithmetic=waits), moved)


def _rows(s: pr.Statement, found: Scan) -> int:
    """The scans that there are side by side."""
    return prod(int(r.extent) for r in s.ranges if r.index != found.along.index)


@dataclass(frozen=True)
class _Grid:
    """rows: side by side; groups: for all of them, each at a row, or at neighbouring columns; items, whole: of a group, and
    what it takes at once; dtype: of an element."""

    rows: int
    groups: int
    items: tuple[int, int]
    whole: int
    dtype: DType
    machine: Machine

    @property
    def under_way(self) -> int:
        """Groups of all units at once."""
        return self.machine.cores * max(1, self.machine.costs.launches.items // prod(self.items))

    def by_rows(self, extent: int, parts: int = 1) -> Estimate:
        """A group a row, or one for each of the parts of one, tile after tile."""
        launches = self.machine.costs.launches
        turns = ceil(self.groups * parts / self.under_way) * tiles(extent, self.whole)
        waits = turns * Estimate(arithmetic=launches.step, barriers=MEETINGS * launches.barrier)
        moved = estimates.of_all_units(self.machine, 2 * self.rows * parts * extent * self.dtype.bytes)
        return Estimate(launches=launches.launch) + estimates.longer(waits, moved)

    def looking_back(self, extent: int) -> Estimate:
        """A block a group, which waits for the counter and once or twice for others (see look_back), and reads a word for each
        block and each window that it waits for, half of them on average; and the launch that clears the words."""
        launches, blocks = self.machine.costs.launches, tiles(extent, self.whole)
        found = windows(blocks, prod(self.items))
        turns = ceil(self.groups * blocks / self.under_way)
        hops = 2 + found.several
        waits = turns * Estimate(arithmetic=launches.step + hops * launches.seen,
                                 barriers=(MEETINGS + 1 + 2 * hops) * launches.barrier)
        seen = 8 * parts(self.dtype) * (found.members + (found.count if found.several else 0)) // 2
        moved = estimates.of_all_units(self.machine, 2 * self.rows * extent * self.dtype.bytes + self.groups * blocks * seen)
        return 2 * Estimate(launches=launches.launch) + estimates.longer(waits, moved)

    def by_blocks(self, extent: int, elements: int) -> Estimate:
        """The sums of blocks, the scan of these, and the scan of each block."""
        launches, blocks = self.machine.costs.launches, tiles(extent, elements)
        turns = ceil(self.groups * blocks / self.under_way)
        waits = turns * Estimate(arithmetic=elements // self.whole * launches.step, barriers=2 * launches.barrier)
        sums = estimates.longer(waits, estimates.of_all_units(self.machine, self.rows * extent * self.dtype.bytes))
        return Estimate(launches=launches.launch) + sums + self.by_rows(blocks) + self.by_rows(elements, blocks)


def _grid(s: pr.Statement, found: Scan, items: tuple[int, int], across: pr.Range | None, machine: Machine) -> _Grid:
    rows = _rows(s, found)
    groups = rows if across is None else rows // int(across.extent) * ceil(int(across.extent) / items[0])
    return _Grid(rows, groups, items, tile_elements(items, across is not None), found.dtype, machine)
