"""`for` loops in which no iteration reads what an earlier one made."""

from __future__ import annotations

import numpy as np
import pytest

from polytc import compiler
from polytc.program.evaluator import evaluate
from polytc.program.program import Program
from polytc.rewrite.tidy.doall_loops import flatten
from polytc.stages import build

FLAT = {
    "a triangular product in place": "for i in 0:7 { B[i,j] += A[i,k]*B[k,j] where k in i+1:7\n B[i,j] *= 3 }",
    "the next row": "for i in 0:6 { B[i,j] = B[i+1,j]*2 + B[i,j] }",
    "a condition": "for i in 0:7 { B[i,j] += B[k,j] where k > i }",
    "rows of two tensors": "for i in 0:6 { A[i,j] = B[i+1,j]\n B[i,j] = A[i,j] + A[i+1,j] }",
    "a nest": "for i in 0:7 { for j in 0:7 { A[i,j] = A[i,j]*2 + B[i,j] } }",
    "a nest with two statements and a sum": "for i in 0:7 { B[i,j] = 3*A[i,j]\n for j in 0:i+1 { A[i,j] +=! B[i,k]*k } }",
    "a nest that reads later rows": "for i in 0:6 { for j in 0:7 { B[i,j] = B[i+1,j] - A[i,j] } }",
    "nothing but the own row": "for i in 0:7 { B[i,j] = B[i,j]*A[i,j] }",
}
ORDERED = {
    "a nest with a row before": "for i in 1:7 { for j in 0:7 { B[i,j] = B[i-1,j]*2 } }",
    "a nest with a column before": "for i in 0:7 { for j in 1:7 { B[i,j] = B[i,j-1]*2 } }",
    "a nest with a later column": "for i in 0:7 { for j in 0:6 { B[i,j] = B[i,j+1]*2 } }",
    "the row before": "for i in 1:7 { B[i,j] = B[i-1,j]*2 }",
    "all rows from the own on": "for i in 0:7 { A[i,j] += B[k,j] where k >= i\n B[i,j] = A[i,j] }",
    "one element for all": "for i in 0:7 { A[0,j] = B[i,j]\n B[i,j] = A[0,j] + B[i,j] }",
    "a row that two iterations write": "for i in 0:6 { B[i,j] = A[i,j]\n B[i+1,j] += A[i,j] }",
}


def program(body: str) -> Program:
    return build(f"def f(inout f64[7,7] A, inout f64[7,7] B) -> (A, B) {{\n{body}\n}}", {"A": (7, 7), "B": (7, 7)})


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {n: rng.standard_normal((7, 7)) for n in "AB"}


@pytest.mark.part(2)
@pytest.mark.parametrize("name", FLAT)
def test_no_order_is_left(name: str) -> None:
    p = program(FLAT[name])
    flat = flatten(p)
    assert not flat.sequential
    expected, found = evaluate(p, arrays()), evaluate(flat, arrays())
    for n in p.outputs:
        np.testing.assert_allclose(found[n], expected[n], rtol=1e-12)
    for target in ("cpu", "interp"):
        got = arrays()
        compiler.compile_program(p, target, 2).run([got[n] for n in dict.fromkeys((*p.inputs, *p.outputs))])
        for n in p.outputs:
            np.testing.assert_allclose(got[n], expected[n], rtol=1e-12)


@pytest.mark.parametrize("name", ORDERED)
def test_order_that_matters_stays(name: str) -> None:
    p = program(ORDERED[name])
    assert flatten(p) == p


def test_a_copy_is_made_of_what_later_iterations_overwrite() -> None:
    copies = [s for s in flatten(program(FLAT["rows of two tensors"])).statements if s.target.endswith("_before")]
    assert [s.target for s in copies] == ["B_before", "A_before"]
    assert len(flatten(program(FLAT["nothing but the own row"])).statements) == 1


def test_deep_nests_take_little_more_than_flat_ones() -> None:
    """Eight levels without order are one statement, of one loop."""
    names = "abcdefgh"
    body = "".join(f"for {x} in 0:3 {{ " for x in names) + f"T[{','.join(names)}] = X[{','.join(names)}]*2" + " }" * 8
    lowered = compiler.lower_program(build(body, {"X": (3,) * 8}), "cpu")
    assert not lowered.rewritten.sequential
    assert len(lowered.rewritten.statements[0].ranges) == 1
