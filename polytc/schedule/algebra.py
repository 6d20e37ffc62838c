"""Which convolutions run in Winograd's way, and with which tiles: the fewest cycles by count.

Counted are, for the sums as written and for each tile that the rewrite offers: the register tiles of the products
(schedule.tiles), the weights streamed from the cache they fit into, the two transforms, and the copies that put channels last
and back. Constant weights are transformed once, when arrays are bound, which costs a call nothing; others are transformed in
each call. Fewer products mean larger transformed weights: with few tiles, reading those takes longer than the products saved.
"""

from __future__ import annotations

from math import prod

from polytc.lang import program as pr
from polytc.lang.rewrites import hoist, winograd
from polytc.lang.rewrites.winograd import TAPS, Choice, Convolution
from polytc.machine import Machine
from polytc.schedule import tiles
from polytc.schedule.strides import AccessStrides

RESULTS = (2, 3, 4)
"""Extents of the tiles that are tried: larger ones save little more and lose digits quickly."""
TRANSFORM = 8.0
"""Cycles for each vector of transformed data or products."""
LAYOUT = 20.0
"""Cycles for each vector of data or result that a copy puts in another order."""
WEIGHT = 1.0
"""Cycles for each transformed weight, if weights are transformed in every call."""
STREAM = (64.0, 24.0, 8.0)
"""Bytes a cycle of an operand that is read once and stays in the second cache, in the third, or in neither."""
GAIN = 0.9
"""Another algorithm is taken for at most this part of the cycles: it also costs digits."""


def run(program: pr.Program, machine: Machine) -> pr.Program:
    """The program with each convolution in the form of fewest cycles, unless it asks for the sums as written."""
    if machine.kind != "cpu" or program.precise or program.direct:
        return program
    fixed = hoist.constants(program)
    return winograd.rewrite(program, lambda convolution: choose(convolution, convolution.weights.tensor in fixed, machine))


def choose(convolution: Convolution, constant: bool, machine: Machine) -> Choice | None:
    """The best tile, or None if the sums as written are as good. constant: the weights do not change between calls."""
    costs = {m: cycles(convolution, m, constant, machine) for m in RESULTS}
    best = min(costs, key=lambda m: costs[m])
    return Choice(best, convolution.tiles(best)) if costs[best] <= GAIN * direct_cycles(convolution, machine) else None


def direct_cycles(convolution: Convolution, machine: Machine) -> float:
    """Cycles of the sums as written, on packed weights."""
    lines, row = (w.place.extent for w in convolution.windows)
    depth = _extent(convolution.channels) * TAPS ** 2
    weights = depth * _extent(convolution.filters)
    times = _extent(convolution.batch) * _extent(convolution.groups) * lines
    return max(times * _product(row, _extent(convolution.filters), depth, machine), _stream(weights, machine))


def cycles(convolution: Convolution, results: int, constant: bool, machine: Machine) -> float:
    """Cycles with tiles of results x results elements."""
    lanes, groups = machine.lanes(4), _extent(convolution.groups)
    channels, filters = _extent(convolution.channels), _extent(convolution.filters)
    points, tiles_ = (results + TAPS - 1) ** 2, convolution.tiles(results)
    weights = points * channels * filters * groups
    products = max(points * groups * _product(tiles_, filters, channels, machine), _stream(weights, machine))
    vectors = groups * (-(-channels // lanes) + -(-filters // lanes)) * tiles_
    data = vectors * results ** 2
    return products + vectors * points * TRANSFORM + data * LAYOUT + (0.0 if constant else weights * WEIGHT)


def _extent(ranges: tuple[pr.Range, ...]) -> int:
    return prod(r.extent for r in ranges)


def _product(rows: int, columns: int, depth: int, machine: Machine) -> float:
    """Cycles of O[rows, columns] += A[rows, depth] * B[depth, columns] with B in panels."""
    i, j, k = (pr.Index(name) for name in "ijk")
    s = pr.Statement("S", "O", (i, j), "+", k, (pr.Range("i", 0, rows), pr.Range("j", 0, columns), pr.Range("k", 0, depth)))
    lanes = machine.lanes(4)
    accesses = (AccessStrides("O", True, 0, 4, (("i", columns), ("j", 1))),
                AccessStrides("A", False, 0, 4, (("i", depth), ("k", 1))),
                AccessStrides("B", False, 0, 4, (("j", 1), ("k", lanes))))
    found = tiles.best(s, accesses, ("i", "j"), lanes, machine)
    return found.cycles if found is not None else float(rows * columns * depth)


def _stream(elements: int, machine: Machine) -> float:
    """Cycles to read so many f32 once, from the cache in half of which they fit."""
    fitting = (rate for cache, rate in zip(machine.caches[1:], STREAM, strict=False) if 2 * 4 * elements <= cache.bytes)
    return 4 * elements / next(fitting, STREAM[-1])
