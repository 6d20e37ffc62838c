"""Results of products of parts (program.words) that are NaN, as numbers without parts make them, are made again of the f32.

    t += tile A * tile B of all parts;  R = t
    ->  ...;  if a number of R is NaN { for n { for r, k { R[n, v] = R[n, v] + dot_f32(A[n, r, k], B[r, k, v]) } } }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polytc.codegen import loops
from polytc.program.scalars import U32
from polytc.targets.llvm import float_parts, ir, memory
from polytc.targets.llvm.amx_cells import EDGE, WORD, Chunk
from polytc.targets.llvm.amx_loops import Nest, iterate, results_of, words_at
from polytc.targets.llvm.expressions import Body

INFINITE = 0x7F800000
"""The bits of an f32 above which it is a NaN, without its sign."""
ROW = ".row"
"""The variable of loops over the rows of a tile."""


def check(body: Body, nest: Nest, results: Sequence[tuple[int, Chunk]], kept: Mapping[int, ir.Value]) -> None:
    """Where a result is a NaN, all are made again of the f32 whose parts were multiplied. results: the numbers of tiles, and
    their rows; kept: where the results are now, by these numbers, if the arrays still hold what the sums began with."""
    fn, label = body.fn, body.fn.fresh
    again, right, end = label("again"), label("right"), label("checked")
    worst = ir.constant(0, f"<{EDGE} x i32>")
    for number, chunk in results:
        worst = _worst(body, chunk, *((kept[number], EDGE * WORD) if kept else results_of(body, chunk)), worst)
    bits = fn.call(f"llvm.vector.reduce.umax.v{EDGE}i32", "i32", (worst,))
    odd = fn.compare("icmp ugt", bits, ir.constant(INFINITE, "i32"))
    fn.do(f"br {odd}, label %{again}, label %{right}")
    fn.start(again)
    for _, chunk in results:
        _directly(body, nest, chunk, zero=not kept)
    fn.do(f"br label %{end}")
    fn.start(right)
    for number, chunk in results if kept else ():
        _copied(body, chunk, kept[number])
    fn.do(f"br label %{end}")
    fn.start(end)


def _worst(body: Body, chunk: Chunk, at: ir.Value, stride: int, worst: ir.Value) -> ir.Value:
    """The largest bits, in each lane that counts, of `worst` and the rows of a tile."""
    fn, lanes = body.fn, chunk.cell.lanes
    type_ = ir.vector("i32", lanes)
    counts = ir.constants([0x7FFFFFFF if lane < chunk.cell.active else 0 for lane in range(lanes)], "i32")

    def row(held: list[ir.Value]) -> list[ir.Value]:
        where = _row(body, at, stride)
        size = fn.binary("and", fn.emit(type_, f"load {type_}, {where}, align 4"), counts)
        wide = size if lanes == EDGE else fn.shuffle(size, ir.constant(0, type_), [min(n, lanes) for n in range(EDGE)])
        return [fn.intrinsic("umax", (held[0], wide))]
    return iterate(body, ((ROW, range(chunk.high)),), [worst], row)[0]


def _directly(body: Body, nest: Nest, chunk: Chunk, *, zero: bool) -> None:
    """The rows of a tile, as sums of products of f32. zero: they begin with zeros."""
    fn, cell = body.fn, chunk.cell
    lanes, (at, stride) = cell.lanes, results_of(body, chunk)
    steps = [(var, range(values.start, values.stop)) for var, values in nest]

    moved, there = (loops.Var(ROW), chunk.row_step), memory.first_lanes(cell.active, lanes)

    def step(held: list[ir.Value]) -> list[ir.Value]:
        row = [fn.splat(memory.load(fn, U32, words_at(body, p, moved)), lanes) for p in cell.row.parts]
        column = [memory.load_masked(fn, U32, words_at(body, p), there) for p in cell.column.parts]
        args = (*row, *column) if cell.first else (*column, *row)
        return [float_parts.dot(fn, cell.dot.name, held[0], args, body.flags)]

    def each(_: list[ir.Value]) -> list[ir.Value]:
        where, type_ = _row(body, at, stride), ir.vector("float", lanes)
        start = ir.constant(0.0, type_) if zero else fn.emit(type_, f"load {type_}, {where}, align 4")
        total, = iterate(body, steps, [start], step)
        fn.do(f"store {total}, {where}, align 4", total)
        return []
    iterate(body, ((ROW, range(chunk.high)),), [], each)


def _copied(body: Body, chunk: Chunk, kept: ir.Value) -> None:
    """The rows of a tile into their array."""
    fn, (at, stride) = body.fn, results_of(body, chunk)
    type_ = ir.vector("float", chunk.cell.lanes)

    def row(_: list[ir.Value]) -> list[ir.Value]:
        value = fn.emit(type_, f"load {type_}, {_row(body, kept, EDGE * WORD)}, align 4")
        fn.do(f"store {value}, {_row(body, at, stride)}, align 4", value)
        return []
    iterate(body, ((ROW, range(chunk.high)),), [], row)


def _row(body: Body, at: ir.Value, stride: int) -> ir.Value:
    """Where the row of the variable ROW is."""
    distance = body.fn.binary("mul nsw", body.values[ROW], ir.constant(stride, "i64"))
    return body.fn.emit("ptr", f"getelementptr inbounds i8, {at}, {distance}")
