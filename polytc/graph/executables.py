"""Programs to code: by the compiler, or by the reference evaluator (target 'evaluate'), behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeAlias

import numpy as np

from polytc.lang.evaluate import evaluate
from polytc.lang.program import Program


class Bindable(Protocol):
    """Code that can be fixed to buffers: those of the program's inputs, then of its outputs."""

    def bind(self, buffers: Sequence[np.ndarray]) -> Callable[[], None]:
        """A function that runs on these buffers."""
        ...


Compile: TypeAlias = Callable[[Program], "Future[Any]"]
"""Begins to compile a program; the result is a Bindable."""


class Evaluated:
    """A program run by the reference evaluator: slow, and right by construction."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def bind(self, buffers: Sequence[np.ndarray]) -> Callable[[], None]:
        names = (*self.program.inputs, *self.program.outputs)
        given = dict(zip(names, buffers, strict=True))
        inputs = {n: given[n] for n in self.program.inputs}

        def run() -> None:
            results = evaluate(self.program, inputs)
            for name in self.program.outputs:
                np.copyto(given[name], results[name])
        return run


def compiler_for(target: str, threads: int | None) -> Compile:
    """The function that compiles programs for a target."""
    if target == "evaluate":
        return _evaluated
    from polytc.compiler import start_program  # not needed by the reference, and slow to import

    def start(program: Program) -> Future[Any]:
        return start_program(program, target, threads)
    return start


def _evaluated(program: Program) -> Future[Any]:
    ready: Future[Any] = Future()
    ready.set_result(Evaluated(program))
    return ready
