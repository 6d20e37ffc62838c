"""What the statements of scans by work-groups are made of: their ranges over groups and items, tensors, places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.linear import normalise
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64, DType
from polytc.rewrite.gpu.work_group_reductions import combine_as_tree
from polytc.rewrite.scan_statements import Scan

Ranges = tuple[pr.Range, ...]
Items = tuple[pr.Range, pr.Range]
"""Loops over items, along y and along x."""
At = Callable[[pr.Expr, pr.Range], tuple[pr.Expr, ...]]
"""Where the element of a place belongs, of the item along x that has it."""


@dataclass(frozen=True)
class Row:
    """What a group scans. groups: the ranges of groups; first: the place of its first element; tiles: how many it takes; end:
    where places end, None if all of its tiles are whole; term: what comes new at a place, of an item along x; inside: whether
    an item along x has anything to do; lead: what comes before all, of which sums know nothing; look_back: finds it, and the
    item that knows it, by what the lines of items add up (see look_back), where it is there no sooner."""

    groups: Ranges
    first: pr.Expr
    tiles: int
    end: int | None
    term: Callable[[pr.Expr, pr.Range], pr.Expr]
    inside: Callable[[pr.Range], tuple[pr.Expr, ...]]
    lead: Callable[[pr.Range], pr.Expr] = lambda x: number(0)
    look_back: Callable[[Sequence[pr.Expr]], tuple[pr.Expr, Items]] | None = None

    def conditions(self, at: pr.Expr, x: pr.Range) -> tuple[pr.Expr, ...]:
        """Is there an element at a place?"""
        within = () if self.end is None else (pr.Binary("<", at, number(self.end), BOOL),)
        return (*within, *self.inside(x))


@dataclass
class ScanText:
    """The statements and tensors that are made of a scan. s: it; items: of a group along x and y."""

    s: pr.Statement
    found: Scan
    items: tuple[int, int]
    names: Names
    tensors: list[pr.Tensor] = field(default_factory=list)
    statements: list[pr.Statement] = field(default_factory=list)

    def all_items(self) -> tuple[pr.Range, pr.Range]:
        """New loops over the items, along y and along x."""
        names = enumerate(("item", "line"))
        x, y = (pr.Range(self.names.index(name), 0, self.items[axis], kinds.item(axis)) for axis, name in names)
        return y, x

    def first_item(self) -> tuple[pr.Range, pr.Range]:
        """New loops over the first item alone."""
        y, x = self.all_items()
        return replace(y, upper=1), replace(x, upper=1)

    def first_line(self) -> tuple[pr.Range, pr.Range]:
        """New loops over the items of the first line alone."""
        y, x = self.all_items()
        return replace(y, upper=1), x

    def each(self, name: str, count: int) -> pr.Range:
        """The elements of an item, at once."""
        return pr.Range(self.names.index(name), 0, count, "unroll")

    def steps(self, count: int) -> Ranges:
        """The loop over the tiles of a group; none if there is one."""
        return (pr.Range(self.names.index(f"{self.found.along.index}_tile"), 0, count, "sequential"),) if count != 1 else ()

    def tensor(self, kind: str, *shape: Iterable[int], dtype: DType | None = None) -> str:
        """A new one, of the scan's type if of no other."""
        name, extents = self.names.label(f"{self.s.target}_{kind}"), tuple(n for part in shape for n in part)
        self.tensors.append(pr.Tensor(name, dtype or self.found.dtype, extents, (0,) * len(extents)))
        return name

    def read(self, name: str, *cell: pr.Expr) -> pr.Read:
        return pr.Read(name, cell, self.found.dtype)

    def tree(self, parts: Sequence[pr.Expr]) -> pr.Expr:
        """All put together."""
        return combine_as_tree(self.found.op, parts, self.found.dtype)

    def where(self, a: pr.Expr, op: str, b: pr.Expr, value: pr.Expr) -> pr.Expr:
        """A value under a condition, else what changes nothing."""
        return self.under((pr.Binary(op, a, b, BOOL),), value)

    def under(self, conditions: tuple[pr.Expr, ...], value: pr.Expr) -> pr.Expr:
        """A value under all conditions, else what changes nothing."""
        neutral, dtype = self.found.neutral, self.found.dtype
        return pr.Select(pr.conjunction(conditions), value, neutral, dtype) if conditions else value

    def emit(self, label: str, target: str, cell: Sequence[pr.Expr], value: pr.Expr, ranges: Ranges, op: str | None = None,
             name: str = "", where: tuple[pr.Expr, ...] = ()) -> None:
        """One more statement. label, name: of which it is called after the scan's, or alone."""
        name = name or self.names.label(f"{self.s.name}_{label}")
        self.statements.append(pr.Statement(name, target, tuple(cell), op, value, ranges, where, span=self.s.span))


class TiledScan:
    """What rows and columns have in common: the statements of a group, tile after tile, are added to a text."""

    def __init__(self, text: ScanText, row: Row) -> None:
        self.text, self.row, self.steps = text, row, text.steps(row.tiles)
        self.around = (*row.groups, *self.steps)
        self.group, self.here = cells(row.groups), cells(self.around)

    def _read(self, tensor: str, *at: pr.Expr) -> pr.Read:
        """Of a tensor that each tile has a part of."""
        return self.text.read(tensor, *self.here, *at)

    def _emit(self, label: str, target: str, at: Sequence[pr.Expr], value: pr.Expr, *ranges: pr.Range) -> None:
        self.text.emit(label, target, (*self.here, *at), value, (*self.around, *ranges))


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
