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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.linear import normalise
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64
from polytc.rewrite.gpu.work_group_reductions import combine_as_tree
from polytc.rewrite.scan_statements import Scan

Ranges = tuple[pr.Range, ...]
Place = Callable[[pr.Expr], pr.Expr]


def tile_elements(items: tuple[int, int]) -> int:
    """What a group takes at once."""
    return items[0] * items[0] * items[1]


def local_bytes(items: tuple[int, int], element: int) -> int:
    """Of local memory that a group takes: the tile, with rows that are padded, and sums of items and of those before them."""
    return (items[0] + 3) * items[0] * items[1] * element


@dataclass(frozen=True)
class Row:
    """What a group scans. groups: the ranges of groups; first: the place of its first element; tiles: how many it takes; end:
    where places end, None if all of its tiles are whole; term: what comes new at a place; lead: what comes before all."""

    groups: Ranges
    first: pr.Expr
    tiles: int
    end: int | None
    term: Place
    lead: pr.Expr


@dataclass
class ScanText:
    """The statements and tensors that are made of a scan. s: it; items: of a group along x and y, x*x*y elements at once."""

    s: pr.Statement
    found: Scan
    items: tuple[int, int]
    names: Names
    tensors: list[pr.Tensor] = field(default_factory=list)
    statements: list[pr.Statement] = field(default_factory=list)

    def all_items(self) -> Ranges:
        """New loops over the items, along y and along x."""
        names = enumerate(("item", "line"))
        x, y = (pr.Range(self.names.index(name), 0, self.items[axis], kinds.item(axis)) for axis, name in names)
        return y, x

    def first_item(self) -> Ranges:
        """New loops over the first item alone."""
        return tuple(replace(r, upper=1) for r in self.all_items())

    def each(self, name: str) -> pr.Range:
        """The elements of an item, at once."""
        return pr.Range(self.names.index(name), 0, self.items[0], "unroll")

    def steps(self, count: int) -> Ranges:
        """The loop over the tiles of a group; none if there is one."""
        return (pr.Range(self.names.index(f"{self.found.along.index}_tile"), 0, count, "sequential"),) if count != 1 else ()

    def place(self, first: pr.Expr, steps: Ranges, part: pr.Range, y: pr.Range, x: pr.Range) -> pr.Expr:
        """The place of an element where neighbouring items take neighbours. part: which of an item's elements it is."""
        w, h = self.items
        return plus(first, *((r, tile_elements(self.items)) for r in steps), (part, w * h), (y, w), (x, 1))

    def tensor(self, kind: str, *shape: Iterable[int]) -> str:
        """A new one."""
        name, extents = self.names.label(f"{self.s.target}_{kind}"), tuple(n for part in shape for n in part)
        self.tensors.append(pr.Tensor(name, self.found.dtype, extents, (0,) * len(extents)))
        return name

    def read(self, name: str, *cell: pr.Expr) -> pr.Read:
        return pr.Read(name, cell, self.found.dtype)

    def tree(self, parts: Sequence[pr.Expr]) -> pr.Expr:
        """All put together."""
        return combine_as_tree(self.found.op, parts, self.found.dtype)

    def where(self, a: pr.Expr, op: str, b: pr.Expr, value: pr.Expr) -> pr.Expr:
        """A value under a condition, else what changes nothing."""
        return pr.Select(pr.Binary(op, a, b, BOOL), value, self.found.neutral, self.found.dtype)

    def emit(self, label: str, target: str, cell: Sequence[pr.Expr], value: pr.Expr, ranges: Ranges, op: str | None = None,
             name: str = "", where: tuple[pr.Expr, ...] = ()) -> None:
        """One more statement. label, name: of which it is called after the scan's, or alone."""
        name = name or self.names.label(f"{self.s.name}_{label}")
        self.statements.append(pr.Statement(name, target, tuple(cell), op, value, ranges, where, span=self.s.span))


class RowScan:
    """The statements with which groups scan a row each, added to those of a text."""

    def __init__(self, text: ScanText, row: Row) -> None:
        self.text, self.row, self.steps = text, row, text.steps(row.tiles)
        self.group, self.here = cells(row.groups), cells((*row.groups, *self.steps))
        self.around = (*row.groups, *self.steps)
        w, h = text.items
        groups, tiles = extents(row.groups), extents(self.steps)
        self.lead = text.tensor("lead", groups, (row.tiles + (1 if self.steps else 0),))
        self.tile, self.run, self.total, self.part, self.ahead = (text.tensor(name, groups, tiles, more) for name, more in (
            ("tile", (w * h, w)), ("run", (h, w, w)), ("total", (h, w)), ("part", (h, w)), ("ahead", (h, w))))

    def add(self, target: str, cell: Callable[[pr.Expr], tuple[pr.Expr, ...]], name: str) -> None:
        """cell: where the element of a place belongs; name: of the statement that stores, '' for a new one."""
        self.text.emit("lead", self.lead, (*self.group, number(0)), self.row.lead, (*self.row.groups, *self.text.first_item()))
        self._load()
        self._sum_items()
        self._come_before()
        self._store(target, cell, name)

    def _read(self, tensor: str, *at: pr.Expr) -> pr.Read:
        return self.text.read(tensor, *self.here, *at)

    def _emit(self, label: str, target: str, at: Sequence[pr.Expr], value: pr.Expr, *ranges: pr.Range) -> None:
        self.text.emit(label, target, (*self.here, *at), value, (*self.around, *ranges))

    def _load(self) -> None:
        """The tile, neighbouring items taking neighbours."""
        (y, x), k, text = self.text.all_items(), self.text.each("k"), self.text
        at, end = text.place(self.row.first, self.steps, k, y, x), self.row.end
        term = self.row.term(at)
        value = term if end is None else text.where(at, "<", number(end), term)
        self._emit("load", self.tile, (plus(number(0), (k, text.items[1]), (y, 1)), cell(x)), value, y, x, k)

    def _sum_items(self) -> None:
        """Each item's scan of its own elements, and its sum; and of these those along x."""
        (y, x), text, w = self.text.all_items(), self.text, self.text.items[0]
        own, at = plus(number(0), (y, w), (x, 1)), (cell(y), cell(x))
        e = replace(text.each("e"), upper=w - 1)
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
        e = text.each("e")
        value = text.found.joined(self._read(self.ahead, cell(y), cell(x)), self._read(self.run, cell(y), cell(x), cell(e)))
        self._emit("put", self.tile, (plus(number(0), (y, w), (x, 1)), cell(e)), value, y, x, e)

    def _store(self, target: str, at_place: Callable[[pr.Expr], tuple[pr.Expr, ...]], name: str) -> None:
        """The tile where it belongs, as it was loaded."""
        (y, x), k, text = self.text.all_items(), self.text.each("k"), self.text
        at, end = text.place(self.row.first, self.steps, k, y, x), self.row.end
        value = self._read(self.tile, plus(number(0), (k, text.items[1]), (y, 1)), cell(x))
        inside = () if end is None else (pr.Binary("<", at, number(end), BOOL),)
        text.emit("store", target, at_place(at), value, (*self.around, y, x, k), name=name, where=inside)


def cell(r: pr.Range) -> pr.Expr:
    return pr.Index(r.index)


def cells(ranges: Ranges) -> tuple[pr.Expr, ...]:
    return tuple(map(cell, ranges))


def extents(ranges: Ranges) -> tuple[int, ...]:
    return tuple(r.extent for r in ranges)


def number(n: int) -> pr.Const:
    return pr.Const(n, I64)


def plus(first: pr.Expr, *parts: tuple[pr.Range, int]) -> pr.Expr:
    """An expression and the sum of indices with their strides."""
    for r, step in parts:
        first = pr.Binary("+", first, pr.Binary("*", number(step), cell(r), I64), I64)
    return normalise(first)
