"""What the launches of a program of open sizes take, as formulas of the sizes: `estimate` with the counts of `warp_traffic`.

    C[i,j] += A[i,k]*B[k,j] in tiles of 128 x 128   ->   ((J + 127)//128) * ((I + 127)//128) groups,
        each 262144*((K + 15)//16) multiply-adds, 896*((K + 15)//16) passes over local memory, (K + 15)//16 waits for memory

A group is counted as one in the middle of a large launch, so that at small sizes what its warps move is too much, and no more
than a guess where conditions leave out groups. Code that is made for a small size, as for one column of B, is counted there,
too: its items may be neighbours in memory there alone. Beside arithmetic, items test what lies beyond an end, and load and
store, which costs them multiply-adds; whole vectors and sizes that are multiples do so less often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from polytc.codegen import loops, traverse
from polytc.codegen.target import Launch, Source
from polytc.machine import Machine
from polytc.poly import isl
from polytc.program import extents
from polytc.program import program as pr
from polytc.program.extents import Extent
from polytc.program.sizes import Size, replaced, representative, with_products
from polytc.targets.opencl import counts, warp_traffic
from polytc.targets.opencl.counts import Count
from polytc.targets.opencl.estimate import Rates, estimate, rates_of, resident
from polytc.targets.opencl.warp_traffic import Traffic

LARGE = 1 << 16
"""Sizes at which groups are counted: most are far from all ends there, and a multiple of what kernels divide by."""
SMALL = 32
"""Sizes up to here are small, as items of a warp may walk them together with others."""
GUARD = 2
"""Comparisons of a guard, as costs.groups.guard has it."""
MOST_GROUPS = (1 << 31) - 1
"""That a launch may have: kernels count them in 32 bits."""


@dataclass(frozen=True)
class LaunchTime:
    """A launch, or several in loops of the host. repeats: how often it is launched; work_items: of the NDRange, on each axis;
    items, resident: of a group, and groups that a compute unit holds at once; traffic: of a group; arrays: bytes of each that
    the kernel is given. All may be formulas of the sizes and of the products of extents that have names. small: sizes up to
    which `near` is the traffic of a group, if anything is said."""

    kernel: str
    repeats: float
    work_items: tuple[Extent, ...]
    items: int
    resident: int
    traffic: Traffic
    arrays: tuple[Extent, ...]
    small: tuple[tuple[str, int], ...] = ()
    near: Traffic | None = None

    def counted(self, sizes: Mapping[str, int]) -> Traffic:
        """What a group does at these sizes."""
        near = self.near if all(sizes[n] <= most for n, most in self.small) else None
        return Traffic(**{n: max(0.0, counts.at(c, sizes)) for n, c in vars(near or self.traffic).items()})

    def groups(self, sizes: Mapping[str, int]) -> int:
        """Of one launch."""
        return prod(extents.at(n, sizes) for n in self.work_items) // self.items

    def seconds(self, sizes: Mapping[str, int], machine: Machine, rates: Rates) -> float:
        """All of its launches, one after another. sizes: with the products."""
        groups = self.groups(sizes)
        if groups <= 0:
            return 0.0
        moved = sum(extents.at(n, sizes) for n in self.arrays)
        each = estimate(self.counted(sizes), groups, self.resident, moved, machine, rates).seconds
        return counts.at(self.repeats, sizes) * (machine.costs.launches.launch + each)


def of_source(source: Source, program: pr.Program, machine: Machine, typical: Mapping[str, int]
              ) -> tuple[LaunchTime, ...] | None:
    """The launches of a source, in order. program: whose tensors are its arrays; typical: the sizes that it is made for. None
    where something cannot be counted."""
    small = {n: size for n, size in typical.items() if size <= SMALL}
    scene = _Scene(source, tuple(map(representative, source.module.kernels)), program, machine)
    far, near = scene.times({}), scene.times(small) if small else None
    if far is None or near is None:
        return far
    return tuple(f if f.traffic == n.traffic else replace(f, small=tuple(small.items()), near=n.traffic)
                 for f, n in zip(far, near, strict=True))


def seconds(launches: tuple[LaunchTime, ...], sizes: Mapping[str, int], machine: Machine) -> float:
    """Of a whole program; infinite where a launch has too many groups. sizes: with the products."""
    if any(x.groups(sizes) > MOST_GROUPS for x in launches):
        return float("inf")
    rates = rates_of(machine)
    return sum(x.seconds(sizes, machine, rates) for x in launches)


@dataclass(frozen=True)
class _Scene:
    """What launches are counted in: those of `source`. kernels: its kernels, with numbers for what are sizes."""

    source: Source
    kernels: tuple[loops.Kernel, ...]
    program: pr.Program
    machine: Machine

    def times(self, small: Mapping[str, int]) -> tuple[LaunchTime, ...] | None:
        """The launches, counted at LARGE sizes but for some."""
        names = (*self.program.sizes, *(name for name, _ in self.source.module.products))
        values = with_products({n: small.get(n, LARGE) for n in self.program.sizes}, self.source.module.products)
        spelled = {isl.name(n): values[n] for n in names}
        titles = {isl.name(n): Size.named(n, 1) for n in names}
        found = []
        for launch, kernel, counted in zip(self.source.launches, self.source.module.kernels, self.kernels, strict=True):
            traffic = warp_traffic.count(counted, launch.local_size, self.machine, spelled, open_=True)
            if traffic is None:
                return None
            found.append(self.launch(launch, kernel, with_tests(traffic, self.machine), values, titles))
        return tuple(found)

    def launch(self, launch: Launch, kernel: loops.Kernel, traffic: Traffic, sizes: Mapping[str, int], titles: Mapping[str, int]
               ) -> LaunchTime:
        """titles: what the program calls sizes that kernels call otherwise."""
        repeats, middles = _repeated(launch, sizes, titles)
        items = prod(launch.local_size)
        local = (x.buffer for x in traverse.walk_stmt(kernel.body) if isinstance(x, loops.Alloc) and x.buffer.space == "local")
        held = resident(items, sum(int(b.size) * b.dtype.bytes for b in local), self.machine)
        whole = {isl.name(t.name): t for t in self.program.tensors}
        arrays = tuple(_bytes(whole[b.name]) if b.name in whole else int(b.size) * b.dtype.bytes for b in kernel.args)
        work_items = tuple(extents.replaced(n, {**titles, **middles}) for n in launch.global_size)
        return LaunchTime(launch.entry, repeats, work_items, items, held,
                          Traffic(**{n: _titled(c, titles) for n, c in vars(traffic).items()}), arrays)


def with_tests(traffic: Traffic, machine: Machine) -> Traffic:
    """The traffic with tests, loads and stores among its multiply-adds."""
    costs = machine.costs.groups
    issued = traffic.tests * (costs.guard / GUARD) + traffic.accesses * costs.access
    return replace(traffic, operations=traffic.operations + issued)


def _bytes(t: pr.Tensor) -> Extent:
    total: Extent = t.dtype.bytes
    for n in t.shape:
        total = extents.times(total, n)
    return total


def _repeated(launch: Launch, sizes: Mapping[str, int], titles: Mapping[str, int]) -> tuple[float, dict[str, int]]:
    """How often loops of the host launch a kernel, and the iterations in the middle of these, by their variables."""
    total, middles = 1.0, dict[str, int]()
    for r in launch.loops:
        lower, upper = (extents.replaced(n, {**titles, **middles}) for n in (r.lower, r.upper))
        assert isinstance(lower, int), "a loop of the host has no product as its end"
        assert isinstance(upper, int), "a loop of the host has no product as its end"
        total = Count.trips((upper - lower + r.step - 1) // r.step, sizes) * total
        middles[r.var] = (lower + upper) // 2
    return total, middles


def _titled(n: float, titles: Mapping[str, int]) -> float:
    """A count with the sizes as the program calls them, not the kernels."""
    return Count.of(float(n), [(c, tuple(replaced(f, titles) for f in factors)) for c, factors in counts.terms(n)])
