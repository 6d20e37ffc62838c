"""Vector loops whose bounds are not constants: a loop over whole vectors, then the rest.

    for a in 0:200 { for b in 0:200 { vector for i in a:b { Y[i] = X[i] } } }       with X[200], Y[200] on avx512
    ->  for a in 0:200 { for b in 0:200 {
            for i in a : b - 31 : 32 { Y[ramp(i, 1, 16)] = X[ramp(i, 1, 16)];  Y[ramp(i + 16, 1, 16)] = X[ramp(i + 16, 1, 16)] }
            ...
        } }

The rest is one masked vector where the machine has masks, else vectors of half the lanes, a quarter, ..., and single
iterations. A 'reduce' loop keeps a partial result in each lane, and combines them once, at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.lower import combine
from polytc.codegen.passes import simplify
from polytc.codegen.passes.vector_statements import Chunk, broadcast, vector_expr, vectors
from polytc.machine import Machine
from polytc.program.names import fresh
from polytc.program.scalars import I64, identity
from polytc.program.sizes import Size

_ROW = loops.Var("row")

SIDE_BY_SIDE = 4
"""Vectors in one iteration of a loop that has sums to wait for."""
PAIR = 4
"""Stores up to which a loop takes two vectors in an iteration, so that counting and branching do not show."""


@dataclass(frozen=True)
class Facts:
    """What holds for a kernel. taken: names of its buffers; stored: of those that it writes."""

    machine: Machine
    taken: set[str]
    stored: frozenset[str]


def lanes_within(ramp: loops.Ramp, lower: loops.Expr, upper: loops.Expr) -> loops.Expr:
    """The lanes of a ramp that lie in lower..upper."""
    above = loops.binary(">=", ramp, broadcast(lower, ramp.lanes))
    return loops.binary("&&", above, loops.binary("<", ramp, broadcast(upper, ramp.lanes)))


def strip_mine(s: loops.For, lanes: int, masks: bool) -> loops.Stmt:
    """A vector loop in strips. masks: of what is left, one masked vector."""
    several = SIDE_BY_SIDE if any(isinstance(x, loops.For) for x in traverse.walk_stmt(s.body)) else \
        2 if sum(isinstance(x, loops.Store) for x in traverse.walk_stmt(s.body)) <= PAIR else 1
    parts: list[loops.Stmt] = []
    start = s.lower
    for count in dict.fromkeys((several, 1)):
        parts.append(_whole(s, start, lanes, count))
        start = _after(s, start, lanes * count)
    if masks:
        return loops.block(*parts, _rest(s, start, lanes))
    while lanes > 2:
        lanes //= 2
        parts.append(_whole(s, start, lanes, 1))
        start = _after(s, start, lanes)
    return loops.block(*parts, replace(s, lower=start, kind="sequential"))


def _whole(s: loops.For, start: loops.Expr, lanes: int, count: int) -> loops.For:
    """The loop that runs `count` whole vectors in an iteration, as often as they fit."""
    step = lanes * count * s.step
    upper = simplify.expr(loops.binary("-", s.upper, loops.const(step - s.step)), {})
    at = [_plus(loops.Var(s.var), n * lanes * s.step) for n in range(count)]
    body = vectors(s.body, s.var, [Chunk(base, s.step, lanes) for base in at])
    return loops.For(s.var, start, upper, step, body, title=s.title)


def _after(s: loops.For, start: loops.Expr, width: int) -> loops.Expr:
    """Where a loop over strips of `width` iterations ends, which began at `start`."""
    span = simplify.expr(loops.binary("-", s.upper, start), {})
    if s.step > 1:
        span = loops.binary("//", _plus(span, s.step - 1), loops.const(s.step))
    done = loops.binary("-", span, loops.binary("%", span, loops.const(width)))
    end = loops.binary("+", start, loops.binary("*", done, loops.const(s.step)))
    return simplify.expr(loops.Call("max", (start, end), start.dtype), {})


def _rest(s: loops.For, start: loops.Expr, lanes: int) -> loops.For:
    """The loop of at most one iteration that runs what is left as a masked vector."""
    ramp = loops.Ramp(loops.Var(s.var), s.step, lanes)
    mask = loops.binary("<", ramp, broadcast(s.upper, lanes))
    masked = vectors(s.body, s.var, [Chunk(ramp.base, s.step, lanes, mask)])
    return loops.For(s.var, start, s.upper, lanes * s.step, masked, title=s.title)


def _plus(e: loops.Expr, number: int) -> loops.Expr:
    return simplify.expr(loops.binary("+", e, loops.const(number)), {}) if number else e


# ---- reductions

def partial_results(s: loops.For, facts: Facts, lanes: int, masks: bool, known: dict[str, simplify.Interval]) -> loops.Stmt:
    """A 'reduce' loop with vectors of partial results; the rest is masked, or sequential. known: values of the loops around it:
    a row of which no condition holds may have no element in the target."""
    store, conds = s.body, list[loops.Expr]()
    while isinstance(store, loops.If) and store.orelse is None:
        conds.append(store.cond)
        store = store.then
    if not isinstance(store, loops.Store):
        return replace(s, kind="sequential")
    old, term, op = update(store)
    dtype = term.dtype
    for cond in conds:
        term = loops.Select(cond, term, loops.Const(identity(op, dtype), dtype), dtype)
    name = fresh(f"{store.buffer.name}_lanes", facts.taken)
    facts.taken.add(name)
    partial = loops.Buffer(name, dtype, (SIDE_BY_SIDE, lanes), "private")
    parts: list[loops.Stmt] = [_put(partial, n, loops.Const(identity(op, dtype), dtype, lanes)) for n in range(SIDE_BY_SIDE)]
    start = s.lower
    for count in (SIDE_BY_SIDE, 1):
        parts.append(_summed(s, start, lanes, count, partial, op, term))
        start = _after(s, start, lanes * count)
    if masks:
        parts.append(_masked_sum(s, start, lanes, partial, op, term))
    total = _tree(op, [_get(partial, n) for n in range(SIDE_BY_SIDE)])
    result = replace(store, value=combine(op, old, loops.Reduce(op, total, dtype)))
    tests = _tests_inside(store, known) if conds else []
    parts.append(loops.If(functools.reduce(functools.partial(loops.binary, "&&"), tests), result) if tests else result)
    whole: loops.Stmt = loops.Alloc(partial, loops.block(*parts))
    if not masks:
        whole = loops.block(whole, replace(s, lower=start, kind="sequential"))
    return loops.If(simplify.expr(loops.binary("<", s.lower, s.upper), {}), whole)


def _tests_inside(store: loops.Store, known: dict[str, simplify.Interval]) -> list[loops.Expr]:
    """Tests that an element of fixed extents exists, as far as its indices may be beyond the ends."""
    found = list[loops.Expr]()
    for index, extent in zip(store.indices, store.buffer.shape, strict=True):
        low, high = simplify.interval(index, known)
        if low is not None and low < 0:
            found.append(loops.binary(">=", index, loops.const(0)))
        if high is not None and not isinstance(extent, Size) and high >= extent:
            found.append(loops.binary("<", index, loops.const(extent)))
    return found


def _summed(s: loops.For, start: loops.Expr, lanes: int, count: int, partial: loops.Buffer, op: str, term: loops.Expr
            ) -> loops.For:
    """The loop that adds `count` whole vectors in an iteration."""
    step = lanes * count * s.step
    upper = simplify.expr(loops.binary("-", s.upper, loops.const(step - s.step)), {})
    body = []
    for n in range(count):
        ramp = loops.Ramp(_plus(loops.Var(s.var), n * lanes * s.step), s.step, lanes)
        value = broadcast(vector_expr(term, s.var, ramp), lanes)
        body.append(_put(partial, n, combine(op, _get(partial, n), value)))
    return loops.For(s.var, start, upper, step, loops.block(*body), title=s.title)


def _masked_sum(s: loops.For, start: loops.Expr, lanes: int, partial: loops.Buffer, op: str, term: loops.Expr) -> loops.For:
    """The loop of at most one iteration that adds what is left."""
    ramp = loops.Ramp(loops.Var(s.var), s.step, lanes)
    mask = loops.binary("<", ramp, broadcast(s.upper, lanes))
    nothing = loops.Const(identity(op, term.dtype), term.dtype, lanes)
    value = loops.Select(mask, broadcast(vector_expr(term, s.var, ramp), lanes), nothing, term.dtype, lanes)
    body = _put(partial, 0, combine(op, _get(partial, 0), value))
    return loops.For(s.var, start, s.upper, lanes * s.step, body, title=s.title)


def _get(partial: loops.Buffer, n: int) -> loops.Load:
    lanes = partial.shape[1]
    return loops.Load(partial, (loops.const(n), loops.Ramp(loops.const(0), 1, lanes)), partial.dtype, lanes)


def _put(partial: loops.Buffer, n: int, value: loops.Expr) -> loops.Store:
    return loops.Store(partial, (loops.const(n), loops.Ramp(loops.const(0), 1, partial.shape[1])), value)


def _tree(op: str, values: Sequence[loops.Expr]) -> loops.Expr:
    """All values combined in pairs."""
    while len(values) > 1:
        values = [combine(op, *values[n:n + 2]) if len(values) > n + 1 else values[n] for n in range(0, len(values), 2)]
    return values[0]


def horizontal_reduction(loop: loops.For, s: loops.Store, pieces: list[tuple[int, int, int]]) -> loops.Stmt:
    """`T[x] = T[x] op f(i)` for all i of a loop of constant bounds: vectors are combined with each other first, then across
    lanes. pieces: (first iteration, lanes, lanes) of the vectors."""
    assert isinstance(loop.lower, loops.Const)
    old, term, op = update(s)
    total: loops.Expr | None = None
    whole = pieces[0][1]
    result: loops.Expr = old
    for at, lanes, _ in pieces:
        base = int(loop.lower.value) + at * loop.step
        if lanes == 1:
            result = combine(op, result, simplify.expr(term, {loop.var: (base, base)}))
            continue
        value = broadcast(vector_expr(term, loop.var, loops.Ramp(loops.const(base), loop.step, lanes)), lanes)
        if lanes == whole:
            total = value if total is None else combine(op, total, value)
        else:
            result = combine(op, result, loops.Reduce(op, value, value.dtype))
    if total is not None:
        result = combine(op, result, loops.Reduce(op, total, total.dtype))
    return replace(s, value=result)


def is_accumulation(s: loops.Store, var: str) -> bool:
    """Is it `T[x] = T[x] op f(i)`? A scatter's update is not: its place depends on i, or it keeps the old value where it leaves
    the tensor."""
    moves = any(var in traverse.variables(i) for i in s.indices)
    return isinstance(s.value, loops.Binary | loops.Call) and not moves


def update(s: loops.Store) -> tuple[loops.Expr, loops.Expr, str]:
    """(old value, new term, operator) of an update."""
    match s.value:
        case loops.Binary():
            return s.value.a, s.value.b, s.value.op
        case loops.Call():
            return s.value.args[0], s.value.args[1], s.value.fn
    raise AssertionError("vectorize: not an update")


# ---- rows of a tile

def rows(s: loops.Stmt, names: set[str], height: int, numbers: Iterator[int], kinds: Sequence[str] = ("unroll",)
         ) -> loops.Stmt | None:
    """A tile of which some rows are left, in tiles of half the rows, a quarter, ..., and single ones. names: the loops over the
    rows, which are fewer than `height`; numbers: for new variables; kinds: those that the loops may have, 'vector' for columns.

    What is over R rows p becomes: the same over 4 rows q + p, for q in 0:R//4*4 in steps of 4, then over 2 rows, for q in
    R//4*4:R//2*2, then over one, for q in R//2*2:R. Each of them can keep its results in registers, which a loop over rows
    with an end that varies cannot. None where something else varies than one end of all loops, or a row touches what another
    one writes.
    """
    tops = [x for x in traverse.walk_stmt(s) if isinstance(x, loops.For) and x.var in names]
    ends, inner = {x.upper for x in tops}, {x.var for x in traverse.walk_stmt(s) if isinstance(x, loops.For)}
    if len(ends) != 1 or any(inner & traverse.variables(e) for e in ends) or not _rows_apart(s, names) \
            or any(x.kind not in kinds or x.step != 1 or x.lower != loops.const(0) for x in tops):
        return None
    parts, start = list[loops.Stmt](), cast(loops.Expr, loops.const(0))
    end = loops.Call("max", (ends.pop(), loops.const(0)), I64)  # there may be no row
    strip = 1 << (height - 1).bit_length() - 1
    while strip:
        stop = simplify.expr(loops.binary("*", loops.binary("//", end, loops.const(strip)), loops.const(strip)), {})
        first = f"{min(names)}.{next(numbers)}"
        parts.append(loops.For(first, start, stop, strip, _strip(s, names, loops.Var(first), strip)))
        start, strip = stop, strip // 2
    return loops.block(*parts)


def _strip(s: loops.Stmt, names: set[str], first: loops.Var, height: int) -> loops.Stmt:
    """The statement for some rows from the first on."""
    def on_stmt(x: loops.Stmt) -> loops.Stmt:
        if not isinstance(x, loops.For) or x.var not in names:
            return x
        body = traverse.substitute(x.body, {x.var: loops.binary("+", first, loops.Var(x.var))})
        return replace(x, upper=loops.const(height), body=body)
    return traverse.map_stmt(s, on_stmt, lambda e: e)


def _rows_apart(s: loops.Stmt, names: set[str]) -> bool:
    """Do different rows touch different elements of all that is written? One subscript of each access is the row, times the
    same number, and the same for all instances of the statement."""
    same = traverse.substitute(s, dict.fromkeys(names, _ROW))
    inner = {x.var for x in traverse.walk_stmt(s) if isinstance(x, loops.For)} - names
    written = {x.buffer for x in traverse.walk_stmt(s) if isinstance(x, loops.Store)}
    accesses: dict[loops.Buffer, list[tuple[loops.Expr, ...]]] = {}
    for x in traverse.walk_stmt(same):
        if isinstance(x, loops.Store):
            accesses.setdefault(x.buffer, []).append(x.indices)
        for e in traverse.expressions(x):
            for load, _ in traverse.loads(e):
                if load.buffer in written:
                    accesses.setdefault(load.buffer, []).append(load.indices)
    return all(any(_is_row([indices[d] for indices in found], inner) for d in range(len(b.shape)))
               for b, found in accesses.items())


def _is_row(subscripts: Sequence[loops.Expr], inner: set[str]) -> bool:
    forms = [linear_forms.linear(e) if e.lanes == 1 else None for e in subscripts]
    first = forms[0]
    return first is not None and all(f == first for f in forms) and first.get(_ROW, 0) != 0 and not any(
        inner & traverse.variables(a) for a in first)
