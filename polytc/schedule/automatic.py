"""Scop + Dependences + Machine -> Schedule, or what the user asked for instead."""

from __future__ import annotations

from polytc import errors
from polytc.decisions import Record
from polytc.machine import Machine
from polytc.options import check_request
from polytc.poly import isl, nest
from polytc.poly.dependences import Dependences, analyse
from polytc.poly.nest import Nest
from polytc.poly.scop import Scop, extract
from polytc.program import generalise as sizes
from polytc.schedule import isl_schedule
from polytc.schedule.cpu import sequential
from polytc.schedule.cpu import strategy as cpu
from polytc.schedule.decisions import KINDS, Decisions
from polytc.schedule.facts import work_groups
from polytc.schedule.fusion import policies
from polytc.schedule.gpu import chains, launches
from polytc.schedule.gpu import strategy as gpu
from polytc.schedule.tree import Schedule, checked, from_yaml

errors.register(E706="the legality of a schedule cannot be decided")


def schedule(scop: Scop, deps: Dependences, machine: Machine, request: str | None = None, given: Record | None = None
             ) -> Schedule:
    """A legal schedule. given: decisions that the strategy does not take itself.

    request: None for the strategy of the machine's kind; 'min', 'smart' or 'max' for it with that policy of fusion; 'program'
    for the order of the text; 'isl' for isl's scheduler with tiling; else the YAML text of a schedule. Raises E701..E704 for an
    illegal or foreign request, E706 for one whose check is beyond isl's budget.
    """
    match request:
        case None | "min" | "smart" | "max":
            return _strategy(scop, deps, machine, request, Decisions(given))
        case "program":
            return Schedule(scop.original, "program order, as asked")
        case "isl":
            return isl_schedule.schedule(scop, deps)
        case text:
            return _given(text, scop, deps)


def _of_loops(scop: Scop, deps: Dependences, machine: Machine, policy: str | None, made: Decisions
              ) -> tuple[Nest, list[str]]:
    """The nest of a program with `for` loops; where sizes are open, that for the representative ones, which is to be proved for
    all of them."""
    open_ = bool(scop.program.sizes)
    if open_:
        scop = extract(sizes.numeric(scop.program))
        deps = analyse(scop)
    if machine.kind == "gpu":
        return launches.plan(scop, deps, machine, policy, open_, made)
    return sequential.plan(scop, deps, machine, policy=policy, made=made)


def replaceable(request: str | None, why: str) -> None:
    """Raises E706 if a text asked for the schedule whose loops isl cannot write in time."""
    if request not in (None, "program", "isl"):
        raise errors.fail("E706", f"the loops of this schedule take too long to write: {why}",
                          notes=["smaller tiles, or fewer statements in one loop"])


def simplest(scop: Scop, why: str) -> Schedule:
    """Program order, in place of a schedule whose loops isl cannot write in time, or a target cannot run."""
    return Schedule(scop.original, f"program order: the loops of another schedule need {why}")


def _given(text: str, scop: Scop, deps: Dependences) -> Schedule:
    check_request(text)
    try:
        return isl.bounded(scop.ctx, isl.BUDGET, lambda: from_yaml(text, scop, deps))
    except isl.QuotaExceeded as e:
        raise errors.fail("E706", f"whether this schedule is legal takes too long to find out: {e}",
                          notes=["schedule='program' needs no proof"]) from None


def _strategy(scop: Scop, deps: Dependences, machine: Machine, policy: str | None, made: Decisions) -> Schedule:
    """The strategy's tree; program order, which needs no proof, if the tree does not stand the check or that takes too long.
    `how` says so then. Where somebody else decided, an illegal tree is refused (E701, E704)."""
    if deps.coarse:
        return Schedule(scop.original, f"program order: exact dependences need {deps.coarse}")
    in_memory = any(s.bounds and not work_groups.is_cut(s) for s in scop.program.statements)
    if scop.program.sequential and in_memory:  # isl sees the boxes of ranges in memory, and would scan them
        return Schedule(scop.original, "program order: `for` loops with ranges in memory")
    try:
        notes: list[str] = []
        if not work_groups.is_straight(scop.program.statements):
            plan, notes = _of_loops(scop, deps, machine, policy, made)
        else:
            if machine.kind == "gpu":
                plan, notes = chains.plan(scop, deps, machine, made) if policy is None else gpu.plan(
                    scop.program, machine, policy, made=made)
            else:
                fixed = sizes.numeric(scop.program)
                shared = policies.decide(fixed, machine, policy, made)
                notes = [str(shared)] if len(fixed.statements) > 1 else []
                plan = cpu.nest(fixed, machine, fusion=shared, made=made)
        wide = f", conditions tested at each instance: exact domains need {scop.boxed}" if scop.boxed else ""
        how = "; ".join((f"{machine.kind} strategy{wide}", *notes))
        if plan == nest.program_order(scop.program):
            return Schedule(scop.original, how, tuple(made.taken))
        budget = isl.budget(len(scop.program.statements))
        return isl.bounded(scop.ctx, budget, lambda: checked(Schedule(scop.tree(plan), how, tuple(made.taken)), deps))
    except errors.IllegalTransform as e:
        if any(entry.step in KINDS for entry in made.given.entries):
            raise
        reason = f"the {machine.kind} strategy was refused ({e.diagnostics[0].message})"
    except isl.QuotaExceeded as e:
        reason = f"to check the {machine.kind} strategy needs {e}"
    return Schedule(scop.original, f"program order: {reason}")
