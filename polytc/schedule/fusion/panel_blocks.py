"""Blocks of panels: a copy in panels and the contraction that reads it share the loop over blocks of these.

    P[j // 48, k, j % 48] = B[k,j];  C[i,j] += A[i,k]*P[j // 48, k, j % 48]             with A[64,1000], B[1000,960] on avx512
    ->  parallel j // 96 { for k, j // 48 % 2 { vector j % 48 { P[j // 48, k, j % 48] = B[k,j] } }
                           for j // 48 % 2, i // 8 { unroll i % 8, vector j % 48 { C[i,j] = 0.0 };
                                                     for k { unroll i % 8, vector j % 48 { C[i,j] += ... } } } }

The copy is then never in memory as a whole: a block of it is made and used in the caches (codegen.passes.array_contraction
keeps one for each thread), and what is copied is read in rows of several panels. (Goto & van de Geijn, Anatomy of
High-Performance Matrix Multiplication, TOMS 2008, 4.2.)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.schedule.decisions import Misfit, Outer
from polytc.schedule.facts.fusion_groups import Group, is_contraction
from polytc.schedule.facts.strides import panel
from polytc.schedule.fusion.cluster import Cluster

ROW = 384
"""Bytes of a row of what is copied that a block has: longer rows are read no faster, and a block stays in the caches."""
LARGEST = 2 << 20
"""Bytes of a block at most: each thread keeps one, in C on its stack."""
TURNS = 2
"""Blocks for each thread, at least, if fewer panels make so many. The last block is code of its own; where whole panels make
whole blocks, it is that of the last panel alone."""


def joined(program: pr.Program, copies: Group, new: Group, machine: Machine) -> Iterator[Cluster]:
    """The copies and what reads them in blocks of panels, one of which polytc takes first; nothing where they do not fit
    together."""
    if program.sizes or copies.blocks or not any(map(is_contraction, new.statements)):
        return
    for r, n, width in _meetings(copies, new):
        panels = -(-copies.extents[r] // width)
        wide = -(-ROW // (width * max(program.tensor(s.target).dtype.bytes for s in copies.statements)))
        most = min(wide, LARGEST // _bytes(program, copies, r, width), panels - 1)
        if most > 0:
            own = max(1, min(most, panels // (TURNS * machine.cores)))
            own = next((p for p in range(own, own // 2, -1) if copies.extents[r] // width % p == 0), own)
            sizes = dict.fromkeys((own, *range(1, most + 1)))
            yield from (Cluster((copies, new), ((r, n),), p * width) for p in sizes)


def pays(program: pr.Program, joined: Cluster, machine: Machine) -> bool:
    """Would the copy fill half of the second cache, and has each thread a block?"""
    made = [program.tensor(s.target) for s in joined.groups[0].statements]
    large = 2 * sum(t.size * t.dtype.bytes for t in made) > machine.second_cache.bytes
    return large and joined.whole.iterations >= machine.cores


def _bytes(program: pr.Program, copies: Group, row: int, block: int) -> int:
    """Bytes of what the copies write in a block."""
    return sum(-(-s.points * block // copies.extents[row]) * program.tensor(s.target).dtype.bytes for s in copies.statements)


def given(program: pr.Program, cluster: Cluster, new: Group, line: Outer) -> Cluster:
    """The cluster that a line of a record names. Raises Misfit."""
    may = not program.sizes and not cluster.groups[0].blocks and len(cluster.groups) == len(line.rows) == 1
    if may and line.block > 0:
        copies = cluster.groups[0]
        for r, n, width in _meetings(copies, new):
            if copies.rows[r][0] == line.rows[0] and line.block % width == 0 and line.block < copies.extents[r]:
                size = _bytes(program, copies, r, line.block)
                if size > LARGEST:
                    raise Misfit(f"a block of {line.block} takes {size} bytes, and {LARGEST} are the most")
                return Cluster((copies, new), ((r, n),), line.block)
    raise Misfit(f"{line.joins} is no copy in panels that {line.statement} reads in blocks of {line.block}")


def _meetings(copies: Group, new: Group) -> Iterator[tuple[int, int, int]]:
    """(row of the copies, row of what reads them, width of panels) for rows along which both walk through the same panels."""
    for r, n in product(range(len(copies.rows)), range(len(new.rows))):
        width = _common_width(copies, r, new, n)
        if width:
            yield r, n, width


def _common_width(copies: Group, row: int, new: Group, other: int) -> int:
    """The width of the panels in which `new` reads, at the iterations of its row `other`, what `copies` write at those of their
    row; 0 if there are none, or if it touches what they write in any other way."""
    if copies.ranges[row] != new.ranges[other] or copies.ranges[row][0] != 0:
        return 0
    written = {s.target: (s, copies.rows[row][n]) for n, s in enumerate(copies.statements)}
    if len(written) < len(copies.statements) or any(s.op is not None for s in copies.statements):
        return 0
    widths = set[int]()
    for n, s in enumerate(new.statements):
        if s.target in written:
            return 0
        for read in pr.reads(s):
            if read.tensor in written:
                writer, index = written[read.tensor]
                widths.add(_width(writer.subscripts, index, read.subscripts, new.rows[other][n]))
    return widths.pop() if len(widths) == 1 else 0


def _width(written: tuple[pr.Expr, ...], index: str, read: tuple[pr.Expr, ...], other: str) -> int:
    """The width of panels if one dimension is `index // width` where it is written and `other // width` where it is read."""
    for a, b in zip(written, read, strict=True):
        x, y = panel(a), panel(b)
        if x is not None and y is not None and x == (index, "//", x[2]) and y == (other, "//", x[2]):
            return x[2]
    return 0
