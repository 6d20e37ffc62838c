"""The pipeline, once, from a checked Program to something that runs.

    Program -> rewrites -> Scop -> Dependences -> Schedule -> Loop AST -> passes -> Source -> Executable

`stage` is the only place that times, dumps and checks. POLYTC_DUMP=scop,schedule (or all) prints stages to stderr, or to files
in POLYTC_DUMP_DIR; POLYTC_CHECK=1 checks each stage's invariant and names the stage that broke it.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from polytc import errors
from polytc.codegen import astgen, loops, passes, verify
from polytc.codegen.target import Executable, Source, Target
from polytc.lang import rewrites
from polytc.lang.program import Program
from polytc.lang.rewrites import hoist
from polytc.machine import Machine
from polytc.poly import dependences as deps
from polytc.poly import scop as polyhedra
from polytc.runtime.prologue import WithPrologue
from polytc.runtime.threads import default_threads
from polytc.runtime.views import Viewed
from polytc.schedule import automatic, lanes, pack, tree
from polytc.schedule.tree import Schedule

errors.register(E502="unknown target")

T = TypeVar("T")

TARGETS = {
    "cpu": "polytc.codegen.llvm.target:LLVMTarget",
    "opencl": "polytc.codegen.opencl.target:OpenCLTarget",
    "interp": "polytc.codegen.interp:InterpTarget",
}
"""The registry: name -> module and class, imported when first asked for."""


@dataclass(frozen=True)
class Lowered:
    """Every stage of one compilation; each prints. seconds: what each stage took.

    program: as given; prologue: what is computed once from its constants, if anything; rewritten: the rest, after the
    Program -> Program rewrites, which the later stages describe.
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


def target(name: str) -> Target:
    """The target of that name. Raises TargetError E502 with the names there are."""
    if name not in TARGETS:
        raise errors.fail("E502", f"there is no target {name!r}", kind=errors.TargetError,
                          notes=[f"the targets are {', '.join(TARGETS)}"])
    with _LOCK:
        if name not in _TARGETS:
            module, _, cls = TARGETS[name].partition(":")
            _TARGETS[name] = getattr(importlib.import_module(module), cls)()
        return _TARGETS[name]


_LOCK = threading.RLock()
_TARGETS: dict[str, Target] = {}
_LOADED: dict[tuple[str, str | Target, int | None, str | None], Future[Executable]] = {}


def lower_program(program: Program, target_name: str | Target = "cpu", schedule: str | None = None) -> Lowered:
    """All stages up to source text; needs no device.

    target_name: a registered name, or a Target. schedule: see `schedule.automatic.schedule`.
    """
    to = target(target_name) if isinstance(target_name, str) else target_name
    seconds: dict[str, float] = {}
    prologue, rewritten = _stage("program", program.name, seconds, lambda: _scheduled_program(program, to.machine, schedule))
    before = _lowered(prologue, None, prologue, to, None, {}) if prologue is not None else None
    return _lowered(program, before, rewritten, to, schedule, seconds)


def _lowered(program: Program, prologue: Lowered | None, rewritten: Program, to: Target, schedule: str | None,
             seconds: dict[str, float]) -> Lowered:
    """The stages behind the rewrites."""
    def stage(name: str, compute: Callable[[], T], check: Callable[[T], object] | None = None) -> T:
        return _stage(name, program.name, seconds, compute, check)

    scop = stage("scop", lambda: polyhedra.extract(rewritten))
    dependences = stage("deps", lambda: deps.analyse(scop))
    chosen = stage("schedule", lambda: automatic.schedule(scop, dependences, to.machine, schedule))
    raw = stage("ast", lambda: astgen.generate(scop, chosen), verify.verify)
    module = stage("loops", lambda: passes.run(raw, to.machine), verify.verify)
    source = stage("source", lambda: to.emit(module))
    return Lowered(program, prologue, rewritten, scop, dependences, chosen, module, source, to, seconds)


def compile_program(program: Program, target_name: str | Target = "cpu", threads: int | None = None,
                    schedule: str | None = None) -> Executable:
    """Code that runs the program on arrays for its inputs, then its outputs, in order (see codegen.target.Executable).

    target_name: a registered name, for code made for the device that is here; or a Target, taken as it is. What follows from
    `program.constants` alone is computed when arrays are bound. The same program (by its text) for the same target, threads
    and schedule is compiled once a process.
    """
    return start_program(program, target_name, threads, schedule).result()


def start_program(program: Program, target_name: str | Target = "cpu", threads: int | None = None,
                  schedule: str | None = None) -> Future[Executable]:
    """As compile_program, but the last stage, from source to code, goes on in the background: it is native work that leaves
    Python free, so that the stages of the next program run beside it."""
    key = (str(program), target_name, threads, schedule)
    with _LOCK:
        known = _LOADED.get(key)
        if known is None or (known.done() and known.exception() is not None):
            to = target(target_name).here() if isinstance(target_name, str) else target_name
            lowered = lower_program(program, to, schedule)
            known = _LOADED[key] = _background().submit(_load, lowered, threads)
        return known


def _background() -> ThreadPoolExecutor:
    """The thread in which sources become code; a forked child gets its own."""
    global _loader
    if _loader is None or _loader[0] != os.getpid():
        _loader = (os.getpid(), ThreadPoolExecutor(1, "polytc-load"))
    return _loader[1]


_loader: tuple[int, ThreadPoolExecutor] | None = None


def _forget_unfinished() -> None:
    """In a forked child: what the parent was still loading will never finish here, and its lock may be held for ever."""
    global _LOCK
    _LOCK = threading.RLock()
    for key in [k for k, loading in _LOADED.items() if not loading.done()]:
        del _LOADED[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_unfinished)


def _load(lowered: Lowered, threads: int | None) -> Executable:
    loaded = _executable(lowered, threads)
    if lowered.prologue is None:
        return loaded
    before = _executable(lowered.prologue, threads)
    return WithPrologue(lowered.program, lowered.prologue.program, lowered.rewritten, before, loaded)


def _executable(lowered: Lowered, threads: int | None) -> Executable:
    """The loaded code, taking arrays in the shapes that the caller knows."""
    loaded: Executable = lowered.target.load(lowered.source, threads or default_threads(lowered.target.machine.cores))
    known = {t.name: t.shape for t in (*lowered.rewritten.tensors, *lowered.program.tensors)}
    seen = tuple(b.shape for b in lowered.loops.args)
    return loaded if seen == tuple(known[b.name] for b in lowered.loops.args) else Viewed(loaded, seen)


def _scheduled_program(program: Program, machine: Machine, schedule: str | None) -> tuple[Program | None, Program]:
    """(what is computed once, what the schedule is for): the program as written if the request is for that one."""
    if schedule == "program":
        return None, program
    prologue, rewritten = _rewrite(program, machine)
    if schedule in (None, "isl") or tree.made_for(schedule, polyhedra.extract(rewritten)):
        return prologue, rewritten
    return None, program


def _rewrite(program: Program, machine: Machine) -> tuple[Program | None, Program]:
    """(what is computed once, the rest)."""
    rewritten = rewrites.run(program)
    if machine.kind == "cpu" and not program.precise:
        rewritten = lanes.split_reductions(pack.pack(rewritten, machine), machine)
    return hoist.hoist(rewritten) if rewritten.constants else (None, rewritten)


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
