"""Two copies of local tiles in turn: while items work on the tiles of one step, those of the next are on their way.

    block0 for b in 0:9 {                               with A[9,8,64], Y[9,64] on gpu
        for k in 0:8 {
            alloc local f32 T[64]
            thread0 for x in 0:64 { T[x] = A[b,k,x] }
            thread0 for x in 0:64 { Y[b,x] = Y[b,x] + T[63 - x] }
        }
    }
    ->  block0 for b in 0:9 {
            alloc private f32 T_next[64,1]
            alloc local f32 T[64]
            alloc local f32 T_other[64]
            thread0 for x in 0:64 { T[x] = A[b,0,x] }
            for k in 0:4 {
                thread0 for x in 0:64 { T_next[x,0] = A[b, k*2 + 1, x] }
                thread0 for x in 0:64 { Y[b,x] = Y[b,x] + T[63 - x] }
                thread0 for x in 0:64 { T_other[x] = T_next[x,0] }
                barrier
                if k*2 + 2 < 8 { thread0 for x in 0:64 { T_next[x,0] = A[b, k*2 + 2, x] } }
                thread0 for x in 0:64 { Y[b,x] = Y[b,x] + T_other[63 - x] }
                if k*2 + 2 < 8 { thread0 for x in 0:64 { T[x] = T_next[x,0] } }
            }
        }

Items then meet once in a step instead of twice (passes.barriers), and what they load for the next step need not have come
while they compute: it is in registers meanwhile, where that pays (register_prefetch.py), as an item waits for what it stores.
Local memory must have room for both copies, in as many groups as a unit should have (`Machine.room_beside`); where it has not,
what is loaded ahead is in registers alone. Guarantees: the same stores in the same order, but for those to tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc import errors
from polytc.codegen import loops, matrix_products, traverse
from polytc.codegen.passes.local_memory import fetches, register_prefetch
from polytc.codegen.passes.local_memory.fetches import Fetches
from polytc.codegen.passes.local_memory.register_prefetch import Choice
from polytc.machine import Machine
from polytc.program.fetching import REGISTERS
from polytc.program.names import fresh

BEHIND = "shared_storage"
"""The pass before."""
STEPS, FEWEST = 4, 2
"""Of a loop at least; of one with products for a matrix unit, which gains by any copy that need not be waited for."""


def double_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel of a GPU with two copies of the tiles that loops over steps make in each iteration."""
    return planned(kernel, machine)[0]


def planned(kernel: loops.Kernel, machine: Machine) -> tuple[loops.Kernel, tuple[Choice, ...]]:
    """The same, and what was weighed."""
    own = [s.buffer for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.Alloc)]
    taken = {b.name for b in (*kernel.args, *own)}
    products = any(True for _ in matrix_products.products(kernel.body))
    room = machine.room_beside - sum(b.size * b.dtype.bytes for b in own if b.space == "local")
    staged = machine.kind == "gpu" and machine.fast_local_memory
    asked = {(a.origin, a.var) for a in kernel.ahead if a.ahead.into == REGISTERS} if register_prefetch.items(kernel) else set()
    left, found = asked & _stored_in(kernel.body), list[Choice]()

    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        nonlocal room
        tiled = _tiled(s) if isinstance(s, loops.For) and s.kind == "sequential" else None
        if tiled is None or not (staged or left):
            return s
        mine = {x for x in left if x[1] == tiled.loop.var and x in _stored_in(tiled.loop)}
        twice = staged and tiled.known >= (FEWEST if products else STEPS) and tiled.bytes <= room
        choice = register_prefetch.choose(kernel, tiled.loop, tiled.copies, tiled.rest, taken, machine, twice, bool(mine))
        ahead = choice.fetches if choice is not None and choice.taken and (staged or mine) else None
        if choice is not None and (staged or mine):
            found.append(choice)
        if ahead is not None:
            left.difference_update(mine)
            taken.update(b.name for b in ahead.registers)
        if not twice:
            return _rotated(tiled, ahead) if ahead is not None else s
        room -= tiled.bytes
        return _doubled(tiled, taken, ahead)
    body = traverse.map_stmt(kernel.body, on_stmt, lambda e: e)
    for origin, _ in sorted(left):
        raise errors.fail("E528", f"what {origin} copies cannot be loaded into registers one iteration ahead", notes=[
            "it must come first in its loop, from 0 on, in loops of fixed numbers of iterations, into local memory that "
            "nothing else in the loop writes", "bind the loops of the copy to items where the last tile has fewer elements"],
            kind=errors.TargetError)
    resident = min((c.resident for c in found if c.asked and c.taken), default=kernel.resident)
    return replace(kernel, body=body, resident=resident), tuple(found)


def _stored_in(s: loops.Stmt, around: tuple[str, ...] = ()) -> set[tuple[str, str]]:
    """The statements that store, each with the variables of the loops around."""
    match s:
        case loops.Store():
            return {(s.origin, var) for var in around}
        case loops.For():
            return _stored_in(s.body, (*around, s.var))
    return set[tuple[str, str]]().union(*(_stored_in(x, around) for x in traverse.children(s)))


@dataclass(frozen=True)
class _Tiled:
    """A loop over steps, from 0, each of which first copies to tiles. allocated: buffers inside; rest: what uses the tiles."""

    loop: loops.For
    allocated: tuple[loops.Buffer, ...]
    copies: tuple[loops.Stmt, ...]
    rest: tuple[loops.Stmt, ...]

    @property
    def known(self) -> int:
        """The number of steps, 0 where it is open."""
        return int(self.loop.upper.value) if isinstance(self.loop.upper, loops.Const) else 0

    @property
    def tiles(self) -> tuple[loops.Buffer, ...]:
        return tuple(b for b in self.allocated if b.space == "local")

    @property
    def bytes(self) -> int:
        """Of the tiles."""
        return sum(b.size * b.dtype.bytes for b in self.tiles)

    def at(self, stmts: tuple[loops.Stmt, ...], place: loops.Expr) -> loops.Stmt:
        """Statements at a step."""
        return traverse.substitute(loops.block(*stmts), {self.loop.var: place})

    def until(self, place: loops.Expr, x: loops.Stmt, always: bool = False) -> loops.Stmt:
        """A statement, if there is such a step."""
        return x if always else loops.If(loops.binary("<", place, self.loop.upper), x, None)


def _tiled(s: loops.For) -> _Tiled | None:
    """The loop as one over steps, if it is one, and the copies of the next step may come before the rest of this one."""
    if s.lower != loops.const(0) or s.step != 1:
        return None
    allocated, body = list[loops.Buffer](), s.body
    while isinstance(body, loops.Alloc):
        allocated.append(body.buffer)
        body = body.body
    tiles = {b.name for b in allocated if b.space == "local"}
    parts = list(body.stmts) if isinstance(body, loops.Block) else []
    count = next((n for n, x in enumerate(parts) if not _copies(x, tiles)), len(parts))
    copies, rest = parts[:count], parts[count:]
    if not (tiles and copies and rest) or not _apart(copies, rest, tiles):
        return None
    return _Tiled(s, tuple(allocated), tuple(copies), tuple(rest))


def _doubled(t: _Tiled, taken: set[str], ahead: Fetches | None) -> loops.Stmt:
    """The loop with two copies of its tiles, of which the ones are loaded into registers first, if `ahead` says so."""
    names = {b: replace(b, name=fresh(f"{b.name}_other", taken)) for b in sorted(t.tiles, key=lambda b: b.name)}
    taken |= {b.name for b in names.values()}
    k = loops.Var(t.loop.var)
    even = loops.binary("*", k, loops.const(2))
    odd, after = loops.binary("+", even, loops.const(1)), loops.binary("+", even, loops.const(2))
    pairs = t.known % 2 == 0
    first, last = (ahead.loads, ahead.stores) if ahead is not None else (t.copies, ())

    def other(s: loops.Stmt) -> loops.Stmt:
        return fetches.renamed(s, names)

    def stored(s: loops.Stmt, place: loops.Expr, always: bool) -> tuple[loops.Stmt, ...]:
        return (t.until(place, s, always),) if last else ()
    inside = loops.block(t.until(odd, other(t.at(first, odd)), pairs), t.at(t.rest, even),
                         *stored(other(t.at(last, odd)), odd, pairs),
                         loops.Barrier(),                            # outside of the condition, so that it is the only one
                         t.until(after, t.at(first, after)),
                         t.until(odd, other(t.at(t.rest, odd)), pairs), *stored(t.at(last, after), after, always=False))
    made: loops.Stmt = loops.block(t.at(t.copies, loops.const(0)),
                                   replace(t.loop, upper=loops.const(-(-t.known // 2)), body=inside))
    for b in reversed(t.allocated):
        for x in reversed((b, names[b]) if b in names else (b,)):
            made = loops.Alloc(x, made)
    return _with_registers(made, ahead)


def _rotated(t: _Tiled, ahead: Fetches) -> loops.Stmt:
    """The loop with one copy of its tiles, which are loaded into registers a step before: load 0;  for k { store to tiles;
    load k + 1;  rest }."""
    k, zero = loops.Var(t.loop.var), loops.const(0)
    following = loops.binary("+", k, loops.const(1))
    body: loops.Stmt = loops.block(t.at(ahead.stores, k), t.until(following, t.at(ahead.loads, following)), *t.rest)
    for b in reversed(t.allocated):
        body = loops.Alloc(b, body)
    made = loops.block(t.until(zero, t.at(ahead.loads, zero), t.known > 0), replace(t.loop, body=body))
    return _with_registers(made, ahead)


def _with_registers(s: loops.Stmt, ahead: Fetches | None) -> loops.Stmt:
    for b in reversed(ahead.registers if ahead is not None else ()):
        s = loops.Alloc(b, s)
    return s


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
