"""Reduction loops over dot products of words as products of tiles, on the matrix unit that x86 calls AMX.

    for r, k { R[n, v] = R[n, v] + dot(x16(A[i + n, r, k]), B[r, k, j + v]) }, for all rows n of a register tile
    ->  t = tile R;  for r, k in steps of 16 { t += tile A * tile B };  R = t

A tile is up to 16 rows of 16 words. There are eight: up to four of results, which stay through all loops of the reduction, one
or two of rows and the others of columns. Each nest of loops says first how many rows and columns its tiles have, so that no
row and no column is left over; steps of the sum that fill no tile are vector code. Numbers in parts (program.calls) are
multiplied part by part. (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polytc.codegen import loops, prefetch, traverse
from polytc.codegen.passes import unrolling
from polytc.machine import Machine
from polytc.program.calls.words import Dot
from polytc.targets.llvm import expressions, ir, prefetches
from polytc.targets.llvm.amx import checks
from polytc.targets.llvm.amx.cells import EDGE, HELD, WORD, Block, Cell, Chunk, row_of_results
from polytc.targets.llvm.amx.cells import blocks as blocks_of
from polytc.targets.llvm.amx.loops import Nest, iterate, results_of, words_at
from polytc.targets.llvm.function_state import Body

TILES, PALETTE = 8, 1
"""Tiles; the number of the way to divide the unit that has eight of them."""
SPELLING = {("dot_u8i8", True): "tdpbusd", ("dot_u8i8", False): "tdpbsud"}
"""(dot product, is its first operand that of the rows) -> instruction; all others are of bf16."""
CONFIGURE = "llvm.x86.ldtilecfg"
"""Says how many rows and columns tiles have; what they held is lost."""


def emit(body: Body, s: loops.For, zeros: list[loops.Store], ahead: Sequence[prefetch.Prefetch] = ()) -> list[loops.For] | None:
    """Emit what tiles can do of a loop, or of a nest of loops around one; the loops that are left to do, None if that is all
    of it.

    zeros: stores of zeros that come right before and are not emitted yet. Those of rows that tiles begin with are taken out.
    ahead: what loops around want to be fetched.
    """
    nest = _nest(s)
    if nest is None or not _multiplies_tiles(nest[-1].body, body.machine):
        return None
    last = nest[-1]
    lower, upper = _bounds(last)
    whole = lower + (upper - lower) // EDGE * EDGE
    stores = _stores(last.body)
    if whole == lower or not stores:
        return None
    blocks = list(blocks_of(stores, last.var, body.machine))
    if not blocks:
        return None
    taken = [_taken(zeros, block.cells) for block in blocks]
    for x in zeros:
        expressions.store(body, x)
    zeros.clear()
    ranges = [(x.var, range(*_bounds(x))) for x in nest[:-1]]
    fetched = [_in_tiles(a, last.var) for a in ahead if a.inner is last]
    for block, none in zip(blocks, taken, strict=True):
        _block(body, (*ranges, (last.var, range(lower, whole, EDGE))), block, fetched, zero=none)
        fetched = []
    done = {id(c.store) for block in blocks for c in block.cells}
    rest = [_inside(nest, loops.block(*(x for x in stores if id(x) not in done)))] if len(done) < len(stores) else []
    if whole < upper:
        tail = replace(last, lower=loops.const(whole))
        rest.append(_inside((*nest[:-1], tail), loops.block(*(x for x in stores if id(x) in done))))
    return rest


def configure_before(fn: ir.Function, start: int) -> None:
    """Where the lines from `start` on, a loop with what leads to it, always say the same of the shapes of tiles, they say it
    once: the processor waits for all products before it changes them. Other functions of a kernel change them, too."""
    lines = [n for n in range(start, len(fn.lines)) if f"@{CONFIGURE}(" in fn.lines[n]]
    if lines and len({fn.lines[n] for n in lines}) == 1 and not any("@kernel." in x for x in fn.lines[start:]):
        once = fn.lines[lines[0]]
        for n in lines:
            fn.lines[n] = ""
        fn.lines.insert(start, once)


def release(fn: ir.Function) -> None:
    """At the end of a function: the unit is free, if it was used, and what it held need not be kept from one thread to the
    next."""
    if any(f"@{CONFIGURE}(" in line for line in fn.lines):
        fn.call_void("llvm.x86.tilerelease", ())


def zeros_of(s: loops.Stmt, machine: Machine) -> list[loops.Store]:
    """The stores of a statement, if each begins a row of accumulators with zeros; else nothing."""
    if not isinstance(s, loops.Store) and not unrolling.is_copies(s):
        return []
    first = next((x for x, _ in unrolling.statements(s) if isinstance(x, loops.Store)), None)
    if first is None or not _is_zero(first.value) or not machine.has("amx-tile"):
        return []
    stores = _stores(s)
    return stores if all(_is_zero(x.value) and row_of_results(x) is not None for x in stores) else []


def _is_zero(e: loops.Expr) -> bool:
    value = traverse.repeated(e)
    return isinstance(value, loops.Const) and value.value == 0


def _multiplies_tiles(s: loops.Stmt, machine: Machine) -> bool:
    """Does a store hold what the matrix unit can do? To write its copies out takes longer than to ask."""
    return any(isinstance(e, loops.Call) and machine.multiplies_tiles(e.fn) for x in traverse.walk_stmt(s)
               if isinstance(x, loops.Store) for e in traverse.walk_expr(x.value))


def _stores(s: loops.Stmt) -> list[loops.Store]:
    """All stores of a statement, with copies written out; nothing if it is more than stores."""
    flat = unrolling.written_out(s)
    inside = flat.stmts if isinstance(flat, loops.Block) else (flat,)
    stores = [x for x in inside if isinstance(x, loops.Store)]
    return stores if len(stores) == len(inside) else []


def _taken(zeros: list[loops.Store], cells: list[Cell]) -> bool:
    """Do all rows begin with zeros? Their stores are then no longer among `zeros`."""
    places = {(c.store.buffer, c.store.indices) for c in cells}
    found = [x for x in zeros if (x.buffer, x.indices) in places]
    if len({(x.buffer, x.indices) for x in found}) < len(places):
        return False
    zeros[:] = [x for x in zeros if x not in found]
    return True


def _nest(s: loops.For) -> tuple[loops.For, ...] | None:
    """The loop and those that are all of its body, innermost last; None if tiles cannot go through them."""
    if not isinstance(s.lower, loops.Const) or not isinstance(s.upper, loops.Const) or s.step != 1 \
            or s.kind != "sequential" or s.lower.value >= s.upper.value:
        return None
    if not isinstance(s.body, loops.For) or unrolling.is_copies(s.body):
        return (s,)
    inner = _nest(s.body)
    return None if inner is None else (s, *inner)


def _bounds(s: loops.For) -> tuple[int, int]:
    assert isinstance(s.lower, loops.Const)
    assert isinstance(s.upper, loops.Const)
    return int(s.lower.value), int(s.upper.value)


def _inside(nest: Sequence[loops.For], inner: loops.Stmt) -> loops.For:
    """The nest around another statement."""
    for x in reversed(nest):
        inner = replace(x, body=inner)
    assert isinstance(inner, loops.For), "the outermost loop"
    return inner


# ---- products of tiles

@dataclass(frozen=True)
class _Tiles:
    """The numbers of the tiles of a block: results by column and chunk, rows by chunk, columns."""

    block: Block

    @property
    def high(self) -> int:
        return len(self.block.columns[0])

    def result(self, column: int, chunk: int) -> int:
        return column * self.high + chunk

    def row(self, chunk: int) -> int:
        return len(self.block.chunks) + chunk

    def column(self, column: int) -> int:
        first = len(self.block.chunks) + self.high
        return first + column % (TILES - first)

    @property
    def shapes(self) -> dict[int, tuple[int, int]]:
        """Rows, and words in a row, of each tile."""
        found = dict[int, tuple[int, int]]()
        for c, column in enumerate(self.block.columns):
            found[self.column(c)] = EDGE, column[0].cell.active
            for n, chunk in enumerate(column):
                found[self.row(n)] = chunk.high, EDGE
                found[self.result(c, n)] = chunk.high, chunk.cell.active
        return found

    def configuration(self) -> bytes:
        """What the unit reads its shapes from: the palette, 15 bytes, 16 times bytes in a row (of two bytes), 16 times rows."""
        shapes = self.shapes
        wide = b"".join((shapes.get(n, (0, 0))[1] * WORD).to_bytes(2, "little") for n in range(16))
        return bytes((PALETTE, *(0,) * 15)) + wide + bytes(shapes.get(n, (0, 0))[0] for n in range(16))


def _in_tiles(a: prefetch.Prefetch, var: str) -> prefetch.Prefetch:
    """What 16 iterations fetch."""
    elements = EDGE * a.passed.coefficient(var)
    return replace(a, each=max(1, -(-elements * a.rate >> prefetch.SHIFT)))


def _block(body: Body, nest: Nest, block: Block, ahead: Sequence[prefetch.Prefetch], *, zero: bool) -> None:
    """All steps for a block of tiles. ahead: what each fetches; zero: it begins with zeros."""
    fn, tiles = body.fn, _Tiles(block)
    checked = len(block.chunks[0].cell.dot.products) > 1
    fn.call_void(CONFIGURE, (fn.text.table(tiles.configuration()),))
    for number, chunk in _results(tiles):
        if zero:
            fn.call_void("llvm.x86.tilezero", (_number(number),))
        else:
            _move(fn, "tileloadd64", number, *results_of(body, chunk))
    iterate(body, nest, [], lambda _: _step(body, tiles, ahead))
    results = _results(tiles)
    kept = fn.alloca("float", len(results) * EDGE * EDGE, 64) if checked and not zero else None
    for n, (number, chunk) in enumerate(results):
        at, stride = results_of(body, chunk)
        if kept is not None:
            at, stride = fn.emit("ptr", f"getelementptr inbounds i8, {kept}, i64 {n * checks.KEPT}"), EDGE * WORD
        _move(fn, "tilestored64", number, at, stride)
        body.loaded.pop(chunk.cell.store.buffer.name, None)
    if checked:
        checks.check(body, nest, [chunk for _, chunk in results], kept)


def _results(tiles: _Tiles) -> list[tuple[int, Chunk]]:
    return [(tiles.result(c, n), chunk) for c, column in enumerate(tiles.block.columns) for n, chunk in enumerate(column)]


def _step(body: Body, tiles: _Tiles, ahead: Sequence[prefetch.Prefetch]) -> list[ir.Value]:
    """The sums after 16 steps, which stay in tiles."""
    for a in ahead:
        prefetches.emit(body, a)
    columns, fn = tiles.block.columns, body.fn
    dot, first = columns[0][0].cell.dot, columns[0][0].cell.first
    at = {"row": -1, "column": -1}
    for product in _order(dot):
        row, column = product if first else product[::-1]
        if at["row"] != row:
            for n, chunk in enumerate(columns[0]):
                _move(fn, "tileloadd64", tiles.row(n), words_at(body, chunk.cell.row.parts[row]), chunk.row_step * WORD)
        alone = len(columns) < HELD and at["column"] == column  # of four the last takes the first one's place
        for c, chunks in enumerate(columns):
            words = chunks[0].cell.column
            if not alone:
                _move(fn, "tileloadd64", tiles.column(c), words_at(body, words.parts[column]), words.stride * WORD)
            for n, chunk in enumerate(chunks):
                name = SPELLING.get((chunk.cell.dot.name, first), "tdpbf16ps")
                numbers = tiles.result(c, n), tiles.row(n), tiles.column(c)
                fn.call_void(f"llvm.x86.{name}", tuple(map(_number, numbers)))
        at = {"row": row, "column": column}
    return []


def _order(dot: Dot) -> list[tuple[int, int]]:
    """The products of parts, so that most have an operand in common with the one before; else the smallest first."""
    left, order = list(dot.products), list[tuple[int, int]]()
    while left:
        near = (x for x in left if order and (x[0] == order[-1][0] or x[1] == order[-1][1]))
        order.append(next(near, left[0]))
        left.remove(order[-1])
    return order


def _move(fn: ir.Function, name: str, tile: int, at: ir.Value, stride: int) -> None:
    """Load or store a tile. stride: bytes from one row to the next."""
    fn.call_void(f"llvm.x86.{name}", (_number(tile), at, ir.constant(stride, "i64")))


def _number(tile: int) -> ir.Value:
    return ir.Value("i8", str(tile))
