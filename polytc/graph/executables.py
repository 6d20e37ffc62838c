"""Programs to code: by the compiler, or by the reference evaluator (target 'evaluate'), behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeAlias

import numpy as np

from polytc.codegen.target import Bound
from polytc.lang.program import Program
from polytc.machine import Machine
from polytc.runtime.reference import Reference


class Bindable(Protocol):
    """Code that can be fixed to buffers: those of the program's inputs, then of its outputs."""

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """A function that runs on these buffers."""
        ...


Compile: TypeAlias = Callable[[Program], "Future[Any]"]
"""Begins to compile a program; the result is a Bindable."""


def compiler_for(target: str, threads: int | None) -> Compile:
    """The function that compiles programs for a target."""
    if target == "evaluate":
        return _evaluated
    from polytc.compiler import start_program  # not needed by the reference, and slow to import

    def start(program: Program) -> Future[Any]:
        return start_program(program, target, threads)
    return start


def machine_for(target: str) -> Machine | None:
    """What decisions about whole plans look at; None for the reference, which runs programs as they are."""
    if target == "evaluate":
        return None
    from polytc.compiler import target as found  # as above
    return found(target).here().machine


def _evaluated(program: Program) -> Future[Any]:
    ready: Future[Any] = Future()
    ready.set_result(Reference(program))
    return ready
