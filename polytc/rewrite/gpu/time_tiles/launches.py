"""The statements of one launch: tiles are loaded with what lies beside them, computed step by step, and stored.

    A_tile[i_group, i_item] = A[i_item + 48*i_group - 8]                    of the tensor's elements
    B_tile[i_group, i_item] = A_tile[i_group, i_item - 1] + ...             of the cells that later steps need
    ...
    A_next[i_item + 48*i_group - 8] = A_tile[i_group, i_item]               of the tile

Each phase has loops over the items of its own, which begin when all items have ended those before.
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

Ranges = tuple[pr.Range, ...]


@dataclass(frozen=True)
class Frame:
    """Where a launch runs. items, elements: of a group, and of an item, by dimension; grid: what all tiles together cover;
    rounds: of the launch; around: the `for` loop around it, if there is one, and its label; first: the number of its first round
    among all of the loop."""

    items: tuple[int, ...]
    elements: tuple[int, ...]
    grid: Ends
    rounds: int
    around: tuple[tuple[pr.Range, str], ...]
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
    """The statements and tensors of a launch. halo: cells of the buffers beside the tile; names: new ones; label: of which
    statements are called."""

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
        self.inside = (self.round, self.names.label(f"{self.label}_rounds"))
        self.copies = {b: self._copy(b) for b in self.reach.buffers}

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

    def meet(self) -> None:
        """What follows is in loops of its own over the items."""
        rank = self.stencils.rank
        self.lines = tuple(pr.Range(self.names.index(f"item{d}"), 0, n, kinds.item(rank - 1 - d))
                           for d, n in enumerate(self.frame.items))
        self.each = tuple(pr.Range(self.names.index(f"e{d}"), 0, n, "unroll") for d, n in enumerate(self.frame.elements))

    def place(self, d: int) -> Linear:
        """The cell of an item's element in the buffers, along a dimension."""
        if self.frame.elements[d] == 1:
            return Affine(0, ((self.lines[d].index, 1),))
        if d == self.stencils.rank - 1:
            return collected(((self.lines[d].index, 1), (self.each[d].index, self.frame.items[d])))
        return collected(((self.lines[d].index, self.frame.elements[d]), (self.each[d].index, 1)))

    def coordinate(self, d: int) -> Linear:
        """That cell's coordinate in the tensors."""
        mine = self.place(d)
        first = self.frame.grid[d][0] - self.halo[d][0]
        return collected((*mine.terms, (self.groups[d].index, self.tile[d])), first)

    def cell(self, buffer: str, offsets: Sequence[int] = ()) -> pr.Read:
        """An element of a buffer beside an item's."""
        t, moved = self.copies[buffer], offsets or (0,) * self.stencils.rank
        places = (self.place(d) for d in range(self.stencils.rank))
        at = [expression(replace(p, constant=p.constant + o)) for p, o in zip(places, moved, strict=True)]
        return pr.Read(t.name, (*(pr.Index(r.index) for r in self.groups), *at), t.dtype)

    def among(self, beside: Widths, more: Widths) -> tuple[pr.Expr, ...]:
        """The conditions under which an item's cell is in the tile or so near beside it in the last round, and more in those
        before. There are none for a tile alone."""
        found, last = list[pr.Expr](), self.frame.rounds - 1
        for d, ((a, b), (m, n)) in enumerate(zip(beside, more, strict=True)):
            low, high = self.halo[d][0] - a - m * last, self.halo[d][0] + self.tile[d] - 1 + b + n * last
            low_end, high_end = low + m * last, high - n * last
            at, s = self.place(d), self.round.index
            if not self.alone:
                found += [_test(collected((*at.terms, (s, -m)), at.constant), ">=", low)] if low_end > 0 else []
                found += [_test(collected((*at.terms, (s, n)), at.constant), "<=", high)] if high_end < self.frame.widths[d] - 1 else []
        return tuple(found)

    def within(self, box: Ends) -> tuple[pr.Expr, ...]:
        """The conditions under which an item's cell is in a box of coordinates."""
        found = list[pr.Expr]()
        for d, (first, last) in enumerate(box):
            lowest = self.frame.grid[d][0] - self.halo[d][0]
            highest = lowest + (self.groups[d].extent - 1) * self.tile[d] + self.frame.widths[d] - 1
            found += [_test(self.coordinate(d), ">=", first)] if lowest < first else []
            found += [_test(self.coordinate(d), "<=", last)] if highest > last else []
        return tuple(found)

    def add(self, label: str, target: pr.Read, value: pr.Expr, where: tuple[pr.Expr, ...],
            loops: tuple[tuple[pr.Range, str], ...] = ()) -> None:
        """One more statement, of all items. loops: `for` loops inside of the launch, and their labels."""
        loops = (*self.frame.around, *loops)
        own = (*self.lines, *(r for r in self.each if r.extent > 1))
        self.statements.append(pr.Statement(self.names.label(f"{self.label}_{label}"), target.tensor, target.subscripts, None, value,
                                            (*(r for r, _ in loops), *self.groups, *own), where, loops=tuple(x for _, x in loops)))

    def load(self, load: Load, source: Mapping[str, str]) -> None:
        """The first content of a buffer. source: the tensor that has the values of another one."""
        self.meet()
        at = tuple(expression(self.coordinate(d)) for d in range(self.stencils.rank))
        target, name = self.cell(load.buffer), load.outside
        value: pr.Expr = pr.Read(source.get(name, name), at, target.dtype)
        here = self.within(load.box) if load.inside != load.outside else ()
        if here:
            within = pr.Read(source.get(load.inside, load.inside), at, target.dtype)
            value = pr.Select(pr.conjunction(here), within if load.inside else pr.Const(0, target.dtype), value, target.dtype)
        last = self.frame.rounds - 1
        beside = tuple((a + last * m, b + last * n) for (a, b), (m, n) in zip(load.beside, self.reach.more, strict=True))
        self.add("load", target, value, (*self.among(beside, self.still), *self.within(self.grid_of(name))))

    @property
    def still(self) -> Widths:
        """No more cells in any round."""
        return ((0, 0),) * self.stencils.rank

    def grid_of(self, tensor: str) -> Ends:
        """What of a tensor the tiles cover."""
        t = self.program.tensor(tensor)
        return tuple((max(low, first), min(high, first + n - 1))
                     for (low, high), first, n in zip(self.frame.grid, t.lower, t.shape, strict=True))

    def compute(self, x: Instance) -> None:
        """One stage in one iteration of the rounds."""
        self.meet()
        loop, size = self.stencils.loop, self.stencils.round
        number = collected((*self.frame.first.terms, (self.round.index, 1)), self.frame.first.constant)
        at = collected(((i, size * c) for i, c in number.terms), size * number.constant + loop.lower + x.step)
        values: dict[str, pr.Expr] = {loop.index: expression(at)}
        for d, (index, more) in enumerate(x.stage.index):
            if index:
                form = self.coordinate(d)
                values[index] = expression(replace(form, constant=form.constant - more))
        near = {r: self._near(r, *to) for r, to in x.reads.items()}
        marked = pr.map_expr(x.stage.statement.value, lambda e: near.get(e, e) if isinstance(e, pr.Read) else e)
        value = normalise(pr.substitute(marked, values))
        where = (*self.among(x.beside, self.reach.more), *self.within(x.stage.domain))
        self.add(x.stage.statement.name, self.cell(x.target), value, where, (self.inside,))

    def _near(self, read: pr.Read, buffer: str, offsets: Sequence[int]) -> pr.Expr:
        """A read in local memory; where it may leave its tensor, what it has there."""
        value: pr.Expr = self.cell(buffer, offsets)
        if read.default is None:
            return value
        t, tests = self.program.tensor(read.tensor), list[pr.Expr]()
        for d, (o, first, n) in enumerate(zip(offsets, t.lower, t.shape, strict=True)):
            form = self.coordinate(d)
            tests += [_test(form, ">=", first - o)] if o < 0 else []
            tests += [_test(form, "<=", first + n - 1 - o)] if o > 0 else []
        return pr.Select(pr.conjunction(tuple(tests)), value, read.default, read.dtype) if tests else value

    def store(self, x: Store) -> None:
        """The tile of a tensor."""
        at = tuple(expression(self.coordinate(d)) for d in range(self.stencils.rank))
        value = self.cell(x.buffer)
        self.add("store", pr.Read(x.tensor, at, value.dtype), value, (*self.among(self.still, self.still), *self.within(x.box)))

    def make(self, source: Mapping[str, str], stores: Sequence[Store]) -> None:
        """All statements."""
        for load in self.reach.loads:
            self.load(load, source)
        for x in self.reach.instances:
            self.compute(x)
        self.meet()
        for s in stores:
            self.store(s)


def _test(form: Linear, op: str, number: int) -> pr.Expr:
    return pr.Binary(op, expression(replace(form, constant=0)), pr.Const(number - form.constant, I64), BOOL)
