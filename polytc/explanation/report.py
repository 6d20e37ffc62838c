"""Report: everything that `explain` says about one compilation, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from polytc.codegen import prefetch
from polytc.codegen.passes.analyses.local_memory_room import TooLarge, too_large
from polytc.codegen.passes.local_memory import double_buffers
from polytc.codegen.passes.local_memory.register_prefetch import Choice
from polytc.codegen.prefetch import Told
from polytc.compiler import Lowered
from polytc.explanation import roofline
from polytc.explanation.costs import Costs, costs
from polytc.explanation.launches import Grid, grids
from polytc.explanation.roofline import Bound
from polytc.machine import Machine
from polytc.poly import storage_folding
from polytc.poly.storage_folding import Fold, Unfolded
from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.generalise import numeric
from polytc.program.sizes import representatives
from polytc.schedule import loop_report
from polytc.schedule.facts import strides
from polytc.schedule.loop_report import Apart, Found, ReportedBand, ReportedLeaf, ReportedLoop
from polytc.schedule.typical import of_typical
from polytc.targets.opencl import kernel_table
from polytc.targets.opencl.starvation import Starving

AT_ONCE = ("vector", "reduce")
"""Kinds of loops that become vectors."""


@dataclass(frozen=True)
class Vectors:
    """How one statement uses vectors. along: what the vector loop counts, or ''; why: if there is none, a line a loop."""

    statement: str
    along: str
    why: tuple[str, ...] = ()


FETCHING = ("cpu", "opencl")
"""Targets that write instructions which ask for lines, where their machine is a CPU."""


@dataclass(frozen=True)
class Report:
    """lowered: every stage; written, made: costs of the program as written and after the rewrites; tree: its loops; grids: the
    launches of its kernels, for devices; apart: the pairs of statements that depend on each other; vectors: one entry a
    statement; bound: the roofline, if it was measured, or a GPU's by its data sheet; starving: the launches that leave most of
    a GPU idle; kernels: a table of what its kernels use and take there; sizes: typical values of open sizes, at which all is
    counted; too_large: temporaries that local memory has no room for; folds: those of which few elements are alive at once;
    fetched: what of copies to local memory is loaded ahead, and what not; lines: of caches that a schedule asks for, and where
    on CPUs they are."""

    lowered: Lowered
    written: Costs
    made: Costs
    tree: Found
    grids: tuple[Grid, ...]
    apart: tuple[Apart, ...]
    vectors: tuple[Vectors, ...]
    bound: Bound | None
    starving: tuple[Starving, ...] = ()
    kernels: tuple[str, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    too_large: tuple[TooLarge, ...] = ()
    folds: tuple[Fold | Unfolded, ...] = ()
    fetched: tuple[Choice, ...] = ()
    lines: tuple[Told, ...] = ()

    @property
    def machine(self) -> Machine:
        return self.lowered.target.machine


def report(lowered: Lowered, threads: int = 1, measure: bool = True) -> Report:
    """The report of a compilation. measure: the machine's roofs, where the code is for the machine we run on."""
    program, machine = numeric(lowered.rewritten), lowered.target.machine
    scop, deps, schedule = lowered.scop, lowered.dependences, lowered.schedule
    sizes = representatives(lowered.program.tensors) if lowered.program.sizes else {}
    if program is not lowered.rewritten:
        scop, deps, schedule = of_typical(program, schedule)
    tree = loop_report.tree(scop, deps, schedule)
    written = costs(numeric(lowered.program))
    kind = roofline.kind(numeric(lowered.program))
    bound = None
    if measure and kind is not None and lowered.target.name == "cpu":
        bound = roofline.bound(written, roofline.roofs(kind), threads)
    gpu = machine.kind == "gpu" and all(launch.global_size for launch in lowered.source.launches)
    if gpu:
        bound = roofline.bound(written, roofline.of_device(machine), 1)
    apart = loop_report.pairs(scop, deps, schedule)
    vectors = tuple(_vectors(program, name, tree) for name in loop_report.statements(tree))
    kernels = (kernel_table.HEAD, *kernel_table.of_machine(lowered.source, machine, lowered.rewritten.tensors)) if gpu else ()
    return Report(lowered, written, costs(program), tree, tuple(grids(lowered.source)), apart, vectors, bound,
                  lowered.starving, kernels, tuple(sizes.items()), too_large(lowered.loops, machine) if gpu else (),
                  storage_folding.told(lowered.scop, lowered.schedule.tree), _fetched(lowered) if gpu else (),
                  prefetch.told(lowered.loops) if lowered.target.name in FETCHING and machine.kind == "cpu" else ())


def _fetched(lowered: Lowered) -> tuple[Choice, ...]:
    """What was weighed for the loops over steps of each kernel."""
    before = dict(lowered.passes)[double_buffers.BEHIND]
    return tuple(c for k in before.kernels for c in double_buffers.planned(k, lowered.target.machine)[1])


def loops(found: Found) -> Iterator[tuple[ReportedLoop, ReportedBand]]:
    """All loops, outer ones first."""
    if isinstance(found, ReportedBand):
        yield from ((loop, found) for loop in found.loops)
    if not isinstance(found, ReportedLeaf):
        for child in found.children:
            yield from loops(child)


def why_not_parallel(loop: ReportedLoop) -> str:
    """One line; '' for a loop whose iterations run at once, or that is written out."""
    if loop.kind in ("parallel", "unroll", *AT_ONCE) or kinds.is_mapped(loop.kind):
        return ""
    if loop.carries is None:
        return "could run in parallel; another loop does, or the work is too small"
    if loop.reduction:
        return f"adds up: {loop.carries.source} and {loop.carries.sink} update one element"
    return f"carries a dependence: {loop.carries}"


def cache_level(machine: Machine, touched_bytes: int) -> str:
    """Where that many bytes stay: 'L1', 'L2', ... or 'memory'."""
    return next((f"L{n}" for n, c in enumerate(machine.caches, 1) if touched_bytes <= c.bytes), "memory")


def touched_bytes(program: pr.Program, band: ReportedBand) -> int:
    """Bytes of all tensors that one iteration of the band touches."""
    sizes = {t.name: t.dtype.bytes for t in program.tensors}
    return sum(count.value * sizes.get(name, 4) for name, count in band.touched)


def _vectors(program: pr.Program, name: str, tree: Found) -> Vectors:
    around = [loop for loop, _ in loops(tree) if name in dict(loop.rows)]
    wide = next((loop for loop in around if loop.kind in AT_ONCE), None)
    if wide is not None:
        return Vectors(name, dict(wide.rows)[name])
    s = loop_report.of_program(program, name)
    moves = strides.of_statement(program, s)
    why = []
    for loop in around:
        text = dict(loop.rows)[name]
        if loop.carries is not None and not loop.reduction:
            why.append(f"{text}: carries {loop.carries}")
    for index in s.indices:
        steps = ", ".join(f"{a.tensor} by {'?' if a.stride(index) is None else a.stride(index)}" for a in moves)
        why.append(f"along {index} the accesses move: {steps}")
    return Vectors(name, "", tuple(why) or ("it is a single instance in each iteration of the loops around it",))
