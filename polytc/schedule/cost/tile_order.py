"""The order of tile loops: what is reused from which cache.

Innermost runs the loop that replaces the fewest bytes from one tile to the next, so that the larger operands stay in the first
cache. Outermost runs the loop that makes the least memory traffic: an operand that does not depend on it is read again for each
of its tiles. The others keep the order of the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.linear import linear
from polytc.schedule.facts.fusion_groups import reduced_indices
from polytc.schedule.facts.strides import panel

SMALLEST_BLOCK = 16
"""Steps of a reduction below which loading and storing the accumulators for each block would show."""
GAIN = 0.5
"""The outermost loop is moved there if that makes at most this part of the traffic."""


def of_tiles(program: pr.Program, s: pr.Statement, sizes: dict[str, int], machine: Machine) -> tuple[int, ...]:
    """Positions in `sizes` of the tile loops, outermost first. sizes: shared index -> iterations of its point loop, in the
    order of the text."""
    rows = list(sizes)
    extent = s.extents
    reads = pr.reads(s)
    tile = {r: footprint(program, s, r, sizes) for r in reads}

    def replaced(row: str) -> int:
        return sum(tile[r] for r in reads if depends(r, row))

    def traffic(row: str) -> float:
        count = -(-extent[row] // sizes[row])
        return sum(_weight(program, r, machine) * (1 if depends(r, row) else count) for r in reads)

    last = min((r for r in rows if extent[r] > sizes[r]), key=lambda r: (replaced(r), -rows.index(r)), default=rows[-1])
    rest = [r for r in rows if r != last]
    best = min(rest, key=traffic, default=last)
    first = [best] if rest and traffic(best) <= GAIN * traffic(rest[0]) else []
    return tuple(rows.index(r) for r in (*first, *(r for r in rest if r not in first), last))


@dataclass(frozen=True)
class Block:
    """The reduction of `statement` over `index` runs in blocks of `size` steps; the loop over blocks lies inside the first
    `depth` shared loops."""

    statement: str
    index: str
    size: int
    depth: int


def block(program: pr.Program, s: pr.Statement, sizes: dict[str, int], rows: tuple[int, ...], machine: Machine) -> Block | None:
    """Cut the reduction if the operands that the innermost tile loop reuses would take more than a quarter of the second cache.

    The blocks divide the extent of the outermost reduced index that can be cut finely enough, so that a block of a panel is
    contiguous, and the loop over blocks lies inside the shared loops on which those operands depend.
    """
    names = list(sizes)
    reduced = reduced_indices(s)
    second = machine.second_cache.bytes
    kept = [r for r in pr.reads(s) if not depends(r, names[rows[-1]])]
    total = sum(footprint(program, s, r, sizes) for r in kept)
    if not reduced or 4 * total <= second or any(in_target(s, i) for i in reduced):
        return None
    extent = s.extents
    cut = next(((i, size) for i in reduced if (size := _steps(s, i, extent, second / (4 * total)))
                and all(depends(r, i) for r in kept)), None)
    if cut is None:
        return None
    depth = 1 + max((n for n, r in enumerate(rows[:-1]) if any(depends(x, names[r]) for x in kept)), default=-1)
    return Block(s.name, *cut, depth)


def _steps(s: pr.Statement, index: str, extent: Mapping[str, int], part: float) -> int:
    """Iterations of a reduced index in a block of at most this part of them; 0 if there is none of enough steps."""
    whole = extent[index]
    size = max((d for d in range(1, whole) if whole % d == 0 and d <= whole * part), default=0)
    steps = size * prod(extent[i] for i in reduced_indices(s)) // whole
    return size if steps >= SMALLEST_BLOCK and any(r.index == index and r.lower == 0 for r in s.ranges) else 0


def in_target(s: pr.Statement, index: str) -> bool:
    """Does an index stand in the subscripts of the target?"""
    return any(e == pr.Index(index) for sub in s.subscripts for e in pr.walk(sub))


def footprint(program: pr.Program, s: pr.Statement, read: pr.Read, sizes: dict[str, int]) -> int:
    """Bytes of the box that a read touches in one tile: point loops of the given sizes, all of the statement's other loops."""
    spans = {r.index: sizes.get(r.index, r.extent) for r in s.ranges}
    t = program.tensor(read.tensor)
    return t.dtype.bytes * prod(span(sub, spans, n) for sub, n in zip(read.subscripts, t.shape, strict=True))


def span(sub: pr.Expr, spans: Mapping[str, int], whole: int) -> int:
    """Coordinates that a subscript covers, of a dimension of so many. spans: values of each index."""
    form, block = linear(sub), panel(sub)
    if form is not None:
        return min(whole, 1 + sum(abs(c) * (spans[i] - 1) for i, c in form.terms))
    return whole if block is None else 1 if block[1] == "//" else block[2]


def depends(read: pr.Read, index: str) -> bool:
    """Does an index move an operand?"""
    return any(e == pr.Index(index) for e in pr.walk(read))


def _weight(program: pr.Program, read: pr.Read, machine: Machine) -> float:
    """Bytes of the whole operand, a quarter of them if it stays in the second cache."""
    t = program.tensor(read.tensor)
    second = machine.second_cache.bytes
    size = t.size * t.dtype.bytes
    return size * (0.25 if 2 * size <= second else 1.0)
