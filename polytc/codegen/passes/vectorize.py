"""Point loops become straight code: 'unroll' loops are unrolled, 'vector' loops become vector values, 'reduce' loops horizontal
reductions.

    for i in 0:9 { vector for j in 0:12 { Y[i,j] = X[i,j] * 2 } }       with X[9,12], Y[9,12] on avx2
    ->  for i in 0:9 {
            Y[i, ramp(0, 1, 8)] = X[i, ramp(0, 1, 8)] * x8(2.0);  Y[i, ramp(8, 1, 4)] = X[i, ramp(8, 1, 4)] * x4(2.0)
        }

A vector loop of constant extent becomes as many whole vectors as fit, and vectors of fewer lanes (powers of two) for the rest.
One whose bounds are not constants becomes a loop over whole vectors and a rest, see passes.strip_mining; where little is left
to run at most, masked vectors that cover all that the bounds may reach. Guarantees: no 'vector' or 'reduce' loop is left, and
'unroll' loops where they stand for more than a few copies of stores alone (passes.unrolling); one whose extent is unknown has
become sequential, like a loop around what cannot be made vectors. No row of a matrix is left (program.calls.matrix_rows).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from polytc.codegen import intervals, loops, traverse
from polytc.codegen.passes import simplify, strip_mining, unrolling
from polytc.codegen.passes.strip_mining import Facts
from polytc.codegen.passes.vector_statements import (
    Chunk,
    clamp_shared_loads,
    divides_integers,
    is_vectorizable,
    relax_masks,
    shared_loads_safe,
    vectors,
    widen_masked_loads,
    widest_element,
)
from polytc.machine import Machine
from polytc.program.calls.matrix_rows import is_rows_call, matrix
from polytc.program.scalars import BOOL, I64

STRAIGHT = 32
"""Vectors of a loop of known bounds that become straight code; longer ones stay loops over vectors."""
UNROLL_LIMIT = 512
"""Statements that unrolling may make out of one loop nest."""
COVER = 8
"""Vectors of a loop of unknown bounds that are masked one by one, instead of a loop over whole ones and a rest."""


def expand_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel with its point loops expanded for vectors of `machine`."""
    names = traverse.buffer_names(kernel)
    body = _expand(kernel.body, Facts(machine, names, frozenset(kernel.writes)), {})
    body = unrolling.written_out(body, unrolling.most_written_out(machine))
    return replace(kernel, body=traverse.map_stmt(body, lambda s: s, lambda e: traverse.map_expr(e, _rows_chosen)))


def _rows_chosen(e: loops.Expr) -> loops.Expr:
    """Rows of matrices (program.calls.matrix_rows) whose index was not written out: the sums of all of them, and a choice."""
    if not isinstance(e, loops.Call) or not is_rows_call(e.fn):
        return e
    row, *sums = e.args[0], *(simplify.row_of(e, r) for r in range(len(matrix(e.fn))))
    chosen = sums[-1]
    for number, value in reversed(list(enumerate(sums[:-1]))):
        is_it = loops.Binary("==", row, loops.Const(number, I64, row.lanes), BOOL, row.lanes)
        chosen = loops.Select(is_it, value, chosen, e.dtype, e.lanes)
    return chosen


def _expand(s: loops.Stmt, facts: Facts, known: dict[str, simplify.Interval]) -> loops.Stmt:
    match s:
        case loops.For():
            inner = replace(s, body=_expand(s.body, facts, known | {s.var: simplify.values(s, known)}))
            return _point_loop(inner, facts, known) if s.kind in ("unroll", "vector", "reduce") else inner
        case loops.If():
            other = _expand(s.orelse, facts, known) if s.orelse is not None else None
            return replace(s, then=_expand(s.then, facts, known), orelse=other)
        case loops.Block():
            return loops.block(*(_expand(x, facts, known) for x in s.stmts))
        case loops.Alloc():
            return replace(s, body=_expand(s.body, facts, known))
        case _:
            return s


def _point_loop(s: loops.For, facts: Facts, known: dict[str, simplify.Interval]) -> loops.Stmt:
    machine = facts.machine
    extent = intervals.trips(s)
    if s.kind == "unroll":
        if extent is None or extent * unrolling.stores(s.body) > UNROLL_LIMIT:
            return replace(s, kind="sequential")
        return s if unrolling.may_stay(s.body, s.var) else _unroll(s, extent)
    if extent == 1:
        return _unroll(s, extent)
    lanes = machine.lanes(widest_element(s.body, s.var))
    masks = machine.masked and not divides_integers(s.body)
    stores = [x for x in traverse.walk_stmt(s.body) if isinstance(x, loops.Store)]
    moves = all(strip_mining.is_accumulation(x, s.var) if s.kind == "reduce" else
                any(s.var in traverse.variables(i) for i in x.indices) for x in stores)
    if not moves or not is_vectorizable(s.body, s.var, masks or s.kind == "reduce"):
        return replace(s, kind="sequential")
    if extent is None or (s.kind == "reduce" and not isinstance(s.body, loops.Store)):
        return _unknown(s, facts, known, lanes, masks)
    if extent > STRAIGHT * lanes:
        return _unknown(s, facts, known, lanes, masks)
    if s.kind == "reduce":
        assert isinstance(s.body, loops.Store), "vectorize: a 'reduce' loop holds one update"
        return strip_mining.horizontal_reduction(s, s.body, chunks(extent, lanes))
    pieces = masked_chunks(extent, lanes) if masks else chunks(extent, lanes)
    return vectors(s.body, s.var, [_chunk(s, *run[0], len(run)) for run in _runs(pieces)])


def _runs(pieces: list[tuple[int, int, int]]) -> list[list[tuple[int, int, int]]]:
    """Neighbouring vectors of as many lanes."""
    return [list(run) for _, run in groupby(pieces, lambda piece: piece[1:])]


def _unknown(s: loops.For, facts: Facts, known: dict[str, simplify.Interval], lanes: int, masks: bool) -> loops.Stmt:
    """A vector or 'reduce' loop of any bounds."""
    if s.kind == "reduce":
        return strip_mining.partial_results(s, facts, lanes, masks, known)
    low, high = simplify.values(s, known)
    small = s.step == 1 and low is not None and high is not None and high - low < COVER * lanes
    safe = clamp_shared_loads(s, known) if masks and small else s
    if masks and small and low is not None and high is not None and shared_loads_safe(safe, known):
        s = safe
        masked = vectors(s.body, s.var, _cover(s, low, high + 1, lanes, known))
        return widen_masked_loads(relax_masks(masked, known, facts.stored), known, facts.stored)
    return strip_mining.strip_mine(s, lanes, masks)


def _cover(s: loops.For, low: int, high: int, lanes: int, known: dict[str, simplify.Interval]) -> list[Chunk]:
    """Masked vectors for all that the bounds of a loop may reach, low..high."""
    found = []
    for at, width, count in masked_chunks(high - low, lanes):
        width = max(width, 2)                                         # a scalar has no mask
        base = loops.const(low + at)
        mask = simplify.expr(strip_mining.lanes_within(loops.Ramp(base, 1, width), s.lower, s.upper), known)
        active: int | loops.Expr | None = count if count < width else None
        if not isinstance(mask, loops.Const):
            active = mask
        if not isinstance(mask, loops.Const) or mask.value:
            found.append(Chunk(base, 1, width, active))
    return found


def _chunk(s: loops.For, at: int, lanes: int, active: int, count: int) -> Chunk:
    """Iterations at..at+active of a loop of known bounds, and as many more for each other vector of `count`."""
    assert isinstance(s.lower, loops.Const)
    return Chunk(loops.const(int(s.lower.value) + at * s.step), s.step, lanes, active if active < lanes else None, count)


def chunks(extent: int, lanes: int) -> list[tuple[int, int, int]]:
    """(first iteration, lanes, lanes that count) of the vectors that cover `extent`: whole ones, then smaller powers of two."""
    out, at = [], 0
    while at < extent:
        while lanes > extent - at:
            lanes //= 2
        out.append((at, lanes, lanes))
        at += lanes
    return out


def masked_chunks(extent: int, lanes: int) -> list[tuple[int, int, int]]:
    """The same with one vector for all that is left after whole ones, the smallest that holds it."""
    out = [(at, lanes, lanes) for at in range(0, extent - lanes + 1, lanes)]
    rest = extent % lanes
    if rest:
        out.append((extent - rest, 1 << (rest - 1).bit_length(), rest))
    return out


def _unroll(s: loops.For, extent: int) -> loops.Stmt:
    body = unrolling.written_out(s.body)
    return loops.block(*(simplify.at(body, s.var, v, {}) for v in unrolling.values(s)[:extent]))
