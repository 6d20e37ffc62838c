"""Copies to local memory in two parts: what they load goes to registers, and later from there to local memory.

    thread0 for x in 0:64 { T[x] = f32(A[k,x]) } is made thread0 for x in 0:64 { R[x] = A[k,x] }
    and thread0 for x in 0:64 { T[x] = f32(R[x]) }

Between the two there may be arithmetic: an item waits for what it loads where it first uses it, and that is the second part.
The registers are private arrays with a dimension for the number of each item, as `passes.work_items` has them. What stands
around a load but a choice between it and a number, such as a conversion, is computed in the second part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from polytc.codegen import intervals, loops, traverse
from polytc.codegen.vector_lanes import has_load
from polytc.program.names import claim
from polytc.program.scalars import DType


@dataclass(frozen=True)
class Fetches:
    """loads, stores: the two parts of copies; registers: the private arrays between them; words: of 32 bits that an item holds
    meanwhile."""

    loads: tuple[loops.Stmt, ...]
    stores: tuple[loops.Stmt, ...]
    registers: tuple[loops.Buffer, ...]
    words: int


def split(copies: Sequence[loops.Stmt], taken: set[str]) -> Fetches | None:
    """Copies in two parts, with names that are `taken` from then on; None where bounds are no numbers, or nothing is loaded."""
    made = _Splitting(set(taken))
    parts = [made.statement(s, ()) for s in copies]
    if made.fails or not made.slots or any(p is None for p in parts):
        return None
    arrays = {key: made.array(key) for key in made.slots}
    named = {made.placeholder(key): b for key, b in arrays.items()}

    def placed(s: loops.Stmt) -> loops.Stmt:
        return renamed(s, named)
    taken |= {b.name for b in arrays.values()}
    words = sum(-(-b.size // key.items * b.dtype.bytes // 4) for key, b in arrays.items())
    return Fetches(tuple(placed(p[0]) for p in parts if p is not None), tuple(placed(p[1]) for p in parts if p is not None),
                   tuple(arrays.values()), words)


def renamed(s: loops.Stmt, buffers: dict[loops.Buffer, loops.Buffer]) -> loops.Stmt:
    """The statement with other buffers for some."""
    def on_expr(e: loops.Expr) -> loops.Expr:
        return replace(e, buffer=buffers[e.buffer]) if isinstance(e, loops.Load) and e.buffer in buffers else e

    def on_stmt(x: loops.Stmt) -> loops.Stmt:
        return replace(x, buffer=buffers[x.buffer]) if isinstance(x, loops.Store) and x.buffer in buffers else x
    return traverse.map_stmt(s, on_stmt, lambda e: traverse.map_expr(e, on_expr))


@dataclass(frozen=True)
class _Array:
    """What registers have in common: the tile that they are for, the loops over items and the others around, and the type and
    lanes of a load."""

    tile: str
    around: tuple[tuple[str, int], ...]
    inside: tuple[int, ...]
    dtype: DType
    lanes: int

    @property
    def items(self) -> int:
        return prod(extent for _, extent in self.around)


@dataclass
class _Splitting:
    """taken: names; slots: loads of each array so far; fails: a bound is no number."""

    taken: set[str]
    slots: dict[_Array, int] = field(default_factory=dict)
    fails: bool = False

    def array(self, key: _Array) -> loops.Buffer:
        lanes = (key.lanes,) if key.lanes > 1 else ()
        shape = (*(extent for _, extent in key.around), *key.inside, self.slots[key], *lanes)
        return loops.Buffer(claim(f"{key.tile}_next", self.taken), key.dtype, shape, "private")

    def placeholder(self, key: _Array) -> loops.Buffer:
        """The array while it is not known how many loads it is for."""
        return loops.Buffer(f"{list(self.slots).index(key)} of {key.tile}", key.dtype, (), "private")

    def statement(self, s: loops.Stmt, around: tuple[loops.For, ...]) -> tuple[loops.Stmt, loops.Stmt] | None:
        """Both parts of a statement; None if it has some that is neither loop, condition nor store."""
        match s:
            case loops.For() if s.kind in ("thread", "sequential", "unroll", "rolled"):
                return self._loop(s, around)
            case loops.If():
                then = self.statement(s.then, around)
                other = self.statement(s.orelse, around) if s.orelse is not None else (None, None)
                return (replace(s, then=then[0], orelse=other[0]), replace(s, then=then[1], orelse=other[1])) \
                    if then is not None and other is not None else None
            case loops.Block():
                parts = [p for x in s.stmts if (p := self.statement(x, around)) is not None]
                return (loops.block(*(p[0] for p in parts)), loops.block(*(p[1] for p in parts))) \
                    if len(parts) == len(s.stmts) else None
            case loops.Store():
                loads: list[loops.Stmt] = []
                value = self._value(s.value, s, around, loads)
                return loops.block(*loads), replace(s, value=value)
        return None

    def _loop(self, s: loops.For, around: tuple[loops.For, ...]) -> tuple[loops.Stmt, loops.Stmt] | None:
        """A loop of both parts; one that is not over items is written out, so that what it numbers is in registers."""
        parts = self.statement(s.body, (*around, s))
        if parts is None or intervals.trips(s) is None or s.kind == "thread" and (
                s.lower != loops.const(0) or s.step != 1):
            return None
        kind = s.kind if s.kind == "thread" else "unroll"
        return replace(s, body=parts[0], kind=kind, copies=0), replace(s, body=parts[1], kind=kind, copies=0)

    def _value(self, e: loops.Expr, s: loops.Store, around: tuple[loops.For, ...], loads: list[loops.Stmt]) -> loops.Expr:
        """The value with registers for what is loaded, whose stores are added to `loads`."""
        if not has_load(e):
            return e
        plain = isinstance(e, loops.Load) or isinstance(e, loops.Select) and all(
            isinstance(x, loops.Load | loops.Const | loops.Broadcast | loops.Select) for x in (e.a, e.b))
        if not plain:
            return traverse.with_operands(e, tuple(self._value(x, s, around, loads) for x in traverse.operands(e)))
        threads = tuple((x.var, intervals.trips(x) or 0) for x in around if x.kind == "thread")
        others = [x for x in around if x.kind != "thread"]
        key = _Array(s.buffer.name, threads, tuple(intervals.trips(x) or 0 for x in others), e.dtype, e.lanes)
        slot = self.slots.get(key, 0)
        self.slots[key] = slot + 1
        lanes = (loops.Ramp(loops.const(0), 1, e.lanes),) if e.lanes > 1 else ()
        indices = (*(loops.Var(n) for n, _ in threads), *map(_number, others), loops.const(slot), *lanes)
        place = self.placeholder(key)
        loads.append(loops.Store(place, indices, e, s.origin))
        return loops.Load(place, indices, e.dtype, e.lanes)


def _number(s: loops.For) -> loops.Expr:
    """Which iteration of a loop it is."""
    found: loops.Expr = loops.Var(s.var)
    if s.lower != loops.const(0):
        found = loops.binary("-", found, s.lower)
    return found if s.step == 1 else loops.binary("//", found, loops.const(s.step))
