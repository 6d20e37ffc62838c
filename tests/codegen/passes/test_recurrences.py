"""Recurrences: what waits for the iteration before comes last."""

import numpy as np
import pytest

import polytc
from polytc.codegen import loops as L
from polytc.codegen.passes import recurrences
from polytc.program.scalars import F64
from tests.codegen import loop_programs as P

SMOOTH = "def f(inout f64[N,M] A) -> (A) { for i in 1:N-1 { for j in 1:M-1 { A[i,j] = %s } } }"


def low(value, mark="fast "):
    return polytc.lower(mark + SMOOTH % value, shapes={"A": (9, 50)})


@pytest.mark.part(2)
@pytest.mark.parametrize("value", ["(A[i-1,j] + A[i,j-1] + A[i,j+1]) / 3", "0.3 * (A[i,j-1] + A[i,j] + A[i+1,j])",
                                   "A[i,j-1] * 0.5 + A[i,j] + A[i+1,j]", "A[i,j+1] + A[i,j-1] + A[i-1,j-1]",
                                   "(A[i,j-1] + A[i,j-1] + A[i,j]) / 3"])
def test_results(value):
    given = np.random.default_rng(1).random((9, 50)) * 0.1
    text = "fast " + SMOOTH % value
    expected = polytc.evaluate(text, A=given.copy())
    for target in ("cpu", "interp"):
        np.testing.assert_allclose(polytc.run(text, A=given.copy(), target=target), expected, rtol=1e-12)


@pytest.mark.part(2)
@pytest.mark.parametrize("divisor", ["1e-310", "1e-320", "1e308"])
def test_divisors_whose_reciprocal_is_no_normal_number(divisor):
    value = f"(A[i-1,j] + A[i,j-1] + A[i,j+1]) / {divisor}"
    assert "fma(" not in str(low(value).loops)
    for given in (np.zeros((9, 50)), np.full((9, 50), 1e300)):
        text = "fast " + SMOOTH % value
        expected = polytc.evaluate(text, A=given.copy())
        np.testing.assert_allclose(polytc.run(text, A=given.copy(), target="interp"), expected, rtol=1e-12)


def test_a_scaled_sum_waits_for_one_operation():
    assert "muladd(A[" in str(low("(A[i-1,j] + A[i,j-1] + A[i,j+1]) / 3").loops)


def test_sums_keep_their_order():
    for mark in ("", "precise "):
        assert "fma(" not in str(low("(A[i-1,j] + A[i,j-1] + A[i,j+1]) / 3", mark).loops)


A, X = L.Buffer("A", F64, (50,)), L.Buffer("X", F64, (50,))
J = L.Var("j")


def sums(fast: bool) -> L.Kernel:
    """for j { A[j] = (A[j-1] + X[j] + X[j-1]) / 9 }, the example of the docstring."""
    before = L.binary("-", J, L.const(1))
    total = P.add(P.add(P.load(A, before), P.load(X, J)), P.load(X, before))
    body = L.For("j", L.const(1), L.const(50), 1, L.Store(A, (J,), L.binary("/", total, L.Const(9.0, F64))))
    return L.Kernel("k", (A, X), ("A",), body, fast=fast)


def test_the_chain_is_one_operation_long():
    text = str(recurrences.shorten_recurrences(sums(fast=True)))
    assert "A[j] = muladd(A[(j - 1)], 0.1111111111111111, ((X[j] + X[(j - 1)]) * 0.1111111111111111))" in text
    kept = sums(fast=False)
    assert recurrences.shorten_recurrences(kept) == kept
