"""The shapes of tiles that there are to choose from, and what loops take with them and without.

A launch takes its arithmetic and what it reads of local memory, or the waiting of its items for each other where few groups are
on a unit; what it moves from and to memory, or the second cache where that holds all tensors of the loop; and its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import ceil, prod

from polytc.machine import Estimate, Machine, estimates
from polytc.program import program as pr
from polytc.rewrite.gpu.time_tiles.geometry import Instance
from polytc.rewrite.gpu.time_tiles.loop_text import Loop, Shape
from polytc.rewrite.gpu.time_tiles.stencils import Stage

ROUNDS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
ITEMS: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((64, 128, 256, 512, 1024),),
    ((32, 64, 128), (1, 2, 4, 8, 16, 32)),
    ((16, 32, 64), (2, 4, 8, 16), (1, 2, 4, 8)))
ELEMENTS: tuple[tuple[tuple[int, ...], ...], ...] = (((1, 2, 4, 8),), ((1, 2), (1, 2, 4, 8)), ((1,), (1, 2, 4), (1, 2, 4, 8)))
"""Of one, two and three dimensions: work-items of a group along each, the fastest first, and elements of an item."""
MOST_ELEMENTS, FEWEST_ITEMS = 16, 64
"""Elements of an item at most, and items of a group at least."""
GRID = 65535
"""Work-groups along each axis but the first at most (CUDA C++ Programming Guide, compute capabilities)."""


@dataclass(frozen=True)
class Priced:
    """What a loop takes with tiles of a shape."""

    shape: Shape
    time: Estimate


@dataclass(frozen=True)
class Costs:
    """What a loop takes on a machine."""

    loop: Loop
    machine: Machine

    def choose(self) -> Priced | None:
        """The shape that is estimated to take least; None if there is none that fits."""
        return min(self.all(), key=lambda x: x.time.seconds, default=None)

    def all(self) -> Iterator[Priced]:
        """All shapes that fit."""
        rank, s = self.loop.stencils.rank, self.loop.stencils
        rounds = [n for n in ROUNDS if n <= max(1, s.loop.extent // s.round)]
        for items in product(*ITEMS[rank - 1]):
            if not min(FEWEST_ITEMS, self.machine.max_work_group) <= prod(items) <= self.machine.max_work_group:
                continue
            for elements in product(*ELEMENTS[rank - 1]):
                if prod(elements) > MOST_ELEMENTS:
                    continue
                for n in rounds:
                    shape = Shape(n, items[::-1], elements[::-1])
                    if self.misfit(shape):
                        break  # more rounds would not fit either
                    yield Priced(shape, self.tiled(shape))
                    if self.loop.is_alone(shape):
                        break  # there is one launch, of all rounds

    def misfit(self, shape: Shape) -> str:
        """Why tiles of a shape are impossible; '' if they are not."""
        s, machine = self.loop.stencils, self.machine
        if not 1 <= prod(shape.items) <= machine.max_work_group or min(*shape.items, *shape.elements, shape.rounds) < 1:
            return f"a group has 1 to {machine.max_work_group} items, an item one element or more"
        if self.local_bytes(shape) > machine.local_bytes:
            return f"a group's {self.local_bytes(shape)} bytes of local memory, of {machine.local_bytes} that there are"
        total = (s.loop.extent - self.loop.last * (not self.loop.is_alone(shape))) // s.round
        if total < (1 if self.loop.is_alone(shape) else 2):
            return f"the loop has {s.loop.extent} iterations, too few for two launches"
        counts = self.counts(shape, 1 if self.loop.is_alone(shape) else self.loop.launches(shape)[0][1])
        if not counts:
            return "a tile without elements: its halo takes all of it"
        most = max(counts[:-1], default=0)
        return f"{most} groups along an axis, of {GRID} that a grid has" if most > GRID else ""

    def local_bytes(self, shape: Shape) -> int:
        """Of a group."""
        return sum(self._bytes(b) for b in self.loop.reach.buffers) * prod(shape.widths)

    def counts(self, shape: Shape, rounds: int) -> tuple[int, ...]:
        """The groups of a launch by dimension; () if tiles have no elements."""
        if self.loop.is_alone(shape):
            return (1,) * self.loop.stencils.rank
        tile = self._tile(shape, rounds)
        if min(tile) < 1:
            return ()
        return tuple(ceil((high - low + 1) / n) for (low, high), n in zip(self.loop.grid, tile, strict=True))

    def _tile(self, shape: Shape, rounds: int) -> tuple[int, ...]:
        return tuple(w - a - b for w, (a, b) in zip(shape.widths, self.loop.reach.halo(rounds), strict=True))

    # ---- the loop as it is

    @cached_property
    def plain(self) -> Estimate:
        """With a launch for each stage, or in one group; copies at its end, which take turns of buffers, left out."""
        s = self.loop.stencils
        launched = s.loop.extent * self.iteration
        group = Estimate(launches=self.machine.costs.launches.launch) + s.loop.extent * sum(
            (self._phase(x) for x in s.stages), Estimate())
        return min(launched, group, key=lambda e: e.seconds)

    @cached_property
    def iteration(self) -> Estimate:
        """One iteration with a launch for each stage."""
        return sum(map(self._launch, self.loop.stencils.stages), Estimate())

    def _phase(self, x: Stage) -> Estimate:
        """A stage as a phase of a single group."""
        costs, rounds = self.machine.costs.launches, ceil(_points(x) / (self.machine.max_work_group or 256))
        return Estimate(arithmetic=costs.group_step * rounds, barriers=costs.barrier)

    def _launch(self, x: Stage) -> Estimate:
        """A stage as a launch: what it moves, or its waiting for memory."""
        costs, points = self.machine.costs.launches, _points(x)
        touched = {x.target, *(r.tensor for r in pr.reads(x.statement))}
        moved = sum(min(points, self.loop.program.tensor(t).size) * self._bytes(t) for t in touched)
        wait = Estimate(arithmetic=costs.step * ceil(points / (costs.items * self.machine.cores)))
        return Estimate(launches=costs.launch) + estimates.longer(wait, self._moved(moved, moved / self.machine.cores))

    # ---- with tiles

    def tiled(self, shape: Shape) -> Estimate:
        """With tiles of a shape that fits."""
        s = self.loop.stencils
        if self.loop.is_alone(shape):
            return self._kernel(shape, s.loop.extent // s.round) + s.loop.extent % s.round * self.iteration
        (pairs, rounds), rest = self.loop.launches(shape)
        left = s.loop.extent - s.round * (2 * pairs * rounds + (rest if rest > 1 else 0))
        found = 2 * pairs * self._kernel(shape, rounds) + left * self.iteration
        if rest > 1:
            found += self._kernel(shape, (rest + 1) // 2) + self._kernel(shape, rest // 2)
        return found

    def _kernel(self, shape: Shape, rounds: int) -> Estimate:
        """One launch."""
        machine, costs = self.machine, self.machine.costs
        whole = tuple(high - low + 1 for low, high in self.loop.grid)
        tile = whole if self.loop.is_alone(shape) else self._tile(shape, rounds)
        busiest = ceil(prod(self.counts(shape, rounds)) / machine.cores)  # groups of a unit
        room = (machine.unit_local_bytes or machine.local_bytes) // self.local_bytes(shape)
        at_once = max(1, min(busiest, costs.launches.groups, costs.launches.items // prod(shape.items), room))
        full, rest = divmod(busiest, at_once)
        works = [self._work(x, shape, tile, rounds) for x in self.loop.reach.instances]
        arithmetic = full * self._wave(works, rounds, at_once) + (self._wave(works, rounds, rest) if rest else 0.0)
        mine = self._traffic(shape, tile)
        each = sum(self._bytes(x.buffer) for x in self.loop.reach.loads if x.inside) + self._stored
        moved = self._moved(each * prod(whole), busiest * mine)
        work = Estimate(arithmetic=arithmetic)
        hidden = costs.groups.beside if full > 1 else 1.0  # the first group's loads hide behind nothing
        return Estimate(launches=costs.launches.launch) + estimates.longer(work, moved) + hidden * min(
            work, moved, key=lambda e: e.seconds)

    @cached_property
    def _stored(self) -> int:
        """Bytes of all elements that a launch stores for one cell."""
        return sum(map(self._bytes, self.loop.reach.stored))

    def _traffic(self, shape: Shape, tile: tuple[int, ...]) -> float:
        """The bytes that a group moves."""
        loaded = sum(self._bytes(x.buffer) for x in self.loop.reach.loads if x.inside) * prod(shape.widths)
        return loaded + self._stored * prod(tile)

    def _wave(self, works: list[float], rounds: int, groups: int) -> float:
        """Seconds that so many groups of a unit take beside each other."""
        costs = self.machine.costs.launches
        return 2 * costs.step + rounds * sum(max(costs.local_step, groups * w) for w in works)

    def _work(self, x: Instance, shape: Shape, tile: tuple[int, ...], rounds: int) -> float:
        """Seconds of a unit for a stage of a group in one round, on average."""
        costs, cells = self.machine.costs.groups, 1.0
        for d, (w, n, (a, b), (more, over)) in enumerate(zip(shape.widths, tile, x.beside, self.loop.reach.more, strict=True)):
            active = n + a + b + (more + over) * (rounds - 1) / 2
            unit = self.machine.warp if d == len(tile) - 1 else shape.elements[d]
            cells *= min(w, ceil(active / unit) * unit + (unit if unit > 1 and shape.widths[d] > unit else 0))
        return cells * (self._cell(x, shape) + 2 * costs.guard / prod(shape.elements)) / (costs.lanes * self.machine.clock)

    @cached_property
    def _cells(self) -> dict[tuple[int, tuple[int, ...]], float]:
        """What `_cell` has found so far, by the instance and the elements of an item."""
        return {}

    def _cell(self, x: Instance, shape: Shape) -> float:
        key = id(x), shape.elements
        if key not in self._cells:
            self._cells[key] = self._each(x, shape.elements)
        return self._cells[key]

    def _each(self, x: Instance, elements: tuple[int, ...]) -> float:
        """Multiply-adds of a unit in the time of one cell: the expression, and what it reads of local memory, each element once
        for all of an item's."""
        costs, value = self.machine.costs.groups, x.stage.statement.value
        steps = sum(isinstance(e, pr.Binary | pr.Unary | pr.Call | pr.Select) for e in pr.walk(value) if _is_number(e))
        rate = costs.double if value.dtype.is_float and value.dtype.bits == 64 else 1.0
        block = list(product(*(range(e) for e in elements[:-1])))
        near = 0.0
        for name in {b for b, _ in x.reads.values()}:
            mine = {(*(p + o for p, o in zip(at, offsets, strict=False)), offsets[-1])
                    for b, offsets in x.reads.values() if b == name for at in block}
            near += len(mine) / len(block) * self._bytes(name)
        near += self._bytes(x.target)
        others = {r for r in pr.reads(x.stage.statement) if r not in x.reads and any(r.subscripts)}
        slow = 1.0 if self.machine.fast_local_memory else float(costs.cached)
        return steps * rate + near * costs.local_byte * slow + sum(r.dtype.bytes for r in others) * costs.second_cache

    # ---- memory

    def _bytes(self, tensor: str) -> int:
        return self.loop.program.tensor(tensor).dtype.bytes

    def _moved(self, whole: float, busiest: float) -> Estimate:
        """From and to memory. whole: by all units, each element once; busiest: by the busiest unit, with what several groups
        read."""
        machine, costs = self.machine, self.machine.costs.groups
        cached = Estimate(second=busiest * costs.second_cache / (costs.lanes * machine.clock))
        if self._resident:
            return cached
        return estimates.longer(cached, estimates.of_all_units(machine, whole))

    @cached_property
    def _resident(self) -> bool:
        """Does the second cache hold all that the loop uses?"""
        s = self.loop.stencils
        used = {*s.states, *(r.tensor for x in s.stages for r in pr.reads(x.statement))}
        tensors = [self.loop.program.tensor(t) for t in (*used, *self.loop.doubled)]
        return sum(t.size * t.dtype.bytes for t in tensors) <= self.machine.second_cache.bytes


def _points(x: Stage) -> int:
    return prod(high - low + 1 for low, high in x.domain)


def _is_number(e: pr.Expr) -> bool:
    """Is it an operation on numbers, not on places?"""
    return e.dtype.is_float or any(isinstance(x, pr.Read) for x in pr.walk(e))

