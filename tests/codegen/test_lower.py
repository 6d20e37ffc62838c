"""Statements as stores: subscripts count from a tensor's first element, wherever that is."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.codegen import loops as L
from polytc.codegen.lower import Lowering
from polytc.program import program as pr
from polytc.program.scalars import F32, I64
from polytc.stages import build

OPEN = """def f(f32[n] A) -> (Y) {
    T[i] = A[i]*2 where i in n-3:n
    Y[i] = T[n-1-i] + T[n-3]*T[n-1-i] where i in 0:3
}"""


@pytest.mark.parametrize("target", ["interp", "cpu"])
@pytest.mark.parametrize("n", [3, 4, 11])
def test_a_first_element_that_depends_on_a_size(n: int, target: str) -> None:
    a = np.arange(1, n + 1, dtype=np.float32)
    last = 2 * a[:n - 4:-1] if n > 3 else 2 * a[::-1]
    op = polytc.compile(OPEN, symbolic=True, target=target)
    np.testing.assert_array_equal(op(a), last + 2 * a[n - 3] * last)


@pytest.mark.parametrize("lower", [-2, 0, 3])
def test_a_first_element_at_a_number(lower: int) -> None:
    """Where it is 0, nothing is taken from the index."""
    p = build("Y[i] = X[i] where i in 0:4", {"X": (5,)})
    moved = pr.Tensor("X", F32, (5,), (lower,))
    lowering = Lowering.of(pr.Program(p.name, (moved, p.tensor("Y")), p.statements, p.inputs, p.outputs))
    value = lowering.statement(p.statements[0], {"i": L.Var("i")}).value
    assert isinstance(value, L.Load)
    assert value.indices == ((L.Var("i") if lower == 0 else L.Binary("-", L.Var("i"), L.const(lower), I64)),)
