"""Streams: memory is walked row by row, where few rows of results read a large operand.

    C[i,j] += A[i,k]*B[k,j]             with A[4,3000], B[3000,3000] for AVX2
      parallel j // 1512 { for k // 8 { for j // 24 % 63 { for k % 8 { unroll i % 4, vector j % 24 { C[i,j] += ... } } } } }

A tile that adds up all of k would read 96 bytes of each row, and the next one what lies beside them, when it is gone from the
caches. In blocks of a few rows the processor's prefetching runs ahead of all of them, and each byte comes once. The results are
loaded and stored again for each block, which stays cheaper than a copy in panels as long as there are few of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.schedule.cost import register_tiles, strips, tile_order
from polytc.schedule.cost.register_tiles import RegisterTile
from polytc.schedule.facts.fusion_groups import reduced_indices
from polytc.schedule.facts.strides import AccessStrides

ROWS = 8
"""Rows that are read at a time: prefetching of the second cache follows a dozen of streams."""
COLUMNS = 2 << 10
"""Bytes of a row that a thread reads one after another, at least."""
ALONE = 4
"""Times as many where it has one row of results: there memory is what it waits for, and longer parts of rows come faster."""
NEAR = 16
"""The stride that stands for a next row that is there when a tile comes to it, as of a panel: neither the same element nor the
next one."""


@dataclass(frozen=True)
class Stream:
    """tile: of registers; read: the large operand; index: along which its rows follow each other; columns: of a part of the
    vector's index that a thread takes; cycles: of the whole statement."""

    tile: RegisterTile
    read: pr.Read
    index: str
    columns: int
    cycles: float


def best(program: pr.Program, s: pr.Statement, accesses: tuple[AccessStrides, ...], shared: tuple[str, ...], lanes: int,
         machine: Machine) -> Stream | None:
    """The stream of a contraction, if one of its operands can be read so. accesses: of the statement, target first; shared: the
    indices that may be vectorised or unrolled."""
    reduced, reads = reduced_indices(s), pr.reads(s)
    parts = Counter(map(_rows, set(reads)))
    large = [r for r in reads if parts[_rows(r)] * tile_order.footprint(program, s, r, {}) > machine.second_cache.bytes]
    if len(set(map(_rows, large))) != 1 or len(reduced) != 1 or len(accesses) != 1 + len(reads):
        return None
    if tile_order.in_target(s, reduced[0]):
        return None
    access = accesses[1 + reads.index(large[0])]
    step, rows = access.stride(reduced[0]), [i for i in s.indices if not tile_order.depends(large[0], i)]
    if step is None or 4 * abs(step) * access.width < machine.costs.traffic.page or len(rows) > 1:
        return None
    near = replace(access, strides=tuple((i, NEAR if i == reduced[0] else n) for i, n in access.strides))
    places = {1 + n for n, r in enumerate(reads) if r in large}
    moved = tuple(near if n in places else a for n, a in enumerate(accesses))
    tile = register_tiles.best(s, moved, shared, lanes, machine)
    if tile is None or tile.straight or access.stride(tile.vector) != 1 or accesses[0].stride(tile.vector) != 1 \
            or tile.jam not in (None, *rows) or _collide(s, abs(step) * access.width, rows, machine):
        return None
    results = prod(s.extents[i] for i in shared) / lanes
    moves = results * -(-s.extents[reduced[0]] // ROWS) * (1 + machine.costs.accesses.load)
    least = COLUMNS * (1 if rows else ALONE) // access.width
    part = max(-(-s.extents[tile.vector] // machine.cores), least)
    wide, tensor = tile.width * lanes, program.tensor(large[0].tensor)
    read = tensor.size * access.width * machine.costs.traffic.memory if strips.far(tensor, machine) else 0.0
    return Stream(tile, large[0], reduced[0], -(-part // wide) * wide, tile.cycles + moves + read)


def _rows(read: pr.Read) -> tuple[str, tuple[pr.Expr, ...]]:
    """What a read walks along, whichever part of a number with two parts it takes."""
    parts = read.subscripts and isinstance(read.subscripts[-1], pr.Const)
    return read.tensor, read.subscripts[:-1] if parts else read.subscripts


def _collide(s: pr.Statement, stride: int, rows: list[str], machine: Machine) -> bool:
    """Do more rows of results than the first cache has ways share its sets with the rows that are read? Rows of a power of two
    do, and there may be any number of rows of open size."""
    first = machine.caches[0]
    return any(r.typical or (stride % register_tiles.ONE_WAY == 0 and r.extent > first.ways)
               for r in s.ranges if r.index in rows)


def better(program: pr.Program, s: pr.Statement, accesses: tuple[AccessStrides, ...], plain: RegisterTile,
           shared: tuple[str, ...], lanes: int, machine: Machine) -> Stream | None:
    """The stream, if it takes less than another tile. One that has no rows to unroll reads each element once in any case."""
    found = best(program, s, accesses, shared, lanes, machine)
    if found is None or plain.straight:
        return None
    walked = plain.cycles + strips.cycles(program, s, found.read, plain, lanes, machine)
    return found if plain.jam is None or found.cycles < walked else None
