"""Loops that compilers for GPUs should unroll: short ones of arithmetic, whose counting and whose waiting for each load they
would otherwise keep.

    for k in 0:16 { s[] = s[] + A[k] * B[k] }           with s[], A[16], B[16] on gpu
    ->  unroll for k in 0:16 { s[] = s[] + A[k] * B[k] }

So are those whose variable chooses among registers, which no variable can. The loop stays one in the text, under a pragma.
(Volkov, Better Performance at Lower Occupancy, GTC 2010.)
"""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import intervals, loops, traverse

OPERATIONS = 2048
"""Of single numbers, in a loop that is unrolled: 16 steps of a tile of 8 x 8 elements, a multiply-add counted twice. More
would leave the caches of instructions."""
ITERATIONS = 32
"""Of a loop and those inside of it that are unrolled together: more loads at once need more registers than there are."""

REGISTERS = 256
"""Iterations of a loop and those inside of it that choose among the registers of an item: as many as it has."""


def mark_short_loops(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with its short sequential loops of kind 'unroll'."""
    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        if not isinstance(s, loops.For) or s.kind != "sequential":
            return s
        count = operations(s)
        short = 0 < (count or 0) <= OPERATIONS and _iterations(s) <= ITERATIONS
        return replace(s, kind="unroll") if short or _chooses_registers(s) else s
    return replace(kernel, body=traverse.map_stmt(kernel.body, on_stmt, lambda e: e))


def _chooses_registers(s: loops.For) -> bool:
    """Does a loop's variable choose among the elements of an array of an item? Where it is not unrolled, they lie in memory."""
    inside = list(traverse.walk_stmt(s.body))
    accesses: list[loops.Load | loops.Store] = [x for x in inside if isinstance(x, loops.Store)]
    accesses += [e for x in inside for top in traverse.expressions(x) for e, _ in traverse.loads(top)]
    return intervals.trips(s) is not None and _iterations(s) <= REGISTERS and any(
        x.buffer.space == "private" and any(s.var in traverse.variables(i) for i in x.indices) for x in accesses)


def operations(s: loops.Stmt) -> int | None:
    """Operations of floating-point numbers that a statement does; None where that is not known, or items meet in it."""
    match s:
        case loops.For():
            count, times = operations(s.body), intervals.trips(s)
            return None if count is None or times is None or s.kind in ("block", "thread") else count * times
        case loops.Barrier():
            return None
        case loops.Alloc():
            return operations(s.body) if s.buffer.space == "private" else None
        case loops.If():
            parts = [operations(s.then), *([operations(s.orelse)] if s.orelse is not None else [])]
        case loops.Block():
            parts = [operations(x) for x in s.stmts]
        case loops.Store():
            return sum(e.lanes for e in traverse.walk_expr(s.value)
                       if isinstance(e, loops.Binary | loops.Call) and e.dtype.kind == "f")
    known = [p for p in parts if p is not None]
    return sum(known) if len(known) == len(parts) else None


def _iterations(s: loops.Stmt) -> int:
    """Of the loops of constant bounds in a statement, of a nest multiplied."""
    inner = max((_iterations(x) for x in traverse.children(s)), default=1)
    return inner * (intervals.trips(s) or 1) if isinstance(s, loops.For) else inner
