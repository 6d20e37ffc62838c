"""Rows at a long stride share few sets of a cache: a panel of them may not stay in the second cache, though it is small enough.

    49x512x2048: 512 rows of 128 bytes, 8192 bytes apart, fall into 32 of 2048 sets, which hold half of their lines

Each tile that walks the panel then fetches it from further away again. (Set conflicts of tiles: Lam, Rothberg & Wolf, The Cache
Performance and Optimizations of Blocked Algorithms, ASPLOS 1991.)
"""

from __future__ import annotations

from math import gcd, prod

from polytc.machine import Cache, Machine
from polytc.program import program as pr
from polytc.schedule.cost.register_tiles import RegisterTile
from polytc.schedule.facts.fusion_groups import coincident_indices, reduced_indices
from polytc.schedule.facts.strides import of_access


def refetch_cycles(program: pr.Program, s: pr.Statement, read: pr.Read, tile: RegisterTile, lanes: int, machine: Machine
                   ) -> float:
    """Cycles in which the tiles of a contraction fetch again what did not stay of the panel of `read` that they share."""
    access = of_access(program, read)
    extent = s.extents
    steps = [i for i in reduced_indices(s) if access.stride(i) != 0]
    if tile.jam is None or access.stride(tile.jam) != 0 or access.stride(tile.vector) != 1 or len(steps) != 1:
        return 0.0
    stride, cache = access.stride(steps[0]), machine.second_cache
    row = -(-tile.width * lanes * access.width // cache.line)
    if stride is None or extent[steps[0]] * row <= resident_lines(cache, abs(stride) * access.width, row):
        return 0.0
    passes = -(-extent[tile.jam] // tile.rows) - 1
    panels = prod(extent[i] for i in coincident_indices(s) if i not in (tile.jam, tile.vector))
    lines = extent[steps[0]] * -(-extent[tile.vector] * access.width // cache.line)
    return machine.costs.traffic.line * passes * panels * lines


def resident_lines(cache: Cache, stride: int, row: int) -> int:
    """Lines of rows of `row` lines, `stride` bytes apart, that stay in the cache together."""
    sets = max(1, cache.bytes // (cache.ways * cache.line))
    way = sets * cache.line
    return min(sets, way // gcd(stride, way) * row) * cache.ways
