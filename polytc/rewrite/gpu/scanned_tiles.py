"""The scan of a row by the items of a work-group, tile after tile through local memory, as statements.

    for i in 1:4097 { x[i] += x[i-1] }                  with inout x[4097] on gpu
    ->  x_lead[group,0] = x[0]
        x_tile[group, 16*k + line2, item2] = x[item2 + 256*k + 16*line2 + 1]
        x_run[group,line3,item3,0] = x_tile[group, item3 + 16*line3, 0]
        x_run[group,line3,item3, e + 1] = x_run[group,line3,item3,e] + x_tile[group, item3 + 16*line3, e + 1]
        x_total[group,line3,item3] = x_run[group,line3,item3,15]
        x_part[group,line4,item4] = x_total[group,line4,0] + (1 <= item4 ? x_total[group,line4,1] : -f32(0.0)) + ...
        x_ahead[group,line5,item5] = x_lead[group,0] + (0 < line5 ? x_part[group,0,15] : -f32(0.0)) + ...
        x_tile[group, item5 + 16*line5, e2] = x_ahead[group,line5,item5] + x_run[group,line5,item5,e2]
        x[item6 + 256*k2 + 16*line6 + 1] = x_tile[group, 16*k2 + line6, item6]

A tile has a row for each of the 16*16 items, as long as a line of items, so that all places are sums of indices, and what
depends on what is proved as for any statement. It is loaded and stored as it lies in memory, neighbours taking neighbours; an
item scans its row in registers; the sums of items are put together along a line, and those of lines. Each new pair of ranges
over items is a loop of its own, which begins when that before has ended.
"""

from __future__ import annotations

from dataclasses import replace

from polytc.program import program as pr
from polytc.rewrite.gpu.scan_text import At, Items, TiledScan, cell, extents, number, plus


def tile_elements(items: tuple[int, int]) -> int:
    """What a group takes at once."""
    return items[0] * items[0] * items[1]


def local_bytes(items: tuple[int, int], element: int) -> int:
    """Of local memory that a group takes: the tile, with rows that are padded, and sums of items and of those before them."""
    return (items[0] + 3) * items[0] * items[1] * element


class RowScan(TiledScan):
    """The statements with which groups scan a row each, added to those of a text."""

    def sums(self, target: str, where: At) -> None:
        """What whole rows add up. where: that belongs."""
        text, groups = self.text, self.row.groups
        (y, x), k = text.all_items(), self._each("k")
        at = (*self.group, cell(y), cell(x))
        mine, part = (text.tensor(name, extents((*groups, y, x))) for name in ("mine", "part"))
        text.emit("mine_init", mine, at, text.found.neutral, (*groups, y, x))
        text.emit("mine", mine, at, self.row.term(self._place(k, y, x), x), (*groups, y, x, *self.steps, k), op=text.found.op)
        text.emit("part", part, at, text.read(mine, *at), (*groups, y, x))
        y, x = text.all_items()
        lines, line = text.tensor("lines", extents((*groups, y))), (*self.group, cell(y))
        value = text.tree([text.read(part, *line, number(u)) for u in range(text.items[0])])
        text.emit("lines", lines, line, value, (*groups, y, replace(x, upper=1)))
        value = text.tree([text.read(lines, *self.group, number(u)) for u in range(text.items[1])])
        first = text.first_item()
        text.emit("sums", target, where(number(0), first[-1]), value, (*groups, *first))

    def scan(self, target: str, where: At, name: str) -> None:
        """where: the element of a place belongs; name: of the statement that stores, '' for a new one."""
        text, row = self.text, self.row
        w, h = text.items
        groups, tiles = extents(row.groups), extents(self.steps)
        self.lead = text.tensor("lead", groups, (row.tiles + (1 if self.steps else 0),))
        self.tile, self.run, self.total, self.part, self.ahead = (text.tensor(name, groups, tiles, more) for name, more in (
            ("tile", (w * h, w)), ("run", (h, w, w)), ("total", (h, w)), ("part", (h, w)), ("ahead", (h, w))))
        if row.look_back is None:
            first = text.first_item()
            self._lead(row.lead(first[-1]), first)
        self._load()
        self._sum_items()
        if row.look_back is not None:
            self._lead(*row.look_back([self._read(self.part, number(u), number(w - 1)) for u in range(h)]))
        self._come_before()
        self._store(target, where, name)

    def _lead(self, value: pr.Expr, first: Items) -> None:
        """What comes before the first tile. first: the ranges of the item that finds it."""
        self.text.emit("lead", self.lead, (*self.group, number(0)), value, (*self.row.groups, *first))

    def _each(self, name: str) -> pr.Range:
        return self.text.each(name, self.text.items[0])

    def _place(self, part: pr.Range, y: pr.Range, x: pr.Range) -> pr.Expr:
        """The place of an element where neighbouring items take neighbours. part: which of an item's elements it is."""
        w, h = self.text.items
        return plus(self.row.first, *((r, tile_elements((w, h))) for r in self.steps), (part, w * h), (y, w), (x, 1))

    def _load(self) -> None:
        """The tile, neighbouring items taking neighbours."""
        (y, x), k, text = self.text.all_items(), self._each("k"), self.text
        at = self._place(k, y, x)
        value = text.under(self.row.conditions(at, x), self.row.term(at, x))
        self._emit("load", self.tile, (plus(number(0), (k, text.items[1]), (y, 1)), cell(x)), value, y, x, k)

    def _sum_items(self) -> None:
        """Each item's scan of its own elements, and its sum; and of these those along x."""
        (y, x), text, w = self.text.all_items(), self.text, self.text.items[0]
        own, at = plus(number(0), (y, w), (x, 1)), (cell(y), cell(x))
        e = replace(self._each("e"), upper=w - 1)
        after = plus(number(1), (e, 1))
        self._emit("run", self.run, (*at, number(0)), self._read(self.tile, own, number(0)), y, x)
        joined = text.found.joined(self._read(self.run, *at, cell(e)), self._read(self.tile, own, after))
        self._emit("run", self.run, (*at, after), joined, y, x, e)
        self._emit("total", self.total, at, self._read(self.run, *at, number(w - 1)), y, x)
        y, x = text.all_items()
        upto = [text.where(number(u), "<=", cell(x), self._read(self.total, cell(y), number(u))) for u in range(1, w)]
        self._emit("part", self.part, (cell(y), cell(x)), text.tree([self._read(self.total, cell(y), number(0)), *upto]), y, x)

    def _come_before(self) -> None:
        """What comes before each item, and before the next tile; and both in what the items have scanned."""
        text, (w, h) = self.text, self.text.items
        step = cell(self.steps[0]) if self.steps else number(0)
        lead = text.read(self.lead, *self.group, step)
        lines = [self._read(self.part, number(u), number(w - 1)) for u in range(h)]
        if self.steps:
            following = (*self.group, plus(number(1), (self.steps[0], 1)))
            text.emit("lead", self.lead, following, text.tree([lead, *lines]), (*self.around, *text.first_item()))
        y, x = text.all_items()
        left = text.where(cell(x), ">", number(0), self._read(self.part, cell(y), plus(number(-1), (x, 1))))
        above = [text.where(number(u), "<", cell(y), line) for u, line in enumerate(lines[:-1])]
        self._emit("ahead", self.ahead, (cell(y), cell(x)), text.tree([lead, *above, left]), y, x)
        e = self._each("e")
        value = text.found.joined(self._read(self.ahead, cell(y), cell(x)), self._read(self.run, cell(y), cell(x), cell(e)))
        self._emit("put", self.tile, (plus(number(0), (y, w), (x, 1)), cell(e)), value, y, x, e)

    def _store(self, target: str, where: At, name: str) -> None:
        """The tile where it belongs, as it was loaded."""
        (y, x), k, text = self.text.all_items(), self._each("k"), self.text
        at = self._place(k, y, x)
        value = self._read(self.tile, plus(number(0), (k, text.items[1]), (y, 1)), cell(x))
        conditions = self.row.conditions(at, x)
        text.emit("store", target, where(at, x), value, (*self.around, y, x, k), name=name, where=conditions)
