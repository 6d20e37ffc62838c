"""Which scattered updates of whole numbers the items of a group can make together in local memory, and in what shape.

A bank of local memory serves the atomic updates of one of its words one after another, so that a group may have several copies
of the target, one for each of some neighbouring items. Groups divide what is scattered into parts; each has a partial result,
which a second kernel adds up. Where the target is too large for local memory, groups divide it in ranges, too: each goes
through all that its part scatters. How many of each there are is what is estimated to take least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import log2, prod

from polytc.machine import Estimate, Machine
from polytc.program import program as pr
from polytc.program.affine import affine
from polytc.program.generalise import numeric
from polytc.program.linear import linear
from polytc.program.scalars import BOOL, I32, DType
from polytc.program.sizes import Size, representative
from polytc.program.traces.traced import whole
from polytc.rewrite.gpu.work_group_shape import fastest_index
from polytc.rewrite.narrow_terms import LARGEST, narrowed
from polytc.schedule.facts.fusion_groups import coincident_indices
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP
from polytc.schedule.gpu.vector_accesses import is_vector

OPERATORS = {"b": ("|", "&", "^"), "i": ("+", "min", "max", "&", "|", "^"), "u": ("+", "min", "max", "&", "|", "^")}
"""Of updates that GPUs have in one step, by the kind of their numbers."""
AHEAD, VECTORS = 4, 2
"""Loads of an item that are under way at once, of elements and of vectors."""
VECTOR = 16
"""Bytes that an item loads at once."""
MOST_COPIES = 16
"""Of a target in a group: the items that put them together read each."""
PARTIAL = 12
"""Bytes that memory moves for a partial result, which is what `Groups.partial` costs."""
OPEN_TERMS = 1 << 30
"""Elements of an array at most where sizes stay open (ctext.work_groups.LARGEST_OPEN)."""


@dataclass(frozen=True)
class Histogram:
    """index: whose iterations groups divide; parts: into how many; ranges: of the target, 1 for all of it; copies: of the
    target in a group; items: of a group."""

    index: str
    parts: int
    ranges: int
    copies: int
    items: int

    def __str__(self) -> str:
        ranges = f" and {self.ranges} ranges of the target" if self.ranges > 1 else ""
        return (f"updated in local memory, {self.parts} parts along {self.index}{ranges}, "
                f"{self.copies} {'copies' if self.copies > 1 else 'copy'} in each group of {self.items} items")


@dataclass(frozen=True)
class Update:
    """What can be made in local memory. kept: the indices whose iterations have parts of the target of their own; walked: the
    index that items divide; local: the dimensions of the target that a group has, longest: the one of them that ranges divide;
    dtype, value: of the numbers in local memory; largest: term of a sum that must not leave its 32 bits, 0 where it may wrap;
    lanes: elements that an item loads at once, as a vector."""

    kept: tuple[pr.Range, ...]
    walked: str
    local: tuple[int, ...]
    longest: int
    dtype: DType
    value: pr.Expr
    largest: int
    lanes: int


def opened(program: pr.Program, s: pr.Statement) -> set[str]:
    """What stays open of a scattered update: its indices of other extents, and the dimensions of its target, `H[0]`."""
    t = program.tensor(s.target)
    sides = enumerate(zip(t.lower, t.shape, strict=True))
    return {r.index for r in s.ranges if isinstance(r.extent, Size)} | {
        f"{s.target}[{d}]" for d, ends in sides if any(isinstance(n, Size) for n in ends)}


def update(program: pr.Program, s: pr.Statement, open_: set[str]) -> Update | str:
    """What a statement is as an update in local memory, or why it is none. open_: see `opened`."""
    target = program.tensor(s.target)
    if s.op not in OPERATORS.get(target.dtype.kind, ()):
        return "no operator of whole numbers that is one step"
    if s.bounds or s.loops or not pr.scatters(s) or any(r.tensor == s.target for r in pr.reads(s)):
        return "the statement is in a loop, has ranges in memory, or reads what it writes"
    kept = coincident_indices(s)
    reduced = {i: r for i, r in s.by_index.items() if i not in kept}
    found = _narrow(s.value, s.op, target.dtype)
    if not reduced or found is None:
        return "nothing meets in an element" if not reduced else "its numbers need 64 bits"
    walked = fastest_index(numeric(program), representative(s), {i: whole(r.extent) for i, r in reduced.items()})
    if walked not in reduced:
        return f"neighbouring items walk the target along {walked}"
    forms = [linear(sub) for sub in s.subscripts]
    local = tuple(d for d, form in enumerate(forms) if form is None or form.index not in kept)
    if any(f"{s.target}[{d}]" in open_ for d in local):
        return "the size of its target stays open"
    longest = max((d for d in local if affine(s.subscripts[d]) is None), key=lambda d: (target.shape[d], -d))
    return Update(tuple(s.by_index[i] for i in kept), walked, local, longest, *found, _lanes(program, s, walked, open_))


def _narrow(value: pr.Expr, op: str, dtype: DType) -> tuple[DType, pr.Expr, int] | None:
    """The type and value of an update in 32 bits, and its largest term if sums of terms may not leave them; None if terms do.
    What has fewer bits than 32 wraps alike in both, and what is true or false is 1 or 0."""
    if dtype.bits == 32:
        return dtype, value, 0
    if dtype.bits < 32 or dtype == BOOL:
        return I32, pr.Cast(value, I32), 0
    term = narrowed(value)
    if term is None or op in ("min", "max"):  # an element without terms has the identity of 64 bits
        return None
    return I32, term.value, max(-term.low, term.high) if op == "+" else 0


def copied(s: pr.Statement, walked: str) -> tuple[pr.Read, ...]:
    """The reads that an item copies to registers before it updates: those that move with what it walks, and ask no memory
    where."""
    def moves(r: pr.Read) -> bool:
        return any(pr.Index(walked) in pr.walk(sub) for sub in r.subscripts)
    return tuple(r for r in pr.reads(s) if r.default is None and not r.gathers and moves(r))


def _lanes(program: pr.Program, s: pr.Statement, walked: str, open_: set[str]) -> int:
    """Elements of a vector that holds whole elements of what is read, aligned; 1 if there is none."""
    reads, r = copied(s, walked), s.by_index[walked]
    if not reads or open_:
        return 1
    width = VECTOR // max(x.dtype.bytes for x in reads)
    fits = all(is_vector(program.tensor(x.tensor), x.subscripts, walked, width) for x in reads)
    return width if fits and r.lower % width == 0 == r.extent % width else 1


# ---- shapes, and what they take

def elements(program: pr.Program, s: pr.Statement, u: Update, ranges: int) -> int:
    """Of one copy of the target in a group."""
    shape = program.tensor(s.target).shape
    return prod(-(-int(shape[d]) // (ranges if d == u.longest else 1)) for d in u.local)


def each(u: Update, extent: int, by: Histogram) -> int:
    """Iterations of the walked index that an item has under way at once: some vectors, or elements."""
    most = VECTORS if u.lanes > 1 else AHEAD
    parts = by.parts if by.index == u.walked else 1
    return u.lanes * max(1, min(most, -(-extent // (by.items * u.lanes * parts))))


def terms(s: pr.Statement, u: Update, by: Histogram, open_: set[str]) -> int:
    """Instances of a group at most, of open sizes those that arrays have room for."""
    inner = {i: r for i, r in s.by_index.items() if r not in u.kept}
    if open_ & inner.keys():
        named = [{e.name for e in pr.walk(r) if isinstance(e, pr.Index)} for r in copied(s, u.walked)]
        return OPEN_TERMS if any(inner.keys() <= names for names in named) else LARGEST + 1
    unit = by.items * each(u, inner[u.walked].extent, by) if by.index == u.walked else 1
    mine = -(-inner[by.index].extent // (by.parts * unit)) * unit
    return mine * prod(r.extent for i, r in inner.items() if i != by.index)


def misfit(program: pr.Program, s: pr.Statement, u: Update, by: Histogram, open_: set[str], machine: Machine) -> str:
    """Why a shape is none; '' if it is one."""
    if by.index in {r.index for r in u.kept} or by.index not in s.by_index:
        return f"{by.index} is no index whose instances meet in an element"
    size = elements(program, s, u, by.ranges) * by.copies * u.dtype.bytes
    if size > machine.local_bytes:
        return f"{size} bytes of {machine.local_bytes} of local memory"
    if u.largest and terms(s, u, by, open_) * u.largest > LARGEST:
        return f"up to {terms(s, u, by, open_)} terms of a group, each up to {u.largest}, leave 32 bits"
    return ""


def shapes(program: pr.Program, s: pr.Statement, u: Update, open_: set[str], machine: Machine
           ) -> Iterator[tuple[Histogram, Estimate]]:
    """The shapes that there are to choose from, for typical sizes, and what they take."""
    inner = {r.index: whole(r.extent) for r in s.ranges if r not in u.kept}
    others = {i: n for i, n in inner.items() if i != u.walked}
    index = max(others, key=lambda i: others[i]) if others and max(others.values()) > 1 else u.walked
    items = min(MAX_WORK_GROUP, machine.max_work_group)
    one = Histogram(index, 1, 1, 1, items)
    most = inner[index] if index != u.walked else -(-inner[index] // (items * each(u, inner[index], one)))
    size = elements(program, s, u, 1) * u.dtype.bytes
    fewest = -(-size // machine.local_bytes)
    resident = machine.costs.launches.items // items * machine.cores
    rows = prod(whole(r.extent) for r in u.kept)
    counts = {min(most, n) for n in (1, *(resident * k // 8 // max(1, rows * fewest) for k in range(1, 9))) if n}
    counts |= {_even(n, inner[index], items * each(u, inner[index], one) if index == u.walked else 1) for n in counts}
    for parts, ranges, k in product(sorted(counts), {fewest, fewest + (fewest > 1)}, range(MOST_COPIES.bit_length())):
        by = Histogram(index, parts, ranges, 1 << k, items)
        if by.copies <= machine.warp and not misfit(program, s, u, by, open_, machine):
            yield by, time(program, s, u, by, machine)


def _even(parts: int, extent: int, unit: int) -> int:
    """The largest number of parts from `parts` down to three quarters of it that leaves no rest; `parts` if none does."""
    return next((n for n in range(parts, -(-parts * 3 // 4) - 1, -1) if extent % (n * unit) == 0), parts)


def time(program: pr.Program, s: pr.Statement, u: Update, by: Histogram, machine: Machine) -> Estimate:
    """Of both kernels, for typical sizes. Nobody knows the data: half of it is taken to be spread evenly over the target, half
    to meet in one element."""
    groups, launches = machine.costs.groups, machine.costs.launches
    size, rows = elements(program, s, u, by.ranges), prod(whole(r.extent) for r in u.kept)
    room = groups.per_unit * machine.local_bytes // (size * by.copies * u.dtype.bytes)
    resident = max(1, min(launches.items // by.items, room)) * machine.cores
    count = rows * by.parts * by.ranges
    waves, busy = -(-count // resident), min(count, machine.cores)
    each_group = -(-s.points * by.ranges // count)
    together = by.items * each(u, whole(s.by_index[u.walked].extent), by)
    waits = waves * -(-each_group // together) * launches.step
    memory = groups.partial / groups.second * 1e-6 / machine.cores  # seconds of a partial result
    moved = s.points * by.ranges * max(1, sum(r.dtype.bytes for r in copied(s, u.walked))) / PARTIAL * memory
    sharing = machine.warp / by.copies
    turns = (1 + log2(sharing) / 2 + sharing) / 2
    updates = s.points / machine.warp * turns + 2 * size * by.copies * count / machine.warp
    tests = launches.test * each_group * waves / by.items if by.ranges > 1 else 0.0
    parts = by.parts * rows * size * by.ranges * memory if by.parts > 1 else 0.0
    return Estimate(arithmetic=updates / busy * groups.atomic + tests, memory=max(waits, moved) + parts,
                    launches=launches.launch * (2 if by.parts > 1 else 1), barriers=2 * launches.barrier)


def choose(program: pr.Program, s: pr.Statement, u: Update, open_: set[str], machine: Machine
           ) -> tuple[Histogram, Estimate] | None:
    """The shape that is estimated to take least; None if none fits."""
    return min(shapes(program, s, u, open_, machine), key=lambda x: x[1].seconds, default=None)
