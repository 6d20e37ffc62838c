"""Products of complex numbers are made in loops over what does not tell their elements."""

from __future__ import annotations

import pytest

from polytc.program import program as pr
from polytc.program.names import Names
from polytc.program.scalars import DTYPES
from polytc.rewrite.complex_numbers.products import in_order
from tests.rewrite.complex_numbers.test_statements import build


@pytest.mark.parametrize(("text", "shape", "over"), [
    ("P[i] *= A[i,k]", (4, 9), ("k",)), ("P[k] *= A[i,k]", (4, 9), ("i",)), ("P *= A[i,k]", (4, 9), ("i", "k")),
    ("P[i] *= A[i]", (9,), ()), ("P[i//2] *= A[i] where i in 0:8", (8,), ("i",)), ("P[i,i] *= A[i,k]", (4, 9), ("k",)),
    ("P[0] *= A[i]", (9,), ("i",))])
def test_which_loops(text: str, shape: tuple[int, ...], over: tuple[str, ...]) -> None:
    program = build(text, A=shape)
    made = in_order(program.statements[-1], DTYPES["c64"], Names.of(program))
    assert made.op is None
    assert made.indices[:made.depth] == over
    assert set(made.indices) == set(program.statements[-1].indices)
    assert any(r.tensor == made.target and r.subscripts == made.subscripts for r in pr.reads(made))
