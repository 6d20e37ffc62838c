"""Rows of two elements are stored whole: vectors that go into both halves of the same rows are interleaved in registers.

    Y[ramp(0, 1, 4), 0] = x4(2.0);  Y[ramp(0, 1, 4), 1] = X[ramp(0, 1, 4)]              with X[4], Y[4,2]
    ->  Y[(ramp(0, 1, 8) // x8(2)), (ramp(0, 1, 8) % x8(2))] =
            shuffle(x4(2.0), X[ramp(0, 1, 4)], 0, 4, 1, 5, 2, 6, 3, 7)

Rows have two elements, as those of complex numbers have: a store in strides takes an instruction a lane, shuffles take two a
vector. Loads in the same strides are read as whole rows by targets. (Nuzman, Rosen & Zaks, Auto-Vectorization of Interleaved
Data for SIMD, PLDI 2006.) Where all that such a vector is made of is read from rows, or is the same in all lanes, the lanes
have the order in which one shuffle of two vectors takes rows apart and another puts them together. Registers to which a loop
adds what it reads of rows have this order, too; they are put in order where they are filled and emptied:

    for k in 0:9 { S_r[0, ramp(0, 1, 4)] = (S_r[0, ramp(0, 1, 4)] + X[ramp((k * 4), 1, 4), 1]) };  S[...] = S_r[0, ...]
      of f64 on avx2: lanes 0 2 1 3 of the ramp in X, and of S_r in S

Guarantees: the same elements get the same values, sums of the same terms in the same order; nothing that reads or writes what a
store that moves touches lies between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from polytc.codegen import addresses, loops, traverse
from polytc.codegen.passes import simplify
from polytc.codegen.passes.vector_statements import broadcast
from polytc.machine import Machine
from polytc.program.scalars import BOOL
from polytc.program.sizes import Size

PARTS = 2
"""Elements of a row, as many as a shuffle has operands."""
UNIT = 16
"""Bytes within which shuffles of x86 move elements in a cycle, and in three across these; vectors of Arm have no more."""


def interleave_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel with the halves of rows that neighbouring statements store put together, where vectors do that."""
    if not machine.shuffles or not _has_rows(kernel):
        return kernel
    return replace(kernel, body=traverse.map_stmt(kernel.body, _statement, lambda e: e))


def _has_rows(kernel: loops.Kernel) -> bool:
    """Does it use a buffer with rows of two elements?"""
    made = (s.buffer for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.Alloc))
    return any(len(b.shape) > 1 and b.shape[-1] == PARTS for b in (*kernel.args, *made))


def _statement(s: loops.Stmt) -> loops.Stmt:
    match s:
        case loops.For(kind="unroll", lower=loops.Const(value=0), upper=loops.Const(value=2), step=1):
            return _copies(s, s.body) or s
        case loops.Block():
            return _block(s)
        case loops.Alloc(buffer=loops.Buffer(space="private")):
            return _register_lanes(s)
    return s


def _copies(s: loops.For, inside: loops.Stmt) -> loops.Stmt | None:
    """What is inside of a loop that stands for a copy of a store for each half of its rows, with both halves stored at once."""
    if isinstance(inside, loops.For) and inside.kind == "unroll":
        found = _copies(s, inside.body)
        return replace(inside, body=found) if found is not None else None
    if not isinstance(inside, loops.Store) or any(e.buffer.name == inside.buffer.name for e in _loads(inside)):
        return None
    halves = [simplify.at(inside, s.var, n, {}) for n in range(PARTS)]
    first, second = (x if isinstance(x, loops.Store) else inside for x in halves)
    return _joined(first, second) if _is_strided(first) and _complements(first, second) else None


def _block(s: loops.Block) -> loops.Stmt:
    left = list(s.stmts)
    for n, x in enumerate(s.stmts):
        place = _partner(left, n) if isinstance(x, loops.Store) and _is_strided(x) else None
        if place is not None:
            first, second = left[n], left[place]
            assert isinstance(first, loops.Store)
            assert isinstance(second, loops.Store)
            left[n] = loops.Block(())
            left[place] = _joined(first, replace(second, value=_forwarded(second.value, left[:place])))
    return loops.block(*left)


def _partner(stmts: Sequence[loops.Stmt], n: int) -> int | None:
    """The place of the store of the other halves of the rows that store `n` writes, if it may move there."""
    first = stmts[n]
    if not isinstance(first, loops.Store) or not _is_strided(first):
        return None
    for place, x in enumerate(stmts[n + 1:], n + 1):
        if isinstance(x, loops.Store) and _complements(first, x):
            return place if all(_apart(first, e) for e in _loads(x)) else None
        if _meets(first, x):
            return None
    return None


def _forwarded(e: loops.Expr, before: Sequence[loops.Stmt]) -> loops.Expr:
    """What a register that waits for the other half holds, in place of its load; the load where what it was made of has changed
    since, as the register itself has where something was added to it."""
    if not isinstance(e, loops.Load) or e.buffer.space != "private":
        return e
    place = next((n for n in reversed(range(len(before))) if _stores(before[n], e)), None)
    stored = before[place] if place is not None else None
    if place is None or not isinstance(stored, loops.Store) or (stored.buffer, stored.indices) != (e.buffer, e.indices):
        return e
    since = [x for s in before[place:] for x in traverse.walk_stmt(s) if isinstance(x, loops.Store)]  # itself, too: r = r + x
    return stored.value if all(_apart(x, y) for x in since for y in _loads(stored)) else e


def _stores(s: loops.Stmt, load: loops.Load) -> bool:
    """May a statement write what a load reads?"""
    return any(isinstance(x, loops.Store) and not _apart(x, load) for x in traverse.walk_stmt(s))


def _is_strided(s: loops.Store | loops.Load) -> bool:
    """A vector of one element from each of several rows, all lanes of which count?"""
    wide = [i for i in s.indices if i.lanes > 1]
    ramp, last = s.indices[-2] if len(s.indices) > 1 else None, s.indices[-1] if s.indices else None
    return (len(wide) == 1 and isinstance(ramp, loops.Ramp) and ramp.stride == 1 and ramp.active is None
            and isinstance(last, loops.Const) and s.buffer.shape[-1] == PARTS and s.buffer.dtype != BOOL)


def _complements(a: loops.Store, b: loops.Store) -> bool:
    """Do they store both halves of the same rows?"""
    return (_is_strided(b) and a.buffer == b.buffer and a.indices[:-1] == b.indices[:-1] and a.indices[-1] != b.indices[-1])


def _meets(store: loops.Store, s: loops.Stmt) -> bool:
    """May a statement, behind which a store is to move, touch an element that the store writes, or write one that it reads?"""
    for x in traverse.walk_stmt(s):
        if isinstance(x, loops.Store) and not (_apart(store, x) and all(_apart(x, e) for e in _loads(store))):
            return True
        if not all(_apart(store, e) for e in _loads(x)):
            return True
    return False


def _loads(s: loops.Stmt) -> Iterator[loops.Load]:
    return (e for top in traverse.expressions(s) for e in traverse.walk_expr(top) if isinstance(e, loops.Load))


def _apart(store: loops.Store, access: loops.Store | loops.Load) -> bool:
    """Do a store and an access certainly touch different elements?"""
    if store.buffer.name != access.buffer.name or _other_half(store, access):
        return True
    if sum(isinstance(n, Size) for n in store.buffer.shape[1:]) > 1:
        return False  # strides of which there is no linear formula
    a, b = addresses.flatten(store.buffer, store.indices), addresses.flatten(access.buffer, access.indices)
    if a is None or b is None or a.terms != b.terms:
        return False
    return {a.constant + lane for lane in a.lanes or (0,)}.isdisjoint(b.constant + lane for lane in b.lanes or (0,))


def _other_half(a: loops.Store | loops.Load, b: loops.Store | loops.Load) -> bool:
    """Do they touch different places of rows?"""
    places = [x.indices[-1].value if x.indices and isinstance(x.indices[-1], loops.Const) else None for x in (a, b)]
    return None not in places and places[0] != places[1] and len(a.indices) == len(b.indices)


def _joined(a: loops.Store, b: loops.Store) -> loops.Store:
    """Both halves as one store of whole rows."""
    first, second = (a, b) if a.indices[-1] == loops.const(0) else (b, a)
    ramp = a.indices[-2]
    assert isinstance(ramp, loops.Ramp), "interleaved_rows: rows that are no ramp"
    lanes = PARTS * ramp.lanes
    count, size = loops.Ramp(loops.const(0), 1, lanes), loops.Const(PARTS, ramp.dtype, lanes)
    row: loops.Expr = loops.Binary("//", count, size, ramp.dtype, lanes)
    if ramp.base != loops.const(0):
        row = loops.Binary("+", loops.Broadcast(ramp.base, lanes, ramp.dtype), row, ramp.dtype, lanes)
    part = loops.Binary("%", count, size, ramp.dtype, lanes)
    return loops.Store(a.buffer, (*a.indices[:-2], row, part), _interleaved(first.value, second.value, ramp.lanes), b.origin)


def _interleaved(first: loops.Expr, second: loops.Expr, lanes: int) -> loops.Expr:
    """The elements of two vectors in turns."""
    halves = broadcast(first, lanes), broadcast(second, lanes)
    rows = _rows_of_lanes(lanes, first.dtype.bytes)
    moved = tuple(_in_order(e, rows) for e in halves)
    if moved[0] is None or moved[1] is None:
        moved, rows = halves, tuple(range(lanes))
    order = tuple(rows.index(n // PARTS) + lanes * (n % PARTS) for n in range(PARTS * lanes))
    assert moved[0] is not None
    assert moved[1] is not None
    return loops.Shuffle(moved[0], moved[1], order, first.dtype, PARTS * lanes)


def _rows_of_lanes(lanes: int, width: int) -> tuple[int, ...]:
    """The row that each lane holds where a shuffle of two vectors takes elements of theirs that lie in the same 16 bytes, which
    is what one instruction does: half of each 16 bytes comes from either vector. E.g. (0, 2, 1, 3) of four f64."""
    half = min(UNIT // width, lanes) // PARTS
    if half == 0 or lanes % (PARTS * half):
        return tuple(range(lanes))
    return tuple(vector * lanes // PARTS + block * half + n
                 for block in range(lanes // (PARTS * half)) for vector in range(PARTS) for n in range(half))


def _in_order(e: loops.Expr, rows: tuple[int, ...], registers: str = "") -> loops.Expr | None:
    """A vector with its lanes in the order of these rows; None where lanes would have to be moved for it. registers: an array
    whose vectors have this order."""
    match e:
        case loops.Const() | loops.Broadcast():
            return e
        case loops.Load() if e.buffer.name == registers:
            return e
        case loops.Load() if _is_strided(e):
            ramp = e.indices[-2]
            moved = loops.Shuffle(ramp, ramp, rows, ramp.dtype, ramp.lanes)
            return replace(e, indices=(*e.indices[:-2], moved, e.indices[-1]))
        case loops.Unary() | loops.Binary() | loops.Call() | loops.Cast() | loops.Select():
            operands = [_in_order(o, rows, registers) if o.lanes > 1 else o for o in traverse.operands(e)]
            known = tuple(o for o in operands if o is not None)
            return traverse.with_operands(e, known) if len(known) == len(operands) else None
    return None


# ---- sums

def _register_lanes(s: loops.Alloc) -> loops.Alloc:
    """An array of registers that loops add rows of two to, with its lanes in the order in which these come apart; what comes
    from elsewhere or goes there is put in order, outside of these loops as a rule."""
    lanes = _whole_vectors(s)
    rows = _rows_of_lanes(lanes, s.buffer.dtype.bytes) if lanes > 1 else ()
    if rows == tuple(range(lanes)) or not any(
            isinstance(x, loops.For) and x.kind == "sequential" and _adds_rows(x, s.buffer.name, rows)
            for x in traverse.walk_stmt(s.body)):
        return s
    inverse = tuple(map(rows.index, range(lanes)))

    def natural(e: loops.Expr) -> loops.Expr:
        own = isinstance(e, loops.Load) and e.buffer.name == s.buffer.name
        return loops.Shuffle(e, e, inverse, e.dtype, lanes) if own else e

    def store(x: loops.Stmt) -> loops.Stmt:
        if not isinstance(x, loops.Store):
            return x
        inside = x.buffer.name == s.buffer.name
        ordered = _in_order(x.value, rows, s.buffer.name) if inside and x.value.lanes > 1 else None
        if ordered is not None or (inside and x.value.lanes == 1):
            return replace(x, value=ordered if ordered is not None else x.value)
        value = traverse.map_expr(x.value, natural)
        return replace(x, value=loops.Shuffle(value, value, rows, value.dtype, lanes) if inside else value)
    return replace(s, body=traverse.map_stmt(s.body, store, lambda e: e))


def _adds_rows(s: loops.For, registers: str, rows: tuple[int, ...]) -> bool:
    """Does a loop change an array of registers by what it reads of rows of two, and by nothing in another order?"""
    values = [x.value for x in traverse.walk_stmt(s) if isinstance(x, loops.Store) and x.buffer.name == registers]
    read = (e for v in values for e in traverse.walk_expr(v) if isinstance(e, loops.Load) and e.buffer.name != registers)
    return any(map(_is_strided, read)) and all(_in_order(v, rows, registers) is not None for v in values)


def _whole_vectors(s: loops.Alloc) -> int:
    """The lanes of the vectors in which an array is used, if all have as many and lie one after another; else 0."""
    steps = {x.var: x for x in traverse.walk_stmt(s.body) if isinstance(x, loops.For)}
    accesses = [x for x in _accesses(s.body) if x.buffer.name == s.buffer.name]
    lasts = [x.indices[-1] if x.indices else loops.const(0) for x in accesses]
    lanes = max((i.lanes for i in lasts), default=0)
    whole = all(isinstance(i, loops.Ramp) and (i.stride, i.lanes, i.active) == (1, lanes, None)
                and _multiple(i.base, lanes, steps) for i in lasts)
    return lanes if whole and all(i.lanes == 1 for x in accesses for i in x.indices[:-1]) else 0


def _accesses(s: loops.Stmt) -> Iterator[loops.Load | loops.Store]:
    for x in traverse.walk_stmt(s):
        yield from _loads(x)
        if isinstance(x, loops.Store):
            yield x


def _multiple(e: loops.Expr, lanes: int, around: Mapping[str, loops.For]) -> bool:
    """Is an index a multiple of the lanes: a number, or the variable of a loop in such steps?"""
    if isinstance(e, loops.Const):
        return int(e.value) % lanes == 0
    loop = around.get(e.name) if isinstance(e, loops.Var) else None
    return loop is not None and isinstance(loop.lower, loops.Const) and int(loop.lower.value) % lanes == 0 == loop.step % lanes
