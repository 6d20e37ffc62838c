"""Which statements of a loop are products of tiles: rows of accumulators to which dot products of words are added.

    for r, k { R[n, v] = R[n, v] + dot(x16(A[i + n, r, k]), B[r, k, j + v]) }, for all rows n of a register tile

is a block of tiles if each row's words lie as far from those of the row before as all others do, and so for its accumulators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from polytc.codegen import addresses, loops, traverse
from polytc.machine import Machine
from polytc.program.calls.words import DOTS, Dot

EDGE, WORD = 16, 4
"""Rows, and words in a row, of a tile; bytes of a word."""
HELD = 4
"""Tiles of results at a time, beside those of the operands: of two rows of tiles two columns, of one row four."""
Place: TypeAlias = tuple[loops.Buffer, addresses.Address]


@dataclass(frozen=True)
class Operand:
    """Words, in as many tensors as the numbers have parts. stride: how far each step of the sum moves them."""

    parts: tuple[Place, ...]
    stride: int

    def moved(self, by: int) -> Operand:
        """The words that lie so much further."""
        return replace(self, parts=tuple((b, replace(at, constant=at.constant + by)) for b, at in self.parts))


@dataclass(frozen=True)
class Cell:
    """One row of accumulators, array[place:place + lanes] += dot(row, column), of which `active` lanes count: of the others,
    words may lie outside of their tensor. place: in the flat array; first: the row is the first factor of the dot product."""

    store: loops.Store
    place: int
    dot: Dot
    row: Operand
    column: Operand
    lanes: int
    active: int
    first: bool


@dataclass(frozen=True)
class Chunk:
    """The rows of a tile: all of them, and how far the next is in the array of results and in the words of the row."""

    cells: tuple[Cell, ...]
    place_step: int
    row_step: int

    @property
    def cell(self) -> Cell:
        return self.cells[0]

    @property
    def high(self) -> int:
        return len(self.cells)


@dataclass(frozen=True)
class Block:
    """Tiles of results side by side: for each column of them the chunks of rows, which are the same in all columns."""

    columns: tuple[tuple[Chunk, ...], ...]

    @property
    def chunks(self) -> list[Chunk]:
        return [chunk for column in self.columns for chunk in column]

    @property
    def cells(self) -> list[Cell]:
        return [cell for chunk in self.chunks for cell in chunk.cells]


def blocks(stores: Sequence[loops.Stmt], var: str, machine: Machine) -> Iterator[Block]:
    """The blocks of tiles among the stores of a loop over `var`."""
    strips: dict[object, list[Cell]] = {}
    for x in stores:
        cell = _cell(x, var, machine)
        if cell is not None:
            strips.setdefault((cell.store.buffer, cell.column, cell.active), []).append(cell)
    groups: dict[object, list[tuple[Chunk, ...]]] = {}
    for strip in strips.values():
        rows = tuple((c.row, c.dot, c.first) for c in strip)
        groups.setdefault(rows, []).append(_chunks(strip))
    for columns in groups.values():
        yield from _side_by_side([c for c in columns if c])


def _side_by_side(columns: list[tuple[Chunk, ...]]) -> Iterator[Block]:
    """Columns of tiles, as many at a time as there are tiles to hold; what lies unevenly in one column's array may lie evenly
    in another's, so that all have as many chunks."""
    while columns:
        width = HELD // min(len(columns[0]), 2)
        taken = columns[:width]
        if len(taken) == HELD and len({column[0].cell.active for column in taken}) > 1:
            taken = taken[:HELD - 1]  # the first and the last of four take turns in one tile of the operand
        columns = columns[len(taken):]
        high = min(map(len, taken))
        yield Block(tuple(column[:high] for column in taken))


def _cell(x: loops.Stmt, var: str, machine: Machine) -> Cell | None:
    if not isinstance(x, loops.Store) or not isinstance(x.value, loops.Binary):
        return None
    old, call, place = x.value.a, x.value.b, row_of_results(x)
    if place is None or not isinstance(call, loops.Call) or not machine.multiplies_tiles(call.fn) or x.value.op != "+" \
            or not isinstance(old, loops.Load) or (old.buffer, old.indices) != (x.buffer, x.indices):
        return None
    dot = DOTS[call.fn]
    factors = call.args[:dot.a_parts], call.args[dot.a_parts:]
    first = isinstance(factors[0][0], loops.Broadcast)
    row, column = factors if first else factors[::-1]
    words = [w.a for w in row if isinstance(w, loops.Broadcast)]
    active = {traverse.active_lanes(w.indices) for w in column if isinstance(w, loops.Load)}
    if len(words) < len(row) or len(active) != 1:
        return None
    count = next(iter(active))
    a, b = _operand(words, (), var), _operand(column, tuple(range(call.lanes)), var)
    if a is None or b is None or a.stride != 1 or not (count is None or isinstance(count, int)):
        return None
    return Cell(x, place, dot, a, b, call.lanes, call.lanes if count is None else count, first)


def row_of_results(x: loops.Store) -> int | None:
    """Where a vector that a tile may have as a row is stored in a private array; None if the store is of something else."""
    form = addresses.flatten(x.buffer, x.indices) if x.buffer.space == "private" and 2 <= x.value.lanes <= EDGE else None
    flat = form is not None and not form.terms and form.lanes == tuple(range(x.value.lanes))
    return form.constant if form is not None and flat and x.buffer.dtype.bits == 8 * WORD else None


def _operand(words: Sequence[loops.Expr], lanes: tuple[int, ...], var: str) -> Operand | None:
    """The words that are loaded, of so many lanes, and how far the variable moves them; None if that is no number, or not the
    same for all."""
    parts, strides = list[Place](), set[int]()
    for load in words:
        form = addresses.flatten(load.buffer, load.indices) if isinstance(load, loops.Load) else None
        if not isinstance(load, loops.Load) or form is None or form.lanes != lanes \
                or any(var in traverse.variables(atom) for atom, _ in form.terms if atom != loops.Var(var)):
            return None
        parts.append((load.buffer, form))
        strides.add(dict(form.terms).get(loops.Var(var), 0))
    return Operand(tuple(parts), strides.pop()) if len(strides) == 1 else None


def _chunks(strip: list[Cell]) -> tuple[Chunk, ...]:
    """Rows at equal distances: one chunk of all, or two of the first."""
    rows = strip[:2 * EDGE]
    high = len(rows) if len(rows) <= EDGE else -(-len(rows) // 2)
    found = [_chunk(rows[at:at + high]) for at in range(0, len(rows), high)]
    return tuple(chunk for chunk in found if chunk is not None) if found[0] is not None else ()


def _chunk(rows: list[Cell]) -> Chunk | None:
    first, second = rows[0], rows[min(1, len(rows) - 1)]
    places = second.place - first.place
    step = second.row.parts[0][1].constant - first.row.parts[0][1].constant
    even = all((c.place, c.row) == (first.place + n * places, first.row.moved(n * step)) for n, c in enumerate(rows))
    return Chunk(tuple(rows), places, step) if even else None
