"""Launches that starve: they use less parallelism than the program has and the device needs.

    program_k0: 4 groups of 256 items, 264 groups would fill the device; 5,000 us by the model, 49 with all of it. S1 has
    1,638,400,000 independent instances, 1,024 items take them: each adds up k, 100,000 terms one after another (decision: ...)

A lint for kernels that were written down and run nowhere yet: fewer than two groups a compute unit, longer than TOLERATED by
the model of `estimate`, and at least twice as many independent instances (schedule.parallelism) as work-items.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from polytc.codegen import loops, traverse
from polytc.codegen.target import Launch, Source
from polytc.decisions import Record
from polytc.machine import Machine
from polytc.poly import isl
from polytc.poly.dependences import Dependences
from polytc.poly.scop import Scop
from polytc.program import extents, kinds
from polytc.program import program as pr
from polytc.program.generalise import numeric
from polytc.program.sizes import representative, representatives
from polytc.schedule import loop_report, parallelism
from polytc.schedule.facts.fusion_groups import reduced_indices
from polytc.schedule.loop_report import Found, ReportedBand, ReportedLeaf, ReportedLoop
from polytc.schedule.tree import Schedule
from polytc.schedule.typical import of_typical
from polytc.targets.opencl import estimate, warp_traffic

TOLERATED = 10e-6
"""Seconds that a launch may take on few groups without a warning."""
FULL = 1.25
"""Time of a launch, in that of as much work on a device all of whose units are busy, up to which it has groups enough."""
MORE = 2
"""Independent instances for each work-item at least, where there are more: with fewer there is little to gain."""


@dataclass(frozen=True)
class Starving:
    """A launch that leaves most of its device idle. kernel: its entry; statements: of the rewritten program that it runs;
    groups, items: of the launch and of a group; needed: groups that fill the device; statement: that has most instances;
    available: of these, how many could run at once; seconds: of one launch by the model; least: with all compute units busy;
    reason: what keeps instances in one item, and the decision that left them there."""

    kernel: str
    statements: tuple[str, ...]
    groups: int
    items: int
    needed: int
    statement: str
    available: int
    seconds: float
    least: float
    reason: str

    @property
    def used(self) -> int:
        """Work-items of the launch."""
        return self.groups * self.items

    def __str__(self) -> str:
        return (f"{self.kernel}: {_counted(self.groups, 'group')} of {_counted(self.items, 'item')}, {self.needed:,} groups "
                f"would fill the device; {self.seconds * 1e6:,.1f} us by the model, {self.least * 1e6:,.1f} with all of it. "
                f"{self.statement} has {self.available:,} independent instances, {_counted(self.used, 'item')} "
                f"{'takes' if self.used == 1 else 'take'} them: {self.reason}")


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def starving(source: Source, scop: Scop, deps: Dependences, schedule: Schedule, decisions: Record, machine: Machine
             ) -> tuple[Starving, ...]:
    """The launches of a source that starve, in order; none of CPUs. Of open sizes the typical ones are looked at."""
    if machine.kind != "gpu" or not source.launches:
        return ()
    program = numeric(scop.program)
    sizes = {isl.name(name): n for name, n in representatives(scop.program.tensors).items()}
    known = {isl.name(s.name): s for s in program.statements}
    found, tree = list[Starving](), None
    for launch, kernel in zip(source.launches, source.module.kernels, strict=True):
        few = _few_groups(launch, kernel, program, sizes, machine)
        if few is None:
            continue
        mine = [known[n] for n in dict.fromkeys(isl.name(x.origin) for x in _stores(kernel.body)) if n in known]
        if not mine:
            continue
        heavy = max(mine, key=lambda s: s.points)
        if pr.scatters(heavy) and heavy.bounds:                      # most instances only tell that they are not there
            continue
        if scop.program.sizes:
            scop, deps, schedule = of_typical(program, schedule)
        free = parallelism.independent(scop, deps, heavy)
        groups, seconds, least = few
        items = prod(launch.local_size)
        if free.at_once < MORE * groups * items:
            continue
        tree = loop_report.tree(scop, deps, schedule) if tree is None else tree
        needed = machine.costs.groups.per_unit * machine.cores
        found.append(Starving(launch.entry, tuple(s.name for s in mine), groups, items, needed, heavy.name,
                              free.at_once, seconds, least, _reason(scop.program, heavy, tree, decisions)))
    return tuple(found)


def _few_groups(launch: Launch, kernel: loops.Kernel, program: pr.Program, sizes: dict[str, int], machine: Machine
                ) -> tuple[int, float, float] | None:
    """The groups of a launch, its time and the time of as much on a full device, by the model; None where there are enough, or
    it is short, or would take as long on more."""
    try:
        groups = prod(extents.at(n, sizes) for n in launch.global_size) // prod(launch.local_size)
    except KeyError:
        return None
    if groups >= machine.costs.groups.per_unit * machine.cores:
        return None
    traffic = warp_traffic.count(representative(kernel), launch.local_size, machine, sizes)
    if traffic is None:
        return None
    rates = estimate.rates_of(machine)
    whole = {t.name: t.size * t.dtype.bytes for t in program.tensors}
    array_bytes = sum(whole.get(b.name, b.size * b.dtype.bytes) for b in kernel.args)
    own = (x.buffer for x in traverse.walk_stmt(kernel.body) if isinstance(x, loops.Alloc) and x.buffer.space == "local")
    resident = estimate.resident(prod(launch.local_size), sum(b.size * b.dtype.bytes for b in own), machine)
    time = estimate.estimate(traffic, groups, resident, array_bytes, machine, rates).seconds
    least = estimate.shared(traffic, groups, array_bytes, machine, rates)
    return None if time <= max(TOLERATED, FULL * least) else (groups, time, least)


def _stores(s: loops.Stmt) -> list[loops.Store]:
    return [x for x in traverse.walk_stmt(s) if isinstance(x, loops.Store)]


# ---- why

def _reason(program: pr.Program, s: pr.Statement, tree: Found, decisions: Record) -> str:
    """What keeps the instances of a statement in one item: its longest loop that no items divide, and who decided that."""
    around = [x for x in _around(tree, isl.name(s.name)) if not kinds.is_mapped(x.kind) and (x.extent or 0) > 1]
    told = _decided(s, decisions)
    if not around:
        return f"few instances have an item{told}"
    longest = max(around, key=lambda x: x.extent or 0)
    what = dict(longest.rows)[isl.name(s.name)].strip("()")
    if pr.scatters(s) and longest.carries is not None:
        return f"memory says where {s.target} is written, so that {what} runs in one item, {longest.extent:,} iterations{told}"
    if longest.reduction or what in map(isl.name, reduced_indices(s)):
        return f"each adds up {what}, {longest.extent:,} terms one after another{told}"
    if longest.carries is not None:
        return f"{what} carries a dependence ({longest.carries}), {longest.extent:,} iterations{told}"
    others = [x for x, _ in longest.rows if x != isl.name(s.name)]
    shared = f", whose loops {', '.join(others)} share" if others else ""
    return f"{what} carries nothing and runs in the items, {longest.extent:,} iterations{shared}{told}"


def _around(found: Found, name: str) -> list[ReportedLoop]:
    """The loops around a statement."""
    if isinstance(found, ReportedLeaf):
        return []
    own = [x for x in found.loops if name in dict(x.rows)] if isinstance(found, ReportedBand) else []
    return own + [x for child in found.children for x in _around(child, name)]


def _decided(s: pr.Statement, decisions: Record) -> str:
    """The line of the record that is about a statement: the last one, as earlier ones led to the program of later ones."""
    about = [e for e in decisions.entries if e.statement and (e.statement == s.name or e.statement == f"{s.name}_init")]
    about = about or [e for e in decisions.entries if s.name.startswith(f"{e.statement}_") and e.statement]
    return f" (decision: {str(about[-1]).split('  #')[0]})" if about else ""
