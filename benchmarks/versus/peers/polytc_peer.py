"""polytc: an Op writing to given arrays; where inputs are constant, the program bound to its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import polytc
from polytc import compiler
from polytc.program.program import Program
from versus.case import Case
from versus.peers import Prepared, empty


def version() -> str:
    return polytc.__version__


def prepare(case: Case, inputs: Mapping[str, np.ndarray], threads: int) -> Prepared:
    outputs = tuple(empty(case).values())
    prepared = _bound if any(t.constant for t in case.inputs.values()) else _op
    call = prepared(case, inputs, outputs, threads)
    return Prepared(call, lambda _: outputs)


def _op(case: Case, inputs: Mapping[str, np.ndarray], outputs: tuple[np.ndarray, ...], threads: int) -> Any:
    op = polytc.compile(case.text, threads=threads)
    given = tuple(inputs[name] for name in op.inputs)
    out = outputs if len(outputs) > 1 else outputs[0]
    return lambda: op(*given, out=out)


def _bound(case: Case, inputs: Mapping[str, np.ndarray], outputs: tuple[np.ndarray, ...], threads: int) -> Any:
    made = program(case)
    executable: Any = compiler.compile_program(made, "cpu", threads)
    return executable.bind([*(inputs[n] for n in made.inputs), *outputs])


def program(case: Case) -> Program:
    """The program of a case, with the inputs that do not change as its constants."""
    shapes, dtypes = ({n: getattr(t, what) for n, t in case.inputs.items()} for what in ("shape", "dtype"))
    return replace(polytc.build(case.text, shapes, dtypes), constants=tuple(n for n, t in case.inputs.items() if t.constant))
