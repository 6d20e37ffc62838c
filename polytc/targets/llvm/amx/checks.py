"""Results of products of parts (program.calls) that are NaN, as numbers without parts make them, are made again of the f32.

    t += tile A * tile B of all parts;  R = t
    ->  ...;  if a number of R is NaN { for n { for r, k { R[n, v] = R[n, v] + dot_f32(A[n, r, k], B[r, k, v]) } } }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polytc.codegen import loops
from polytc.program.scalars import U32
from polytc.targets.llvm import float_parts, ir, memory
from polytc.targets.llvm.amx.cells import EDGE, WORD, Cell, Chunk, Operand
from polytc.targets.llvm.amx.loops import Nest, iterate, results_of, words_at
from polytc.targets.llvm.function_state import Body

INFINITE = 0x7F800000
"""The bits of an f32 above which it is a NaN, without its sign."""
KEPT = EDGE * EDGE * WORD
"""Bytes of a tile of results that is kept elsewhere."""
ROW, TILE = ".row", ".tile"
"""The variables of loops over the rows of a tile, and over tiles."""


@dataclass(frozen=True)
class _Run:
    """Tiles of results that differ in their places alone: how far the next one is in the array of results and in the words of
    rows and columns, in elements. first: the number of the first of them among all tiles of results."""

    chunk: Chunk
    first: int
    count: int = 1
    place: int = 0
    row: int = 0
    column: int = 0

    def with_next(self, chunk: Chunk) -> _Run | None:
        """The run with one tile more; None if that lies elsewhere."""
        here, there = self.chunk.cell, chunk.cell
        if self.count == 1:
            place, row, column = there.place - here.place, _distance(here.row, there.row), _distance(here.column, there.column)
        else:
            place, row, column = self.place, self.row, self.column
        moved = tuple(_moved(c, place * self.count, row * self.count, column * self.count) for c in self.chunk.cells)
        if moved != tuple(map(_placed, chunk.cells)) or (self.chunk.place_step, self.chunk.row_step) != (
                chunk.place_step, chunk.row_step):
            return None
        return replace(self, count=self.count + 1, place=place, row=row, column=column)

    @property
    def tiles(self) -> tuple[str, range]:
        return TILE, range(self.count)


def _distance(a: Operand, b: Operand) -> int:
    return b.parts[0][1].constant - a.parts[0][1].constant


def _placed(c: Cell) -> tuple[object, ...]:
    """What tells a cell from others."""
    return c.store.buffer, c.place, c.dot, c.row, c.column, c.lanes, c.active, c.first


def _moved(c: Cell, place: int, row: int, column: int) -> tuple[object, ...]:
    return _placed(replace(c, place=c.place + place, row=c.row.moved(row), column=c.column.moved(column)))


def _runs(results: Sequence[Chunk]) -> list[_Run]:
    """All tiles, in as few runs as there can be."""
    found = list[_Run]()
    for n, chunk in enumerate(results):
        longer = found[-1].with_next(chunk) if found else None
        if longer is not None:
            found[-1] = longer
        else:
            found.append(_Run(chunk, n))
    return found


def check(body: Body, nest: Nest, results: Sequence[Chunk], kept: ir.Value | None) -> None:
    """Where a result is a NaN, all are made again of the f32 whose parts were multiplied. results: the rows of each tile; kept:
    where the tiles are now, one behind the other, if the arrays still hold what the sums began with."""
    fn, label = body.fn, body.fn.fresh
    again, right, end = label("again"), label("right"), label("checked")
    runs, worst = _runs(results), ir.constant(0, f"<{EDGE} x i32>")
    for run in runs:
        worst = _worst(body, run, kept, worst)
    bits = fn.call(f"llvm.vector.reduce.umax.v{EDGE}i32", "i32", (worst,))
    odd = fn.compare("icmp ugt", bits, ir.constant(INFINITE, "i32"))
    fn.do(f"br {odd}, label %{again}, label %{right}")
    fn.start(again)
    for run in runs:
        _directly(body, nest, run, zero=kept is None)
    fn.do(f"br label %{end}")
    fn.start(right)
    for run in runs if kept is not None else ():
        _copied(body, run, kept)
    fn.do(f"br label %{end}")
    fn.start(end)


def _worst(body: Body, run: _Run, kept: ir.Value | None, worst: ir.Value) -> ir.Value:
    """The largest bits, in each lane that counts, of `worst` and the rows of some tiles."""
    fn, cell = body.fn, run.chunk.cell
    lanes, type_ = cell.lanes, ir.vector("i32", cell.lanes)
    counts = ir.constants([0x7FFFFFFF if lane < cell.active else 0 for lane in range(lanes)], "i32")

    def row(held: list[ir.Value]) -> list[ir.Value]:
        where = _row(body, run, kept)
        size = fn.binary("and", fn.emit(type_, f"load {type_}, {where}, align 4"), counts)
        wide = size if lanes == EDGE else fn.shuffle(size, ir.constant(0, type_), [min(n, lanes) for n in range(EDGE)])
        return [fn.intrinsic("umax", (held[0], wide))]
    return iterate(body, (run.tiles, (ROW, range(run.chunk.high))), [worst], row)[0]


def _directly(body: Body, nest: Nest, run: _Run, *, zero: bool) -> None:
    """The rows of some tiles, as sums of products of f32. zero: they begin with zeros."""
    fn, cell = body.fn, run.chunk.cell
    lanes, there = cell.lanes, memory.first_lanes(cell.active, cell.lanes)
    steps = [(var, range(values.start, values.stop)) for var, values in nest]
    along_row = tuple((loops.Var(v), n) for v, n in ((ROW, run.chunk.row_step), (TILE, run.row)) if n)
    along_column = ((loops.Var(TILE), run.column),) if run.column else ()

    def step(held: list[ir.Value]) -> list[ir.Value]:
        row = [fn.splat(memory.load(fn, U32, words_at(body, p, *along_row)), lanes) for p in cell.row.parts]
        column = [memory.load_masked(fn, U32, words_at(body, p, *along_column), there) for p in cell.column.parts]
        args = (*row, *column) if cell.first else (*column, *row)
        return [float_parts.dot(fn, cell.dot.name, held[0], args, body.flags)]

    def each(_: list[ir.Value]) -> list[ir.Value]:
        where, type_ = _row(body, run), ir.vector("float", lanes)
        start = ir.constant(0.0, type_) if zero else fn.emit(type_, f"load {type_}, {where}, align 4")
        total, = iterate(body, steps, [start], step)
        fn.do(f"store {total}, {where}, align 4", total)
        return []
    iterate(body, (run.tiles, (ROW, range(run.chunk.high))), [], each)


def _copied(body: Body, run: _Run, kept: ir.Value | None) -> None:
    """The rows of some tiles into their array."""
    fn, type_ = body.fn, ir.vector("float", run.chunk.cell.lanes)

    def row(_: list[ir.Value]) -> list[ir.Value]:
        value = fn.emit(type_, f"load {type_}, {_row(body, run, kept)}, align 4")
        fn.do(f"store {value}, {_row(body, run)}, align 4", value)
        return []
    iterate(body, (run.tiles, (ROW, range(run.chunk.high))), [], row)


def _row(body: Body, run: _Run, kept: ir.Value | None = None) -> ir.Value:
    """Where the row of the variable ROW of the tile TILE is, in its array or where all tiles are kept."""
    fn = body.fn
    if kept is None:
        at, stride = results_of(body, run.chunk)
        start, next_one = 0, run.place * WORD
    else:
        at, stride = kept, EDGE * WORD
        start, next_one = run.first * KEPT, KEPT
    distance = fn.binary("mul nsw", body.values[ROW], ir.constant(stride, "i64"))
    if run.count > 1:
        tile = fn.binary("mul nsw", body.values[TILE], ir.constant(next_one, "i64"))
        distance = fn.binary("add nsw", distance, tile)
    if start:
        distance = fn.binary("add nsw", distance, ir.constant(start, "i64"))
    return fn.emit("ptr", f"getelementptr inbounds i8, {at}, {distance}")
