"""Scop + Dependences + Machine -> Schedule, or what the user asked for instead."""

from __future__ import annotations

from polytc import errors
from polytc.machine import Machine
from polytc.poly import nest
from polytc.poly.dependences import Dependences
from polytc.poly.scop import Scop
from polytc.schedule import affine, cpu, gpu
from polytc.schedule.tree import Schedule, checked, from_yaml


def schedule(scop: Scop, deps: Dependences, machine: Machine, request: str | None = None) -> Schedule:
    """A legal schedule.

    request: None for the strategy of the machine's kind; 'program' for the order of the text; 'isl' for isl's scheduler with
    tiling; else the YAML text of a schedule. Raises E701..E704 for an illegal or foreign request.
    """
    match request:
        case None:
            return _strategy(scop, deps, machine)
        case "program":
            return checked(Schedule(scop.original, "program order, as asked"), deps)
        case "isl":
            return affine.schedule(scop, deps)
        case text:
            return from_yaml(text, scop, deps)


def _strategy(scop: Scop, deps: Dependences, machine: Machine) -> Schedule:
    """The strategy's tree; program order if the tree does not stand the check, which `how` then says."""
    plan = gpu.nest(scop.program, machine) if machine.kind == "gpu" else cpu.nest(scop.program, machine)
    tree = nest.tree(scop.ctx, scop.program, plan)
    try:
        return checked(Schedule(tree, f"{machine.kind} strategy"), deps)
    except errors.IllegalTransform as e:
        reason = e.diagnostics[0].message
        return checked(Schedule(scop.original, f"program order: the {machine.kind} strategy was refused ({reason})"), deps)
