"""The order of tile loops: what is reused from which cache.

Innermost runs the loop that replaces the fewest bytes from one tile to the next, so that the larger operands stay in the first
cache. Outermost runs the loop that makes the least memory traffic: an operand that does not depend on it is read again for each
of its tiles. The others keep the order of the text.
"""

from __future__ import annotations

from math import prod

from polytc.lang import program as pr
from polytc.lang.linear import linear
from polytc.machine import Machine
from polytc.schedule.strides import panel

GAIN = 0.5
"""The outermost loop is moved there if that makes at most this part of the traffic."""


def of_tiles(program: pr.Program, s: pr.Statement, sizes: dict[str, int], machine: Machine) -> tuple[int, ...]:
    """Positions in `sizes` of the tile loops, outermost first. sizes: shared index -> iterations of its point loop, in the
    order of the text."""
    rows = list(sizes)
    extent = {r.index: r.extent for r in s.ranges}
    reads = pr.reads(s)
    tile = {r: footprint(program, s, r, sizes) for r in reads}

    def replaced(row: str) -> int:
        return sum(tile[r] for r in reads if _depends(r, row))

    def traffic(row: str) -> float:
        count = -(-extent[row] // sizes[row])
        return sum(_weight(program, r, machine) * (1 if _depends(r, row) else count) for r in reads)

    last = min((r for r in rows if extent[r] > sizes[r]), key=lambda r: (replaced(r), -rows.index(r)), default=rows[-1])
    rest = [r for r in rows if r != last]
    best = min(rest, key=traffic, default=last)
    first = [best] if rest and traffic(best) <= GAIN * traffic(rest[0]) else []
    return tuple(rows.index(r) for r in (*first, *(r for r in rest if r not in first), last))


def footprint(program: pr.Program, s: pr.Statement, read: pr.Read, sizes: dict[str, int]) -> int:
    """Bytes of the box that a read touches in one tile: point loops of the given sizes, all of the statement's other loops."""
    span = {r.index: sizes.get(r.index, r.extent) for r in s.ranges}
    t = program.tensor(read.tensor)
    return t.dtype.bytes * prod(min(n, _span(sub, span, n)) for sub, n in zip(read.subscripts, t.shape, strict=True))


def _span(sub: pr.Expr, span: dict[str, int], whole: int) -> int:
    """Coordinates that a subscript covers."""
    form, block = linear(sub), panel(sub)
    if form is not None:
        return 1 + sum(abs(c) * (span[i] - 1) for i, c in form.terms)
    return whole if block is None else 1 if block[1] == "//" else block[2]


def _depends(read: pr.Read, index: str) -> bool:
    return any(e == pr.Index(index) for e in pr.walk(read))


def _weight(program: pr.Program, read: pr.Read, machine: Machine) -> float:
    """Bytes of the whole operand, a quarter of them if it stays in the second cache."""
    t = program.tensor(read.tensor)
    second = machine.caches[min(1, len(machine.caches) - 1)].bytes
    size = t.size * t.dtype.bytes
    return size * (0.25 if 2 * size <= second else 1.0)
