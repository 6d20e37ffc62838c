"""A plan to an Instance: its programs compiled and bound to memory. What was found on disk is bound without this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polytc.errors import ModelError, fail
from polytc.graph.plan import Plan
from polytc.graph.planning import memory
from polytc.graph.running.executables import Compile, Compiler
from polytc.graph.running.instance import Instance, Link, Progress, bind, compiled_programs, lifetimes
from polytc.options import Licence

if TYPE_CHECKING:
    from concurrent.futures import Future


def build(plan: Plan, compile_: Compile, licence: Licence, progress: Progress | None) -> Instance:
    """Compile the programs of a plan and bind them to memory. licence: what it may do to digits.

    Raises ModelError E612 if that does not fit this machine.
    """
    arena = memory.plan(lifetimes(plan))
    if arena.bytes > memory.LARGEST:
        raise fail("E612", f"the intermediate values of {plan.name} need {arena.bytes / 1e9:,.1f} GB", kind=ModelError,
                   notes=[f"this machine has {memory.LARGEST / 1e9:,.1f} GB; give the model smaller shapes"])
    links = [Link(c.inputs, c.outputs, c.guards) for c in plan.calls]
    made = bind(plan, links, _compiled(plan, compile_, licence, progress), arena)
    if progress:
        progress(len(plan.calls), len(plan.calls), "")
    return made


def _compiled(plan: Plan, compile_: Compile, licence: Licence, progress: Progress | None) -> list[Any]:
    """The code of the plan's calls. Who interrupts this does not wait for what was begun and has not had its turn."""
    started: list[Future[Any]] = []
    programs, begun = compiled_programs(plan, licence), 0

    def tell(number: int) -> None:
        nonlocal begun
        if progress:
            progress(begun, len(programs), plan.calls[number].label)
        begun += 1
    try:
        if isinstance(compile_, Compiler):
            started = compile_.all(programs, tell)
        else:
            for k, program in enumerate(programs):
                tell(k)
                started.append(compile_(program))
        return [future.result() for future in started]
    except (KeyboardInterrupt, SystemExit):
        for future in started:
            future.cancel()
        raise
