"""Two copies of local tiles in turn: while items work on the tiles of one step, those of the next are on their way.

    block0 for b in 0:9 {                               with A[9,8,64], Y[9,64] on gpu
        for k in 0:8 {
            alloc local f32 T[64]
            thread0 for x in 0:64 { T[x] = A[b,k,x] }
            thread0 for x in 0:64 { Y[b,x] = Y[b,x] + T[63 - x] }
        }
    }
    ->  block0 for b in 0:9 {
            alloc local f32 T[64]
            alloc local f32 T_other[64]
            thread0 for x in 0:64 { T[x] = A[b,0,x] }
            for k in 0:4 {
                thread0 for x in 0:64 { T_other[x] = A[b, k*2 + 1, x] }
                thread0 for x in 0:64 { Y[b,x] = Y[b,x] + T[63 - x] }
                barrier
                if k*2 + 2 < 8 { thread0 for x in 0:64 { T[x] = A[b, k*2 + 2, x] } }
                thread0 for x in 0:64 { Y[b,x] = Y[b,x] + T_other[63 - x] }
            }
        }

Items then meet once in a step instead of twice (passes.barriers), and what they load for the next step need not have come while
they compute. Local memory must have room for both copies, in as many groups as a unit should have (`Machine.room_beside`).
Guarantees: the same stores in the same order, but for those to tiles.
"""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import loops, matrix_products, traverse
from polytc.machine import Machine
from polytc.program.names import fresh

STEPS, FEWEST = 4, 2
"""Of a loop at least; of one with products for a matrix unit, which gains by any copy that need not be waited for."""


def double_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel of a GPU with two copies of the tiles that loops over steps make in each iteration."""
    own = [s.buffer for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.Alloc)]
    taken = {b.name for b in (*kernel.args, *own)}
    products = any(True for _ in matrix_products.products(kernel.body))
    room = machine.room_beside - sum(b.size * b.dtype.bytes for b in own if b.space == "local")
    if machine.kind != "gpu" or not machine.fast_local_memory:
        return kernel

    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        nonlocal room
        least = FEWEST if products else STEPS
        found = _doubled(s, taken, room, least) if isinstance(s, loops.For) and s.kind == "sequential" else None
        if found is None:
            return s
        room -= found[1]
        return found[0]
    return replace(kernel, body=traverse.map_stmt(kernel.body, on_stmt, lambda e: e))


def _doubled(s: loops.For, taken: set[str], room: int, least: int) -> tuple[loops.Stmt, int] | None:
    """The loop with two copies of its tiles, and the bytes of the other ones; None where that is not right or too much. least:
    steps that it has."""
    steps = s.upper.value if isinstance(s.upper, loops.Const) else 0
    if s.lower != loops.const(0) or s.step != 1 or not isinstance(steps, int) or steps < least:
        return None
    allocated, body = [], s.body
    while isinstance(body, loops.Alloc):
        allocated.append(body.buffer)
        body = body.body
    tiles = {b.name for b in allocated if b.space == "local"}
    bytes_ = sum(b.size * b.dtype.bytes for b in allocated if b.name in tiles)
    parts = list(body.stmts) if isinstance(body, loops.Block) else []
    count = next((n for n, x in enumerate(parts) if not _copies(x, tiles)), len(parts))
    copies, rest = parts[:count], parts[count:]
    if not (tiles and copies and rest) or bytes_ > room or not _apart(copies, rest, tiles):
        return None
    names = {name: fresh(f"{name}_other", taken) for name in sorted(tiles)}
    taken |= set(names.values())
    k = loops.Var(s.var)

    def at(stmts: list[loops.Stmt], place: loops.Expr, other: bool) -> loops.Stmt:
        """Statements at a step, with the one copy or the other."""
        def on_expr(e: loops.Expr) -> loops.Expr:
            return place if isinstance(e, loops.Var) and e.name == s.var else e
        moved = traverse.map_stmt(loops.block(*stmts), lambda x: x, lambda e: traverse.map_expr(e, on_expr))
        return _renamed(moved, names) if other else moved
    even = loops.binary("*", k, loops.const(2))
    odd, after = loops.binary("+", even, loops.const(1)), loops.binary("+", even, loops.const(2))

    def until(place: loops.Expr, x: loops.Stmt, always: bool) -> loops.Stmt:
        return x if always else loops.If(loops.binary("<", place, s.upper), x, None)
    pairs = steps % 2 == 0
    inside = loops.block(until(odd, at(copies, odd, other=True), pairs), at(rest, even, other=False),
                         loops.Barrier(),                            # outside of the condition, so that it is the only one
                         until(after, at(copies, after, other=False), always=False),
                         until(odd, at(rest, odd, other=True), pairs))
    made: loops.Stmt = loops.block(at(copies, loops.const(0), other=False),
                                   replace(s, upper=loops.const(-(-steps // 2)), body=inside))
    for b in reversed(allocated):
        both = (b, replace(b, name=names[b.name])) if b.name in tiles else (b,)
        for x in reversed(both):
            made = loops.Alloc(x, made)
    return made, bytes_


def _stored(s: loops.Stmt) -> set[str]:
    return {x.buffer.name for x in traverse.walk_stmt(s) if isinstance(x, loops.Store)}


def _loaded(s: loops.Stmt) -> set[str]:
    return {e.buffer.name for x in traverse.walk_stmt(s) for top in traverse.expressions(x) for e, _ in traverse.loads(top)}


def _copies(s: loops.Stmt, tiles: set[str]) -> bool:
    """Does a statement store to the tiles alone, and read none of them?"""
    stored = _stored(s)
    return bool(stored) and stored <= tiles and not _loaded(s) & tiles


def _apart(copies: list[loops.Stmt], rest: list[loops.Stmt], tiles: set[str]) -> bool:
    """May the copies of the next step come before the rest of this one?"""
    stored = set[str]().union(*map(_stored, rest))
    return not stored & tiles and not stored & set[str]().union(*map(_loaded, copies))


def _renamed(s: loops.Stmt, names: dict[str, str]) -> loops.Stmt:
    def on_expr(e: loops.Expr) -> loops.Expr:
        moved = isinstance(e, loops.Load) and e.buffer.name in names
        return replace(e, buffer=replace(e.buffer, name=names[e.buffer.name])) if moved and isinstance(e, loops.Load) else e

    def on_stmt(x: loops.Stmt) -> loops.Stmt:
        moved = isinstance(x, loops.Store) and x.buffer.name in names
        return replace(x, buffer=replace(x.buffer, name=names[x.buffer.name])) if moved and isinstance(x, loops.Store) else x
    return traverse.map_stmt(s, on_stmt, lambda e: traverse.map_expr(e, on_expr))
