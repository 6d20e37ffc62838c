"""polytc: an Op writing to given arrays; where inputs are constant, the program bound to its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import polytc
from polytc import compiler
from versus.case import Case
from versus.peers import Prepared, empty


def version() -> str:
    return polytc.__version__


def prepare(case: Case, inputs: Mapping[str, np.ndarray], threads: int) -> Prepared:
    outputs = tuple(empty(case).values())
    constants = tuple(name for name, t in case.inputs.items() if t.constant)
    call = _bound(case, inputs, outputs, constants, threads) if constants else _op(case, inputs, outputs, threads)
    return Prepared(call, lambda _: outputs)


def _op(case: Case, inputs: Mapping[str, np.ndarray], outputs: tuple[np.ndarray, ...], threads: int) -> Any:
    op = polytc.compile(case.text, threads=threads)
    given = tuple(inputs[name] for name in op.inputs)
    out = outputs if len(outputs) > 1 else outputs[0]
    return lambda: op(*given, out=out)


def _bound(case: Case, inputs: Mapping[str, np.ndarray], outputs: tuple[np.ndarray, ...], constants: tuple[str, ...],
           threads: int) -> Any:
    program = polytc.build(case.text, {n: a.shape for n, a in inputs.items()}, {n: a.dtype for n, a in inputs.items()})
    executable: Any = compiler.compile_program(replace(program, constants=constants), "cpu", threads)
    return executable.bind([*(inputs[n] for n in program.inputs), *outputs])
