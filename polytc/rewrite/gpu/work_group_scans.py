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

Groups scan a row each, tile after tile (rewrite.gpu.scanned_tiles), in one kernel. Where rows are too few for that, groups
share them: each adds up a block, one group a row scans these sums, and each scans its block from what comes before. What a
statement right before writes into the first place is the scan's own. (Sengupta et al., Scan Primitives for GPU Computing, 2007;
Merrill & Grimshaw, Parallel Scan for Stream Architectures, 2009: reduce, then scan.)
Index ranges say what their loops become, as in rewrite.gpu.local_tiles.
"""

from __future__ import annotations

from dataclasses import replace

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.linear import normalise
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64
from polytc.program.sizes import Size, shortfall
from polytc.rewrite.gpu.scanned_tiles import Ranges, Row, RowScan, ScanText, cell, cells, extents, number, tile_elements
from polytc.rewrite.scan_statements import Scan

Values = dict[str, pr.Expr]


def tiles(extent: int, elements: int) -> int:
    """The tiles or blocks of a scan: all but the last one are whole, and there is one at least if the extent is not below 0,
    none if it is less than a block below."""
    return extent // elements + 1 if isinstance(extent, Size) else -(-extent // elements)


class GroupedScan:
    """What a scan becomes. elements: of a block, 0 where a group scans a whole row; items: of a group along x and y."""

    def __init__(self, s: pr.Statement, found: Scan, elements: int, items: tuple[int, int], names: Names) -> None:
        self.s, self.found, self.elements, self.whole = s, found, elements, tile_elements(items)
        self.kept = tuple(r for r in s.ranges if r.index != found.along.index)
        self.text = ScanText(s, found, items, names)

    def add(self) -> ScanText:
        """The statements of one kernel, or of three, and their tensors."""
        if not self.elements:
            groups, _, values = self._groups()
            self._store_start(groups, values)
            self._elements(groups, values, number(0), self.found.along.extent, pr.substitute(self.found.lead, values))
            return self.text
        extent = self.found.along.extent
        count = tiles(extent, self.elements)
        shape = (*extents(self.kept), count - 1 + (1 if shortfall(extent) else 0))
        sums, before = self.text.tensor("sums", shape), self.text.tensor("before", shape)
        self._block_sums(sums, count - 1)
        self._before(sums, before, count - 1)
        self._blocks(before, count)
        return self.text

    # ---- the kernels

    def _block_sums(self, target: str, count: int) -> None:
        """What each block but the last one adds up."""
        text, (groups, out, values) = self.text, self._groups(count)
        (y, x), k, row = text.all_items(), text.each("k"), cells(groups)
        steps, at = text.steps(self.elements // self.whole), (*row, cell(y), cell(x))
        mine, part = (text.tensor(name, extents((*groups, y, x))) for name in ("mine", "part"))
        term = self._moved(self.found.term, text.place(self._first(groups), steps, k, y, x), values)
        text.emit("mine_init", mine, at, text.found.neutral, (*groups, y, x))
        text.emit("mine", mine, at, term, (*groups, y, x, *steps, k), op=self.found.op)
        text.emit("part", part, at, text.read(mine, *at), (*groups, y, x))
        y, x = text.all_items()
        lines, line = text.tensor("lines", extents((*groups, y))), (*row, cell(y))
        value = text.tree([text.read(part, *line, number(u)) for u in range(text.items[0])])
        text.emit("lines", lines, line, value, (*groups, y, replace(x, upper=1)))
        value = text.tree([text.read(lines, *row, number(u)) for u in range(text.items[1])])
        text.emit("sums", target, out, value, (*groups, *text.first_item()))

    def _before(self, sums: str, target: str, count: int) -> None:
        """The scan of the blocks' sums, a row a group."""
        text, (groups, out, values) = self.text, self._groups()
        self._store_start(groups, values)
        row = Row(groups, number(0), tiles(count, self.whole), self._end(count, self.whole),
                  lambda at: text.read(sums, *out, at), self.found.neutral)
        RowScan(text, row).add(target, lambda at: (*out, at), "")

    def _blocks(self, before: str, count: int) -> None:
        """The elements of each block, from what comes before it."""
        groups, out, values = self._groups(count)
        block, lead = cell(groups[-1]), pr.substitute(self.found.lead, values)
        ahead: pr.Expr = self.text.read(before, *out[:-1], normalise(pr.Binary("-", block, number(1), I64)))
        ahead = self.found.joined(lead, ahead) if lead != self.found.neutral else ahead
        lead = pr.Select(pr.Binary(">", block, number(0), BOOL), ahead, lead, self.found.dtype)
        self._elements(groups, values, self._first(groups), self.elements, lead)

    def _elements(self, groups: Ranges, values: Values, first: pr.Expr, elements: int, lead: pr.Expr) -> None:
        """The scan itself. first, elements: of a group."""
        extent = self.found.along.extent
        row = Row(groups, first, tiles(elements, self.whole), self._end(extent, self.elements or self.whole),
                  lambda at: self._moved(self.found.term, at, values), lead)
        RowScan(self.text, row).add(self.s.target, lambda at: tuple(self._moved(e, at, values) for e in self.s.subscripts),
                                    self.s.name)

    def _store_start(self, groups: Ranges, values: Values) -> None:
        """What stands before the first place, where nothing else stores it."""
        if self.found.start is not None:
            place = (self._moved(e, number(-1), values) for e in self.s.subscripts)
            self.text.emit("start", self.s.target, tuple(place), pr.substitute(self.found.start, values),
                           (*groups, *self.text.first_item()))

    # ---- places

    def _groups(self, *more: int) -> tuple[Ranges, tuple[pr.Expr, ...], Values]:
        """A range of groups for each index of rows, and for more; these without that of a single group; and the values of the
        rows' indices."""
        values, found = Values(), list[pr.Range]()
        for r in self.kept:
            found.append(pr.Range(self.text.names.index(f"{r.index}_group"), 0, r.extent, kinds.group(0)))
            values[r.index] = normalise(pr.Binary("+", cell(found[-1]), number(r.lower), I64))
        found += (pr.Range(self.text.names.index(f"{self.found.along.index}_block"), 0, n, kinds.group(0)) for n in more)
        out = cells(tuple(found))
        return tuple(found) or (pr.Range(self.text.names.index("group"), 0, 1, kinds.group(0)),), out, values

    def _first(self, groups: Ranges) -> pr.Expr:
        """The first place of a block."""
        return pr.Binary("*", number(self.elements), cell(groups[-1]), I64)

    def _end(self, extent: int, parts: int) -> int | None:
        """Where places end; None if parts of so many are whole."""
        return extent if isinstance(extent, Size) or extent % parts else None

    def _moved(self, e: pr.Expr, at: pr.Expr, values: Values) -> pr.Expr:
        """An expression of the scan at a place, from its first one."""
        along = self.found.along
        return normalise(pr.substitute(e, {**values, along.index: pr.Binary("+", at, number(along.lower), I64)}))
