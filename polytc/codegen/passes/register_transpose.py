"""Vectors that walk across memory are read along it, a square block at a time, and transposed in registers.

    Y[0, ramp(0, 1, 4)] = X[ramp(0, 1, 4), 0];  Y[1, ramp(0, 1, 4)] = X[ramp(0, 1, 4), 1]       with X[4,4], Y[4,4]
    Y[2, ramp(0, 1, 4)] = X[ramp(0, 1, 4), 2];  Y[3, ramp(0, 1, 4)] = X[ramp(0, 1, 4), 3]
    ->  alloc private f32 X_rows3[4,4];  alloc private f32 X_rows2[4,4];  alloc private f32 X_rows[4,4]
        X_rows[0, ramp(0, 1, 4)] = X[0, ramp(0, 1, 4)];  X_rows[1, ramp(0, 1, 4)] = X[1, ramp(0, 1, 4)]
        ...
        Y[0, ramp(0, 1, 4)] = X_rows3[0, ramp(0, 1, 4)];  Y[1, ramp(0, 1, 4)] = X_rows3[1, ramp(0, 1, 4)]
        Y[2, ramp(0, 1, 4)] = X_rows3[2, ramp(0, 1, 4)];  Y[3, ramp(0, 1, 4)] = X_rows3[3, ramp(0, 1, 4)]

with as many vector loads in place of 16 of single elements.

The transposition takes log2(lanes) rounds of shuffles of pairs of rows: the round of distance d exchanges the blocks of d x d
elements beside the diagonal (Eklundh, A Fast Computer Method for Matrix Transposing, 1972). Guarantees: the same elements are
read, each at most once more, and none outside of what was read before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.passes import simplify
from polytc.machine import Machine
from polytc.program.names import fresh
from polytc.program.scalars import BOOL

FEWEST = 4
"""Neighbouring vectors below which reading them element by element is no worse."""
WIDEST = 16
"""Lanes beyond which a block would not fit the registers."""


@dataclass(frozen=True)
class _Column:
    """A load that walks across memory: dimension `across` is a ramp, the last index is `rest` + `number`."""

    load: loops.Load
    across: int
    rest: loops.Expr
    number: int

    @property
    def key(self) -> tuple[object, ...]:
        return self.load.buffer, self.load.indices[:-1], self.rest

    @property
    def ramp(self) -> loops.Ramp:
        found = self.load.indices[self.across]
        assert isinstance(found, loops.Ramp)
        return found


def transpose_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel with neighbouring columns read as rows."""
    taken = traverse.buffer_names(kernel)
    stored = frozenset(x for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.Store) for x in _across(s))

    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        if not isinstance(s, loops.Block):
            return s
        runs = groupby(s.stmts, lambda x: isinstance(x, loops.Store))
        parts = (_run(list(run), machine, taken, stored) if straight else run for straight, run in runs)
        return loops.block(*(x for part in parts for x in part))

    return replace(kernel, body=traverse.map_stmt(kernel.body, on_stmt, lambda e: e))


def _across(s: loops.Store) -> Iterator[tuple[str, int]]:
    """(buffer, dimension) that a vector store walks across memory. What is written in columns is read in columns: it may never
    leave its registers (codegen.passes.scalar_replacement)."""
    yield from ((s.buffer.name, d) for d, i in enumerate(s.indices[:-1]) if i.lanes > 1)


def _run(stores: Sequence[loops.Stmt], machine: Machine, taken: set[str], stored: frozenset[tuple[str, int]]
         ) -> list[loops.Stmt]:
    """Stores one after another, with their columns taken from transposed blocks. stored: what the kernel writes in columns."""
    written = {s.buffer.name for s in stores if isinstance(s, loops.Store)}
    found = (c for s in stores if isinstance(s, loops.Store) for c in _columns(s.value))
    columns = {c.load: c for c in found
               if c.load.buffer.name not in written and (c.load.buffer.name, c.across) not in stored}
    place: dict[loops.Expr, loops.Expr] = {}
    before: list[loops.Stmt] = []
    arrays: list[loops.Buffer] = []
    for block in _blocks(list(columns.values()), machine):
        rounds, result = _transposed(block, taken)
        before += rounds
        arrays += dict.fromkeys(s.buffer for s in rounds)
        place |= {c.load: _row(result, c.number - block[0].number) for c in block}
    if not place:
        return list(stores)
    after = [replace(s, value=traverse.map_expr(s.value, lambda e: place.get(e, e))) if isinstance(s, loops.Store) else s
             for s in stores]
    whole = loops.block(*before, *after)
    for array in arrays:
        whole = loops.Alloc(array, whole)
    return [whole]


def _columns(e: loops.Expr) -> Iterator[_Column]:
    """The loads of a value that walk across memory and certainly happen."""
    if isinstance(e, loops.Load):
        wide = [d for d, i in enumerate(e.indices) if i.lanes > 1]
        gathers = any(isinstance(x, loops.Load) for i in e.indices for x in traverse.walk_expr(i))
        ramp = e.indices[wide[0]] if len(wide) == 1 and wide[0] < len(e.indices) - 1 else None
        single = isinstance(ramp, loops.Ramp) and (ramp.active is None or isinstance(ramp.active, int))
        if single and not gathers and e.dtype != BOOL:
            terms = linear_forms.linear(e.indices[-1])
            number = sum(c for atom, c in terms.items() if isinstance(atom, loops.Const))
            rest = linear_forms.build({a: c for a, c in terms.items() if not isinstance(a, loops.Const)})
            yield _Column(e, wide[0], rest, number)
    elif not isinstance(e, loops.Select):
        for o in traverse.operands(e):
            yield from _columns(o)


def _blocks(columns: list[_Column], machine: Machine) -> Iterator[list[_Column]]:
    """Neighbouring columns, as many as they have lanes; fewer where the last lanes of a row may be left out."""
    by_key: dict[tuple[object, ...], dict[int, _Column]] = {}
    for c in columns:
        by_key.setdefault(c.key, {})[c.number] = c
    for found in by_key.values():
        numbers, lanes = sorted(found), next(iter(found.values())).load.lanes
        while numbers:
            block = [n for i, n in enumerate(numbers[:lanes]) if n == numbers[0] + i]
            numbers = numbers[len(block):]
            if FEWEST <= lanes <= WIDEST and (len(block) == lanes or (machine.masked and len(block) >= FEWEST)):
                yield [found[n] for n in block]


def _row(array: loops.Buffer, number: int) -> loops.Load:
    lanes = array.shape[1]
    return loops.Load(array, (loops.const(number), loops.Ramp(loops.const(0), 1, lanes)), array.dtype, lanes)


def _transposed(block: list[_Column], taken: set[str]) -> tuple[list[loops.Store], loops.Buffer]:
    """The stores that read a block's rows and transpose them, and the array with the columns."""
    first = block[0]
    buffer, lanes = first.load.buffer, first.load.lanes
    rows = _array(buffer, lanes, taken)
    whole = loops.Ramp(loops.const(0), 1, lanes)
    along = replace(whole, base=first.load.indices[-1], active=len(block) if len(block) < lanes else None)
    stores = []
    for k in range(lanes):
        value: loops.Expr = loops.Const(0, buffer.dtype, lanes)
        if k < first.ramp.reach:
            at = simplify.expr(loops.binary("+", first.ramp.base, loops.const(k * first.ramp.stride)), {})
            indices = (*first.load.indices[:first.across], at, *first.load.indices[first.across + 1:-1], along)
            value = loops.Load(buffer, indices, buffer.dtype, lanes)
        stores.append(loops.Store(rows, (loops.const(k), whole), value))
    distance = 1
    while distance < lanes:
        old, rows = rows, _array(buffer, lanes, taken)
        for k in range(lanes):
            upper = k & distance != 0
            a, b = (k - distance, k) if upper else (k, k + distance)
            order = tuple((x + distance if upper else x) if x & distance == 0 else lanes + (x if upper else x - distance)
                          for x in range(lanes))
            stores.append(loops.Store(rows, (loops.const(k), whole),
                                      loops.Shuffle(_row(old, a), _row(old, b), order, buffer.dtype, lanes)))
        distance *= 2
    return stores, rows


def _array(buffer: loops.Buffer, lanes: int, taken: set[str]) -> loops.Buffer:
    name = fresh(f"{buffer.name}_rows", taken)
    taken.add(name)
    return loops.Buffer(name, buffer.dtype, (lanes, lanes), "private")
