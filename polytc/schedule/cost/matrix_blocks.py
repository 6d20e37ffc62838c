"""Blocks of a product on a matrix unit: what the second cache keeps while tiles go through it.

    A[2048,2048] * B[2048,2048], f32 in parts of 6 bytes, 2 MiB of second cache
    ->  for i // 384 { for k // 512 { for j // 32 { for i // 32 % 12 { the sum of 512 products for 32 x 32 results } } } }

The rows of a block, for the steps of a block, stay in the second cache together with one panel of columns; the columns are
streamed once for each block of rows, and the results loaded and stored once for each block of steps. Or the columns stay, and
rows are streamed. Which blocks there are is what makes the least traffic behind that cache. (Goto & van de Geijn, Anatomy of
High-Performance Matrix Multiplication, TOMS 2008, section 4.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.schedule.cost import tile_order
from polytc.schedule.cost.register_tiles import MATRIX
from polytc.schedule.facts.fusion_groups import reduced_indices

PART = 15 / 32
"""Of the second cache for what a block holds: the rest is for panels on their way, and for what pages do not leave."""
LEAST = 8
"""Tiles along a sum in a block at least: loading and storing the results takes the time of two products of each."""


@dataclass(frozen=True)
class Blocks:
    """order: positions of the loops over tiles, outermost first. index, size: of what so many iterations are a block, '' if
    there are no blocks; block: of the sum, None if it is not cut."""

    order: tuple[int, ...]
    index: str
    size: int
    block: tile_order.Block | None


def choose(program: pr.Program, s: pr.Statement, sizes: dict[str, int], vector: str, jam: str, machine: Machine) -> Blocks:
    """The blocks of a statement whose value is a dot product that the machine's matrix unit does. sizes: shared index ->
    iterations of a tile, in the order of the text; vector, jam: the indices of columns and rows."""
    names, extent, reads = list(sizes), s.extents, tuple(dict.fromkeys(pr.reads(s)))
    columns = [r for r in reads if tile_order.depends(r, vector)]
    rows = [r for r in reads if r not in columns]
    around = [i for i in names if any(tile_order.depends(r, i) for r in rows) == any(tile_order.depends(r, i) for r in columns)]
    across = [*(i for i in names if i not in (*around, vector) and any(tile_order.depends(r, i) for r in columns)), vector]
    down = [*(i for i in names if i not in (*around, *across, jam)), jam]
    high, wide = (sum(_bytes(program, s, r, around) for r in side) for side in (rows, columns))
    results = program.tensor(s.target).dtype.bytes * prod(extent[i] for i in (*across, *down))
    index = reduced_indices(s)[0]
    each = prod(extent[i] for i in reduced_indices(s)) // extent[index] // MATRIX
    found = least(high, wide, results, _counts(extent[index], each), machine)
    inner = (*down, *across) if found.held == "columns" else (*across, *down)
    order = tuple(names.index(i) for i in (*around, *inner))
    first = (across if found.held == "columns" else down)[0]
    units = ceil(extent[first] / sizes[first])
    held = ceil(units / found.blocks)
    cut = tile_order.Block(s.name, index, extent[index] // found.count, 0) if found.count > 1 else None
    return Blocks(order, first if held < units else "", held * sizes[first], cut)


@dataclass(frozen=True)
class Traffic:
    """What comes from behind the second cache. held: what stays in it, 'rows' or 'columns', in so many blocks, of which each is
    there for a part of the sum, 1/count; bytes: that are moved beside those that must be."""

    held: str
    blocks: int
    count: int
    bytes: float


def least(rows: float, columns: float, results: float, counts: Iterable[int], machine: Machine) -> Traffic:
    """The least traffic. rows, columns, results: bytes of each; counts: into how many parts the sum may be cut. Of two ways
    alike rows are held where all of them are, and half of the cache has room for the results; else columns, so that results
    are stored along their rows."""
    found, stay = list[Traffic](), 2 * results <= machine.second_cache.bytes
    for count in counts:
        again = 2 * results * count if count > 1 else 0
        for name, held, other in (("columns", columns, rows), ("rows", rows, columns)):
            blocks = ceil(held / count / room(machine))
            found.append(Traffic(name, blocks, count, other * (blocks - 1) + again))
    return min(found, key=lambda x: (x.bytes, (x.held == "columns") == (stay and x.blocks * x.count == 1), x.count))


def room(machine: Machine) -> float:
    """Bytes of the second cache that a block may hold."""
    return PART * machine.second_cache.bytes


def _counts(steps: int, each: int) -> Iterator[int]:
    """Into how many parts a sum of so many steps may be cut. each: tiles along a step."""
    return (n for n in range(1, steps + 1) if steps % n == 0 and (n == 1 or steps // n * each >= LEAST))


def _bytes(program: pr.Program, s: pr.Statement, read: pr.Read, around: Sequence[str]) -> float:
    """Bytes of an operand in one iteration of the loops `around`."""
    t = program.tensor(read.tensor)
    return t.size * t.dtype.bytes / prod(s.extents[i] for i in around if tile_order.depends(read, i))
