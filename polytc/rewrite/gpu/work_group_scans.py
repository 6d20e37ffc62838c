"""Scans for GPUs: the items of a group scan together, through local memory.

    for i in 1:512 { S[i] = S[i-1] + A[i] }             with inout S[512], A[512] on gpu
    ->  S_lead[group,0] = S[0]
        S_tile[group,c,...] = A[...]
        S_run[...] = S_tile[...]

What a group takes of a row at once is x elements of each of its x*y items. It is loaded as it lies in memory, neighbours taking
neighbours, into a tile of local memory whose rows are what one item scans, in registers; the sums of items are put together in
two levels, along x and along y; what comes before each item is added to its own; and the tile is stored as it was loaded.

A row that is longer is scanned tile after tile by one group. Where rows are too few for that, groups share a row: each adds up a
block, one group scans these sums, and each scans its block from what comes before. (Sengupta et al., Scan Primitives for GPU
Computing, 2007; Merrill & Grimshaw, Parallel Scan for Stream Architectures, 2009: reduce, then scan.)
Index ranges say what their loops become, as in rewrite.gpu.local_tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.linear import normalise
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64
from polytc.program.sizes import Size, shortfall
from polytc.rewrite.gpu.work_group_reductions import combine_as_tree
from polytc.rewrite.scan_statements import Scan

At = Callable[[pr.Expr], pr.Expr]


@dataclass(frozen=True)
class _Row:
    """What a group scans. groups: the ranges of groups; first: the place of its first element; tiles: how many it takes; end:
    where places end, None if all of its tiles are whole; term: what is new at a place; lead: what comes before all."""

    groups: tuple[pr.Range, ...]
    first: pr.Expr
    tiles: int
    end: int | None
    term: At
    lead: pr.Expr


def tile_elements(items: tuple[int, int]) -> int:
    """What a group takes at once."""
    return items[0] * items[0] * items[1]


def local_bytes(items: tuple[int, int], element: int) -> int:
    """Of local memory that a group takes: the tile, with rows that are padded, and sums of items and of those before them."""
    return (items[0] + 3) * items[0] * items[1] * element


def tiles(extent: int, elements: int) -> int:
    """The tiles or blocks of a row: all but the last one are whole, and there is one at least if the extent is not below 0."""
    return extent // elements + 1 if isinstance(extent, Size) else -(-extent // elements)


class GroupedScan:
    """What a scan becomes. elements: of a block, 0 where a group scans a whole row; tensors: the new ones."""

    def __init__(self, s: pr.Statement, found: Scan, elements: int, items: tuple[int, int], names: Names) -> None:
        self.s, self.found, self.elements, self.items, self.names = s, found, elements, items, names
        self.kept = tuple(r for r in s.ranges if r.index != found.along.index)
        self.tensors: list[pr.Tensor] = []
        self.made: list[pr.Statement] = []

    def statements(self) -> list[pr.Statement]:
        """The scan in one kernel, or in three."""
        extent, whole = self.found.along.extent, tile_elements(self.items)
        if not self.elements:
            groups, _, values = self._groups(())
            ragged = isinstance(extent, Size) or extent % whole != 0
            row = _Row(groups, _number(0), tiles(extent, whole), extent if ragged else None,
                       lambda at: self._moved(self.found.term, at, values), pr.substitute(self.found.first, values))
            self._scan(self.s.target, row, lambda at: tuple(self._moved(e, at, values) for e in self.s.subscripts), self.s.name)
            return self.made
        count = tiles(extent, self.elements)
        sums = self._tensor("sums", (*(r.extent for r in self.kept), count - 1 + bool(shortfall(extent))))
        before = self._tensor("before", (*(r.extent for r in self.kept), count - 1 + bool(shortfall(extent))))
        self._block_sums(sums, count - 1)
        self._before(sums, before, count - 1)
        self._blocks(before, count)
        return self.made

    # ---- the kernels

    def _block_sums(self, target: str, count: int) -> None:
        """What each block but the last one adds up."""
        groups, cells, values = self._groups((count,))
        tiled = self.elements // tile_elements(self.items)
        x, y = self._items()
        tile, part = self._tiles(tiled), self._each("k")
        row, at = self._cells(groups), self._place(self._first(groups), tile, part, x, y)
        mine, name = (self._tensor(n, self._shape(groups, y, x)) for n in ("mine", "part"))
        cell = (*row, _i(y), _i(x))
        self._emit("mine_init", mine, cell, self.found.neutral, (*groups, y, x))
        self._emit("mine", mine, cell, self._moved(self.found.term, at, values), (*groups, y, x, *tile, part), op=self.found.op)
        self._emit("part", name, cell, self._read(mine, *cell), (*groups, y, x))
        for axis, label in ((0, "rows"), (1, "sums")):
            last = axis == 1
            below, (x, y) = name, self._items()
            x, y = replace(x, upper=1), replace(y, upper=1) if last else y
            name = target if last else self._tensor(label, self._shape(groups, y))
            cell = (*row, *(() if last else (_i(y),)))
            value = combine_as_tree(self.found.op, [self._read(below, *cell, _number(u)) for u in range(self.items[axis])],
                                    self.found.dtype)
            self._emit(label, name, cells if last else cell, value, (*groups, y, x))

    def _before(self, sums: str, target: str, count: int) -> None:
        """The scan of the blocks' sums, a row a group."""
        groups, rows, _ = self._groups(())
        whole = tile_elements(self.items)
        ragged = isinstance(count, Size) or count % whole != 0
        row = _Row(groups, _number(0), tiles(count, whole), count if ragged else None,
                   lambda at: self._read(sums, *rows, at), self.found.neutral)
        self._scan(target, row, lambda at: (*rows, at), "")

    def _blocks(self, before: str, count: int) -> None:
        """The elements of each block, from what comes before it."""
        extent = self.found.along.extent
        groups, cell, values = self._groups((count,))
        block, first = groups[-1], pr.substitute(self.found.first, values)
        ahead: pr.Expr = self._read(before, *cell[:-1], normalise(pr.Binary("-", _i(block), _number(1), I64)))
        if self.found.before is not None:
            ahead = self.found.joined(first, ahead)
        lead = pr.Select(pr.Binary(">", _i(block), _number(0), BOOL), ahead, first, self.found.dtype)
        ragged = isinstance(extent, Size) or extent % self.elements != 0
        row = _Row(groups, self._first(groups), self.elements // tile_elements(self.items), extent if ragged else None,
                   lambda at: self._moved(self.found.term, at, values), lead)
        self._scan(self.s.target, row, lambda at: tuple(self._moved(e, at, values) for e in self.s.subscripts), self.s.name)

    def _scan(self, target: str, row: _Row, cell: Callable[[pr.Expr], tuple[pr.Expr, ...]], name: str) -> None:
        """The scan of rows by a group each. cell: where the element of a place belongs; name: of the statement that stores."""
        groups, steps, (w, h) = row.groups, self._tiles(row.tiles), self.items
        shape = (*self._shape(groups), *(r.extent for r in steps))
        lead = self._tensor("lead", (*self._shape(groups), row.tiles + 1))
        tile, run, total, part, ahead = (self._tensor(n, (*shape, *more)) for n, more in (
            ("tile", (w * h, w)), ("run", (h, w, w)), ("total", (h, w)), ("part", (h, w)), ("ahead", (h, w))))
        outer, here = (*groups, *steps), (*self._cells(groups), *map(_i, steps))

        def emit(label: str, to: str, at: Sequence[pr.Expr], value: pr.Expr, *ranges: pr.Range) -> None:
            self._emit(label, to, (*here, *at), value, (*outer, *ranges))

        def read(of: str, *at: pr.Expr) -> pr.Expr:
            return self._read(of, *here, *at)
        x, y = self._items()
        first = (replace(y, upper=1), replace(x, upper=1))
        self._emit("lead", lead, (*self._cells(groups), _number(0)), row.lead, (*groups, *first))
        x, y = self._items()
        part_ = self._each("k")
        at = self._place(row.first, steps, part_, x, y)
        term, inside = row.term(at), None if row.end is None else pr.Binary("<", at, _number(row.end), BOOL)
        line = _sum((part_, h), (y, 1))
        emit("load", tile, (line, _i(x)), term if inside is None else
             pr.Select(inside, term, self.found.neutral, self.found.dtype), y, x, part_)
        x, y = self._items()
        mine, each = _sum((y, w), (x, 1)), replace(self._each("e"), upper=w - 1)
        after = normalise(pr.Binary("+", _i(each), _number(1), I64))
        emit("run", run, (_i(y), _i(x), _number(0)), read(tile, mine, _number(0)), y, x)
        emit("run", run, (_i(y), _i(x), after),
             self.found.joined(read(run, _i(y), _i(x), _i(each)), read(tile, mine, after)), y, x, each)
        emit("total", total, (_i(y), _i(x)), read(run, _i(y), _i(x), _number(w - 1)), y, x)
        x, y = self._items()
        emit("part", part, (_i(y), _i(x)),
             self._tree([read(total, _i(y), _number(0)),
                         *(self._if(_number(u), "<=", _i(x), read(total, _i(y), _number(u))) for u in range(1, w))]), y, x)
        if steps:
            x, y = self._items()
            following = normalise(pr.Binary("+", _i(steps[0]), _number(1), I64))
            both = [self._read(lead, *self._cells(groups), _i(steps[0])), *(read(part, _number(u), _number(w - 1)) for u in range(h))]
            self._emit("lead", lead, (*self._cells(groups), following), self._tree(both),
                       (*outer, replace(y, upper=1), replace(x, upper=1)))
        x, y = self._items()
        left = normalise(pr.Binary("-", _i(x), _number(1), I64))
        step = _i(steps[0]) if steps else _number(0)
        emit("ahead", ahead, (_i(y), _i(x)), self._tree([
            self._read(lead, *self._cells(groups), step),
            *(self._if(_number(u), "<", _i(y), read(part, _number(u), _number(w - 1))) for u in range(h - 1)),
            self._if(_i(x), ">", _number(0), read(part, _i(y), left))]), y, x)
        mine, each = _sum((y, w), (x, 1)), self._each("e")
        emit("put", tile, (mine, _i(each)),
             self.found.joined(read(ahead, _i(y), _i(x)), read(run, _i(y), _i(x), _i(each))), y, x, each)
        x, y = self._items()
        part_ = self._each("k")
        at, line = self._place(row.first, steps, part_, x, y), _sum((part_, h), (y, 1))
        self._emit("store", target, cell(at), read(tile, line, _i(x)), (*outer, y, x, part_), name=name,
                   where=() if row.end is None else (pr.Binary("<", at, _number(row.end), BOOL),))

    # ---- loops

    def _groups(self, more: tuple[int, ...]) -> tuple[tuple[pr.Range, ...], tuple[pr.Expr, ...], dict[str, pr.Expr]]:
        """A range of groups for each of the rows' indices, and for more; their indices; and the values of the rows'. Where there
        is no range a single group."""
        values, found = dict[str, pr.Expr](), list[pr.Range]()
        for r in self.kept:
            found.append(pr.Range(self.names.index(f"{r.index}_group"), 0, r.extent, kinds.group(0)))
            values[r.index] = normalise(pr.Binary("+", _i(found[-1]), _number(r.lower), I64))
        found += (pr.Range(self.names.index(f"{self.found.along.index}_block"), 0, n, kinds.group(0)) for n in more)
        one = pr.Range(self.names.index("group"), 0, 1, kinds.group(0))
        return tuple(found) or (one,), tuple(map(_i, found)), values

    def _items(self) -> tuple[pr.Range, pr.Range]:
        """New loops over the items, which begin when those before have ended."""
        x, y = (pr.Range(self.names.index("item"), 0, n, kinds.item(axis)) for axis, n in enumerate(self.items))
        return x, y

    def _tiles(self, count: int) -> tuple[pr.Range, ...]:
        """The loop over the tiles of a group; none if there is one."""
        return (pr.Range(self.names.index(f"{self.found.along.index}_tile"), 0, count, "sequential"),) if count != 1 else ()

    def _each(self, name: str) -> pr.Range:
        """The elements of an item."""
        return pr.Range(self.names.index(name), 0, self.items[0], "unroll")

    # ---- places

    def _first(self, groups: tuple[pr.Range, ...]) -> pr.Expr:
        """The first place of a block."""
        return pr.Binary("*", _number(self.elements), _i(groups[-1]), I64)

    def _place(self, first: pr.Expr, steps: Sequence[pr.Range], each: pr.Range, x: pr.Range, y: pr.Range) -> pr.Expr:
        """The place of an element as it lies in memory."""
        w, h = self.items
        parts = (*((r, tile_elements(self.items)) for r in steps), (each, w * h), (y, w), (x, 1))
        return normalise(pr.Binary("+", first, _sum(*parts), I64))

    def _moved(self, e: pr.Expr, at: pr.Expr, values: dict[str, pr.Expr]) -> pr.Expr:
        """An expression of the scan at a place."""
        along = self.found.along
        here = pr.Binary("+", at, _number(along.lower), I64)
        return normalise(pr.substitute(e, {**values, along.index: here}))

    def _cells(self, groups: tuple[pr.Range, ...]) -> tuple[pr.Expr, ...]:
        return tuple(map(_i, groups))

    # ---- statements

    def _shape(self, *ranges: tuple[pr.Range, ...] | pr.Range) -> tuple[int, ...]:
        flat = (r for part in ranges for r in (part if isinstance(part, tuple) else (part,)))
        return tuple(r.extent for r in flat)

    def _tensor(self, kind: str, shape: Iterable[int]) -> str:
        shape, name = tuple(shape), self.names.label(f"{self.s.target}_{kind}")
        self.tensors.append(pr.Tensor(name, self.found.dtype, shape, (0,) * len(shape)))
        return name

    def _read(self, name: str, *cell: pr.Expr) -> pr.Read:
        return pr.Read(name, cell, self.found.dtype)

    def _tree(self, parts: Sequence[pr.Expr]) -> pr.Expr:
        return combine_as_tree(self.found.op, parts, self.found.dtype)

    def _if(self, a: pr.Expr, op: str, b: pr.Expr, value: pr.Expr) -> pr.Expr:
        """A value under a condition, else what changes nothing."""
        return pr.Select(pr.Binary(op, a, b, BOOL), value, self.found.neutral, self.found.dtype)

    def _emit(self, label: str, target: str, cell: Sequence[pr.Expr], value: pr.Expr, ranges: Sequence[pr.Range],
              op: str | None = None, name: str = "", where: tuple[pr.Expr, ...] = ()) -> None:
        name = name or self.names.label(f"{self.s.name}_{label}")
        self.made.append(pr.Statement(name, target, tuple(cell), op, value, tuple(ranges), where, span=self.s.span))


def _i(r: pr.Range) -> pr.Expr:
    return pr.Index(r.index)


def _number(n: int) -> pr.Const:
    return pr.Const(n, I64)


def _sum(*parts: tuple[pr.Range, int]) -> pr.Expr:
    """The sum of indices with their strides."""
    found: pr.Expr = _number(0)
    for r, step in parts:
        found = pr.Binary("+", found, pr.Binary("*", _number(step), _i(r), I64), I64)
    return normalise(found)
