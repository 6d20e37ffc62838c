"""The scan of neighbouring columns by the items of a work-group, tile after tile, as statements.

    for i in 1:129 { x[i,j] += x[i-1,j] where j in 0:99 }                  with inout x[129,99] on gpu
    ->  x_lead[j_group,0,item] = item + 32*j_group < 99 ? x[0, item + 32*j_group] : -f32(0.0)
        x_run[j_group,line2,item2,0] = item2 + 32*j_group < 99 ? x[16*line2 + 1, item2 + 32*j_group] : -f32(0.0)
        x_run[j_group,line2,item2, e + 1] = x_run[j_group,line2,item2,e] + (item2 + 32*j_group < 99 ? x[...] : -f32(0.0))
        x_total[j_group,line2,item2] = x_run[j_group,line2,item2,15]
        x_ahead[j_group,line3,item3] = x_lead[j_group,0,item3] + (0 < line3 ? x_total[j_group,0,item3] : -f32(0.0)) + ...
        x[e2 + 16*line3 + 1, item3 + 32*j_group] = x_ahead[...] + x_run[...] where item3 + 32*j_group < 99

A line of items has a column each, so that neighbours load and store neighbours; an item scans the few elements of its line in
registers, and only the lines' sums go through local memory.
"""

from __future__ import annotations

from polytc.program import program as pr
from polytc.program.scalars import I64
from polytc.rewrite.gpu.scan_text import At, TiledScan, cell, extents, number, plus

EACH = 16
"""Elements of an item at once."""


def tile_elements(items: tuple[int, int]) -> int:
    """What a group takes of a column at once."""
    return EACH * items[1]


def local_bytes(items: tuple[int, int], element: int) -> int:
    """Of local memory that a group takes: the sums of items."""
    return items[0] * items[1] * element


class ColumnScan(TiledScan):
    """The statements with which groups scan neighbouring columns, added to those of a text."""

    def sums(self, target: str, where: At) -> None:
        """What whole columns add up. where: that belongs."""
        text, groups = self.text, self.row.groups
        (y, x), e = text.all_items(), text.each("e", EACH)
        at = (*self.group, cell(y), cell(x))
        mine, part = (text.tensor(name, extents((*groups, y, x))) for name in ("mine", "part"))
        term = text.under(self.row.inside(x), self.row.term(self._place(y, e), x))
        text.emit("mine_init", mine, at, text.found.neutral, (*groups, y, x))
        text.emit("mine", mine, at, term, (*groups, y, x, *self.steps, e), op=text.found.op)
        text.emit("part", part, at, text.read(mine, *at), (*groups, y, x))
        y, x = text.first_line()
        value = text.tree([text.read(part, *self.group, number(u), cell(x)) for u in range(text.items[1])])
        text.emit("sums", target, where(number(0), x), value, (*groups, y, x), where=self.row.inside(x))

    def scan(self, target: str, where: At, name: str) -> None:
        """where: the element of a place belongs; name: of the statement that stores, '' for a new one."""
        text, row, (w, h) = self.text, self.row, self.text.items
        groups, tiles = extents(row.groups), extents(self.steps)
        self.lead = text.tensor("lead", groups, (row.tiles + (1 if self.steps else 0), w))
        self.run, self.total, self.ahead = (text.tensor(name, groups, tiles, more) for name, more in (
            ("run", (h, w, EACH)), ("total", (h, w)), ("ahead", (h, w))))
        y, x = text.first_line()
        lead = text.under(row.inside(x), row.lead(x))
        text.emit("lead", self.lead, (*self.group, number(0), cell(x)), lead, (*row.groups, y, x))
        self._sum_items()
        self._come_before(target, where, name)

    def _place(self, y: pr.Range, e: pr.Range | None, more: int = 0) -> pr.Expr:
        """The place of an element of an item, so many behind that of a range, or behind the first one."""
        steps = ((r, tile_elements(self.text.items)) for r in self.steps)
        first = pr.Binary("+", self.row.first, number(more), I64)
        return plus(first, *steps, (y, EACH), *(((e, 1),) if e is not None else ()))

    def _term(self, at: pr.Expr, x: pr.Range) -> pr.Expr:
        return self.text.under(self.row.conditions(at, x), self.row.term(at, x))

    def _sum_items(self) -> None:
        """Each item's scan of its own elements, and its sum."""
        (y, x), text = self.text.all_items(), self.text
        own, e = (cell(y), cell(x)), text.each("e", EACH - 1)
        self._emit("run", self.run, (*own, number(0)), self._term(self._place(y, None), x), y, x)
        joined = text.found.joined(self._read(self.run, *own, cell(e)), self._term(self._place(y, e, 1), x))
        self._emit("run", self.run, (*own, plus(number(1), (e, 1))), joined, y, x, e)
        self._emit("total", self.total, own, self._read(self.run, *own, number(EACH - 1)), y, x)

    def _come_before(self, target: str, where: At, name: str) -> None:
        """What comes before each item, and before the next tile; and both in what the items have scanned, where it belongs."""
        text, h = self.text, self.text.items[1]
        step = cell(self.steps[0]) if self.steps else number(0)

        def parts(x: pr.Range) -> list[pr.Read]:
            lead = text.read(self.lead, *self.group, step, cell(x))
            return [lead, *(self._read(self.total, number(u), cell(x)) for u in range(h))]
        if self.steps:
            y, x = text.first_line()
            following = (*self.group, plus(number(1), (self.steps[0], 1)), cell(x))
            text.emit("lead", self.lead, following, text.tree(parts(x)), (*self.around, y, x))
        y, x = text.all_items()
        lead, *totals = parts(x)
        above = [text.where(number(u), "<", cell(y), part) for u, part in enumerate(totals[:-1])]
        self._emit("ahead", self.ahead, (cell(y), cell(x)), text.tree([lead, *above]), y, x)
        e = text.each("e", EACH)
        at = self._place(y, e)
        value = text.found.joined(self._read(self.ahead, cell(y), cell(x)), self._read(self.run, cell(y), cell(x), cell(e)))
        text.emit("store", target, where(at, x), value, (*self.around, y, x, e), name=name, where=self.row.conditions(at, x))
