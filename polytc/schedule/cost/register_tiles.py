"""The register tile of a reduction: which loop becomes vectors, which one is unrolled, and how far, by counting cycles.

One step of the reduction on a tile of m iterations times n vectors takes m*n multiply-adds and the loads of its operands; it
takes at least the latency of one multiply-add. Loads overlap with arithmetic, but not wholly: they miss the first cache at
times. After the last step the results are stored, element by element where the vector loop is not contiguous in the target.
A short reduction is unrolled, as a whole or in its innermost loop, and counts each distinct load once: the rows of a stencil
share what they read.
(The counting follows Low et al., Analytical Modeling Is Enough for High-Performance BLIS, TOMS 2016.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.calls.words import DOTS
from polytc.schedule.facts.fusion_groups import reduced_indices
from polytc.schedule.facts.strides import AccessStrides, panel_width

SHORT = 64
"""Steps of a reduction that may be unrolled."""
STRAIGHT = 256
"""Vector operations of a tile with its whole reduction, above which straight code would be too much of it."""
MATRIX = 16
"""Rows, columns and words of a tile of the matrix unit, and the cycles of its product."""
LATENCY, STORED = 52, 4
"""Cycles until a product of the matrix unit can be added to; of storing a row of a tile of results and loading it again."""
ONE_WAY = 4096
"""Bytes of one way of a first cache, on most processors a page: lines so far apart share a set."""
WIDEST = 8
"""Vectors side by side."""


@dataclass(frozen=True)
class RegisterTile:
    """vector, jam: indices of the statement (jam None: nothing unrolled); rows: iterations of jam; width: vectors of the vector
    loop; cycles: of the whole statement, estimated; straight: how many of the innermost loops of the reduction are unrolled."""

    vector: str
    jam: str | None
    rows: int
    width: int
    cycles: float
    straight: int = 0


def best(s: pr.Statement, accesses: tuple[AccessStrides, ...], shared: tuple[str, ...], lanes: int,
         machine: Machine) -> RegisterTile | None:
    """The cheapest tile over the shared loops of an update; None if no loop makes useful vectors.

    accesses: of the statement, target first. shared: the indices that may be vectorised or unrolled.
    """
    found = _tiles(s, accesses, shared, lanes, machine, every=False)
    chosen = min(found, key=lambda t: _order(s, accesses, t, lanes, machine), default=None)
    steps = prod(s.extents[i] for i in reduced_indices(s))
    scalar = steps * prod(s.extents[i] for i in shared) * (1 + machine.costs.accesses.load * len(accesses))
    return chosen if chosen is not None and chosen.cycles < scalar else None


def candidates(s: pr.Statement, accesses: tuple[AccessStrides, ...], shared: tuple[str, ...], lanes: int,
               machine: Machine) -> list[RegisterTile]:
    """All tiles that `best` weighs, the cheapest first."""
    return sorted(_tiles(s, accesses, shared, lanes, machine, every=True), key=lambda t: _order(s, accesses, t, lanes, machine))


def _order(s: pr.Statement, accesses: tuple[AccessStrides, ...], t: RegisterTile, lanes: int, machine: Machine
           ) -> tuple[float, int, int, str]:
    """Of open extents the last tile is half full on average."""
    open_ = {r.index for r in s.ranges if r.typical}
    rows_of_fixed = t.jam is not None and t.jam not in open_
    cycles = t.cycles * (machine.costs.arithmetic.open_rows if open_ and not rows_of_fixed else 1)
    if t.vector in open_:
        cycles *= 1 + t.width * lanes / 2 / s.extents[t.vector]
    return cycles, _apart(accesses[0], t), _in_one_set(accesses[1:], t), t.jam or ""


def _tiles(s: pr.Statement, accesses: tuple[AccessStrides, ...], shared: tuple[str, ...], lanes: int, machine: Machine,
           every: bool) -> list[RegisterTile]:
    """Tiles over the shared loops. every: all shapes for each pair of loops, not the best one alone."""
    extent = s.extents
    reduced = reduced_indices(s)
    steps = prod(extent[i] for i in reduced)
    found: list[RegisterTile] = []
    for vector in shared:
        if extent[vector] < min(4, lanes) or not any(a.stride(vector) == 1 for a in accesses) or _high(s, vector, lanes):
            continue
        outer = prod(extent[i] for i in shared if i != vector)
        for jam in (None, *(i for i in shared if i != vector and extent[i] > 1 and _reused(accesses, i))):
            grid = (extent[jam] if jam is not None else 1, -(-extent[vector] // lanes))
            sides = _heights(s, jam), _widths(s, vector, lanes)
            shapes = _shapes(accesses, (vector, jam, reduced), grid, sides, steps, lanes, machine)
            if not every:
                shapes = [min(shapes, key=lambda x: (round(x[2], 3), x[0] + x[1], -x[1]))]
            found += (RegisterTile(vector, jam, rows, width, cycles * outer / grid[0]) for rows, width, cycles in shapes)
        if 1 < steps <= SHORT:
            box = tuple((i, extent[i]) for i in reduced)
            free = [(i, extent[i]) for i in shared if i != vector and panel_width(s, i) is None]
            for depth in {len(box), 1}:
                found += _straight(accesses, vector, free, (box[len(box) - depth:], steps), lanes,
                                   -(-extent[vector] // lanes), outer, machine)
    return found + _on_matrix_unit(s, accesses, shared, lanes, machine)


def _on_matrix_unit(s: pr.Statement, accesses: tuple[AccessStrides, ...], shared: tuple[str, ...], lanes: int,
                    machine: Machine) -> list[RegisterTile]:
    """Tiles of the matrix unit (targets.llvm.amx), if there is one: the words of one operand walk along the reduction, those of
    the other along the vectors."""
    reduced, extent = reduced_indices(s), s.extents
    if not isinstance(s.value, pr.Call) or not machine.multiplies_tiles(s.value.fn) or not reduced \
            or len(accesses) != 1 + DOTS[s.value.fn].operands or extent[reduced[-1]] < MATRIX:
        return []
    found, products = [], len(DOTS[s.value.fn].products)
    for vector, jam in ((v, j) for v in shared for j in shared if v != j):
        columns = [a for a in accesses[1:] if a.stride(vector) == 1 and a.stride(jam) == 0]
        rows = [a for a in accesses[1:] if a.stride(reduced[-1]) == 1 and a.stride(vector) == 0
                and a.stride(jam) not in (0, None)]
        if not columns or not rows or len(columns) + len(rows) < len(accesses) - 1 or accesses[0].stride(vector) != 1:
            continue
        words = prod(extent[i] for i in reduced[:-1]) * -(-extent[reduced[-1]] // MATRIX) * MATRIX
        outer = prod(extent[i] for i in shared if i not in (vector, jam))
        panel = panel_width(s, jam)
        high = panel if panel is not None and panel <= 2 * MATRIX else height(extent[jam])
        widths, wide = _widths(s, vector, lanes), strips(high)
        found.append(RegisterTile(vector, jam, high, wide if wide in widths else widths[0],
                                  matrix_cycles(extent[jam], extent[vector], words, products) * outer))
    return found


def height(rows: int) -> int:
    """Rows of a block of one or two tiles of the matrix unit: so many rows make blocks as high as possible, and of even
    heights."""
    return -(-rows // -(-rows // (2 * MATRIX)))


def strips(rows: int) -> int:
    """Tiles of the matrix unit side by side, for blocks of so many rows: four of results hide the latency of a product."""
    return 2 if rows > MATRIX else 4


def matrix_cycles(rows: int, columns: int, words: int, products: int = 1) -> float:
    """Cycles of a product on the matrix unit that adds up so many words for each row and column, `products` times. A product of
    two tiles takes as many cycles as there are rows, and the next one with the same results waits for it."""
    high, tiles = height(rows), -(-columns // MATRIX)
    side = min(strips(high), tiles)
    step = max(side * high, LATENCY)
    return -(-rows // high) * -(-tiles // side) * (-(-words // MATRIX) * products * step + STORED * side * high)


def _apart(target: AccessStrides, t: RegisterTile) -> int:
    """Bytes from row to row of a tile in the target, if its results are stored one by one: the loop that is not unrolled is
    shared by threads, which should not write to the same lines."""
    stride = target.stride(t.jam) if t.jam is not None and target.stride(t.vector) != 1 else 0
    return target.bytes if stride is None else abs(stride) * target.width


def _in_one_set(reads: tuple[AccessStrides, ...], t: RegisterTile) -> int:
    """Of how many operands do the rows of a tile lie in lines that meet in one set of the first cache?"""
    return sum(_crowded(a, t.jam) for a in reads)


def _crowded(a: AccessStrides, jam: str | None) -> bool:
    """Do the rows of an operand lie in lines that meet in one set? With more rows than it has ways, what was fetched ahead is
    gone before it is read."""
    stride = a.stride(jam) if jam is not None else None
    return stride is not None and stride != 0 and stride * a.width % ONE_WAY == 0


def _reused(accesses: tuple[AccessStrides, ...], index: str) -> bool:
    return any(a.stride(index) == 0 for a in accesses[1:])


def _widths(s: pr.Statement, vector: str, lanes: int) -> range:
    """How many vectors wide a tile may be: as wide as the panels in which the index is packed, if it is."""
    panel = panel_width(s, vector)
    width = -(-panel // lanes) if panel is not None else 0
    return range(width, width + 1) if 0 < width <= WIDEST else range(1, WIDEST + 1)


def _high(s: pr.Statement, index: str, lanes: int) -> bool:
    """Is the index packed in panels as high as a tile, rather than as wide?"""
    panel = panel_width(s, index)
    return panel is not None and panel % lanes != 0 and panel != s.extents[index]


def _heights(s: pr.Statement, jam: str | None) -> range:
    """How many rows a tile may have: those of the panels in which the index is packed, if it is."""
    panel = panel_width(s, jam) if jam is not None else 1
    return range(1, 17) if panel is None or panel > 16 else range(panel, panel + 1)


def _shapes(accesses: tuple[AccessStrides, ...], loops: tuple[str, str | None, tuple[str, ...]], grid: tuple[int, int],
            sides: tuple[range, range], steps: int, lanes: int, machine: Machine) -> list[tuple[int, int, float]]:
    """(rows, width, cycles) of the tiles that there may be for a grid of iterations of `jam` times vectors. loops: vector, jam
    and the reduced indices; sides: how many rows and vectors there may be."""
    high, wide = grid
    whole = _counted(accesses, loops, grid, steps, lanes, machine)
    heights, widths = sides
    shapes = [(m, n) for m in heights for n in widths
              if m <= high and n <= wide and (_registers(m, n) <= machine.vector_registers or (m, len(widths)) == (1, 1))]
    shapes = shapes or [(1, min(widths[0], wide))]  # the panel is wider than the loop
    return [(m, n, whole(m, n)) for m, n in shapes]


def _registers(rows: int, width: int) -> int:
    """What a tile takes: results, a number, and a vector of each column, but for one row, where additions read these."""
    return rows * width + 1 + (width if rows > 1 else 0)


def _counted(accesses: tuple[AccessStrides, ...], loops: tuple[str, str | None, tuple[str, ...]], grid: tuple[int, int],
             steps: int, lanes: int, machine: Machine) -> Callable[[int, int], float]:
    """The function that counts the cycles of a grid in tiles of so many rows and vectors: see `_shapes`."""
    vector, jam, reduced = loops
    costs = machine.costs.accesses
    last = reduced[-1] if reduced else None
    high, wide = grid
    far = [(_stride(a, last) if _far(a, last, steps, machine) else 0, a.stride(vector) == 1) for a in accesses[1:]]
    single = [_single(a, vector, reduced, lanes, machine) for a in accesses[1:]]
    moves = [(jam is not None and a.stride(jam) != 0, a.stride(vector) != 0) for a in accesses[1:]]
    crowded = [down and along and _crowded(a, jam) for a, (down, along) in zip(accesses[1:], moves, strict=True)]

    @functools.cache
    def tile(m: int, n: int) -> float:
        loads = [(m if down else 1) * (n if along else 1) for down, along in moves]
        busy = sum(x * c for x, c in zip(loads, single, strict=True)) / machine.load_ports
        misses = sum(x * (costs.ahead if in_row and stride <= n * lanes else costs.miss)
                     for x, (stride, in_row) in zip(loads, far, strict=True) if stride)
        misses += costs.miss * sum(x for x, meet in zip(loads, crowded, strict=True) if meet and m > machine.caches[0].ways)
        step = max(m * n / machine.fma_ports, machine.fma_latency, busy) + sum(loads) * costs.load + misses
        store = 1 if accesses[0].stride(vector) == 1 else costs.scatter * lanes
        return steps * step + m * n * store

    def whole(m: int, n: int) -> float:
        return sum(count * times * tile(rows, columns)
                   for count, rows in ((high // m, m), (1, high % m)) for times, columns in ((wide // n, n), (1, wide % n))
                   if count and rows and times and columns)
    return whole


def given(s: pr.Statement, accesses: tuple[AccessStrides, ...], shared: tuple[str, ...], tile: RegisterTile, lanes: int,
          machine: Machine) -> float:
    """Cycles of the statement in a tile that somebody else chose: what registers have no room for is stored and loaded again in
    each step. The tile's own cycles mean nothing."""
    extent, reduced = s.extents, reduced_indices(s)
    steps = prod(extent[i] for i in reduced)
    grid = (extent[tile.jam] if tile.jam is not None else 1, -(-extent[tile.vector] // lanes))
    outer = prod(extent[i] for i in shared if i not in (tile.vector, tile.jam))
    counted = _counted(accesses, (tile.vector, tile.jam, reduced), grid, steps, lanes, machine)(
        min(tile.rows, grid[0]), min(tile.width, grid[1]))
    beyond = max(0, tile.rows * tile.width + tile.width + 1 - machine.vector_registers)
    tiles = grid[0] * grid[1] / (tile.rows * tile.width)
    spilled = beyond * steps * tiles * machine.costs.accesses.spill * machine.costs.accesses.load
    return (counted + spilled) * outer


def _straight(accesses: tuple[AccessStrides, ...], vector: str, jams: list[tuple[str, int]],
              reduction: tuple[tuple[tuple[str, int], ...], int], lanes: int, wide: int, outer: int, machine: Machine
              ) -> list[RegisterTile]:
    """Tiles whose reduction is unrolled. jams: loops to unroll beside, and their extents; reduction: the indices that are
    unrolled with their extents, and all steps; wide: vectors of the vector loop; outer: iterations of the loops `jams`
    together.

    What the loads of a tile take beyond the registers is loaded twice. Latency does not count where all steps are unrolled: the
    next tile, independent, is within the processor's reach.
    """
    box, whole = reduction
    costs = machine.costs.accesses
    steps = prod(n for _, n in box)
    times = whole // steps
    store = 1 if accesses[0].stride(vector) == 1 else costs.scatter * lanes

    single = [_single(a, vector, tuple(i for i, _ in box), lanes, machine) for a in accesses[1:]]

    @functools.cache
    def distinct(jam: str | None, m: int) -> list[int]:
        return [_distinct(a, jam, m, box) for a in accesses[1:]]

    @functools.cache
    def tile(jam: str | None, m: int, n: int) -> float:
        vectors = [(n if a.stride(vector) != 0 else 1) * places
                   for a, places in zip(accesses[1:], distinct(jam, m), strict=True)]
        busy = sum(v * c for v, c in zip(vectors, single, strict=True)) / machine.load_ports
        kept = m * n + sum(v for v, a in zip(vectors, accesses[1:], strict=True) if a.stride(vector) != 0)
        again = max(0, kept - machine.vector_registers)
        wait = steps * machine.fma_latency if times > 1 else 0
        loads = (sum(vectors) + costs.spill * again) * costs.load
        return times * (max(m * n * steps / machine.fma_ports, busy, wait) + loads) + m * n * store

    found: list[RegisterTile] = []
    for jam, high in (*jams, (None, 1)):
        for m, n in ((m, n) for m in range(1, min(high, 8) + 1) for n in range(1, min(wide, 4) + 1)):
            if m * n * steps <= STRAIGHT and m * n + n + 1 <= machine.vector_registers:
                cycles = sum(rows * count * tile(jam, x, y) for rows, x in ((high // m, m), (1, high % m))
                             for count, y in ((wide // n, n), (1, wide % n)) if rows and x and count and y)
                found.append(RegisterTile(vector, jam, m, n, cycles * outer / high, len(box)))
    return found


def _distinct(a: AccessStrides, jam: str | None, rows: int, box: tuple[tuple[str, int], ...]) -> int:
    """Places at which an operand is read for one vector of a tile with all steps of its reduction."""
    box = (*box, (jam, rows)) if jam is not None else box
    places = {0}
    for index, extent in box:
        stride = a.stride(index)
        if stride is None:
            return prod(n for _, n in box)
        places = {p + stride * k for p in places for k in range(extent if stride else 1)}
    return len(places)


def _far(a: AccessStrides, last: str | None, steps: int, machine: Machine) -> bool:
    """Does each step of the innermost reduced loop touch another line, and all steps more lines than half the first cache?"""
    cache = machine.caches[0]
    return _stride(a, last) * a.width >= 4 * cache.line and steps * cache.line > cache.bytes // 2


def _stride(a: AccessStrides, index: str | None) -> int:
    """Elements from step to step, whichever way; 0 too where these are not known."""
    return abs(a.stride(index) or 0) if index is not None else 0


def _single(a: AccessStrides, vector: str, reduced: tuple[str, ...], lanes: int, machine: Machine) -> float:
    """What one load of an operand costs, in loads of whole lines: strided ones are several, and those that the reduction shifts
    by less than a vector straddle two lines."""
    match a.stride(vector):
        case 0:
            return 1.0
        case 1:
            shifted = any((stride := a.stride(i)) is None or stride % lanes for i in reduced)
            return 1.0 + (machine.vector_bytes / machine.caches[0].line if shifted else 0.0)
        case 2:
            return machine.costs.accesses.pair
        case _:
            return machine.costs.accesses.gather * lanes
