"""Scans for GPUs: the items of a group scan together, through local memory.

    for i in 1:65537 { x[i] += x[i-1] }                 with inout x[65537] on gpu
    ->  x_mine[i_block,line,item] = -f32(0.0)
        x_mine[i_block,line,item] += x[4096*i_block + item + 256*k + 16*line + 1] where i_block in 0:15, k in 0:16
        x_part[i_block,line,item] = x_mine[i_block,line,item]
        x_lines[i_block,line2] = x_part[i_block,line2,0] + x_part[i_block,line2,1] + ...
        x_sums[i_block] = x_lines[i_block,0] + x_lines[i_block,1] + ...
        ...
        x_before[...] = x_tile[group, ...]
        x_lead2[i_block2,0] = i_block2 > 0 ? x[0] + x_before[i_block2 - 1] : x[0] where i_block2 in 0:16
        ...
        x[4096*i_block2 + ... + 1] = x_tile2[i_block2, ...]

Groups scan a row each, tile after tile (rewrite.gpu.scanned_tiles), or neighbouring columns (scanned_columns), in one kernel.
Where these are too few for that, groups share them: each adds up a block, one group a row scans these sums, and each scans its
block from what comes before. What a statement right before writes into the first place is the scan's own. (Sengupta et al.,
Scan Primitives for GPU Computing, 2007; Merrill & Grimshaw, Parallel Scan for Stream Architectures, 2009: reduce, then scan.)
Index ranges say what their loops become, as in rewrite.gpu.local_tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.linear import normalise
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64
from polytc.program.sizes import Size, may_be_less, shortfall
from polytc.rewrite.gpu import look_back, scanned_columns, scanned_tiles
from polytc.rewrite.gpu.scan_text import Items, Ranges, Row, ScanText, cell, cells, extents, number, plus
from polytc.rewrite.gpu.scanned_columns import ColumnScan
from polytc.rewrite.gpu.scanned_tiles import RowScan
from polytc.rewrite.scan_statements import Scan

Values = dict[str, pr.Expr]


def tiles(extent: int, elements: int) -> int:
    """The tiles or blocks of a scan: all but the last one are whole, and there is one at least if the extent is not below 0,
    none if it is less than a block below."""
    return extent // elements + 1 if isinstance(extent, Size) else -(-extent // elements)


def columns(s: pr.Statement, found: Scan) -> pr.Range | None:
    """The index whose neighbours are neighbours in memory, if that is not the scan's own."""
    last = s.subscripts[-1]
    return next((r for r in s.ranges if r.index != found.along.index and pr.Index(r.index) in pr.walk(last)), None)


def tile_elements(items: tuple[int, int], across: bool) -> int:
    """What of a row a group takes at once. across: it takes columns."""
    return (scanned_columns if across else scanned_tiles).tile_elements(items)


def local_bytes(items: tuple[int, int], count: int, element: int, across: bool) -> int:
    """Of local memory that a group takes. count: of tiles, each of which finds there what comes before it."""
    module, leads = (scanned_columns, items[0]) if across else (scanned_tiles, 1)
    return module.local_bytes(items, element) + (count + 1) * leads * element


@dataclass(frozen=True)
class _Groups:
    """ranges: of groups; blocks: that over the blocks of a row, if there is one; kept: the values of the indices that groups
    alone tell; column: the range over groups of columns."""

    ranges: Ranges
    blocks: Ranges
    kept: Values
    column: pr.Range | None


class GroupedScan:
    """What a scan becomes. elements: of a block, 0 where a group scans a whole row; items: of a group along x and y; back: do
    groups look back at the blocks before their own?"""

    def __init__(self, s: pr.Statement, found: Scan, elements: int, items: tuple[int, int], names: Names, back: bool = False
                 ) -> None:
        self.s, self.found, self.elements, self.back = s, found, elements, back
        self.across = columns(s, found)
        self.whole = tile_elements(items, self.across is not None)
        self.kept = tuple(r for r in s.ranges if r.index != found.along.index and r is not self.across)
        self.text = ScanText(s, found, items, names)

    def add(self) -> ScanText:
        """The statements of one kernel, or of three, and their tensors."""
        extent = self.found.along.extent
        if not self.elements:
            groups = self._groups()
            self._store_start(groups)
            self._elements(groups, number(0), extent)
            return self.text
        count = tiles(extent, self.elements)
        if self.back:
            self._one_pass(count)
            return self.text
        last = (self.across.extent,) if self.across is not None else ()
        shape = (*extents(self.kept), count - 1 + (1 if shortfall(extent) else 0), *last)
        sums, before = self.text.tensor("sums", shape), self.text.tensor("before", shape)
        self._block_sums(sums, count - 1)
        self._before(sums, before, count - 1)
        self._blocks(before, count)
        return self.text

    # ---- the kernels

    def _block_sums(self, target: str, count: int) -> None:
        """What each block but the last one adds up."""
        groups = self._groups(count)
        row = Row(groups.ranges, self._first(groups), self.elements // self.whole, None,
                  lambda at, x: self._moved(self.found.term, at, groups, x), lambda x: self._inside(groups, x))
        self._with(row).sums(target, lambda at, x: self._cell(groups, cell(groups.blocks[0]), x))

    def _before(self, sums: str, target: str, count: int) -> None:
        """The scan of the blocks' sums, a row a group."""
        groups = self._groups()
        self._store_start(groups)
        row = Row(groups.ranges, number(0), tiles(count, self.whole), self._end(count, self.whole),
                  lambda at, x: self.text.read(sums, *self._cell(groups, at, x)), lambda x: self._inside(groups, x),
                  lambda x: self.found.neutral)
        self._with(row).scan(target, lambda at, x: self._cell(groups, at, x), "")

    def _blocks(self, before: str, count: int) -> None:
        """The elements of each block, from what comes before it."""
        groups = self._groups(count)
        self._elements(groups, self._first(groups), self.elements, before)

    def _one_pass(self, count: int) -> None:
        """The elements of each block, which finds what comes before it."""
        groups = self._groups(count)
        back = look_back.LookBack(self.text, extents(self.kept), groups.ranges, look_back.windows(count, prod(self.text.items)))
        self._store_start(groups)
        start = pr.substitute(self.found.lead, groups.kept)

        def before(lines: Sequence[pr.Expr]) -> tuple[pr.Expr, Items]:
            ahead, first = back.add(lines)
            return (self.found.joined(start, ahead) if start != self.found.neutral else ahead), first
        row = Row(groups.ranges, self._first(groups), 1, self._end(self.found.along.extent, self.elements),
                  lambda at, x: self._moved(self.found.term, at, groups, x), lambda x: (), look_back=before)
        self._with(row).scan(self.s.target, lambda at, x: tuple(self._moved(e, at, groups, x) for e in self.s.subscripts),
                             self.s.name)

    def _elements(self, groups: _Groups, first: pr.Expr, elements: int, before: str = "") -> None:
        """The scan itself. first, elements: of a group; before: what comes before the blocks but the first one."""
        def lead(x: pr.Range) -> pr.Expr:
            start = pr.substitute(self.found.lead, self._values(groups, x))
            if not before:
                return start
            block = cell(groups.blocks[0])
            ahead: pr.Expr = self.text.read(before, *self._cell(groups, normalise(pr.Binary("-", block, number(1), I64)), x))
            ahead = self.found.joined(start, ahead) if start != self.found.neutral else ahead
            return pr.Select(pr.Binary(">", block, number(0), BOOL), ahead, start, self.found.dtype)
        end = self._end(self.found.along.extent, self.elements or self.whole)
        row = Row(groups.ranges, first, tiles(elements, self.whole), end,
                  lambda at, x: self._moved(self.found.term, at, groups, x), lambda x: self._inside(groups, x), lead)
        self._with(row).scan(self.s.target, lambda at, x: tuple(self._moved(e, at, groups, x) for e in self.s.subscripts),
                             self.s.name)

    def _store_start(self, groups: _Groups) -> None:
        """What stands before the first place, where nothing else stores it."""
        if self.found.start is not None:
            y, x = self.text.first_line() if self.across is not None else self.text.first_item()
            place = tuple(self._moved(e, number(-1), groups, x) for e in self.s.subscripts)
            value = pr.substitute(self.found.start, self._values(groups, x))
            self.text.emit("start", self.s.target, place, value, (*groups.ranges, y, x), where=self._inside(groups, x))

    def _with(self, row: Row) -> RowScan | ColumnScan:
        return ColumnScan(self.text, row) if self.across is not None else RowScan(self.text, row)

    # ---- places

    def _groups(self, *more: int) -> _Groups:
        """A range of groups for each index of rows, for the columns, and for the blocks; a single group where there is none."""
        names, kept = self.text.names, list[pr.Range]()
        values = Values()
        for r in self.kept:
            kept.append(pr.Range(names.index(f"{r.index}_group"), 0, r.extent, kinds.group(0)))
            values[r.index] = plus(number(r.lower), (kept[-1], 1))
        blocks = tuple(pr.Range(names.index(f"{self.found.along.index}_block"), 0, n, kinds.group(0)) for n in more)
        column = None
        if self.across is not None:
            count = -(-self.across.extent // self.text.items[0])
            column = pr.Range(names.index(f"{self.across.index}_group"), 0, count, kinds.group(0))
        found = (*kept, *blocks, *((column,) if column is not None else ()))
        return _Groups(found or (pr.Range(names.index("group"), 0, 1, kinds.group(0)),), blocks, values, column)

    def _column(self, groups: _Groups, x: pr.Range) -> pr.Expr:
        """The number of the column that an item has."""
        assert groups.column is not None
        return plus(number(0), (groups.column, self.text.items[0]), (x, 1))

    def _values(self, groups: _Groups, x: pr.Range) -> Values:
        """The values of the rows' and columns' indices."""
        if self.across is None:
            return groups.kept
        column = normalise(pr.Binary("+", self._column(groups, x), number(self.across.lower), I64))
        return {**groups.kept, self.across.index: column}

    def _inside(self, groups: _Groups, x: pr.Range) -> tuple[pr.Expr, ...]:
        """Has an item a column?"""
        if self.across is None or not may_be_less(0, self.across.extent % self.text.items[0]):
            return ()
        return (pr.Binary("<", self._column(groups, x), number(self.across.extent), BOOL),)

    def _cell(self, groups: _Groups, block: pr.Expr, x: pr.Range) -> tuple[pr.Expr, ...]:
        """Where a block's sum lies."""
        kept = cells(groups.ranges[:len(self.kept)])
        return (*kept, block, *((self._column(groups, x),) if self.across is not None else ()))

    def _first(self, groups: _Groups) -> pr.Expr:
        """The first place of a block."""
        return plus(number(0), (groups.blocks[0], self.elements))

    def _end(self, extent: int, parts: int) -> int | None:
        """Where places end; None if parts of so many are whole."""
        return extent if isinstance(extent, Size) or extent % parts else None

    def _moved(self, e: pr.Expr, at: pr.Expr, groups: _Groups, x: pr.Range) -> pr.Expr:
        """An expression of the scan at a place, from its first one."""
        along = self.found.along
        here = pr.Binary("+", at, number(along.lower), I64)
        return normalise(pr.substitute(e, {**self._values(groups, x), along.index: here}))
