"""Perfectly nested parallel loops become one, so that threads share all their iterations.

    parallel for a in 0:4 { parallel for b in 0:30 { Y[a,b] = X[a,b] } }        with X[4,30], Y[4,30]
    ->  parallel for a_b in 0:120 { Y[a_b // 30, a_b % 30] = X[a_b // 30, a_b % 30] }

Of an inner loop of thousands of iterations they share pieces, `for b in a_b % 64 * 500:a_b % 64 * 500 + 500`.

Threads get neighbouring numbers, the same part of them in every kernel. Where the iterations of the inner loop share less than
those of the outer one, blocks of it come first, so that each thread has its part of what it would otherwise read as a whole,
half of which another thread has just written: the places of an image, say, for all blocks of filters.

    parallel for a in 0:4 { parallel for b in 0:12 { for c in 0:4096 { Y[b,a] = Y[b,a] + X[c,b] } } }
        with X[4096,12], Y[12,4]
    ->  parallel for a_b in 0:48 { for c in 0:4096 { Y[a_b // 4, a_b % 4] = Y[a_b // 4, a_b % 4] + X[c, a_b // 4] } }
"""

from __future__ import annotations

import math
from dataclasses import replace

from polytc.codegen import loops, traverse
from polytc.codegen.passes import simplify
from polytc.machine import Machine
from polytc.program.scalars import I64

ENOUGH = 64
"""Iterations of the outer loop that make collapsing needless."""
BLOCKS = 32
"""Blocks of the inner loop, where these come first, at least; fewer where it has fewer iterations."""
LONG = 4096
"""Iterations of an inner loop of which threads get pieces."""
PART = 4
"""What all blocks use again should take this part of the second cache at most."""


def collapse_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """Merge two loops at the top of the kernel if the outer one alone has few iterations. Bounds must be constant."""
    return replace(kernel, body=_top(kernel.body, machine))


def _top(s: loops.Stmt, machine: Machine) -> loops.Stmt:
    match s:
        case loops.Block():
            return loops.block(*(_top(x, machine) for x in s.stmts))
        case loops.Alloc():
            return replace(s, body=_top(s.body, machine))
        case loops.For(kind="parallel"):
            return _collapse(s, machine)
        case _:
            return s


def _collapse(s: loops.For, machine: Machine) -> loops.Stmt:
    inner = s.body
    if not (isinstance(inner, loops.For) and inner.kind == "parallel" and s.step == inner.step == 1):
        return s
    bounds = [int(b.value) for b in (s.lower, s.upper, inner.lower, inner.upper) if isinstance(b, loops.Const)]
    if len(bounds) < 4 or bounds[1] - bounds[0] >= ENOUGH:
        return s
    outside, extent = bounds[1] - bounds[0], bounds[3] - bounds[2]
    if outside == 1 and extent < LONG:
        return simplify.at(inner, s.var, bounds[0], {})
    both = loops.Var(f"{s.var}_{inner.var}")
    deals = _deals_inner(s, inner, machine)
    if extent >= LONG and not deals:
        return _pieces(s, inner, bounds)
    block = _block(extent) if deals else extent
    first = loops.binary("//", both, loops.const(block))
    second = loops.binary("%", both, loops.const(block))
    if block < extent:
        whole = loops.binary("//", both, loops.const(outside * block))
        first = loops.binary("//", loops.binary("%", both, loops.const(outside * block)), loops.const(block))
        second = loops.binary("+", loops.binary("*", whole, loops.const(block)), second) if block > 1 else whole
    body = _let(s, first, bounds[0], _let(inner, second, bounds[2], inner.body))
    return loops.For(both.name, loops.const(0), loops.const(outside * extent), 1, body, "parallel")


def _pieces(outer: loops.For, inner: loops.For, bounds: list[int]) -> loops.For:
    """Threads share pieces of a long inner loop, each of which is a loop still, so that targets make vectors of it."""
    extent = bounds[3] - bounds[2]
    length = -(-extent // ENOUGH)
    pieces = -(-extent // length)
    both = loops.Var(f"{outer.var}_{inner.var}")
    start = loops.binary("*", loops.binary("%", both, loops.const(pieces)), loops.const(length))
    start = loops.binary("+", start, loops.const(bounds[2])) if bounds[2] else start
    full = loops.binary("+", start, loops.const(length))
    end = full if length * pieces == extent else loops.Call("min", (full, inner.upper), I64)
    body = _let(outer, loops.binary("//", both, loops.const(pieces)), bounds[0],
                loops.For(inner.var, start, end, 1, inner.body, title=inner.title))
    return loops.For(both.name, loops.const(0), loops.const((bounds[1] - bounds[0]) * pieces), 1, body, "parallel")


def _let(loop: loops.For, value: loops.Expr, offset: int, body: loops.Stmt) -> loops.For:
    """A loop of one iteration gives the loop's variable its value without rewriting the body."""
    value = loops.binary("+", value, loops.const(offset)) if offset else value
    return loops.For(loop.var, value, loops.binary("+", value, loops.const(1)), 1, body, title=loop.title)


def _block(extent: int) -> int:
    """Iterations of a block: they divide the extent."""
    return next(b for b in range(max(1, extent // BLOCKS), 0, -1) if extent % b == 0)


def _deals_inner(outer: loops.For, inner: loops.For, machine: Machine) -> bool:
    """Should threads have parts of the inner loop, for all iterations of the outer one? Each then reads what its iterations
    share, and again for each block, in place of what those of the outer loop share."""
    if machine.kind != "cpu" or len(machine.caches) < 2:
        return False
    shared, other = _shared(inner.body, inner.var), _shared(inner.body, outer.var)
    first, second = machine.caches[0].bytes, machine.caches[1].bytes
    return shared <= machine.costs.traffic.dirty * other and shared <= second // PART and other >= first


def _shared(body: loops.Stmt, var: str) -> int:
    """Bytes of the arrays that a body reads at places which do not depend on a variable; of open sizes for the representative
    ones."""
    tied = {var}
    read: dict[loops.Buffer, bool] = {}
    own = {s.buffer for s in traverse.walk_stmt(body) if isinstance(s, loops.Alloc | loops.Store)}
    for s in traverse.walk_stmt(body):
        if isinstance(s, loops.For) and any(tied & traverse.variables(e) for e in (s.lower, s.upper)):
            tied.add(s.var)
        for e in traverse.expressions(s):
            for load, _ in traverse.loads(e):
                if load.buffer not in own and load.buffer.space == "global":
                    read[load.buffer] = read.get(load.buffer, False) or any(tied & traverse.variables(i) for i in load.indices)
    return sum(math.prod(map(int, b.shape)) * b.dtype.bytes for b, depends in read.items() if not depends)
