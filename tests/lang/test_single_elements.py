"""Chains of statements among which some have no index, a number as a subscript, or an index of one value, against numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

from polytc import compiler
from polytc.lang import build
from tests import guarded

Step: TypeAlias = tuple[str, Callable[[np.ndarray], np.ndarray]]
"""A statement, and what it makes of what it reads."""

X = np.array([2.0, -3.0, 5.0, 0.5, -1.0])
ROW = np.arange(1, 9)

FIRST: dict[str, Step] = {
    "sum of numbers": ("A[k] += f64(q)+1 where k in 0:5, q in 0:5", lambda x: np.full(5, 15.0)),
    "copy": ("A[k] = X[k]", lambda x: x),
    "constant place": ("A[0] = X[3]", lambda x: x[3:4]),
    "one value": ("A[k] = X[k+2] where k in 0:1", lambda x: x[2:3]),
    "two axes": ("A[k,l] = X[k] where l in 0:1", lambda x: x[:, None]),
    "scalar": ("A = X[1]*X[2]", lambda x: x[1] * x[2]),
    "total": ("A += X[k]", lambda x: x.sum()),
    "number": ("A = 3.0", lambda x: np.array(3.0)),
}
SECOND: dict[str, Step] = {
    "element": ("B = A[{0}]", lambda a: a.ravel()[0]),
    "element at a place": ("B[0] = A[{0}]", lambda a: a.ravel()[:1]),
    "element at two places": ("B[0,i] = A[{0}] where i in 0:1", lambda a: a.ravel()[:1].reshape(1, 1)),
    "row of one": ("B[i] = A[{0}] where i in 0:4", lambda a: np.full(4, a.ravel()[0])),
    "update": ("B += A[{k}]*1", lambda a: a.sum()),
    "minimum": ("B min= A[{k}] - 1", lambda a: a.min() - 1),
}
THIRD: dict[str, Step] = {
    "spread": ("C[j] = sqrt(abs(B[{0}])+1) where j in 1:9", lambda b: np.full(8, np.sqrt(abs(b.ravel()[0]) + 1))),
    "scalar": ("C = B[{0}] + 1", lambda b: b.ravel()[0] + 1),
    "times its place": ("C[j] = B[{0}]*f64(j) where j in 1:9", lambda b: b.ravel()[0] * ROW),
    "sum": ("C += B[{0}]*f64(k) where k in 0:3", lambda b: b.ravel()[0] * 3),
    "one value": ("C[j] = B[{0}] where j in 0:1", lambda b: b.ravel()[:1]),
    "twice": ("C[j] = B[{0}]*B[{0}] where j in 1:9", lambda b: np.full(8, b.ravel()[0] ** 2)),
}


def _placed(text: str, rank: int) -> str:
    """A statement with numbers, or indices, for the subscripts of what it reads."""
    for field, names in (("[{0}]", ["0"] * rank), ("[{k}]", ["k", "l"][:rank])):
        text = text.replace(field, f"[{','.join(names)}]" if rank else "")
    return text


TARGETS = ("cpu", "interp", "opencl", "c")


@pytest.mark.part(8)
@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("first", FIRST)
def test_chains(first: str, half: int) -> None:
    """Each chain on one target; what runs is compared. A half: of each three statements one choice of results."""
    made, meaning = FIRST[first]
    a = np.asarray(meaning(X))
    for n, (second, third, result) in enumerate(itertools.product(SECOND, THIRD, ("C", "B, C"))):
        if (list(FIRST).index(first) + n // 12 + n // 2 + n) % 2 != half:
            continue
        b = np.asarray(SECOND[second][1](a))
        lines = made, _placed(SECOND[second][0], a.ndim), _placed(THIRD[third][0], b.ndim)
        text, target = f"def f(f64[5] X) -> ({result}) {{ {'; '.join(lines)} }}", TARGETS[n % 5 % 4]
        program = build(text, {"X": (5,)}, {"X": "f64"})
        lowered = compiler.lower_program(program, target)
        if target in ("interp", "cpu"):
            code = lowered.target.load(lowered.target.build(lowered.source), 1)
            assert lowered.prologue is None
            outputs = {name: np.full(program.tensor(name).shape, 77.0) for name in program.outputs}
            guarded.run(code, [X.copy() if name == "X" else outputs[name] for name in program.arrays])
            for name, got in outputs.items():
                expected = {"B": b, "C": THIRD[third][1](b)}[name]
                np.testing.assert_allclose(got, expected, rtol=1e-12, err_msg=text)
