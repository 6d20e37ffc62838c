"""Local arrays whose elements neighbouring work-items want from one bank: rows get some more elements.

    block0 for g in 0:1 {                               with X[32,32], Y[32,32] on gpu
        alloc local f32 T[32,32]
        thread0 for item0 in 0:32 { for y in 0:32 { T[y,item0] = X[y,item0] } }
        thread0 for item0 in 0:32 { for y in 0:32 { Y[y,item0] = T[item0,y] } }
    }
    ->  block0 for g in 0:1 { alloc local f32 T[32,33];  ... }

so that the items' words lie in different banks of local memory, which serves a bank's words one after another (Ruetsch &
Micikevicius, Optimizing Matrix Transpose in CUDA, 2009). Where vectors are loaded or stored, rows get a whole vector more, as
these want their alignment; so do operands of declared intrinsics. Rows that a matrix unit reads have an odd number of its
blocks. Guarantees: every access finds the element it found before; the local arrays of a kernel that gets longer rows fit
local memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, product
from math import isfinite

from polytc.codegen import intervals, loops, matrix_products, traverse
from polytc.codegen.intervals import Interval, interval
from polytc.codegen.passes import work_items
from polytc.machine import Machine

GAIN = 0.95
"""Longer rows must bring the turns that accesses wait for to this part."""
BLOCK = 16
"""Bytes that an item reads for a matrix unit."""
SOME = 16
"""Iterations that a loop is taken to have where its ends are not numbers."""


@dataclass(frozen=True)
class _Access:
    """indices: of a load or a store; times: iterations of the loops around; places: first elements of a warp's items."""

    indices: tuple[loops.Expr, ...]
    times: int
    places: tuple[tuple[int, ...], ...]

    @property
    def lanes(self) -> int:
        return max(i.lanes for i in self.indices)


def pad_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel with longer rows where items meet in a bank."""
    own = [s.buffer for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.Alloc) and s.buffer.space == "local"]
    if machine.kind != "gpu" or not work_items.shared_item_variables(kernel) or not own:
        return kernel
    used: dict[str, list[_Access]] = {}
    warp = tuple(islice(_numbers(kernel), machine.warp))
    for name, indices, times, _ in traverse.accesses(kernel.body, frozenset(b.name for b in own), 1, _times):
        used.setdefault(name, []).append(_Access(indices, times, tuple(_place(indices, numbers) for numbers in warp)))
    room = machine.local_bytes - sum(b.size * b.dtype.bytes for b in own)
    longer: dict[loops.Buffer, loops.Buffer] = {}
    blocks, units = matrix_products.tiles(kernel.body), dict(_units(kernel))
    for b in own:
        unit, accesses = units.get(b.name, 1), used.get(b.name, [])
        more = b
        if b.name in blocks:
            more = _odd(b, room)
        elif unit:
            more = _longer(b, accesses, room, machine.costs.groups.banks, unit)
        if more != b:
            longer[b] = more
            room -= (more.size - b.size) * b.dtype.bytes
    return replace(kernel, body=_renamed(kernel.body, longer)) if longer else kernel


def _odd(b: loops.Buffer, room: int) -> loops.Buffer:
    """The buffer with rows of an odd number of blocks: a warp reads for a matrix unit one of 16 bytes of eight rows at once.
    room: bytes that it may have more."""
    block = BLOCK // b.dtype.bytes
    longer = replace(b, shape=(*b.shape[:-1], (-(-b.shape[-1] // block) | 1) * block))
    return longer if (longer.size - b.size) * b.dtype.bytes <= room else b


def _times(outside: int, s: loops.For) -> int:
    """Iterations of an item. outside: those of the loops around."""
    if s.kind == "thread":
        return outside
    known = intervals.trips(s)
    return outside * (SOME if known is None else max(1, known))


def _numbers(kernel: loops.Kernel) -> Iterator[dict[str, int]]:
    """The numbers of the items of a group, in the order in which warps take them."""
    axes: dict[str, int] = {}
    for s in traverse.walk_stmt(kernel.body):
        if isinstance(s, loops.For) and s.kind == "thread" and isinstance(s.upper, loops.Const):
            axes[s.var] = max(axes.get(s.var, 1), int(s.upper.value))
    names = sorted(work_items.shared_item_variables(kernel), reverse=True)
    for numbers in product(*(range(axes.get(n, 1)) for n in names)):
        yield dict(zip(names, numbers, strict=True))


def _units(kernel: loops.Kernel) -> Iterator[tuple[str, int]]:
    """Buffers that declared intrinsics touch, and the elements by which their rows may get longer; 0 where they may not, as the
    text of the intrinsic is not told how long they are."""
    calls = dict(kernel.intrinsics)
    for s in traverse.walk_stmt(kernel.body) if calls else ():
        call = calls.get(s.origin) if isinstance(s, loops.Store) else None
        if call is None or not isinstance(s, loops.Store):
            continue
        told = not any(o.whole or call.intrinsic.untold(o.name, d) for o in call.operands for d in range(len(o.rows) - 1))
        touched = [s.buffer, *(e.buffer for top in traverse.expressions(s) for e, _ in traverse.loads(top))]
        yield from ((b.name, max(1, call.intrinsic.alignment // b.dtype.bytes) if told else 0) for b in touched)


def _longer(b: loops.Buffer, used: list[_Access], room: int, banks: int, unit: int = 1) -> loops.Buffer:
    """The buffer with the rows that cost the fewest turns, of those that fit `room` more bytes. unit: elements by which rows
    may get longer."""
    if len(b.shape) < 2 or not used:
        return b
    whole = max(unit, *(a.lanes for a in used))
    turns = {b: _turns(b, used, banks)}
    for extra in (whole, 2 * whole):
        more = replace(b, shape=(*b.shape[:-1], b.shape[-1] + extra))
        if (more.size - b.size) * b.dtype.bytes <= room:
            turns[more] = _turns(more, used, banks)
    best = min(turns, key=lambda x: turns[x])
    return best if turns[best] <= GAIN * turns[b] else b


def _turns(b: loops.Buffer, used: list[_Access], banks: int) -> int:
    """How often the banks must serve the accesses of a warp: as often as the one with the most words, for each access."""
    return sum(a.times * _most(b, a, banks) for a in used)


def _most(b: loops.Buffer, a: _Access, banks: int) -> int:
    """Words of one bank that a warp wants at once, in turns of so many items that their vectors are as many words as banks."""
    firsts = [sum(n * stride for n, stride in zip(place, b.strides)) for place in a.places]
    together = max(1, banks // a.lanes)
    worst = 0
    for start in range(0, len(firsts), together):
        words = {(first + k) * b.dtype.bytes // 4 for first in firsts[start:start + together] for k in range(a.lanes)}
        worst += max(Counter(w % banks for w in words).values())
    return worst


def _place(indices: tuple[loops.Expr, ...], numbers: dict[str, int]) -> tuple[int, ...]:
    """The first element that an item accesses in the first iteration of all loops; none where it is not known."""
    first = {n: Interval(0, 0) for i in indices for n in traverse.variables(i)}
    env = first | {n: Interval(v, v) for n, v in numbers.items()}
    ends = [interval(i, env) for i in indices]
    return tuple(int(e.low) for e in ends) if all(isfinite(e.low) for e in ends) else ()


def _renamed(body: loops.Stmt, longer: dict[loops.Buffer, loops.Buffer]) -> loops.Stmt:
    def on_expr(e: loops.Expr) -> loops.Expr:
        return replace(e, buffer=longer[e.buffer]) if isinstance(e, loops.Load) and e.buffer in longer else e

    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        return replace(s, buffer=longer[s.buffer]) if isinstance(s, loops.Store | loops.Alloc) and s.buffer in longer else s
    return traverse.map_stmt(body, on_stmt, lambda e: traverse.map_expr(e, on_expr))
