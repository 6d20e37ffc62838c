"""Words of Tensor Comprehensions: `exists`, and `op` as a name."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from tests.meaning.run import meaning

A = np.arange(12, dtype=np.float32).reshape(3, 4)
PROGRAMS = {
    "def f(float(M,N) op) -> (o) { o(m,n) = op(m,n) * 2 }": ({"op": A}, 2 * A),
    "def f(float(M,N) A) -> (op) { op(m,n) = A(m,n) * 2 }": ({"A": A}, 2 * A),
    "op(i) +=! A(i,j)": ({"A": A}, A.sum(1)),
    "op += A[i,j]": ({"A": A}, A.sum()),
    "op[i] = A[i,0]; y[i] = op[i]": ({"A": A}, A[:, 0]),
    "op double<a=2>(X[*i]) -> Y[*i] { Y[*i] = a*X[*i] }\nop = double(A); y[i,j] = op[i,j]": ({"A": A}, 2 * A),
    "def f(float(M) A, float(N) B) -> (o) { o(i) = A(i) where exists B(i) }": ({"A": A[0], "B": A[1, :2]}, A[0, :2]),
    "def f(float(M) A, float(N) B) -> (o) { o(i) +=! A(i+k) where exists B(k) }": (
        {"A": A[0], "B": A[1, :2]}, A[0, :-1] + A[0, 1:]),
    "def f(float(M) A, float(N,K) B) -> (o) { o(i,j) = A(i) where exists B(i+1,j) }": (
        {"A": A[0], "B": A}, np.repeat(A[0, :2, None], 4, 1)),
    "def f(float(M) exists) -> (o) { o(i) = exists(i) where exists(i) > -1, exists exists(i) }": ({"exists": A[0]}, None),
}


@pytest.mark.parametrize("text", PROGRAMS)
def test_programs(text: str) -> None:
    arrays, want = PROGRAMS[text]
    if want is None:
        with pytest.raises(polytc.CompileError, match="E214"):
            polytc.run(text, **arrays)
        return
    np.testing.assert_array_equal(polytc.run(text, **arrays), want)
    np.testing.assert_array_equal(list(meaning(text, arrays).values())[-1][0], want)


@pytest.mark.parametrize(("text", "code", "place"), [
    ("def f(float(M) A) -> (o) { T(i) = A(i); o(i) = A(i) where exists T(i) }", "E101", "exists T(i)"),
    ("def f(float(M) A) -> (o) { o(i) = A(i) where exists A(i,0) }", "E105", "exists A(i,0)"),
    ("def f(float(M) A) -> (o) { o(i) = A(i) where exists A() }", "E114", "exists A()"),
    ("def f(float(M) A) -> (o) { o(i) = A(i) where exists Q(i) }", "E101", "exists Q(i)"),
])
def test_refusals(text: str, code: str, place: str) -> None:
    with pytest.raises(polytc.CompileError) as raised:
        polytc.run(text, A=A[0])
    first = raised.value.diagnostics[0]
    assert (first.code, text[first.span.start:first.span.end]) == (code, place), str(raised.value)
