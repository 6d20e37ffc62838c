"""Loops that compilers for GPUs should unroll: short ones of arithmetic, whose counting and whose waiting for each load they
would otherwise keep.

    for k in 0:16 { s[] = s[] + A[k] * B[k] }           with s[], A[16], B[16] on gpu
    ->  unroll for k in 0:16 { s[] = s[] + A[k] * B[k] }

So are those whose variable chooses among registers, which no variable can. The loop stays one in the text, under a pragma.
Where a device's compiler loads what all the copies of a loop use before the first of them, there are no more copies than
registers hold that for. (Volkov, Better Performance at Lower Occupancy, GTC 2010.)
"""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import intervals, loops, traverse
from polytc.machine import Machine
from polytc.program.calls.words import DOTS

OPERATIONS = 2048
"""Of single numbers, in a loop that is unrolled: 16 steps of a tile of 8 x 8 elements, a multiply-add counted twice. More
would leave the caches of instructions."""
ITERATIONS = 32
"""Of a loop and those inside of it that are unrolled together: more loads at once need more registers than there are."""

REGISTERS = 256
"""Iterations of a loop and those inside of it that choose among the registers of an item: as many as it has."""


def mark_short_loops(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel with its short sequential loops of kind 'unroll', written out as often as the machine's registers allow."""
    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        if not isinstance(s, loops.For) or s.kind != "sequential":
            return s
        count = operations(s)
        short = 0 < (count or 0) <= OPERATIONS and _iterations(s) <= ITERATIONS
        if _chooses_registers(s):
            return replace(s, kind="unroll")
        return replace(s, kind="unroll", copies=_copies(s, machine)) if short else s
    return replace(kernel, body=traverse.map_stmt(kernel.body, on_stmt, lambda e: e))


def _chooses_registers(s: loops.For) -> bool:
    """Does a loop's variable choose among the elements of an array of an item? Where it is not unrolled, they lie in memory."""
    inside = list(traverse.walk_stmt(s.body))
    accesses: list[loops.Load | loops.Store] = [x for x in inside if isinstance(x, loops.Store)]
    accesses += [e for x in inside for top in traverse.expressions(x) for e, _ in traverse.loads(top)]
    return intervals.trips(s) is not None and _iterations(s) <= REGISTERS and any(
        x.buffer.space == "private" and any(s.var in traverse.variables(i) for i in x.indices) for x in accesses)


def _copies(s: loops.For, machine: Machine) -> int:
    """So many iterations of a loop at once that registers hold what it adds up into and what all of them load; 0 for all."""
    hoisted, trips = machine.costs.groups.hoisted, intervals.trips(s) or 1
    if not hoisted:
        return 0
    kept, loaded = _words(s.body)
    fit = (n for n in range(trips, 0, -1) if trips % n == 0 and kept + hoisted * loaded * n <= machine.item_registers)
    found = next(fit, 1)
    return 0 if found == trips else found


def _words(s: loops.Stmt) -> tuple[int, int]:
    """Words of four bytes that a statement keeps in private memory, and those that it loads from elsewhere, each once."""
    stores = [x for x in traverse.walk_stmt(s) if isinstance(x, loops.Store)]
    kept = {(x.buffer.name, x.indices): x.value.lanes * _size(x.buffer) for x in stores if x.buffer.space == "private"}
    loaded = {e: e.lanes * _size(e.buffer) for x in stores for top in traverse.expressions(x)
              for e, _ in traverse.loads(top) if e.buffer.space != "private"}
    inner = max((_iterations(x) for x in traverse.children(s)), default=1)
    return sum(kept.values()), sum(loaded.values()) * (inner * (intervals.trips(s) or 1) if isinstance(s, loops.For) else inner)


def _size(b: loops.Buffer) -> int:
    """Words of an element."""
    return -(-b.dtype.bytes // 4)


def operations(s: loops.Stmt) -> int | None:
    """Operations of floating-point numbers that a statement does, and on words of bytes; None where that is not known, or items
    meet in it."""
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
            words = [e.lanes for e in traverse.walk_expr(s.value) if isinstance(e, loops.Call) and e.fn in DOTS]
            return 2 * sum(words) + sum(e.lanes for e in traverse.walk_expr(s.value)
                                        if isinstance(e, loops.Binary | loops.Call) and e.dtype.kind == "f")
    known = [p for p in parts if p is not None]
    return sum(known) if len(known) == len(parts) else None


def _iterations(s: loops.Stmt) -> int:
    """Of the loops of constant bounds in a statement, of a nest multiplied."""
    inner = max((_iterations(x) for x in traverse.children(s)), default=1)
    return inner * (intervals.trips(s) or 1) if isinstance(s, loops.For) else inner
