"""Sums over both parts of complex numbers; numpy says what they are."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.rewrite.complex_numbers import both_parts
from polytc.rewrite.complex_numbers.statements import as_real

RANDOM = np.random.default_rng(19)
A, B = (RANDOM.normal(size=(5, 37)) + 1j * RANDOM.normal(size=(5, 37)) for _ in range(2))
SUMS = {
    "S[i] += real(A[i,j]*conj(A[i,j]))": ((A * A.conj()).real.sum(1), True),
    "S[i] += real(A[i,j])*real(B[i,j]) + imag(A[i,j])*imag(B[i,j])": ((A * B.conj()).real.sum(1), True),
    "S[i] += imag(A[i,j])*imag(B[i,j]) + real(A[i,j])*real(B[i,j])": ((A * B.conj()).real.sum(1), True),
    "S[i] -= real(conj(A[i,j])*B[i,j])": (-(A * B.conj()).real.sum(1), True),
    "S += real(A[i,j]) + imag(A[i,j]) where j <= i": (np.tril(A.real + A.imag).sum(), True),
    "S[i] += real(A[i,j]*B[i,j])": ((A * B).real.sum(1), False),
    "S[i] += real(A[i,j])*imag(B[i,j]) + imag(A[i,j])*real(B[i,j])": ((A * B).imag.sum(1), False),
    "S[i] += real(A[i,j]) - imag(A[i,j])": ((A.real - A.imag).sum(1), False),
    "S[j] += real(A[i,j]*conj(A[i,j]))": ((A * A.conj()).real.sum(0), False),
    "S[i] += real(A[i,j]*conj(B[i,0]))": ((A * B[:, :1].conj()).real.sum(1), False),
}


@pytest.mark.part(4)
@pytest.mark.parametrize("target", ["cpu", "interp"])
@pytest.mark.parametrize("text", SUMS)
def test_sums(text: str, target: str) -> None:
    wanted, over = SUMS[text]
    arrays = {n: a for n, a in (("A", A), ("B", B)) if f"{n}[" in text}
    np.testing.assert_allclose(polytc.run(text, **arrays, target=target), wanted, rtol=1e-12, atol=1e-12)
    shapes = {n: a.shape for n, a in arrays.items()}
    program = polytc.build(text, shapes, dict.fromkeys(arrays, "c128"))
    assert ("part in 0:2" in str(as_real(program))) == over


def test_precise_sums_stay_as_they_are() -> None:
    text = "precise def f(c128[M,N] A) -> (S) { S[i] += real(A[i,j]*conj(A[i,j])) }"
    assert "part" not in str(as_real(polytc.build(text, {"A": A.shape})))
    np.testing.assert_allclose(polytc.run(text, A=A), (A * A.conj()).real.sum(1), rtol=1e-12)


def test_a_sum_of_real_numbers_has_no_parts() -> None:
    program = polytc.build("S[i] += A[i,j]*A[i,j]", {"A": A.shape}, {"A": "f64"})
    s = program.statement("S1")
    assert both_parts.summed(s, {t.name: t for t in program.tensors}, "part") is s
