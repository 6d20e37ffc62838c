"""Register prefetch: what a group copies to local memory for the next step is loaded before the arithmetic of this one.

    for k { T = A[k];  Y += T } is made R = A[0];  for k { T = R;  R = A[k+1];  Y += T }

A store to local memory waits for what it stores, and so do all instructions behind it: where a copy is written at once, the
group waits at the start of each step for as long as memory takes. Held in registers until the arithmetic is done, the same
loads hide behind it. (Register prefetching: Volkov & Demmel, Benchmarking GPUs to Tune Dense Linear Algebra, SC 2008.) The
registers may be too many: then fewer groups share a unit, and these hide each other's waiting, too. Both times are estimated:
g groups of a unit take ||(g * arithmetic, wait)||, where a group by itself waits for arithmetic and the arrival of its copies,
or, with what is loaded ahead, for the longer of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from polytc.codegen import intervals, loops, matrix_products, traverse
from polytc.codegen.passes import work_items
from polytc.codegen.passes.local_memory import fetches
from polytc.codegen.passes.local_memory.fetches import Fetches
from polytc.machine import Machine
from polytc.rewrite.gpu.matrix_tiles import ADDRESSES, seconds
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP

MOST = 255
"""Registers of an item at most (NVIDIA, CUDA C++ Programming Guide, table of compute capabilities)."""
PIPELINED = 2
"""Steps of the innermost loop whose operands compilers hold at once: those that are used, and those on their way. With it the
estimate of a tile of 8 x 8 sums is 120 registers; NVRTC 13 takes 122 to 130 for most of them, on sm_80 and sm_90."""


@dataclass(frozen=True)
class Choice:
    """Of one loop over steps. kernel, title: which it is; fetches: its copies in two parts; words: of 32 bits in registers
    before; items: of a group; groups: of a unit at once, without and with what is loaded ahead; times: of a step of one of
    them; twice: its tiles have two copies in turn; asked: a schedule says so; resident: groups of a unit if compilers hold
    the operands of one step only, as they are told then."""

    kernel: str
    title: str
    fetches: Fetches
    words: int
    items: int
    groups: tuple[int, int]
    times: tuple[float, float]
    twice: bool
    asked: bool = False
    resident: int = 0

    @property
    def taken(self) -> bool:
        """Was it asked for, or does it pay?"""
        return self.asked or self.words + self.fetches.words <= MOST and self.times[1] < self.times[0]

    def __str__(self) -> str:
        (before, after), (alone, ahead) = (x * 1e9 for x in self.times), self.groups
        tiles = "two copies of its tiles" if self.twice else "one copy of its tiles"
        what = f"{self.title} of {self.kernel}, with {tiles}: {self.fetches.words} registers for loads a step ahead"
        asked = ", as the schedule asks" if self.asked else ""
        told = f"{alone} -> {ahead} groups of a unit, {before:.0f} -> {after:.0f} ns for a step of one{asked}"
        return f"{what} beside {self.words}: {told}{'' if self.taken else '; not taken'}"


def choose(kernel: loops.Kernel, loop: loops.For, copies: Sequence[loops.Stmt], rest: Sequence[loops.Stmt],
           taken: set[str], machine: Machine, twice: bool, asked: bool = False) -> Choice | None:
    """What loading the copies of the next step ahead would change, in a loop that makes them and has `rest` behind them; None
    where it cannot be, or where copies go to local memory by themselves (a matrix unit's, cp.async of CUDA). taken: names;
    asked: a schedule says so."""
    if not asked and any(True for _ in matrix_products.products(kernel.body)):
        return None
    found = fetches.split(copies, set(taken))
    each = items(kernel)
    if found is None or not each:
        return None
    own = [x for x in traverse.walk_stmt(kernel.body) if isinstance(x, loops.Alloc)]
    words = sum(_words(x) for x in own if x.buffer.space == "private") + PIPELINED * _operands(rest) + ADDRESSES
    tiles = sum(x.buffer.size * x.buffer.dtype.bytes for x in own if x.buffer.space == "local")
    tiles += sum(x.buffer.size * x.buffer.dtype.bytes for x in own if x.buffer.space == "local"
                 and any(x is y for y in traverse.walk_stmt(loop))) if twice else 0
    groups = tuple(_resident(n, each, tiles, machine) for n in (words, words + found.words))
    work = seconds(each * sum(_multiply_adds(s) for s in rest), machine)
    arrival = machine.costs.groups.arrival
    times = tuple(_time(g, work, wait, machine) for g, wait in zip(groups, (work + arrival, max(work, arrival)), strict=True))
    least = words - (PIPELINED - 1) * _operands(rest) + found.words
    return Choice(kernel.name, loop.title or loop.var, found, words, each, (groups[0], groups[1]), (times[0], times[1]), twice,
                  asked, _resident(least, each, tiles, machine))


def _time(groups: int, work: float, wait: float, machine: Machine) -> float:
    """Of a step of one group, where so many share a unit."""
    norm = machine.costs.groups.hiding
    return float(((groups * work) ** norm + wait ** norm) ** (1 / norm) / groups)


def _resident(words: int, items: int, local_bytes: int, machine: Machine) -> int:
    """Groups that a unit has registers and local memory for at once. Compilers take as many registers as leave room for so many
    items of `item_registers`, if nobody tells them otherwise."""
    costs = machine.costs.groups
    local = machine.unit_local_bytes or costs.per_unit * machine.local_bytes
    limits = [costs.per_unit * MAX_WORK_GROUP * machine.item_registers // (max(words, machine.item_registers) * items)]
    return max(1, min([*limits, local // local_bytes] if local_bytes else limits))


def items(kernel: loops.Kernel) -> int:
    """Of a group; 0 where they are not known."""
    axes = dict[int, int]()
    for s in traverse.walk_stmt(kernel.body):
        if isinstance(s, loops.For) and s.kind == "thread":
            high = intervals.trips(s)
            if high is None:
                return 0
            axes[s.axis] = max(axes.get(s.axis, 1), high)
    return prod(axes.values()) if axes else 0


def _words(s: loops.Alloc) -> int:
    """Words of 32 bits of an item's part of a private array."""
    b, axes = s.buffer, frozenset(x.var for x in traverse.walk_stmt(s.body) if isinstance(x, loops.For) and x.kind == "thread")
    owned = work_items.owned_dimensions(work_items.accesses(s.body, b), axes) if axes else ()
    return -(-b.size // prod(b.shape[d] for d in owned) * b.dtype.bytes // 4)


def _operands(rest: Sequence[loops.Stmt]) -> int:
    """Words that an iteration of the innermost loops loads from local memory, each element once."""
    most = 0
    for s in rest:
        for body in _innermost(s):
            loaded = {(e.buffer, e.indices): e.lanes * e.dtype.bytes for x in traverse.walk_stmt(body)
                      for top in traverse.expressions(x) for e, _ in traverse.loads(top) if e.buffer.space == "local"}
            most = max(most, -(-sum(loaded.values()) // 4))
    return most


def _innermost(s: loops.Stmt) -> Iterable[loops.Stmt]:
    """The bodies of loops without loops inside, but for those that are written out; the statement itself if it has none."""
    inside = [x for x in traverse.walk_stmt(s) if isinstance(x, loops.For) and x.kind not in ("unroll", "thread")]
    deepest = [x.body for x in inside if not any(y is not x and isinstance(y, loops.For) and y.kind not in ("unroll", "thread")
                                                 for y in traverse.walk_stmt(x))]
    return deepest or [s]


def _multiply_adds(s: loops.Stmt) -> float:
    """Of an item: stores, each as often as the loops around it run; a loop of open length counts once."""
    match s:
        case loops.For():
            return _multiply_adds(s.body) * (1 if s.kind == "thread" else intervals.trips(s) or 1)
        case loops.Store():
            return max((s.value.lanes, *(i.lanes for i in s.indices)))
    return sum(map(_multiply_adds, traverse.children(s)))
