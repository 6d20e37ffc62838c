"""The register tile of a reduction: which loop becomes vectors, which one is unrolled, and how far, by counting cycles.

One step of the reduction on a tile of m iterations times n vectors takes m*n multiply-adds and the loads of its operands; it
takes at least the latency of one multiply-add. Loads overlap with arithmetic, but not wholly: they miss the first cache at
times. After the last step the results are stored, element by element where the vector loop is not contiguous in the target.
(The counting follows Low et al., Analytical Modeling Is Enough for High-Performance BLIS, TOMS 2016.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from polytc.lang import program as pr
from polytc.machine import Machine
from polytc.schedule.groups import reduced_indices
from polytc.schedule.strides import AccessStrides, panel_width

LOAD = 0.25
"""Cycles that a load costs beside arithmetic that hides it."""
MISS = 1.0
"""Further cycles of a load of an operand that the reduction walks in long strides: its lines do not stay in the first cache."""


@dataclass(frozen=True)
class RegisterTile:
    """vector, jam: indices of the statement (jam None: nothing unrolled); rows: iterations of jam; width: vectors of the vector
    loop; cycles: of the whole statement, estimated."""

    vector: str
    jam: str | None
    rows: int
    width: int
    cycles: float


def best(s: pr.Statement, accesses: tuple[AccessStrides, ...], shared: tuple[str, ...], lanes: int,
         machine: Machine) -> RegisterTile | None:
    """The cheapest tile over the shared loops of an update; None if no loop makes useful vectors.

    accesses: of the statement, target first. shared: the indices that may be vectorised or unrolled.
    """
    extent = {r.index: r.extent for r in s.ranges}
    reduced = reduced_indices(s)
    steps, last = prod(extent[i] for i in reduced), reduced[-1] if reduced else None
    found: list[RegisterTile] = []
    for vector in shared:
        if extent[vector] < min(4, lanes) or not any(a.stride(vector) == 1 for a in accesses):
            continue
        outer = prod(extent[i] for i in shared if i != vector)
        for jam in (None, *(i for i in shared if i != vector and extent[i] > 1 and _reused(accesses, i))):
            grid = (extent[jam] if jam is not None else 1, -(-extent[vector] // lanes))
            rows, width, cycles = _shape(accesses, (vector, jam, last), grid, _widths(s, vector, lanes), steps, lanes, machine)
            found.append(RegisterTile(vector, jam, rows, width, cycles * outer / grid[0]))
    chosen = min(found, key=lambda t: (t.cycles, t.jam or ""), default=None)
    scalar = steps * prod(extent[i] for i in shared) * (1 + LOAD * len(accesses))
    return chosen if chosen is not None and chosen.cycles < scalar else None


def _reused(accesses: tuple[AccessStrides, ...], index: str) -> bool:
    return any(a.stride(index) == 0 for a in accesses[1:])


def _widths(s: pr.Statement, vector: str, lanes: int) -> range:
    """How many vectors wide a tile may be: as wide as the panels in which the index is packed, if it is."""
    panel = panel_width(s, vector)
    return range(1, 9) if panel is None else range(-(-panel // lanes), -(-panel // lanes) + 1)


def _shape(accesses: tuple[AccessStrides, ...], loops: tuple[str, str | None, str | None], grid: tuple[int, int],
           widths: range, steps: int, lanes: int, machine: Machine) -> tuple[int, int, float]:
    """(rows, width, cycles) of the best tile for a grid of iterations of `jam` times vectors. loops: vector, jam and the
    innermost reduced index."""
    vector, jam, last = loops
    high, wide = grid
    far = [_far(a, last, steps, machine) for a in accesses[1:]]

    def tile(m: int, n: int) -> float:
        loads = [_loads(a, vector, jam, m, n, lanes) for a in accesses[1:]]
        misses = sum(x * MISS for x, scattered in zip(loads, far, strict=True) if scattered)
        step = max(m * n / machine.fma_ports, machine.fma_latency, sum(loads) / machine.load_ports) + sum(loads) * LOAD + misses
        store = 1 if accesses[0].stride(vector) == 1 else 4 * lanes
        return steps * step + m * n * store

    def whole(m: int, n: int) -> float:
        return sum(count * times * tile(rows, columns)
                   for count, rows in ((high // m, m), (1, high % m)) for times, columns in ((wide // n, n), (1, wide % n))
                   if count and rows and times and columns)

    shapes = [(m, n) for m in range(1, 17 if jam is not None else 2) for n in widths
              if m * n + n + 1 <= machine.vector_registers and m <= high and n <= wide]
    m, n = min(shapes, key=lambda t: (round(whole(*t), 3), t[0] + t[1], -t[1]))
    return m, n, whole(m, n)


def _far(a: AccessStrides, last: str | None, steps: int, machine: Machine) -> bool:
    """Does each step of the innermost reduced loop touch another line, and all steps more lines than half the first cache?"""
    cache = machine.caches[0]
    stride = a.stride(last) if last is not None else 0
    return stride is not None and abs(stride) * a.width >= 4 * cache.line and steps * cache.line > cache.bytes // 2


def _loads(a: AccessStrides, vector: str, jam: str | None, m: int, n: int, lanes: int) -> float:
    """Loads of one operand for one step of the reduction on a tile."""
    repeat = m if jam is not None and a.stride(jam) != 0 else 1
    stride = a.stride(vector)
    if stride == 0:
        return repeat
    single = 1.0 if stride == 1 else 3.0 if stride == 2 else 2.0 * lanes
    return repeat * n * single
