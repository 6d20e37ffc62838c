"""Rows of two elements are read and stored whole, and the numbers are numpy's, whatever the size and wherever rows lie."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polytc
from polytc import compiler
from polytc.codegen import addresses, traverse
from polytc.codegen import loops as L
from polytc.codegen.passes.interleaved_rows import interleave_kernel
from polytc.machine import AVX2, AVX512, GENERIC_GPU, NEON, Machine
from polytc.program.scalars import F64
from polytc.targets.llvm.target import LLVMTarget

SIZES = (1, 2, 3, 7, 8, 9, 16, 31, 64, 100, 1003)


def numbers(*shape: int, dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def lowered(text: str, machine: Machine, **types: str) -> L.Module:
    return compiler.lower_program(polytc.build(text, dict.fromkeys(types, (64,)), types), LLVMTarget(machine)).loops


def strided(m: L.Module) -> list[str]:
    """Stores of one element from each of several rows."""
    stores = (s for k in m.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, L.Store))
    forms = ((s, addresses.flatten(s.buffer, s.indices)) for s in stores)
    return [s.buffer.name for s, form in forms if form is None or (form.lanes and form.lanes != tuple(range(len(form.lanes))))]


@pytest.mark.part(2)
@pytest.mark.parametrize("machine", [AVX2, AVX512, NEON])
@pytest.mark.parametrize("text", [
    "Y[i] = Z[i]*W[i]", "Y[i] = Z[i]*W[i] + conj(Z[i])", "Y[i] = exp(Z[i]) - W[i]", "Y[i] = Z[i]; Y[i] = Y[i]*W[i]"])
@pytest.mark.parametrize("dtype", ["c64", "c128"])
def test_rows_are_stored_whole(text: str, dtype: str, machine: Machine) -> None:
    assert strided(lowered(text, machine, Z=dtype, W=dtype)) == []


@pytest.mark.part(10)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(("text", "wanted"), [
    ("Y[i] = Z[i]*W[i]", lambda z, w: z * w), ("Y[i] = Z[i]*conj(W[i]) + Z[i]", lambda z, w: z * w.conj() + z),
    ("Y[i] = exp(Z[i])*W[i]", lambda z, w: np.exp(z) * w), ("Y[i] = abs(Z[i]) + real(W[i])", lambda z, w: abs(z) + w.real),
    ("Y[i] = Z[i]/W[i]", lambda z, w: z / w), ("T[i] = Z[i]*W[i]; Y[i] = W[i] - T[i]", lambda z, w: w - z * w),
    ("s += Z[i]*W[i]", lambda z, w: np.dot(z, w)), ("s += conj(Z[i])*W[i]", np.vdot),
    ("s -= Z[i]*W[i]", lambda z, w: -np.dot(z, w)),
    ("s += real(Z[i]*conj(W[i]))", lambda z, w: np.vdot(w, z).real)])
def test_numbers_of_any_size(text: str, wanted: Callable[..., np.ndarray], dtype: str) -> None:
    op = polytc.compile(text, threads=1)
    for n in SIZES:
        z, w = numbers(n, dtype=dtype), numbers(n, dtype=dtype, seed=1)
        np.testing.assert_allclose(op(Z=z, W=w), wanted(z, w), rtol=1e-4 if dtype == "complex64" else 1e-11,
                                   atol=1e-3 if dtype == "complex64" else 1e-11)


@pytest.mark.part(3)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", SIZES)
def test_what_is_made_of_itself(n: int, dtype: str) -> None:
    z, w = numbers(n, dtype=dtype), numbers(n, dtype=dtype, seed=1)
    wanted = z * w
    kind = "c64" if dtype == "complex64" else "c128"
    polytc.compile(f"def f(inout {kind}[N] Z, {kind}[N] W) {{ Z[i] = Z[i]*W[i] }}", threads=1)(Z=z, W=w)
    np.testing.assert_allclose(z, wanted, rtol=1e-5)


@pytest.mark.part(8)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("shape", [(5, 3), (17, 40), (64, 65), (300, 210)])
def test_matrices_and_vectors(shape: tuple[int, int], dtype: str) -> None:
    a, x, y = numbers(*shape, dtype=dtype), numbers(shape[1], dtype=dtype, seed=1), numbers(shape[0], dtype=dtype, seed=2)
    near = {"rtol": 1e-3, "atol": 1e-3} if dtype == "complex64" else {"rtol": 1e-10, "atol": 1e-10}
    for text, other, wanted in (
            ("Y[i] += A[i,j]*x[j]", x, a @ x), ("Y[j] += A[i,j]*x[i]", y, y @ a),
            ("Y[j] += conj(A[i,j])*x[i]", y, y @ a.conj()), ("Y[i] += A[i,j] + 0*x[j]", x, a.sum(1))):
        np.testing.assert_allclose(polytc.run(text, A=a, x=other), wanted, **near)


def test_precise_sums_are_made_in_order() -> None:
    z, w = numbers(1003, dtype="complex64"), numbers(1003, dtype="complex64", seed=1)
    found = polytc.compile("precise def f(c64[N] Z, c64[N] W) -> (s) { s += Z[i]*W[i] }", threads=1)(Z=z, W=w)
    re, im = np.float32(0), np.float32(0)
    for a, b in zip(z, w, strict=True):
        re, im = re + (a.real * b.real - a.imag * b.imag), im + (a.real * b.imag + a.imag * b.real)
    assert found == pytest.approx(complex(re, im), rel=1e-5)
    np.testing.assert_array_equal(polytc.compile(
        "precise def f(c64[N] Z, c64[N] W) -> (Y) { Y[i] = Z[i]*W[i] }", threads=1)(Z=z, W=w), np.stack(
        (z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real), axis=-1).view("complex64")[:, 0])


Y, X = L.Buffer("Y", F64, (8, 2), "global"), L.Buffer("X", F64, (8,), "global")
ROWS = L.Ramp(L.const(0), 1, 4)


def half(part: int, value: L.Expr) -> L.Store:
    return L.Store(Y, (ROWS, L.const(part)), value)


def stores(*body: L.Stmt, machine: Machine = AVX2) -> int:
    made = interleave_kernel(L.Kernel("k", (X, Y), ("X", "Y"), L.block(*body)), machine)
    return sum(isinstance(s, L.Store) for s in traverse.walk_stmt(made.body))


def test_nothing_lies_between() -> None:
    loaded = L.Load(X, (ROWS,), F64, 4)
    own = L.Load(Y, (ROWS, L.const(0)), F64, 4)
    last = L.Load(Y, (L.Ramp(L.const(4), 1, 4), L.const(0)), F64, 4)
    assert stores(half(0, loaded), half(1, loaded)) == 1
    assert stores(half(1, loaded), half(0, own)) == 1, "both are made before either is stored"
    assert stores(half(0, loaded), half(1, own)) == 2, "it reads what was stored"
    assert stores(half(0, loaded), L.Store(X, (ROWS,), last), half(1, loaded)) == 3, "what it reads is overwritten"
    assert stores(half(0, last), L.Store(X, (ROWS,), own), half(1, last)) == 3, "it is read in between"
    assert stores(half(0, last), L.Store(X, (ROWS,), last), half(1, last)) == 2
    assert stores(half(0, loaded), half(1, loaded), machine=GENERIC_GPU) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_registers_that_sum_up_are_stored_as_they_are(threads: int) -> None:
    """What a register holds is what was stored there, not what that was made of once more."""
    rng = np.random.default_rng(0)
    a, b, c, y = (rng.integers(-9, 9, shape).astype("f8") for shape in ((64,), (64, 2), (64, 2), (64,)))
    wanted = c + (2 * a - y[0] - y[1])[:, None]
    polytc.compile("def f(f64[64] A, inout f64[64,2] C, f64[64] Y) "
                   "{ C[i,j] += A[i] - Y[k] where i in 0:64, j in 0:2, k in 0:2 }", threads=threads)(A=a, C=c, Y=y)
    np.testing.assert_array_equal(c, wanted)
    wanted = np.stack((np.maximum(2*y[8] - b[:, 0] - 2*y, 2*y[8]), b[:, 1]), axis=1)
    polytc.compile("def f(inout f64[64,2] B, f64[64] Y) { B[i,1] = B[i,1]; B[i,0] = max(2*Y[8] - B[i,0] - 2*Y[i], 2*Y[8]) }",
                   threads=threads)(B=b, Y=y)
    np.testing.assert_array_equal(b, wanted)


@pytest.mark.part(2)
@pytest.mark.parametrize("m", [4, 8, 16])
@pytest.mark.parametrize("k", [1, 4, 8])
def test_a_register_that_was_added_to_is_not_made_again(m: int, k: int) -> None:
    """The last term of the second column came twice: its register was stored as the sum that had just been put into it."""
    A, B = (np.random.default_rng(n).integers(-3, 4, shape).astype("f4") for n, shape in enumerate([(m, k), (k, 2)]))
    np.testing.assert_array_equal(polytc.run("C[i,j] += A[i,k] * B[k,j]", A=A, B=B), A @ B)
