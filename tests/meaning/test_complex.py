"""Complex programs mean on all targets what they mean here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polytc
from tests.meaning.run import meaning

R = np.random.default_rng(3)


def z(*shape: int) -> np.ndarray:
    return (R.normal(size=shape) + 1j * R.normal(size=shape)).astype(np.complex64)


A, B, X, Y, U = z(12, 9), z(9, 10), z(9), z(9), R.normal(size=9).astype(np.float32)
H, N = R.normal(size=9).astype(np.float16), R.integers(0, 9, 9)
PROGRAMS: list[tuple[str, dict[str, Any]]] = [
    ("C[i,j] += A[i,k]*conj(B[k,j])", {"A": A, "B": B}),
    ("C[i,j] += 2j*A[i,k]*(B[k,j] - 1)", {"A": A, "B": B}),
    ("C[i] += A[i,k]*X[k]/(X[0]+3)", {"A": A, "X": X}),
    ("O[i,l] += A[i,j]*B[j,k]*A[l,j]", {"A": A, "B": B}),
    ("O[i] = X[i]*U[i] + 3/Y[i] - 0.5j", {"X": X, "U": U, "Y": Y}),
    ("O[i] = c64(U[i], real(X[i]))*(X[i-1] else 1j)", {"U": U, "X": X}),
    ("O[i] = H[i]*2j; P[i] = abs(O[i])*N[i]", {"H": H, "N": N}),
    ("O[i] = N[i]*1j*X[i]; P[i] = X[i] == X[i] ? sqrt(O[i]) : 0", {"N": N, "X": X}),
    ("O[i] = (X[i-1] else U[i]) + (U[i+1] else X[i]) where i in 0:9", {"X": X, "U": U}),
    ("O[i] = exp(1j*i/9) + angle(U[i])*imag(X[i])", {"U": U, "X": X}),
    ("O[N[i]] += X[i]*X[i] -> (c64[9] O)", {"N": N, "X": X}),
    ("O[i] = X[N[i]]; O[i] = O[i]*conj(O[i])*Y[i] where abs(O[i]) > 0.5", {"X": X, "N": N, "Y": Y}),
    ("(M[i], V[i]) argmax= (abs(A[i,j]), A[i,j]*1j)", {"A": A}),
    ("for t in 1:9 { P[t] = (P[t-1] else 1)*X[t]*0.5 + Y[t] }", {"X": X, "Y": Y}),
    ("S[i] = X[i]; for t in 0:3 { S[i] = S[i]*S[i]/(abs(S[i]) + 1) + Y[i] }", {"X": X, "Y": Y}),
    ("P[i] *= A[i,k]*B[k,0]; Q[k] *= A[i,k] + 1 where i > k", {"A": A, "B": B}),
    ("def f(inout c64[N] X, c64[N] Y) { X[i] *= Y[i]; X[i] /= Y[i] + 2; X[i] *= 2j }", {"X": X, "Y": Y}),
    ("O[N[i]] *= X[i] -> (c64[9] O)", {"N": N, "X": X}),
    ("for t in 0:4 { P *= X[t]; Q *=! Y[i] + t; R[t] = P + Q } -> (R)", {"X": X, "Y": Y}),
    ("acc(c128) P[j] *= (X[i+j-4] else identity) where i in 0:9, j in 0:9", {"X": X}),
    ("acc(c128) s += X[i]*Y[i]; t += U[i]*X[i] -> (s, t)", {"X": X, "Y": Y, "U": U}),
    ("T[i] = X[i]*(X[i] + 1)*(X[i] + 2)*(X[i] + 3)*(X[i] + 4)/(Y[i]*Y[i] + 2)/(Y[i] + 3j)", {"X": X, "Y": Y}),
    ("precise def f(c64[I,K] A, c64[K,J] B) -> (C) { C[i,j] += A[i,k]*B[k,j] }", {"A": A, "B": B}),
    ("fast def f(c64[N] X, c64[N] Y) -> (O) { O[i] = (X[i] + Y[i]) - X[i]*Y[i]/2 }", {"X": X, "Y": Y})]


@pytest.mark.part(24)
@pytest.mark.parametrize(("text", "arrays"), PROGRAMS, ids=[t for t, _ in PROGRAMS])
def test_targets(text: str, arrays: dict[str, np.ndarray], targets: tuple[str, ...]) -> None:
    wanted = meaning(text, arrays)
    for target in ("evaluate", *targets):
        op = polytc.compile(text, target)
        found = op(**{n: a.copy() for n, a in arrays.items()})
        for (value, error), a in zip(wanted.values(), found if isinstance(found, tuple) else (found,), strict=True):
            assert (a.shape, a.dtype) == (value.shape, value.dtype)
            assert np.isfinite(error).all()
            assert (np.abs(a - value) <= error + 1e-30).all(), target
            assert (error <= 1e-3 * np.maximum(1, np.abs(value))).all()


def test_a_program_prints_as_what_it_means() -> None:
    for text, arrays in PROGRAMS:
        types = {n: str(a.dtype) for n, a in arrays.items()}
        program = polytc.build(text, {n: a.shape for n, a in arrays.items()}, types)
        printed = meaning(str(program), {n: arrays[n] for n in program.inputs})
        for (value, _), (other, error) in zip(meaning(text, arrays).values(), printed.values(), strict=True):
            assert (np.abs(value - other) <= error + 1e-30).all()
