"""Narrow strips of rows far apart: lines that a register tile reads once, and that are gone when the next tile reads them.

    16x3000x3000: 3000 rows of 64 bytes, each with its line's other half, take more than a second cache of 512 kB
    49x512x2048: 512 rows of 128 bytes, 8192 bytes apart, fall into 32 of 2048 sets, which hold half of their lines
    512x384x256: 256 rows of 96 bytes, 1536 bytes apart, fall into 16 of the 64 sets of a first cache, which held a panel

Each tile that walks the panel then fetches it from further away again. (Set conflicts of tiles: Lam, Rothberg & Wolf, The Cache
Performance and Optimizations of Blocked Algorithms, ASPLOS 1991.)
"""

from __future__ import annotations

from math import gcd, prod

from polytc.machine import Cache, Machine
from polytc.program import program as pr
from polytc.schedule.cost.register_tiles import ONE_WAY, RegisterTile
from polytc.schedule.facts.fusion_groups import coincident_indices, reduced_indices
from polytc.schedule.facts.strides import AccessStrides, along_rows, of_access

PAIR = 2
"""Lines that come for each that is asked for: its neighbour, too."""
KEPT = 2 / 3
"""Of a cache, what a panel may take: the other operand and the results are there, too."""
NEAR = 0.9
"""Of the first cache, what a strip may take: numbers of the other operand pass through, too."""
SHARED = 1 / 3
"""Of the last cache, what a tensor may take that it holds from call to call: other programs use it, too."""


def cycles(program: pr.Program, s: pr.Statement, read: pr.Read, tile: RegisterTile, lanes: int, machine: Machine) -> float:
    """Cycles in which the tiles of a contraction wait for lines of `read`, of which they walk narrow strips: those that come
    from memory the first time, and those that did not stay for the next tile."""
    (access,) = along_rows(program, (s,), (of_access(program, read),))
    steps = [i for i in reduced_indices(s) if access.stride(i) != 0]
    if tile.jam is None or len(steps) != 1 or (stride := access.stride(steps[0])) is None:
        return 0.0
    if (access.stride(tile.vector), stride) == (0, 1):
        return _in_one_set(s, access, tile, machine)
    along = (tile.vector, tile.jam)
    if (access.stride(tile.vector), access.stride(tile.jam)) == (0, 1):
        along = (tile.jam, tile.vector)
    elif (access.stride(tile.vector), access.stride(tile.jam)) != (1, 0):
        return 0.0
    extent, side = s.extents, {tile.vector: tile.width * lanes, tile.jam: tile.rows}
    strips, again = (-(-extent[i] // side[i]) for i in along)
    others = prod(extent[i] for i in coincident_indices(s) if i not in along)
    rows, line = extent[steps[0]] * others, machine.second_cache.line
    touched = 1 + (side[along[0]] * access.width - access.width) / line
    lines = -(-extent[along[0]] * access.width // line)
    held = resident_lines(machine.second_cache, abs(stride) * access.width, PAIR * touched)
    gone = extent[steps[0]] * touched * PAIR > KEPT * held
    found, traffic = 0.0, machine.costs.traffic
    if strips > 1 and far(program.tensor(read.tensor), machine):
        found += rows * strips * traffic.strip * (touched if gone else 1)
    if gone:
        fetched = again * lines if along[0] == tile.vector else again * strips
        found += rows * (fetched - lines) * traffic.line
    else:
        near = _lost_lines(machine.caches[0], extent[steps[0]], abs(stride) * access.width, side[along[0]] * access.width)
        found += others * strips * (again - 1) * near * traffic.tile_line
    return found


def _lost_lines(first: Cache, rows: int, stride: int, row: int) -> float:
    """Lines of a strip that the first cache would hold as a panel, if it loses them because its rows fall into few sets."""
    touched = 1 + (row - gcd(stride, row, first.line)) / first.line
    fits = rows * row <= first.bytes
    return rows * touched if fits and rows * touched > NEAR * resident_lines(first, stride, touched) else 0.0


def _in_one_set(s: pr.Statement, access: AccessStrides, tile: RegisterTile, machine: Machine) -> float:
    """Cycles of a tile with more rows than the first cache has ways, if all of these lie in one set: lines are gone before the
    next step reads their next number."""
    apart = abs(access.stride(tile.jam) or 0) if tile.jam is not None else 0
    if apart == 0 or apart * access.width % ONE_WAY or tile.rows < machine.caches[0].ways:
        return 0.0
    return s.points / s.extents[tile.vector] * machine.caches[0].line * machine.costs.traffic.second


def far(tensor: pr.Tensor, machine: Machine) -> bool:
    """Does a tensor come from memory each time?"""
    return tensor.size * tensor.dtype.bytes > SHARED * machine.caches[-1].bytes


def resident_lines(cache: Cache, stride: int, row: float) -> float:
    """Lines of rows of `row` lines, `stride` bytes apart, that stay in the cache together."""
    sets = max(1, cache.bytes // (cache.ways * cache.line))
    way = sets * cache.line
    return min(sets, way // gcd(stride, way) * row) * cache.ways
