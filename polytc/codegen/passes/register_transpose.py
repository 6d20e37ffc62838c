"""Vectors that walk across memory are read along it, a square block at a time, and transposed in registers.

    Y[0, ramp(0, 1, 4)] = X[ramp(0, 1, 4), 0];  Y[1, ramp(0, 1, 4)] = X[ramp(0, 1, 4), 1]       with X[4,4], Y[4,4]
    Y[2, ramp(0, 1, 4)] = X[ramp(0, 1, 4), 2];  Y[3, ramp(0, 1, 4)] = X[ramp(0, 1, 4), 3]
    ->  alloc private f32 X_rows3[4,4];  alloc private f32 X_rows2[4,4];  alloc private f32 X_rows[4,4]
        X_rows[0, ramp(0, 1, 4)] = X[0, ramp(0, 1, 4)];  X_rows[1, ramp(0, 1, 4)] = X[1, ramp(0, 1, 4)]
        ...
        Y[0, ramp(0, 1, 4)] = X_rows3[0, ramp(0, 1, 4)];  Y[1, ramp(0, 1, 4)] = X_rows3[1, ramp(0, 1, 4)]
        Y[2, ramp(0, 1, 4)] = X_rows3[2, ramp(0, 1, 4)];  Y[3, ramp(0, 1, 4)] = X_rows3[3, ramp(0, 1, 4)]

with as many vector loads in place of 16 of single elements. Copies stay loops (passes.unrolling), and rows of blocks are such:

    unroll for r in 0:8 { Y[r, ramp(0, 1, 8)] = X[ramp(0, 1, 8), r] }                           with X[8,8], Y[8,8]
    ->  alloc private f32 X_rows4[8,8];  ...;  alloc private f32 X_rows[8,8]
        unroll for row in 0:8 { X_rows[row, ramp(0, 1, 8)] = X[row, ramp(0, 1, 8)] }
        unroll for pair in 0:8:2 {
            X_rows2[pair, ramp(0, 1, 8)] =
                shuffle(X_rows[pair, ramp(0, 1, 8)], X_rows[pair + 1, ramp(0, 1, 8)], 0 8 2 10 4 12 6 14)
            X_rows2[pair + 1, ramp(0, 1, 8)] =
                shuffle(X_rows[pair, ramp(0, 1, 8)], X_rows[pair + 1, ramp(0, 1, 8)], 1 9 3 11 5 13 7 15)
        }
        ...
        unroll for r in 0:8 { Y[r, ramp(0, 1, 8)] = X_rows4[r, ramp(0, 1, 8)] }

The transposition takes log2(lanes) rounds of shuffles of pairs of rows: the round of distance d exchanges the blocks of d x d
elements beside the diagonal (Eklundh, A Fast Computer Method for Matrix Transposing, 1972). Guarantees: the same elements are
read, each at most once more, and none outside of what was read before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import TypeAlias

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.passes import unrolling
from polytc.machine import Machine
from polytc.program.names import claim
from polytc.program.scalars import BOOL

FEWEST = 4
"""Neighbouring vectors below which reading them element by element is no worse."""
WIDEST = 16
"""Lanes beyond which a block would not fit the registers."""
ROOM = 2
"""Times that an array of columns may have as many rows as there are columns."""

Copies: TypeAlias = tuple[loops.For, ...]
"""The loops of copies around a store, outermost first, without their bodies."""


@dataclass(frozen=True)
class _Column:
    """A load that walks across memory: dimension `across` is a ramp, the last index is rest + number + what the variables of
    `along` add, each as often as it is said. copies: the loops around it; outer: those that move other indices, too."""

    load: loops.Load
    across: int
    rest: loops.Expr
    number: int
    along: tuple[tuple[loops.For, int], ...]
    outer: Copies
    copies: Copies

    @property
    def key(self) -> tuple[object, ...]:
        return self.load.buffer, self.load.indices[:-1], self.rest, self.outer

    @cached_property
    def numbers(self) -> frozenset[int]:
        """Where all copies begin, from `rest`."""
        return frozenset(self.number + sum(v * c for v, (_, c) in zip(point, self.along, strict=True))
                         for point in unrolling.points(tuple(s for s, _ in self.along)))

    @property
    def ramp(self) -> loops.Ramp:
        found = self.load.indices[self.across]
        assert isinstance(found, loops.Ramp)
        return found

    def at(self, number: loops.Expr | int, active: int | None = None) -> tuple[loops.Expr, ...]:
        """The indices without the one along memory, and that of a row from `number` on. active: its lanes that count."""
        return *self.load.indices[:-1], loops.Ramp(_plus(self.rest, number), 1, self.load.lanes, active=active)


@dataclass(frozen=True)
class _Group:
    """Columns that differ in numbers alone, which leave no gap between them. blocks: the first number of each block, and how
    many columns it has; left: numbers that are read in columns."""

    columns: tuple[_Column, ...]
    numbers: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...]
    left: tuple[int, ...]

    @property
    def first(self) -> int:
        return self.numbers[0]

    @property
    def rows(self) -> int:
        return self.numbers[-1] + 1 - self.first

    def places(self) -> tuple[loops.Expr, int]:
        """Where the rows for each copy of the outer loops begin, one after another, and how many there are."""
        begin: loops.Expr = loops.const(0)
        size = self.rows
        for s in reversed(self.columns[0].outer):
            values = unrolling.values(s)
            step = -(-size // s.step)  # the array has room for a whole number of steps
            begin = _plus(begin, loops.binary("*", loops.Var(s.var), loops.const(step)), -values[0] * step)
            size = step * s.step * (len(values) - 1) + size
        return begin, size


@dataclass(frozen=True)
class _Facts:
    """Of a kernel. taken: names of its buffers; row, pair, block: variables of the loops of copies that are made; stored: what
    the kernel writes in columns."""

    machine: Machine
    taken: set[str]
    row: str
    pair: str
    block: str
    stored: frozenset[tuple[str, int]]


def transpose_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel with neighbouring columns read as rows."""
    stmts = list(traverse.walk_stmt(kernel.body))
    variables = {s.var for s in stmts if isinstance(s, loops.For)}
    stored = frozenset(x for s in stmts if isinstance(s, loops.Store) for x in _across(s))
    row, pair, block = (claim(name, variables) for name in ("row", "pair", "block"))
    facts = _Facts(machine, traverse.buffer_names(kernel), row, pair, block, stored)
    return replace(kernel, body=_inside(kernel.body, facts))


def _across(s: loops.Store) -> Iterator[tuple[str, int]]:
    """(buffer, dimension) that a vector store walks across memory. What is written in columns is read in columns: it may never
    leave its registers (codegen.passes.scalar_replacement)."""
    yield from ((s.buffer.name, d) for d, i in enumerate(s.indices[:-1]) if i.lanes > 1)


def _inside(s: loops.Stmt, facts: _Facts) -> loops.Stmt:
    if _is_straight(s):
        return loops.block(*_run([s], facts))
    match s:
        case loops.For() | loops.Alloc():
            return replace(s, body=_inside(s.body, facts))
        case loops.If():
            return replace(s, then=_inside(s.then, facts), orelse=_inside(s.orelse, facts) if s.orelse is not None else None)
        case loops.Block():
            runs = groupby(s.stmts, _is_straight)
            return loops.block(*(x for straight, run in runs for x in
                                 (_run(list(run), facts) if straight else (_inside(y, facts) for y in run))))
        case _:
            return s


def _is_straight(s: loops.Stmt) -> bool:
    """Is it a store, or copies of stores?"""
    return isinstance(s, loops.Store) or isinstance(s, loops.For) and s.kind == "unroll" and \
        all(map(_is_straight, _parts(s.body)))


def _run(stmts: Sequence[loops.Stmt], facts: _Facts) -> list[loops.Stmt]:
    """Stores, and copies of them, one after another, with their columns taken from transposed blocks."""
    stores = [(s, _heads(copies)) for x in stmts for s, copies in unrolling.statements(x) if isinstance(s, loops.Store)]
    written = {s.buffer.name for s, _ in stores}
    columns = dict.fromkeys(c for s, copies in stores for c in _columns(s.value, copies)
                            if c.load.buffer.name not in written and (c.load.buffer.name, c.across) not in facts.stored)
    groups = [g for g in _groups(list(columns), facts.machine) if g.blocks]
    if any(g.rows > ROOM * len(g.numbers) for g in groups):
        return _run([y for x in stmts for y in _parts(unrolling.written_out(x))], facts)
    place: dict[tuple[loops.Load, Copies], loops.Load] = {}
    before: list[loops.Stmt] = []
    arrays: list[loops.Buffer] = []
    for g in groups:
        made = _Rounds(g, facts)
        before += _parts(made.statement())
        arrays += made.arrays
        place |= {(c.load, c.copies): made.row(c) for c in g.columns if not c.numbers.isdisjoint(made.numbers)}
    if not place:
        return list(stmts)
    result = loops.block(*before, *(_placed(s, (), place) for s in stmts))
    for array in arrays:
        result = loops.Alloc(array, result)
    return [result]


def _heads(copies: Copies) -> Copies:
    return tuple(replace(s, body=loops.Block(())) for s in copies)


def _parts(s: loops.Stmt) -> tuple[loops.Stmt, ...]:
    return s.stmts if isinstance(s, loops.Block) else (s,)


def _placed(s: loops.Stmt, copies: Copies, place: dict[tuple[loops.Load, Copies], loops.Load]) -> loops.Stmt:
    """A statement with rows of arrays in place of columns."""
    def on_expr(e: loops.Expr) -> loops.Expr:
        return place.get((e, copies), e) if isinstance(e, loops.Load) else e
    match s:
        case loops.Store():
            return replace(s, value=traverse.map_expr(s.value, on_expr))
        case loops.For():
            return replace(s, body=_placed(s.body, (*copies, *_heads((s,))), place))
        case loops.Block():
            return loops.Block(tuple(_placed(x, copies, place) for x in s.stmts))
        case _:
            return s


# ---- columns

def _columns(e: loops.Expr, copies: Copies) -> Iterator[_Column]:
    """The loads of a value that walk across memory and certainly happen."""
    if isinstance(e, loops.Load):
        wide = [d for d, i in enumerate(e.indices) if i.lanes > 1]
        gathers = any(isinstance(x, loops.Load) for i in e.indices for x in traverse.walk_expr(i))
        ramp = e.indices[wide[0]] if len(wide) == 1 and wide[0] < len(e.indices) - 1 else None
        single = isinstance(ramp, loops.Ramp) and (ramp.active is None or isinstance(ramp.active, int))
        if single and not gathers and e.dtype != BOOL:
            yield _column(e, wide[0], copies)
    elif not isinstance(e, loops.Select):
        for o in traverse.operands(e):
            yield from _columns(o, copies)


def _column(e: loops.Load, across: int, copies: Copies) -> _Column:
    terms = linear_forms.linear(e.indices[-1])
    elsewhere = frozenset[str]().union(*map(traverse.variables, e.indices[:-1]))
    factors = {a.name: c for a, c in terms.items() if isinstance(a, loops.Var)}
    along = tuple((s, factors[s.var]) for s in copies if s.var in factors and s.var not in elsewhere)
    moving = {s.var for s, _ in along}
    rest: linear_forms.Terms = {a: c for a, c in terms.items() if a != linear_forms.ONE
                                and not (isinstance(a, loops.Var) and a.name in moving)}
    return _Column(e, across, linear_forms.build(rest), terms.get(linear_forms.ONE, 0), along,
                   tuple(s for s in copies if s.var in elsewhere), copies)


def _groups(columns: Sequence[_Column], machine: Machine) -> Iterator[_Group]:
    """The columns of which blocks may be made together."""
    by_key: dict[tuple[object, ...], list[_Column]] = {}
    for c in columns:
        by_key.setdefault(c.key, []).append(c)
    for found in by_key.values():
        found.sort(key=lambda c: min(c.numbers))
        together: list[_Column] = []
        for c in found:
            if together and min(c.numbers) > max(max(t.numbers) for t in together) + 1:
                yield _group(together, machine)
                together = []
            together.append(c)
        yield _group(together, machine)


def _group(columns: Sequence[_Column], machine: Machine) -> _Group:
    """Columns with their blocks: neighbouring ones, as many as they have lanes; fewer where the last lanes of a row may be left
    out."""
    numbers = tuple(sorted(frozenset[int]().union(*(c.numbers for c in columns))))
    lanes, rest = columns[0].load.lanes, numbers
    blocks = []
    while rest:
        block = [n for i, n in enumerate(rest[:lanes]) if n == rest[0] + i]
        rest = rest[len(block):]
        if FEWEST <= lanes <= WIDEST and (len(block) == lanes or (machine.masked and len(block) >= FEWEST)):
            blocks.append((block[0], len(block)))
    inside = {n for first, count in blocks for n in range(first, first + count)}
    left = {n for c in columns if not c.numbers.isdisjoint(inside) for n in c.numbers - inside}
    return _Group(tuple(columns), numbers, tuple(blocks), tuple(sorted(left)))


# ---- blocks

class _Rounds:
    """What reads the rows of a group's blocks and transposes them. arrays: of the rows, one behind each round; the last one has
    the columns of all blocks, for each copy of the outer loops."""

    def __init__(self, group: _Group, facts: _Facts) -> None:
        self.group, self.facts, self.column = group, facts, group.columns[0]
        self.lanes = self.column.load.lanes
        self.begin, size = group.places()
        rounds = self.lanes.bit_length()
        self.arrays = [self._array(size if n == rounds - 1 else self.lanes) for n in range(rounds)]
        self.numbers = {n for first, count in group.blocks for n in range(first, first + count)}

    def _array(self, rows: int) -> loops.Buffer:
        buffer = self.column.load.buffer
        return loops.Buffer(claim(f"{buffer.name}_rows", self.facts.taken), buffer.dtype, (rows, self.lanes), "private")

    def row(self, c: _Column) -> loops.Load:
        """Where a column is."""
        moved = (loops.binary("*", loops.Var(s.var), loops.const(factor)) for s, factor in c.along)
        return self._load(self.arrays[-1], _plus(self.begin, c.number - self.group.first, *moved))

    def statement(self) -> loops.Stmt:
        """All of it, in copies."""
        most = unrolling.most_written_out(self.facts.machine)
        outer = self.column.outer
        parts = [unrolling.nested(outer, self._blocks(first, count, times)) for first, count, times in self._runs()]
        left = unrolling.nested(outer, loops.block(*map(self._left, self.group.left)))
        return loops.block(*(unrolling.written_out(s, most) for s in parts), unrolling.written_out(left))

    def _runs(self) -> Iterator[tuple[int, int, int]]:
        """(first number, columns of a block, neighbouring blocks of as many)"""
        for (count, _), run in groupby(enumerate(self.group.blocks), lambda x: (x[1][1], x[1][0] - x[0] * x[1][1])):
            blocks = [block for _, block in run]
            yield blocks[0][0], count, len(blocks)

    def _blocks(self, first: int, count: int, times: int) -> loops.Stmt:
        return _each(self.facts.block, times * count, count, lambda n: loops.block(
            self._rows(_plus(n, first), count), *self._all_rounds(_plus(self.begin, n, first - self.group.first), count)))

    def _left(self, number: int) -> loops.Stmt:
        """A column that no block has."""
        e = self.column.load
        value = replace(e, indices=(*e.indices[:-1], _plus(self.column.rest, number)))
        return self._store(self.arrays[-1], _plus(self.begin, number - self.group.first), value)

    def _rows(self, number: loops.Expr, count: int) -> loops.Stmt:
        """The rows of a block in registers."""
        c, lanes, dtype = self.column, self.lanes, self.column.load.dtype

        def load(k: loops.Expr) -> loops.Stmt:
            indices = list(c.at(number, count if count < lanes else None))
            indices[c.across] = _plus(c.ramp.base, loops.binary("*", k, loops.const(c.ramp.stride)))
            return self._store(self.arrays[0], k, loops.Load(c.load.buffer, tuple(indices), dtype, lanes))
        reach, none = c.ramp.reach, loops.Const(0, dtype, lanes)
        return loops.block(_each(self.facts.row, reach, 1, load), _each(
            self.facts.row, lanes - reach, 1, lambda k: self._store(self.arrays[0], _plus(k, reach), none)))

    def _all_rounds(self, begin: loops.Expr, count: int) -> Iterator[loops.Stmt]:
        """begin, count: where the columns of the block lie in the last array."""
        for n, (old, new) in enumerate(pairwise(self.arrays)):
            last = new is self.arrays[-1]
            yield self._round(1 << n, old, new, begin if last else loops.const(0), count if last else self.lanes)

    def _round(self, distance: int, old: loops.Buffer, new: loops.Buffer, begin: loops.Expr, rows: int) -> loops.Stmt:
        """Rows of which each has from two others, `distance` apart, what has its place in blocks of that size; `rows` of them,
        from `begin` on."""
        lanes = self.lanes
        lower = tuple(x if x & distance == 0 else lanes + x - distance for x in range(lanes))
        upper = tuple(x + distance if x & distance == 0 else lanes + x for x in range(lanes))

        def half(first: loops.Expr, at: int, order: tuple[int, ...]) -> loops.Stmt:
            def one(k: loops.Expr) -> loops.Stmt:
                a, b = (self._load(old, _plus(first, k, n)) for n in (0, distance))
                return self._store(new, _plus(begin, first, k, at), loops.Shuffle(a, b, order, old.dtype, lanes))
            return _each(self.facts.row, min(distance, rows - at), 1, one)
        return _each(self.facts.pair, lanes, 2 * distance,
                     lambda first: loops.block(half(first, 0, lower), half(first, distance, upper)))

    def _load(self, array: loops.Buffer, row: loops.Expr) -> loops.Load:
        return loops.Load(array, (row, loops.Ramp(loops.const(0), 1, self.lanes)), array.dtype, self.lanes)

    def _store(self, array: loops.Buffer, row: loops.Expr, value: loops.Expr) -> loops.Store:
        return loops.Store(array, (row, loops.Ramp(loops.const(0), 1, self.lanes)), value)


def _each(var: str, end: int, step: int, body: Callable[[loops.Expr], loops.Stmt]) -> loops.Stmt:
    """The body for 0, step, ... below `end`: copies, itself where there is one, or nothing."""
    if end <= 0:
        return loops.Block(())
    if end <= step:
        return body(loops.const(0))
    return loops.For(var, loops.const(0), loops.const(end), step, body(loops.Var(var)), "unroll")


def _plus(*parts: loops.Expr | int) -> loops.Expr:
    """The sum, in normal form."""
    total: linear_forms.Terms = {}
    for x in parts:
        total = linear_forms.added(total, linear_forms.linear(loops.const(x) if isinstance(x, int) else x), 1)
    return linear_forms.build(total)
