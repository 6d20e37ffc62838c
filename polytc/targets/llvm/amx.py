"""Reduction loops over dot products of words as products of tiles, on the matrix unit that x86 calls AMX.

    for r, k { R[n, v] = R[n, v] + dot(x16(A[i + n, r, k]), B[r, k, j + v]) }, for all rows n of a register tile
    ->  t = tile R;  for r, k in steps of 16 { t += tile A * tile B };  R = t

A tile is up to 16 rows of 16 words. There are eight, which two by two of results and two of each operand take. A function
fixes the extents of each for all of its code, and LLVM aborts where eight are not enough: so a function has tiles of one height
for results and rows (schedule.cost.register_tiles.edge), and four at most of results in a loop nest. Rows, columns and steps
beyond them, and what starts and uses the accumulators, are vector code. (Intel 64 and IA-32 Architectures Software Developer's
Manual, volume 1, chapter 18.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polytc.codegen import addresses, loops, traverse
from polytc.machine import Machine
from polytc.schedule.cost import register_tiles
from polytc.targets.llvm import expressions, ir
from polytc.targets.llvm.expressions import Body, pointer

EDGE, WORD = 16, 4
"""Rows, and words in a row, of a tile; bytes of a word."""
SIDE = 2
"""Tiles of results in each direction that are held at a time."""
WHOLE = ir.Value("i16", str(EDGE)), ir.Value("i16", str(EDGE * WORD))
"""Rows, and bytes in a row, of a tile."""
SPELLING = {("dot_u8i8", True): "tdpbusd", ("dot_u8i8", False): "tdpbsud", ("dot_bf16", True): "tdpbf16ps",
            ("dot_bf16", False): "tdpbf16ps"}
"""(dot product, is its first operand that of the rows) -> instruction."""


@dataclass(frozen=True)
class _Cell:
    """One row of accumulators, array[number, 0:16] += dot(a, b). a, b: addresses, of which a advances by one word a step and b
    by `stride`."""

    store: loops.Store
    number: int
    instruction: str
    a: tuple[loops.Buffer, addresses.Address]
    b: tuple[loops.Buffer, addresses.Address]
    stride: int


@dataclass(frozen=True)
class _Chunk:
    """16 rows: all of them, and how far the next is in the array of results and in operand a."""

    cells: tuple[_Cell, ...]
    number_step: int
    a_step: int

    @property
    def first(self) -> _Cell:
        return self.cells[0]


def emit(body: Body, s: loops.For, zeros: list[loops.Store]) -> list[loops.For] | None:
    """Emit what tiles can do of a loop, or of a nest of loops around one; the loops that are left to do, None if that is all
    of it.

    zeros: stores of zeros that come right before and are not emitted yet. Those of rows that tiles begin with are taken out.
    """
    nest = _nest(s)
    if nest is None:
        return None
    last = nest[-1]
    lower, upper = _bounds(last)
    whole = lower + (upper - lower) // EDGE * EDGE
    stores = last.body.stmts if isinstance(last.body, loops.Block) else (last.body,)
    cells = [_cell(x, last.var, body.machine) for x in stores]
    if whole == lower or not any(cells) or not all(isinstance(x, loops.Store) for x in stores):
        return None
    strips: dict[object, list[_Cell]] = {}
    for c in cells:
        if c is not None:
            strips.setdefault((c.store.buffer, c.b), []).append(c)
    body.tile_rows = body.tile_rows or register_tiles.edge(min(max(map(len, strips.values())), SIDE * EDGE))
    groups: dict[object, list[list[_Chunk]]] = {}
    for strip in strips.values():
        groups.setdefault(tuple((c.a, c.instruction) for c in strip), []).append(_chunks(strip, body.tile_rows)[:SIDE])
    columns = _alike(next(iter(groups.values()))[:SIDE])
    if not columns[0]:
        return None
    ranges = [(x.var, range(*_bounds(x))) for x in nest[:-1]]
    taken = [_taken(zeros, chunk) for column in columns for chunk in column]
    for x in zeros:
        expressions.store(body, x)
    zeros.clear()
    _block(body, (*ranges, (last.var, range(lower, whole, EDGE))), columns, taken)
    done = {id(c.store) for column in columns for chunk in column for c in chunk.cells}
    rest = [_inside(nest, loops.block(*(x for x in stores if id(x) not in done)))] if len(done) < len(stores) else []
    if whole < upper:
        tail = replace(last, lower=loops.const(whole))
        rest.append(_inside((*nest[:-1], tail), loops.block(*(x for x in stores if id(x) in done))))
    return rest


def _alike(columns: list[list[_Chunk]]) -> list[list[_Chunk]]:
    """As many chunks of each strip: what lies unevenly in one strip's array may lie evenly in another's."""
    high = min(map(len, columns))
    return [column[:high] for column in columns]


def is_zero(s: loops.Stmt) -> bool:
    """Does the statement begin a row of accumulators?"""
    if not isinstance(s, loops.Store) or s.buffer.space != "private" or len(s.indices) != 2 or s.buffer.shape[1:] != (EDGE,):
        return False
    value = s.value.a if isinstance(s.value, loops.Broadcast) else s.value
    return isinstance(value, loops.Const) and value.value == 0 and s.buffer.dtype.bits == 8 * WORD


def _taken(zeros: list[loops.Store], chunk: _Chunk) -> bool:
    """Are all rows of the chunk zero? Their stores are then no longer among `zeros`."""
    places = [(c.store.buffer, c.store.indices) for c in chunk.cells]
    found = [x for x in zeros if (x.buffer, x.indices) in places]
    if len({x.indices for x in found}) < len(places):
        return False
    zeros[:] = [x for x in zeros if x not in found]
    return True


def _nest(s: loops.For) -> tuple[loops.For, ...] | None:
    """The loop and those that are all of its body, innermost last; None if tiles cannot go through them."""
    if not isinstance(s.lower, loops.Const) or not isinstance(s.upper, loops.Const) or s.step != 1 \
            or s.kind != "sequential" or s.lower.value >= s.upper.value:
        return None
    if not isinstance(s.body, loops.For):
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


def _cell(x: loops.Stmt, var: str, machine: Machine) -> _Cell | None:
    if not isinstance(x, loops.Store) or x.buffer.space != "private" or not isinstance(x.value, loops.Binary) \
            or len(x.indices) != 2 or not isinstance(x.indices[0], loops.Const) or x.buffer.shape[1] != EDGE:
        return None
    old, dot = x.value.a, x.value.b
    if not isinstance(dot, loops.Call) or not machine.multiplies_tiles(dot.fn) or x.value.op != "+" \
            or not isinstance(old, loops.Load) or (old.buffer, old.indices) != (x.buffer, x.indices) or dot.lanes != EDGE:
        return None
    first = isinstance(dot.args[0], loops.Broadcast)
    row, column = dot.args if first else dot.args[::-1]
    if not isinstance(row, loops.Broadcast) or not isinstance(row.a, loops.Load) or not isinstance(column, loops.Load) \
            or traverse.active_lanes(column.indices) is not None:
        return None
    a, b = _moved(row.a, var), _moved(column, var)
    if a is None or b is None or a[1] != 1 or b[0].lanes != tuple(range(EDGE)):
        return None
    operands = (row.a.buffer, a[0]), (column.buffer, b[0])
    return _Cell(x, int(x.indices[0].value), SPELLING[dot.fn, first], *operands, b[1])


def _moved(load: loops.Load, var: str) -> tuple[addresses.Address, int] | None:
    """The address, and how far the variable moves it; None if that is no number."""
    form = addresses.flatten(load.buffer, load.indices)
    if form is None or any(var in traverse.variables(atom) for atom, _ in form.terms if atom != loops.Var(var)):
        return None
    return form, dict(form.terms).get(loops.Var(var), 0)


def _chunks(strip: list[_Cell], high: int) -> list[_Chunk]:
    """Rows at equal distances, `high` at a time, from the first on."""
    out: list[_Chunk] = []
    for n in range(0, len(strip) - high + 1, high):
        rows = strip[n:n + high]
        second = rows[min(1, high - 1)]
        numbers, steps = second.number - rows[0].number, second.a[1].constant - rows[0].a[1].constant
        even = all(c.number == rows[0].number + i * numbers and c.a[0] == rows[0].a[0]
                   and c.a[1] == replace(rows[0].a[1], constant=rows[0].a[1].constant + i * steps) for i, c in enumerate(rows))
        if not even:
            break
        out.append(_Chunk(tuple(rows), numbers, steps))
    return out


def _block(body: Body, nest: Sequence[tuple[str, range]], columns: Sequence[Sequence[_Chunk]], zero: Sequence[bool]) -> None:
    """All steps for up to two by two tiles of results. nest: variables and their ranges, innermost last; columns: the chunks of
    each strip of columns, of the same rows; zero: which of them begin with zeros."""
    fn = body.fn
    chunks = [chunk for column in columns for chunk in column]
    totals = [fn.call("llvm.x86.tilezero.internal", "x86_amx", _shape(chunk)) if none
              else _load(fn, _shape(chunk), *_place(body, chunk)) for chunk, none in zip(chunks, zero, strict=True)]
    for chunk, total in zip(chunks, _sums(body, nest, columns, totals), strict=True):
        at, stride = _place(body, chunk)
        fn.call_void("llvm.x86.tilestored64.internal", (*_shape(chunk), at, ir.constant(stride, "i64"), total))
        body.loaded.pop(chunk.first.store.buffer.name, None)


def _sums(body: Body, nest: Sequence[tuple[str, range]], columns: Sequence[Sequence[_Chunk]], totals: Sequence[ir.Value]
          ) -> list[ir.Value]:
    """The sums after all iterations of a nest, which go through its loops in registers."""
    if not nest:
        return _step(body, columns, totals)
    (var, steps), inner = nest[0], nest[1:]
    fn = body.fn
    before, loop, end = fn.block, fn.fresh("tiles"), fn.fresh("done")
    fn.do(f"br label %{loop}")
    fn.start(loop)
    at, start = ir.Value("i64", f"%{fn.fresh('k')}"), len(fn.lines)
    held = [ir.Value("x86_amx", f"%{fn.fresh('t')}") for _ in totals]
    for _ in (at, *held):
        fn.do("")  # the phis, whose second sources are known after the step
    saved = body.values.get(var)
    body.values[var] = at
    body.scopes.append({})
    new = _sums(body, inner, columns, held)
    body.scopes.pop()
    if saved is not None:
        body.values[var] = saved
    after = fn.binary("add nsw", at, ir.constant(steps.step, "i64"))
    for n, (value, initial, update) in enumerate([(at, ir.constant(steps.start, "i64"), after),
                                                  *zip(held, totals, new, strict=True)]):
        fn.lines[start + n] = f"  {value.ref} = phi {value.type} [ {initial.ref}, %{before} ], [ {update.ref}, %{fn.block} ]"
    fn.do(f"br {fn.compare('icmp slt', after, ir.constant(steps.stop, 'i64'))}, label %{loop}, label %{end}")
    fn.start(end)
    return new


def _step(body: Body, columns: Sequence[Sequence[_Chunk]], totals: Sequence[ir.Value]) -> list[ir.Value]:
    """The sums after 16 steps."""
    fn = body.fn
    rows = [_load(fn, _shape(c), pointer(body, *c.first.a), c.a_step * WORD) for c in columns[0]]
    wide = [_load(fn, WHOLE, pointer(body, *column[0].first.b), column[0].first.stride * WORD) for column in columns]
    sides = [(chunk, row, column) for chunks, column in zip(columns, wide, strict=True)
             for chunk, row in zip(chunks, rows, strict=True)]
    return [fn.call(f"llvm.x86.{chunk.first.instruction}.internal", "x86_amx", (*_shape(chunk), WHOLE[1], total, row, column))
            for total, (chunk, row, column) in zip(totals, sides, strict=True)]


def _shape(c: _Chunk) -> tuple[ir.Value, ir.Value]:
    """Rows, and bytes in a row, of the tile of a chunk."""
    return ir.Value("i16", str(len(c.cells))), WHOLE[1]


def _place(body: Body, c: _Chunk) -> tuple[ir.Value, int]:
    """Where the accumulators of a chunk begin, and bytes from one row to the next."""
    array = c.first.store.buffer
    return pointer(body, array, addresses.Address(c.first.number * EDGE)), c.number_step * EDGE * WORD


def _load(fn: ir.Function, shape: tuple[ir.Value, ir.Value], at: ir.Value, stride: int) -> ir.Value:
    """A tile. stride: bytes from one row to the next."""
    return fn.call("llvm.x86.tileloadd64.internal", "x86_amx", (*shape, at, ir.constant(stride, "i64")))
