"""The pipeline, once, from a checked Program to something that runs.

    Program -> steps of rewriting -> Scop -> Dependences -> Schedule -> Loop AST -> passes -> Source -> Executable

`_stage` is the only place that times, dumps and checks. POLYTC_DUMP=pack,schedule (or all) prints steps of rewriting
(rewrite/table.py), stages and passes (codegen/passes) to stderr, or to files in POLYTC_DUMP_DIR; POLYTC_CHECK=1 checks the
invariant of each and names the one that broke it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from polytc import decisions, errors, garbage, keys
from polytc.codegen import astgen, passes, size_binding, verify
from polytc.codegen.loops import Buffer, Module
from polytc.codegen.package import Package, Part
from polytc.codegen.target import Binary, Executable, Source, Target
from polytc.decisions import Alternative
from polytc.disk import cache
from polytc.machine import Machine
from polytc.native.threads import default_threads
from polytc.options import REQUESTS
from polytc.poly import dependences as deps
from polytc.poly import in_bounds, isl
from polytc.poly import scop as polyhedra
from polytc.program.program import Program, format_statement
from polytc.program.sizes import Undecided
from polytc.rewrite import long_sums, pipeline, record, table
from polytc.rewrite.consistency import consistent
from polytc.rewrite.pipeline import Record
from polytc.rewrite.tidy import hoist
from polytc.runtime import packages, sized, waiting
from polytc.runtime.pending import Pending
from polytc.schedule import automatic, tree
from polytc.schedule import decisions as schedule_decisions
from polytc.schedule.tree import Schedule
from polytc.schedule.user import saved
from polytc.schedule.user.changes import listed
from polytc.targets.opencl.starvation import Starving, starving
from polytc.targets.registry import here, target

errors.register(E523="access outside of a tensor")

T = TypeVar("T")

MAPPINGS = ("E505", "E510", "E511")
"""What a target says of loops over items, of how many there are, or of barriers among them, that it has no form for."""


@dataclass(frozen=True)
class Lowered:
    """Every stage of one compilation; each prints. seconds: what each stage took.

    program: as given; prologue: what is computed once from its constants, if anything; rewritten: the rest, after the
    Program -> Program rewrites, which the later stages describe. workspace: temporaries that the caller provides, because their
    extents are not fixed. asked: the schedule that was asked for. steps: what each step of rewriting did, and why; passes: the
    loops behind each pass, by its name.
    """

    program: Program
    prologue: Lowered | None
    rewritten: Program
    scop: polyhedra.Scop
    dependences: deps.Dependences
    schedule: Schedule
    loops: Module
    source: Source
    target: Target
    seconds: dict[str, float]
    workspace: tuple[Buffer, ...] = ()
    asked: str | None = None
    steps: tuple[Record, ...] = ()
    passes: tuple[tuple[str, Module], ...] = ()

    @property
    def decisions(self) -> decisions.Record:
        """What was decided; given back (schedule=str(...)), the same code is made of the program."""
        return record.collected(self.steps, [x.schedule for x in (self.prologue, self) if x is not None])

    @property
    def starving(self) -> tuple[Starving, ...]:
        """The launches that leave most of a GPU idle although the program has more to do at once."""
        return starving(self.source, self.scop, self.dependences, self.schedule, self.decisions, self.target.machine)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, or what another process reads, is lowered again: isl's objects stay where they were made."""
        return lower_program, (self.program, self.target, self.asked)


@dataclass(frozen=True)
class Rewritten:
    """What the later stages take. once: what is computed once from constants, if anything; program: the rest; schedule: that is
    asked of it; steps: what each step did."""

    once: Program | None
    program: Program
    schedule: str | None
    steps: tuple[Record, ...] = ()

    def __str__(self) -> str:
        return "\n\n".join(str(p) for p in (self.once, self.program) if p is not None)


@garbage.seldom_collected()
def lower_program(program: Program, target_name: str | Target = "cpu", schedule: str | None = None,
                  early: Callable[[Lowered], object] = id, decided: Callable[[decisions.Record], object] = id) -> Lowered:
    """All stages up to source text; needs no device.

    target_name: a registered name, or a Target. schedule: see `schedule.automatic.schedule`; before that, or alone, the text of
    a record of decisions (polytc.decisions); E709, E710 for one that does not fit. early, decided: told the prologue before the
    rest, and what is decided before loops are made of it; what they raise ends the work.
    """
    to = target(target_name)
    seconds: dict[str, float] = {}
    given, request = decisions.split(schedule)
    if given is not None:
        record.check(given, to.machine)
    _stage("program", program.name, {}, lambda: program)
    try:
        made = _stage("rewrites", program.name, seconds, lambda: _scheduled_program(program, to.machine, request, given))
        made = _stage("bounds", program.name, seconds, lambda: _bounded(pipeline.as_written(program), made))
        before = _lowered(made.once, None, made.once, to, None, {}, given) if made.once is not None else None
        if before is not None:
            early(before)
        lowered = _lowered(program, before, made.program, to, made.schedule, seconds, given, lambda chosen: decided(
            record.collected(made.steps, [*(x.schedule for x in (before,) if x is not None), chosen])))
        if given is not None and request is None:
            record.check_used(given, [x.schedule for x in (before, lowered) if x is not None])
        return replace(lowered, asked=schedule, steps=made.steps)
    except Undecided as e:
        raise cannot_stay_open(program, f"on {to.name!r}", e) from None


def cannot_stay_open(program: Program, where: str, size: Undecided) -> errors.PolytcError:
    return errors.fail("E412", f"the sizes {', '.join(program.sizes)} cannot stay open {where}: {size}",
                       notes=["without names of sizes a kernel is made for each combination of shapes"])


def alternatives(program: Program, target_name: str | Target, so_far: decisions.Record) -> Iterator[Alternative]:
    """The ways to take the first decision that a record leaves open (see polytc.decisions); none if it leaves none. No stage
    behind that decision runs. Raises E710 for a record that does not fit."""
    to, asking = target(target_name), replace(so_far, asks=True)
    before = list[decisions.Entry]()
    try:
        made = _bounded(pipeline.as_written(program), _scheduled_program(program, to.machine, None, asking))
        before += [e for s in made.steps for e in s.entries]
        for part in (made.once, made.program):
            before += _decided(part, to.machine, asking) if part is not None else ()
    except decisions.Open as found:
        before += found.before
        each = frozenset(schedule_decisions.KINDS)
        yield from (decisions.completed(so_far, tuple(before), way, each) for way in found.ways)
    except Undecided as e:
        raise cannot_stay_open(program, f"on {to.name!r}", e) from None


def _decided(rewritten: Program, machine: Machine, given: decisions.Record) -> tuple[decisions.Entry, ...]:
    """What is decided about the schedule."""
    def chosen(scop: polyhedra.Scop) -> Schedule:
        dependences = deps.analyse(scop)
        _check_budget(scop, dependences)
        return automatic.schedule(scop, dependences, machine, None, given)
    try:
        return chosen(polyhedra.extract(rewritten)).decisions
    except isl.QuotaExceeded as e:
        return chosen(polyhedra.boxed(rewritten, str(e))).decisions


def _check_budget(scop: polyhedra.Scop, dependences: deps.Dependences) -> None:
    """Raises QuotaExceeded for dependences that exceeded their budget, where the boxes of the statements ask for less."""
    if dependences.coarse and not scop.boxed and any(s.where for s in scop.program.statements):
        raise isl.QuotaExceeded(dependences.coarse)


def _bounded(program: Program, made: Rewritten) -> Rewritten:
    """What is made of a program, all of whose accesses are proved to stay in their tensors. Where a rewrite errs, what was
    written runs in its order. Raises TargetError E523 if there is no proof for that either."""
    sizes = in_bounds.sizes_inside(program)
    out = in_bounds.first_out_of_bounds(made.program, made.once, sizes)
    assert out is None or os.environ.get("POLYTC_CHECK") != "1", f"{out}\n{made}"
    if out is not None and made.program != program:
        made = Rewritten(None, program, "program")
        out = in_bounds.first_out_of_bounds(program, None, sizes)
    if out is not None:
        raise _outside(program, out)
    return made


def _outside(program: Program, found: in_bounds.OutOfBounds) -> errors.PolytcError:
    """The exception for a program that must not run."""
    return errors.fail("E523", f"{found.statement.name} of {program.name} {found.message}, which is not proved to be inside",
                       notes=[found.witness, f"{found.statement.name}: {format_statement(found.statement)}",
                              "this is a defect of polytc: please report it with the text of the program"],
                       kind=errors.TargetError)


def _lowered(program: Program, before: Lowered | None, rewritten: Program, to: Target, schedule: str | None,
             seconds: dict[str, float], given: decisions.Record | None, told: Callable[[Schedule], object] = id) -> Lowered:
    """The stages behind the rewrites. told: the schedule before loops are made of it."""
    def stage(name: str, compute: Callable[[], T], check: Callable[[T], object] | None = None) -> T:
        return _stage(name, program.name, seconds, compute, check)

    def scanned(scop: polyhedra.Scop) -> tuple[polyhedra.Scop, deps.Dependences, Schedule, Module]:
        dependences = stage("deps", lambda: deps.analyse(scop))
        _check_budget(scop, dependences)
        operations = isl.budget(len(scop.program.statements))
        chosen = stage("schedule", lambda: automatic.schedule(scop, dependences, to.machine, schedule, given))
        told(chosen)
        return scop, dependences, chosen, stage("ast", lambda: astgen.generate(scop, chosen, operations), verify.verify)

    try:
        scop, dependences, chosen, raw = scanned(stage("scop", lambda: polyhedra.extract(rewritten)))
    except isl.QuotaExceeded as e:
        why = str(e)
        automatic.replaceable(schedule, why)
        boxed = stage("scop", lambda: polyhedra.boxed(rewritten, why))
        try:
            scop, dependences, chosen, raw = scanned(boxed)
        except isl.QuotaExceeded as again:
            scop, dependences = boxed, stage("deps", lambda: deps.analyse(boxed))
            chosen = automatic.simplest(boxed, str(again))
            raw = stage("ast", lambda: astgen.generate(boxed, chosen, 0), verify.verify)

    def emitted(raw: Module) -> tuple[Module, Source, tuple[Buffer, ...], tuple[tuple[str, Module], ...]]:
        behind: list[tuple[str, Module]] = []

        def watched(name: str, compute: Callable[[], Module]) -> Module:
            behind.append((name, _stage(name, program.name, {}, compute)))
            return behind[-1][1]
        module = stage("loops", lambda: passes.run(raw, to.machine, watched), lambda _: passes.verify_last(behind))
        bound = size_binding.bind(module) if module.sizes and not to.takes_sizes else None
        flat = bound.module if bound is not None else size_binding.flatten(module) if module.sizes else module
        source = stage("source", lambda: to.emit(flat))
        return module, source, bound.workspace if bound is not None else (), (("ast", raw), *behind)

    try:
        module, source, workspace, behind = emitted(raw)
    except errors.TargetError as e:
        if e.code not in MAPPINGS or schedule == "program" or schedule not in REQUESTS:
            raise
        chosen = automatic.simplest(scop, f"what {to.name} has not: {e.diagnostics[0].message}")
        raw = stage("ast", lambda: astgen.generate(scop, chosen, isl.budget(len(scop.program.statements))), verify.verify)
        module, source, workspace, behind = emitted(raw)
    return Lowered(program, before, rewritten, scop, dependences, chosen, module, source, to, seconds, workspace, passes=behind)


def compile_program(program: Program, target_name: str | Target = "cpu", threads: int | None = None,
                    schedule: str | None = None) -> Executable:
    """Code that runs the program on arrays for its inputs, then its outputs, in order (see codegen.target.Executable).

    target_name: a registered name, for code made for the device that is here; or a Target, taken as it is, but for what the
    device's driver compiles wrongly. What follows from
    `program.constants` alone is computed when arrays are bound. Programs that differ in names only share what was made for the
    same target, threads and schedule: the executable in a process, what it is loaded from on disk (see disk/cache.py).
    """
    with waiting.shown(program.name):
        return start_program(program, target_name, threads, schedule).result()


def options(executable: Executable) -> dict[str, str]:
    """What the binary of a program of open sizes says about itself."""
    return packages.binary(executable).options


def start_program(program: Program, target_name: str | Target = "cpu", threads: int | None = None,
                  schedule: str | None = None, known: str | None = None) -> Future[Executable]:
    """As compile_program, but what follows the source goes on in the background: it is native work that leaves Python free, so
    that the stages of the next program run beside it. known: the program's key, where the caller has it."""
    to = here(target_name)
    count = threads or default_threads(to.machine.cores)
    key = known or keys.key(program, to, schedule)

    def begin() -> Callable[[], Executable]:
        made = _package(program, to, schedule, key, _EXECUTABLES.beside)
        return lambda: packages.load(made(), to, count)
    return _EXECUTABLES.get((key, to, count), begin)


def package(program: Program, to: Target, schedule: str | None = None) -> Package:
    """What is loaded to run a program, from disk where it is there."""
    return _package(program, to, schedule, keys.key(program, to, schedule))()


def _package(program: Program, to: Target, schedule: str | None, key: str,
             beside: Callable[[Callable[[], Binary]], Future[Binary]] | None = None) -> Callable[[], Package]:
    """The package under the key: from disk, or lowered now and built when it is called for. beside: begins the prologue's."""
    lasting = keys.lasting(to)
    stored, once = _stored(key) if lasting else None, list[Future[Binary]]()
    if stored is not None:
        return lambda: stored
    early = (lambda x: once.append(beside(lambda: to.build(x.source)))) if beside is not None else id
    lowered = lower_program(program, to, schedule, early)
    return lambda: _build(lowered, key if lasting else None, once)


_EXECUTABLES: Pending[tuple[str, Target, int], Executable] = Pending(1024)


def is_known(key: str, to: Target) -> bool:
    """Is the package under the key on disk, or code of it in this process?"""
    return (keys.lasting(to) and _stored(key) is not None) or any(k[:2] == (key, to) for k in _EXECUTABLES.known())


def start_package(key: str, made: Package, to: Target, threads: int | None) -> Future[Executable]:
    """As start_program, where the package under the key was made elsewhere."""
    count = threads or default_threads(to.machine.cores)
    return _EXECUTABLES.get((key, to, count), lambda: lambda: packages.load(made, to, count))


def idle() -> AbstractContextManager[None]:
    """Within, nothing is compiled in the background, and nobody begins to."""
    return _EXECUTABLES.idle()


def _stored(key: str) -> Package | None:
    """The package that the disk has; none while stages are to be looked at, which would not run."""
    if os.environ.get("POLYTC_DUMP") or os.environ.get("POLYTC_CHECK") == "1":
        return None
    data = cache.get(key)
    if data is None:
        return None
    try:
        return Package.from_bytes(data)
    except ValueError:
        cache.drop(key)
        return None


def _build(lowered: Lowered, key: str | None, once: Sequence[Future[Binary]] = ()) -> Package:
    """The package of a lowered program; kept on disk under the key. once: the binary of its prologue, where it was begun."""
    before, to = lowered.prologue, lowered.target
    made = () if before is None else tuple(b for b in before.loops.args if b.name in before.program.outputs)
    sizes_too = lowered.source.module.args[len(lowered.loops.args):]  # and the workspace, which the caller provides as well
    arrays = (*lowered.program.arrays, *(b.name for b in (*sizes_too, *made)))

    def part(of: Lowered, binary: Binary) -> Part:
        binary = replace(binary, options={**binary.options, **described(of)})
        return Part(binary, tuple(arrays.index(b.name) for b in binary.args))
    prologue = None if before is None else part(before, once[0].result() if once else to.build(before.source))
    package = Package(part(lowered, to.build(lowered.source)), prologue, made)
    if key is not None:
        cache.put(key, package.to_bytes())
    return package


def described(of: Lowered) -> dict[str, str]:
    """What code of open sizes says of them, see runtime.sized; nothing for other code."""
    return sized.described(of.workspace, of.loops, long_sums.conditions(of.rewritten)) if of.program.sizes else {}


def _scheduled_program(program: Program, machine: Machine, schedule: str | None, by: decisions.Record | None) -> Rewritten:
    """What the schedule is for: the program as written if the request is for that one. by: decisions of the rewrites."""
    if schedule == "program":
        return Rewritten(None, pipeline.as_written(program), schedule)
    given = saved.read(schedule) if schedule not in REQUESTS and schedule is not None else None
    if given is not None and given.written:
        return Rewritten(None, listed.applied(pipeline.as_written(program), given.changes), given.tree)
    schedule = given.tree if given is not None else schedule

    def watched(name: str, compute: Callable[[], Program]) -> Program:
        return _stage(name, program.name, {}, compute, consistent)
    made, steps = pipeline.run(program, machine, (*table.steps(), hoist.STEP), watched, by)
    once = hoist.prologue(steps[-1].before, steps[-1].decision) if steps[-1].decision is not None else None
    if schedule in REQUESTS or tree.made_for(schedule, polyhedra.extract(made)):
        return Rewritten(once, made, schedule, steps)
    return Rewritten(None, pipeline.as_written(program), schedule)


def _stage(name: str, program: str, seconds: dict[str, float], compute: Callable[[], T],
           check: Callable[[T], object] | None = None) -> T:
    start = time.perf_counter()
    waiting.at(name)
    try:
        value = compute()
        if check is not None and os.environ.get("POLYTC_CHECK") == "1":
            check(value)
    except AssertionError as e:
        raise AssertionError(f"stage {name!r} of {program!r} broke its invariant: {e}") from e
    seconds[name] = time.perf_counter() - start
    if {name, "all"} & {*os.environ.get("POLYTC_DUMP", "").split(",")}:
        _dump(f"# {program}: {name} ({seconds[name] * 1e3:.1f} ms)\n{value}\n", f"{program}.{name}.txt")
    return value


def _dump(text: str, filename: str) -> None:
    folder = os.environ.get("POLYTC_DUMP_DIR")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / filename).write_text(text)
    else:
        print(text, file=sys.stderr)
