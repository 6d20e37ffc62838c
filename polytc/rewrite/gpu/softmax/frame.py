"""What the statements of a streamed softmax are made of: loops over groups and items, tensors, copies of operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.affine import Linear, interval
from polytc.program.linear import expression, linear
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64, DType
from polytc.rewrite.gpu import matrix_tiles, tile_copies
from polytc.rewrite.gpu.softmax.chain import Chain, used
from polytc.rewrite.gpu.softmax.key_blocks import KeyBlocks
from polytc.rewrite.gpu.tile_copies import Operand
from polytc.rewrite.gpu.tiled_indices import TiledIndex, is_ragged, linear_subscripts, substitute_tiled

Ranges = tuple[pr.Range, ...]
LANES = 4
"""Elements of a vector that is copied at once."""


@dataclass(frozen=True)
class Tile:
    """A copy of an operand's tile. around: the loops over groups; forms: the operand's coordinates in the order of the copy's
    dimensions; first: those of its first element, without what the loops around say."""

    name: str
    dtype: DType
    around: Ranges
    forms: tuple[Linear, ...]
    first: tuple[int, ...]

    def read(self, cuts: Mapping[str, TiledIndex]) -> pr.Read:
        """What takes the place of an element of the operand."""
        inside = (substitute_tiled(f, cuts, "rest", constant=False) for f in self.forms)
        at = (replace(f, constant=f.constant - first) for f, first in zip(inside, self.first, strict=True))
        return pr.Read(self.name, (*cells(self.around), *map(expression, at)), self.dtype)


class Frame:
    """The loops of a kernel, its tensors, and the statements so far. loops: the `for` loops around what comes next, by their
    labels; where: under which conditions it runs; owned: what each item has itself of tensors of the chain."""

    def __init__(self, program: pr.Program, chain: Chain, by: KeyBlocks, names: Names) -> None:
        self.program, self.chain, self.by, self.names = program, chain, by, names
        self.dtype = program.tensor(chain.score.target).dtype
        self.tensors: list[pr.Tensor] = []
        self.made: list[pr.Statement] = []
        self.where: tuple[pr.Expr, ...] = ()
        self.loops: tuple[tuple[str, pr.Range], ...] = ()
        self.tiles: dict[pr.Read, Tile] = {}
        self.owned: dict[str, tuple[str, Ranges]] = {}
        ranges = chain.score.by_index
        self.keys, self.rows, self.features = ranges[chain.key], ranges[chain.row], ranges[chain.feature]
        self.group = pr.Range(names.index(f"{chain.row}_group"), 0, -(-self.rows.extent // by.rows), kinds.group(0))
        axes = [kinds.group(2 - (n == len(chain.batch) - 1)) for n in range(len(chain.batch))]
        outer = [pr.Range(names.index(r.index), 0, r.extent, axis) for r, axis in zip(chain.batch, axes, strict=True)]
        self.batch = {r.index: TiledIndex(r.lower, ((new, 1),), ()) for r, new in zip(chain.batch, outer, strict=True)}
        self.groups: Ranges = (*outer, self.group)
        self.row = pr.Range(names.index(f"{chain.row}_row"), 0, by.elements[1], "unroll")
        self.key_parts = self.across(chain.key, by.elements[0])
        self.column_parts = self.across(chain.column.index.rstrip("'"), by.elements[2])
        self.block = pr.Range(names.index(f"{chain.key}_block"), 0, -(-self.keys.extent // by.keys), "sequential")
        self.meet()

    def across(self, name: str, elements: int) -> tuple[pr.Range, pr.Range]:
        """The loops over an item's keys or columns: vectors, and their elements."""
        most = matrix_tiles.PAIR if self.by.is_matrix else LANES
        lanes = next(n for n in (4, 2, 1) if n <= most and elements % n == 0 and n * self.dtype.bytes <= 16)
        return (pr.Range(self.names.index(f"{name}_vector"), 0, elements // lanes, "unroll"),
                pr.Range(self.names.index(f"{name}_lane"), 0, lanes, "vector"))

    def meet(self) -> None:
        """What follows is in loops of its own over the items, which begin when those before have ended."""
        down, across = self.by.items[1], self.by.items[0]
        self.items: Ranges = (pr.Range(self.names.index("line"), 0, down, kinds.item(1)),
                              pr.Range(self.names.index("item"), 0, across, kinds.item(0)))

    def cuts(self) -> dict[str, TiledIndex]:
        """The indices of the scores and of the results over those of the groups, items and elements."""
        by, (y, x) = self.by, self.items
        at = ((self.block, by.keys),) if self.loops else ()

        def across(parts: tuple[pr.Range, pr.Range]) -> tuple[tuple[pr.Range, int], ...]:
            vector, lane = parts
            return (x, lane.extent), (vector, by.items[0] * lane.extent), (lane, 1)
        rows = ((y, 1), (self.row, by.items[1])) if by.is_matrix else ((y, by.elements[1]), (self.row, 1))
        return self.batch | {
            self.chain.row: TiledIndex(self.rows.lower, ((self.group, by.rows),), rows),
            self.chain.key: TiledIndex(self.keys.lower, at, across(self.key_parts)),
            self.chain.column.index: TiledIndex(self.chain.column.lower, (), across(self.column_parts))}

    def own(self, base: str, *ranges: pr.Range, dtype: DType | None = None) -> str:
        """A tensor of which each item has a part."""
        name = self.names.label(base)
        self.tensors.append(self.scratch(name, tuple(r.extent for r in (*self.items, *ranges)), dtype or self.dtype))
        return name

    def cell(self, *ranges: pr.Range) -> tuple[pr.Expr, ...]:
        """Where an item has an element."""
        return cells((*self.groups, *self.items, *ranges))

    def read(self, tensor: str, *ranges: pr.Range, dtype: DType | None = None) -> pr.Read:
        """What an item has there."""
        return pr.Read(tensor, self.cell(*ranges), dtype or self.dtype)

    def emit(self, label: str, target: str, cell: Sequence[pr.Expr], value: pr.Expr, inner: Ranges, op: str | None = None,
             where: tuple[pr.Expr, ...] = (), items: Ranges | None = None) -> None:
        """A statement of all items, or of some. label: what its name ends with; inner: the loops of an item."""
        name = self.names.label(f"{self.chain.score.name}_{label}")
        ranges = (*self.groups, *(self.items if items is None else items), *inner)
        self.add(pr.Statement(name, target, tuple(cell), op, value, ranges, where))

    def add(self, s: pr.Statement) -> None:
        """One more statement, in the loops that are around now."""
        labels, ranges = tuple(x for x, _ in self.loops), tuple(r for _, r in self.loops)
        self.made.append(replace(s, ranges=(*ranges, *s.ranges), where=(*self.where, *s.where), loops=labels))

    def assign(self, label: str, tensor: str, value: pr.Expr, *inner: pr.Range, op: str | None = None) -> None:
        """A statement about what each item has itself."""
        if op is None:
            self.emit(label, tensor, self.cell(*inner), value, inner)
        else:
            self.emit(label, tensor, self.cell(self.row), value, tuple(replace(r, kind="unroll") for r in inner), op)

    def moved(self, e: pr.Expr) -> pr.Expr:
        """An expression of the scores or the results over the new indices, in which each item has its own of rows, sums and
        scores, and what it reads beyond an end is 0."""
        ragged, cuts = self.ragged(), self.cuts()

        def own(x: pr.Expr) -> pr.Expr:
            if not isinstance(x, pr.Read):
                return x
            if x.tensor in self.owned:
                name, parts = self.owned[x.tensor]
                return pr.Read(name, self.cell(*parts), x.dtype)
            return replace(x, default=tile_copies.zero(x)) if x.default is None and used(x) & ragged else x
        return linear_subscripts(pr.substitute(pr.map_expr(e, own), {i: expression(c.whole) for i, c in cuts.items()}))

    def ragged(self) -> set[str]:
        """The indices that items run beyond their ends."""
        sizes = ((self.rows, self.by.rows), (self.keys, self.by.keys), (self.chain.column, self.by.columns))
        return {r.index for r, size in sizes if is_ragged(r.extent, size)}

    def below(self, r: pr.Range, but: str = "") -> pr.Expr:
        """Is an index before its end? but: a part that does not matter."""
        form = self.cuts()[r.index].whole
        form = replace(form, terms=tuple(x for x in form.terms if x[0] != but))
        return pr.Binary("<", expression(form), pr.Const(r.upper, I64), BOOL)

    def number(self, value: float) -> pr.Const:
        """A number of the scores' type."""
        return pr.Const(value, self.dtype)

    def exp(self, a: pr.Expr, b: pr.Expr) -> pr.Expr:
        """exp(a - b)"""
        return pr.Call("exp", (pr.Binary("-", a, b, self.dtype),), self.dtype)

    def steps(self, name: str, extent: int, size: int) -> tuple[pr.Range, pr.Range]:
        """The loops over the steps of a sum, and within one."""
        size = size if self.by.is_matrix else min(size, extent)  # beyond the end there are zeros
        return (pr.Range(self.names.index(f"{name}_step"), 0, -(-extent // size), "sequential"),
                pr.Range(self.names.index(f"{name}_at"), 0, size, "sequential"))

    def scratch(self, name: str, shape: tuple[int, ...], dtype: DType) -> pr.Tensor:
        """Local memory of a group."""
        shape = (*(r.extent for r in self.groups), *shape)
        return pr.Tensor(name, dtype, shape, (0,) * len(shape))

    def copy(self, read: pr.Read, cuts: Mapping[str, TiledIndex]) -> Tile:
        """The copy of what a group uses of an operand in an iteration of the loops around. Loops one after another copy to the
        same place."""
        forms = [f for sub in read.subscripts if (f := linear(sub)) is not None]
        box = pr.box(r for c in cuts.values() for r, _ in c.inner)
        rest = [substitute_tiled(f, cuts, "rest", constant=False) for f in forms]
        ends = [interval(f, box) for f in rest]
        base = [substitute_tiled(f, cuts, "base") for f in forms]
        low = tuple(replace(f, constant=f.constant + first) for f, (first, _) in zip(base, ends, strict=True))
        widths = tuple(last - first + 1 for first, last in ends)
        t = self.program.tensor(read.tensor)
        order, half = self._layout(forms, widths, cuts), self.by.is_matrix
        limits = tuple(self._limits(t, d, f) for d, f in enumerate(forms))
        operand = Operand(read, t, low, widths, limits, tuple(order), tuple(r for _, r in self.loops))
        if read not in self.tiles:
            name = self.names.label(f"{read.tensor}_tile")
            self.tensors.append(self.scratch(name, tuple(widths[d] for d in order), read.dtype))
            self.tiles[read] = Tile(name, read.dtype, self.groups, tuple(forms[d] for d in order),
                                    tuple(ends[d][0] for d in order))
        tile = self.tiles[read]
        most = matrix_tiles.BYTES // read.dtype.bytes if half else LANES
        flying = tile_copies.ELEMENTS_IN_FLIGHT * (4 if half else 1)  # which need no registers on their way
        self.add(tile_copies.copy(operand, self.names.label(f"{self.chain.score.name}_{tile.name}"), tile.name, self.groups,
                                  self.by.items, most, self.names, flying))
        return tile

    def _layout(self, forms: Sequence[Linear], widths: Sequence[int], cuts: Mapping[str, TiledIndex]) -> list[int]:
        """The order of an operand's dimensions in local memory: those that items have parts of last; for a matrix unit as in
        memory."""
        if self.by.is_matrix:
            return sorted(range(len(forms)), key=lambda d: widths[d] > 1)
        first = any(f.coefficient(self.chain.feature) for f in forms)
        tile = [i for i in cuts if i not in (self.chain.feature, self.chain.key)] + [self.chain.key] * first
        return sorted(range(len(forms)), key=lambda d: any(forms[d].coefficient(i) for i in tile))

    def _limits(self, t: pr.Tensor, d: int, form: Linear) -> tuple[int, int]:
        """The coordinates of a dimension that are copied; beyond the ends of sums there are none."""
        lower, upper = t.lower[d], t.lower[d] + t.shape[d]
        for r in (self.keys, self.features):
            if form.terms == ((r.index, 1),):
                upper = min(upper, form.constant + r.upper)
        return lower, upper

    def is_used(self, target: str) -> bool:
        """Does anything but the chain use a tensor?"""
        others = (s for s in self.program.statements if s.name not in self.chain.names)
        return target in self.program.arrays or any(target in (s.target, *(r.tensor for r in pr.reads(s))) for s in others)


def cells(ranges: Sequence[pr.Range]) -> tuple[pr.Expr, ...]:
    """The indices of ranges."""
    return tuple(pr.Index(r.index) for r in ranges)
