"""The statements of one launch: tiles are loaded with what lies beside them, computed round by round, and stored.

    A_tile[g0, item0] = A[item0 + 48*g0 - 8]                                        of the tensor's elements
    for round in 0:4 {
        B_tile[g0, item0] = A_tile[g0, item0 - 1] + A_tile[g0, item0 + 1]           of the cells that later rounds need
        A_tile[g0, item0] = B_tile[g0, item0 - 1] + B_tile[g0, item0 + 1]
    }
    A_next[item0 + 48*g0 - 8] = A_tile[g0, item0]                                   of the tile

The `for` loop runs inside of the launch, as its range says. Each stage has loops over the items of its own, which begin when
all items have ended those before. Along memory neighbouring items take neighbouring cells, along other dimensions an item takes
cells that are neighbours, which share what they read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.affine import Affine, Linear
from polytc.program.linear import collected, expression, normalise
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64
from polytc.rewrite.gpu.time_tiles.geometry import Instance, Load, Reach, Widths
from polytc.rewrite.gpu.time_tiles.stencils import Ends, Stencils

Labelled = tuple[tuple[pr.Range, str], ...]
"""`for` loops, outermost first, with their labels."""


@dataclass(frozen=True)
class Frame:
    """Where a launch runs. items, elements: of a group, and of an item, by dimension; grid: what all tiles together cover;
    rounds: of the launch; around: the `for` loop around it, if there is one; first: the number of its first round among all of
    the loop."""

    items: tuple[int, ...]
    elements: tuple[int, ...]
    grid: Ends
    rounds: int
    around: Labelled
    first: Linear

    @property
    def widths(self) -> tuple[int, ...]:
        """Cells of a buffer."""
        return tuple(n * e for n, e in zip(self.items, self.elements, strict=True))


@dataclass(frozen=True)
class Store:
    """What of a buffer goes to a tensor. box: within."""

    buffer: str
    tensor: str
    box: Ends


@dataclass
class Launch:
    """The statements and tensors of a launch. halo: cells of the buffers beside the tile; names: new ones; label: with what the
    names of statements begin."""

    program: pr.Program
    stencils: Stencils
    reach: Reach
    frame: Frame
    halo: Widths
    names: Names
    label: str
    tensors: list[pr.Tensor] = field(default_factory=list)
    statements: list[pr.Statement] = field(default_factory=list)

    def __post_init__(self) -> None:
        rank = self.stencils.rank
        self.tile = tuple(w - a - b for w, (a, b) in zip(self.frame.widths, self.halo, strict=True))
        counts = [ceil((high - low + 1) / t) for (low, high), t in zip(self.frame.grid, self.tile, strict=True)]
        self.groups = tuple(pr.Range(self.names.index(f"g{d}"), 0, n, kinds.group(rank - 1 - d)) for d, n in enumerate(counts))
        self.round = pr.Range(self.names.index("round"), 0, self.frame.rounds, "sequential")
        self.rounds: Labelled = ((self.round, self.names.label(f"{self.label}_rounds")),)
        self.copies = {b: self._copy(b) for b in self.reach.buffers}

    def make(self, source: Mapping[str, str], stores: Sequence[Store]) -> None:
        """All statements. source: the tensor that has the values of another one."""
        for load in self.reach.loads:
            self._load(load, source)
        for x in self.reach.instances:
            self._compute(x)
        self._meet()
        for s in stores:
            self._store(s)

    def covered(self, tensor: str) -> Ends:
        """What of a tensor the tiles cover."""
        t = self.program.tensor(tensor)
        return tuple((max(low, first), min(high, first + n - 1))
                     for (low, high), first, n in zip(self.frame.grid, t.lower, t.shape, strict=True))

    @property
    def alone(self) -> bool:
        """Is there one tile?"""
        return all(r.extent == 1 for r in self.groups)

    def _copy(self, buffer: str) -> pr.Tensor:
        """The tensor in local memory that is a buffer."""
        like = self.program.tensor(buffer)
        shape = (*(r.extent for r in self.groups), *self.frame.widths)
        made = pr.Tensor(self.names.label(f"{buffer}_tile"), like.dtype, shape, (0,) * len(shape))
        self.tensors.append(made)
        return made

    # ---- statements

    def _meet(self) -> None:
        """What follows is in loops of its own over the items."""
        last, index = self.stencils.rank - 1, self.names.index
        self.items = tuple(pr.Range(index(f"item{d}"), 0, n, kinds.item(last - d)) for d, n in enumerate(self.frame.items))
        self.each = tuple(pr.Range(index(f"e{d}"), 0, n, "unroll") for d, n in enumerate(self.frame.elements))

    def _add(self, label: str, target: pr.Read, value: pr.Expr, where: tuple[pr.Expr, ...], inside: Labelled = ()) -> None:
        """One more statement, of all items. inside: `for` loops inside of the launch."""
        around = (*self.frame.around, *inside)
        ranges = (*(r for r, _ in around), *self.groups, *self.items, *(r for r in self.each if r.extent > 1))
        name, labels = self.names.label(f"{self.label}_{label}"), tuple(x for _, x in around)
        self.statements.append(pr.Statement(name, target.tensor, target.subscripts, None, value, ranges, where, loops=labels))

    def _load(self, load: Load, source: Mapping[str, str]) -> None:
        """The first content of a buffer: what its tensor has, or elsewhere than in its box another one; nothing where that is
        written before it is read."""
        self._meet()
        target, at = self._cell(load.buffer), self._coordinates()

        def read(tensor: str) -> pr.Expr:
            return pr.Read(source.get(tensor, tensor), at, target.dtype)
        here = self._within(load.box) if load.inside != load.outside else ()
        value = read(load.outside)
        if here:
            within = read(load.inside) if load.inside else pr.Const(0, target.dtype)
            value = pr.Select(pr.conjunction(here), within, value, target.dtype)
        before = self.frame.rounds - 1
        beside = tuple((a + before * m, b + before * n) for (a, b), (m, n) in zip(load.beside, self.reach.more, strict=True))
        self._add("load", target, value, (*self._among(beside), *self._within(self.covered(load.outside))))

    def _compute(self, x: Instance) -> None:
        """One stage in one iteration of the rounds."""
        self._meet()
        loop, size, first = self.stencils.loop, self.stencils.round, self.frame.first
        number = collected((*first.terms, (self.round.index, 1)), first.constant)
        step = collected(((i, size * c) for i, c in number.terms), size * number.constant + loop.lower + x.step)
        values: dict[str, pr.Expr] = {loop.index: expression(step)}
        for d, (index, more) in enumerate(x.stage.index):
            if index:
                values[index] = expression(_more(self._coordinate(d), -more))
        near = {r: self._near(r, x.stage.domain, *to) for r, to in x.reads.items()}
        marked = pr.map_expr(x.stage.statement.value, lambda e: near.get(e, e) if isinstance(e, pr.Read) else e)
        where = (*self._among(x.beside, self.reach.more), *self._within(x.stage.domain))
        value = normalise(pr.substitute(marked, values))
        self._add(x.stage.statement.name, self._cell(x.target), value, where, self.rounds)

    def _near(self, read: pr.Read, domain: Ends, buffer: str, offsets: Sequence[int]) -> pr.Expr:
        """A read in local memory; where it leaves its tensor, what it has there. domain: of the stage that reads."""
        value, t, tests = self._cell(buffer, offsets), self.program.tensor(read.tensor), list[pr.Expr]()
        for d, ((low, high), o, first, n) in enumerate(zip(domain, offsets, t.lower, t.shape, strict=True)):
            tests += [_test(self._coordinate(d), ">=", first - o)] if low + o < first else []
            tests += [_test(self._coordinate(d), "<=", first + n - 1 - o)] if high + o >= first + n else []
        if read.default is None or not tests:
            return value
        return pr.Select(pr.conjunction(tuple(tests)), value, read.default, read.dtype)

    def _store(self, x: Store) -> None:
        """The tile of a tensor."""
        value = self._cell(x.buffer)
        tile: Widths = ((0, 0),) * self.stencils.rank
        target = pr.Read(x.tensor, self._coordinates(), value.dtype)
        self._add("store", target, value, (*self._among(tile), *self._within(x.box)))

    # ---- places

    def _place(self, d: int) -> Linear:
        """The cell of an item's element in the buffers, along a dimension."""
        item, each = self.items[d].index, self.each[d].index
        if self.frame.elements[d] == 1:
            return Affine(0, ((item, 1),))
        along = d == self.stencils.rank - 1
        return collected(((item, 1), (each, self.frame.items[d])) if along else ((item, self.frame.elements[d]), (each, 1)))

    def _coordinate(self, d: int) -> Linear:
        """That cell's coordinate in the tensors."""
        return collected((*self._place(d).terms, (self.groups[d].index, self.tile[d])), self.frame.grid[d][0] - self.halo[d][0])

    def _coordinates(self) -> tuple[pr.Expr, ...]:
        return tuple(expression(self._coordinate(d)) for d in range(self.stencils.rank))

    def _cell(self, buffer: str, offsets: Sequence[int] = ()) -> pr.Read:
        """An element of a buffer beside an item's."""
        t, moved = self.copies[buffer], offsets or (0,) * self.stencils.rank
        at = [expression(_more(self._place(d), o)) for d, o in enumerate(moved)]
        return pr.Read(t.name, (*(pr.Index(r.index) for r in self.groups), *at), t.dtype)

    # ---- conditions

    def _among(self, beside: Widths, more: Widths = ()) -> tuple[pr.Expr, ...]:
        """The conditions under which an item's cell is in the tile, or so near beside it in the last round, and so much more in
        each before. There are none for a tile alone."""
        found, before, s = list[pr.Expr](), self.frame.rounds - 1, self.round.index
        for d, ((a, b), (m, n)) in enumerate(zip(beside, more or ((0, 0),) * len(beside), strict=True)):
            first, last = self.halo[d][0] - a, self.halo[d][0] + self.tile[d] - 1 + b       # of the last round
            lower, upper = (collected((*self._place(d).terms, (s, c))) for c in (-m, n))
            found += [_test(lower, ">=", first - m * before)] if first > 0 else []
            found += [_test(upper, "<=", last + n * before)] if last < self.frame.widths[d] - 1 else []
        return () if self.alone else tuple(found)

    def _within(self, box: Ends) -> tuple[pr.Expr, ...]:
        """The conditions under which an item's cell is in a box of coordinates."""
        found = list[pr.Expr]()
        for d, (first, last) in enumerate(box):
            lowest = self.frame.grid[d][0] - self.halo[d][0]
            highest = lowest + (self.groups[d].extent - 1) * self.tile[d] + self.frame.widths[d] - 1
            found += [_test(self._coordinate(d), ">=", first)] if lowest < first else []
            found += [_test(self._coordinate(d), "<=", last)] if highest > last else []
        return tuple(found)


def _more(form: Linear, number: int) -> Linear:
    return replace(form, constant=form.constant + number)


def _test(form: Linear, op: str, number: int) -> pr.Expr:
    return pr.Binary(op, expression(replace(form, constant=0)), pr.Const(number - form.constant, I64), BOOL)
