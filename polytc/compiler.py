"""The pipeline, once, from a checked Program to something that runs.

    Program -> rewrites -> Scop -> Dependences -> Schedule -> Loop AST -> passes -> Source -> Executable

`stage` is the only place that times, dumps and checks. POLYTC_DUMP=scop,schedule (or all) prints stages to stderr, or to files
in POLYTC_DUMP_DIR; POLYTC_CHECK=1 checks each stage's invariant and names the stage that broke it.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from polytc import errors, keys
from polytc.codegen import astgen, loops, passes, sizes, verify
from polytc.codegen.loops import Buffer
from polytc.codegen.package import Package, Part
from polytc.codegen.target import Executable, OfDevices, Source, Target
from polytc.disk import cache
from polytc.machine import Machine
from polytc.poly import dependences as deps
from polytc.poly import inside, isl
from polytc.poly import scop as polyhedra
from polytc.program.program import Program, format_statement
from polytc.program.sizes import Undecided
from polytc.rewrite import factors, long_sums
from polytc.rewrite import tidy as rewrites
from polytc.rewrite.cpu import dot_words, lanes, pack, row_blocks, split_floats, widening
from polytc.rewrite.cpu.winograd import choice as winograd
from polytc.rewrite.gpu import in_loops, local_tiles
from polytc.rewrite.tidy import coalesce, hoist, inline, layout, mirror, pad, scan, unit, unloop
from polytc.runtime import packages, sized
from polytc.runtime.pending import Pending
from polytc.runtime.threads import default_threads
from polytc.schedule import automatic, tree
from polytc.schedule.tree import Schedule
from polytc.schedule.user import copies

errors.register(E502="unknown target", E523="access outside of a tensor")

T = TypeVar("T")

TARGETS = {
    "cpu": "polytc.codegen.llvm.target:LLVMTarget",
    "opencl": "polytc.codegen.opencl.target:OpenCLTarget",
    "c": "polytc.codegen.c.target:CTarget",
    "interp": "polytc.codegen.interp:InterpTarget",
}
"""The registry: name -> module and class, imported when first asked for."""


MAPPINGS = ("E510", "E511")
"""What a target says of loops over items, or of barriers among them, that it has no form for."""


@dataclass(frozen=True)
class Lowered:
    """Every stage of one compilation; each prints. seconds: what each stage took.

    program: as given; prologue: what is computed once from its constants, if anything; rewritten: the rest, after the
    Program -> Program rewrites, which the later stages describe. workspace: temporaries that the caller provides, because their
    extents are not fixed. asked: the schedule that was asked for.
    """

    program: Program
    prologue: Lowered | None
    rewritten: Program
    scop: polyhedra.Scop
    dependences: deps.Dependences
    schedule: Schedule
    loops: loops.Module
    source: Source
    target: Target
    seconds: dict[str, float]
    workspace: tuple[Buffer, ...] = ()
    asked: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, or what another process reads, is lowered again: isl's objects stay where they were made."""
        return lower_program, (self.program, self.target, self.asked)


def target(name: str | Target) -> Target:
    """The target of that name, or the one that is given; `opencl:1` and `opencl:NAME` are those of one device. Raises
    TargetError E502 with the names there are."""
    if not isinstance(name, str):
        return name
    kind, colon, device = name.partition(":")
    made = _target(kind) if kind in TARGETS else None
    if made is not None and not colon:
        return made
    if isinstance(made, OfDevices) and device:
        return made.on(device)
    notes = [f"the targets are {', '.join(TARGETS)}", "opencl:1 or opencl:NAME chooses a device"]
    if name == "evaluate":
        notes = ["'evaluate' runs programs without compiling them, so that there is no code of it", *notes]
    raise errors.fail("E502", f"there is no target {name!r}", kind=errors.TargetError, notes=notes)


def here(wanted: str | Target) -> Target:
    """The target that code is made for where it is to run: for a name the one for the device that is here, which knows most of
    it; a Target as it is, without what the device's driver compiles wrongly."""
    if isinstance(wanted, str):
        return target(wanted).here()
    return wanted.driven() if isinstance(wanted, OfDevices) else wanted


@functools.cache
def _target(kind: str) -> Target:
    module, _, cls = TARGETS[kind].partition(":")
    made: Target = getattr(importlib.import_module(module), cls)()
    return made


def lower_program(program: Program, target_name: str | Target = "cpu", schedule: str | None = None) -> Lowered:
    """All stages up to source text; needs no device.

    target_name: a registered name, or a Target. schedule: see `schedule.automatic.schedule`.
    """
    to = target(target_name)
    seconds: dict[str, float] = {}
    asked = schedule
    once, rewritten = _stage("program", program.name, seconds, lambda: _scheduled_program(program, to.machine, schedule))
    once, rewritten, schedule = _stage("bounds", program.name, seconds, lambda: _bounded(program, once, rewritten, schedule))
    try:
        before = _lowered(once, None, once, to, None, {}) if once is not None else None
        return replace(_lowered(program, before, rewritten, to, schedule, seconds), asked=asked)
    except Undecided as e:
        raise errors.fail("E412", f"the sizes {', '.join(program.sizes)} cannot stay open on {to.name!r}: {e}",
                          notes=["without names of sizes a kernel is made for each combination of shapes"]) from None


def _bounded(program: Program, once: Program | None, rewritten: Program, schedule: str | None
             ) -> tuple[Program | None, Program, str | None]:
    """(what is computed once, the rest, the schedule asked for), all of whose accesses are proved to stay in their tensors.
    Where a rewrite errs, what was written runs in its order. Raises TargetError E523 if there is no proof for that either."""
    sizes = inside.sizes_inside(program)
    out = inside.first_stray(rewritten, once, sizes)
    assert out is None or os.environ.get("POLYTC_CHECK") != "1", f"{out}\n{rewritten}"
    if out is not None and rewritten != program:
        once, rewritten, schedule = None, program, "program"
        out = inside.first_stray(program, None, sizes)
    if out is not None:
        raise _outside(program, out)
    return once, rewritten, schedule


def _outside(program: Program, found: inside.Stray) -> errors.PolytcError:
    """The exception for a program that must not run."""
    return errors.fail("E523", f"{found.statement.name} of {program.name} {found.message}, which is not proved to be inside",
                       notes=[found.witness, f"{found.statement.name}: {format_statement(found.statement)}",
                              "this is a defect of polytc: please report it with the text of the program"],
                       kind=errors.TargetError)


def _lowered(program: Program, before: Lowered | None, rewritten: Program, to: Target, schedule: str | None,
             seconds: dict[str, float]) -> Lowered:
    """The stages behind the rewrites."""
    def stage(name: str, compute: Callable[[], T], check: Callable[[T], object] | None = None) -> T:
        return _stage(name, program.name, seconds, compute, check)

    def scanned(scop: polyhedra.Scop) -> tuple[polyhedra.Scop, deps.Dependences, Schedule, loops.Module]:
        dependences = stage("deps", lambda: deps.analyse(scop))
        if dependences.coarse and not scop.boxed and any(s.where for s in rewritten.statements):
            raise isl.QuotaExceeded(dependences.coarse)
        operations = isl.budget(len(scop.program.statements))
        chosen = stage("schedule", lambda: automatic.schedule(scop, dependences, to.machine, schedule))
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

    def emitted(raw: loops.Module) -> tuple[loops.Module, Source, tuple[Buffer, ...]]:
        module = stage("loops", lambda: passes.run(raw, to.machine), verify.verify)
        bound = sizes.bind(module) if module.sizes and not to.takes_sizes else None
        flat = bound.module if bound is not None else sizes.flatten(module) if module.sizes else module
        return module, stage("source", lambda: to.emit(flat)), bound.workspace if bound is not None else ()

    try:
        module, source, workspace = emitted(raw)
    except errors.TargetError as e:
        if e.code not in MAPPINGS or schedule == "program" or schedule not in automatic.REQUESTS:
            raise
        chosen = automatic.simplest(scop, f"what {to.name} has not: {e.diagnostics[0].message}")
        raw = stage("ast", lambda: astgen.generate(scop, chosen, isl.budget(len(scop.program.statements))), verify.verify)
        module, source, workspace = emitted(raw)
    return Lowered(program, before, rewritten, scop, dependences, chosen, module, source, to, seconds, workspace)


def compile_program(program: Program, target_name: str | Target = "cpu", threads: int | None = None,
                    schedule: str | None = None) -> Executable:
    """Code that runs the program on arrays for its inputs, then its outputs, in order (see codegen.target.Executable).

    target_name: a registered name, for code made for the device that is here; or a Target, taken as it is, but for what the
    device's driver compiles wrongly. What follows from
    `program.constants` alone is computed when arrays are bound. Programs that differ in names only share what was made for the
    same target, threads and schedule: the executable in a process, what it is loaded from on disk (see disk/cache.py).
    """
    return start_program(program, target_name, threads, schedule).result()


def options(executable: Executable) -> dict[str, str]:
    """What the binary of a program of open sizes says about itself."""
    return packages.binary(executable).options


def start_program(program: Program, target_name: str | Target = "cpu", threads: int | None = None,
                  schedule: str | None = None) -> Future[Executable]:
    """As compile_program, but what follows the source goes on in the background: it is native work that leaves Python free, so
    that the stages of the next program run beside it."""
    to = here(target_name)
    count = threads or default_threads(to.machine.cores)
    key = keys.key(program, to, schedule)

    def begin() -> Callable[[], Executable]:
        made = _package(program, to, schedule, key)
        return lambda: packages.load(made(), to, count)
    return _EXECUTABLES.get((key, to, count), begin)


def package(program: Program, to: Target, schedule: str | None = None) -> Package:
    """What is loaded to run a program, from disk where it is there."""
    return _package(program, to, schedule, keys.key(program, to, schedule))()


def _package(program: Program, to: Target, schedule: str | None, key: str) -> Callable[[], Package]:
    """The package under the key: found on disk or lowered to source now, and built when it is called for."""
    lasting = keys.lasting(to)
    stored = _stored(key) if lasting else None
    if stored is not None:
        return lambda: stored
    lowered = lower_program(program, to, schedule)
    return lambda: _build(lowered, key if lasting else None)


_EXECUTABLES: Pending[tuple[str, Target, int], Executable] = Pending(1024)


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


def _build(lowered: Lowered, key: str | None) -> Package:
    """The package of a lowered program; kept on disk under the key."""
    before = lowered.prologue
    made = () if before is None else tuple(b for b in before.loops.args if b.name in before.program.outputs)
    sizes_too = lowered.source.module.args[len(lowered.loops.args):]  # and the workspace, which the caller provides as well
    arrays = (*lowered.program.arrays, *(b.name for b in (*sizes_too, *made)))

    def part(of: Lowered) -> Part:
        binary = of.target.build(of.source)
        if of.program.sizes:
            described = sized.described(of.workspace, of.loops.sizes, long_sums.conditions(of.rewritten))
            binary = replace(binary, options={**binary.options, **described})
        return Part(binary, tuple(arrays.index(b.name) for b in binary.args))
    package = Package(part(lowered), part(before) if before is not None else None, made)
    if key is not None:
        cache.put(key, package.to_bytes())
    return package


def _scheduled_program(program: Program, machine: Machine, schedule: str | None) -> tuple[Program | None, Program]:
    """(what is computed once, what the schedule is for): the program as written if the request is for that one."""
    if schedule == "program":
        return None, program
    if schedule is not None and schedule.startswith(tree.WRITTEN):
        return None, copies.applied(program, copies.of(schedule))
    once, rewritten = _rewrite(program, machine)
    if schedule in automatic.REQUESTS or tree.made_for(schedule, polyhedra.extract(rewritten)):
        return once, rewritten
    return None, program


def _rewrite(program: Program, machine: Machine) -> tuple[Program | None, Program]:
    """(what is computed once, the rest)."""
    if program.sizes:
        return hoist.hoist(_general(program, machine))
    program = unloop.unloop(program)
    if program.sequential and not program.dynamic:
        program = coalesce.coalesce(program)
    if program.sequential or program.dynamic:  # the rewrites take statements to run one after another, over boxes
        program = mirror.mirror(layout.transpose_temporaries(program)) if machine.kind == "cpu" else program
        program = long_sums.split_sums(program) if machine.kind == "cpu" else _staged(program, machine, in_loops.stage)
        return hoist.hoist(program) if program.constants else (None, program)
    program = factors.leave(program)
    program = widening.widen(program, machine) if machine.kind == "cpu" else program
    rewritten = rewrites.run(winograd.run(program, machine), padded=machine.kind == "cpu")
    if machine.kind == "cpu" and not program.precise:
        rewritten = dot_words.group(split_floats.split(rewritten, machine), machine)
        rewritten = lanes.split_reductions(pack.pack(rewritten, machine), machine)
        rewritten = row_blocks.split(rewritten, machine)
    if machine.kind == "cpu":
        rewritten = long_sums.split_sums(rewritten)
    if machine.kind == "gpu":  # what is staged is padded on its way to local memory
        rewritten = pad.materialise(_staged(rewritten, machine, local_tiles.stage))
    return hoist.hoist(rewritten) if rewritten.constants else (None, rewritten)


def _general(program: Program, machine: Machine) -> Program:
    """The program after those rewrites that are right for all sizes; one that asks for the sizes changes nothing."""
    if program.sequential or program.dynamic:
        with suppress(Undecided):
            return _staged(program, machine, in_loops.stage) if machine.kind == "gpu" else long_sums.split_sums(program)
        return program
    steps: list[Callable[[Program], Program]] = [factors.leave]
    steps += [lambda p: widening.widen(p, machine)] if machine.kind == "cpu" else []
    steps += [inline.inline, unit.drop_unit_indices, pad.drop_guards, scan.simplify_prefixes]
    if machine.kind == "gpu":
        steps.append(lambda p: _staged(p, machine, local_tiles.stage))
    steps.append(pad.materialise)
    if machine.kind == "cpu" and not program.precise:
        steps += [lambda p: pack.pack(p, machine), lambda p: lanes.split_reductions(p, machine)]
    if machine.kind == "cpu":
        steps.append(long_sums.split_sums)
    for step in steps:
        with suppress(Undecided):
            program = step(program)
    return program


def _staged(program: Program, machine: Machine, stage: Callable[[Program, Machine], Program]) -> Program:
    """The program for the items of a GPU, with blocks for those sums that are long although items divide them."""
    staged = stage(program, machine)
    long = long_sums.long(program, staged)
    return stage(long_sums.split_sums(program, long), machine) if long else staged


def _stage(name: str, program: str, seconds: dict[str, float], compute: Callable[[], T],
           check: Callable[[T], object] | None = None) -> T:
    start = time.perf_counter()
    try:
        value = compute()
        if check is not None and os.environ.get("POLYTC_CHECK") == "1":
            check(value)
    except AssertionError as e:
        raise AssertionError(f"stage {name!r} of {program!r} broke its invariant: {e}") from e
    seconds[name] = time.perf_counter() - start
    wanted = os.environ.get("POLYTC_DUMP", "").split(",")
    if name in wanted or "all" in wanted:
        _dump(f"# {program}: {name} ({seconds[name] * 1e3:.1f} ms)\n{value}\n", f"{program}.{name}.txt")
    return value


def _dump(text: str, filename: str) -> None:
    folder = os.environ.get("POLYTC_DUMP_DIR")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / filename).write_text(text)
    else:
        print(text, file=sys.stderr)
