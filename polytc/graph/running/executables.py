"""Programs to code: by the compiler, or by the reference evaluator (target 'evaluate'), behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from polytc.codegen.target import Bound, Target
from polytc.runtime.reference import Reference

if TYPE_CHECKING:
    from polytc.machine import Machine
    from polytc.program.program import Program


class Bindable(Protocol):
    """Code that can be fixed to buffers: those of the program's inputs, then of its outputs."""

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """A function that runs on these buffers."""
        ...


Compile: TypeAlias = "Callable[[Program], Future[Any]]"
"""Begins to compile a program; the result is a Bindable."""


@dataclass(frozen=True)
class Compiler:
    """Compiles programs for a target, one or several at once."""

    target: str | Target
    threads: int | None

    def __call__(self, program: Program) -> Future[Any]:
        from polytc.compiler import start_program  # not needed by the reference, and slow to import
        return start_program(program, self.target, self.threads)

    def all(self, programs: Sequence[Program], begun: Callable[[int], None]) -> list[Future[Any]]:
        """Each program's code, see compile_all.start_programs."""
        from polytc.compile_all import start_programs  # as above
        return start_programs(programs, self.target, self.threads, begun)


def compiler_for(target: str | Target, threads: int | None) -> Compile:
    """The function that compiles programs for a target."""
    if target == "evaluate":
        return _evaluated
    return Compiler(target, threads)


def machine_for(target: str | Target) -> Machine | None:
    """What decisions about whole plans look at; None for the reference, which runs programs as they are."""
    if target == "evaluate":
        return None
    from polytc.targets.registry import here  # as above
    return here(target).machine


def tests_on_host(target: str | Target) -> bool:
    """Are conditions on values, which decide whether a program runs, tested where it runs? From a device they would have to
    come back."""
    return (target if isinstance(target, str) else target.name).partition(":")[0] != "opencl"


def _evaluated(program: Program) -> Future[Any]:
    ready: Future[Any] = Future()
    ready.set_result(Reference(program))
    return ready
