"""Halves that contractions use often are converted once: products as of f32, and each value as it is when it is read."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import polytc
from polytc.compiler import lower_program
from polytc.lang import build
from polytc.machine import AVX512, GENERIC_GPU, Machine
from polytc.rewrite import table
from polytc.rewrite.cpu import widening
from polytc.targets.interp import InterpTarget
from tests.behind import rewritten as behind_all
from tests.rewrite.equal import same_results

HALVES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
MATMUL = "C[i,j] += A[i,k] * B[k,j]"
DOTS = replace(AVX512, features="+avx512bf16,+avx512vl,+avx512bw")


def normal(shape: tuple[int, ...], half: str = "f16", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(HALVES[half])


def rounded_once(got: np.ndarray, want: np.ndarray, terms: np.ndarray) -> bool:
    """Is it the exact sum but for rounding to a half, and of f32 sums of terms of this magnitude?"""
    places = ml_dtypes.finfo(got.dtype).nmant
    return bool((np.abs(got.astype(np.float64) - want) <= np.abs(want) * 2.0 ** -(places + 1) + terms * 1e-5 + 1e-7).all())


def copied(text: str, shapes: dict[str, tuple[int, ...]], half: str, machine: Machine = AVX512) -> set[str]:
    """The tensors that have copies in f32."""
    program = build(text, shapes, dict.fromkeys(shapes, half))
    made = {t.name for t in table.named("widening").run(program, machine).tensors} - {t.name for t in program.tensors}
    return {name.removesuffix("_wide") for name in made}


def test_what_is_copied() -> None:
    shapes = {"A": (40, 64), "B": (64, 48)}
    assert copied(MATMUL, shapes, "f16") == {"A", "B"}
    assert copied(MATMUL, shapes, "bf16") == {"A", "B"}
    assert copied(MATMUL, shapes, "bf16", DOTS) == set()
    assert copied(MATMUL, shapes, "f16", DOTS) == {"A", "B"}
    assert copied(MATMUL, {"A": (15, 64), "B": (64, 48)}, "f16") == {"A"}
    assert copied(MATMUL, {"A": (40, 64), "B": (64, 15)}, "f16") == {"B"}
    assert copied("C[i,j] += A[i,k] * B[k,j] where i in 0:20", {"A": (4000, 64), "B": (64, 48)}, "f16") == {"B"}
    assert copied("S[i] += A[i,k]", {"A": (40, 64)}, "f16") == set()


@pytest.mark.part(3)
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("target", ["cpu", "interp"])
@pytest.mark.parametrize("constant", [False, True])
def test_products_of_matrices(half: str, target: str, constant: bool) -> None:
    m, k, n = (17, 21, 35) if target == "interp" else (37, 61, 45)
    a, b = normal((m, k), half), normal((k, n), half, 1)
    if constant:
        got = polytc.compile(MATMUL, target, shapes={"A": a.shape}, dtypes={"A": half}, constants={"B": b})(a)
    else:
        got = polytc.compile(MATMUL, target)(a, b)
    wide = a.astype(np.float64), b.astype(np.float64)
    assert rounded_once(got, wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1]))


def test_the_copy_of_a_constant_is_made_once() -> None:
    program = build(MATMUL, {"A": (40, 64), "B": (64, 48)}, {"A": "f16", "B": "f16"})
    lowered = lower_program(replace(program, constants=("B",)), InterpTarget(AVX512))
    assert lowered.prologue is not None
    assert "f32(B[" in str(lowered.prologue.program)
    assert "f32(B[" not in str(lowered.rewritten)
    assert "f32(A[" in str(lowered.rewritten)


@pytest.mark.part(4)
@pytest.mark.parametrize("target", ["cpu", "interp"])
@pytest.mark.parametrize("stride", [1, 2])
def test_padded_convolutions(target: str, stride: int) -> None:
    """Of stride 1 in Winograd's way on processors that it suits."""
    places = 12 // stride
    text = f"O[m,h,w] += (X[c,{stride}*h+r-1,{stride}*w+s-1] else 0) * W[m,c,r,s] where h in 0:{places}, w in 0:{places}"
    c, m = (16, 16) if target == "interp" else (24, 32)
    x, weights = normal((c, 12, 12)), normal((m, c, 3, 3), seed=1)
    got = polytc.compile(text, target, shapes={"X": x.shape}, dtypes={"X": "f16"}, constants={"W": weights})(x)
    windows = sliding_window_view(np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))[:, ::stride, ::stride]
    want = np.einsum("chwrs,mcrs->mhw", windows, weights.astype(np.float64))
    assert rounded_once(got, want, np.einsum("chwrs,mcrs->mhw", np.abs(windows), np.abs(weights.astype(np.float64))))


def test_winograd_suits_halves() -> None:
    text = "O[m,h,w] += (X[c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:28, w in 0:28"
    program = build(text, {"X": (64, 28, 28), "W": (64, 64, 3, 3)}, {"X": "f16", "W": "f16"})
    with_constant = replace(program, constants=("W",))
    assert "O_single_U" in str(lower_program(with_constant, InterpTarget(AVX512)).rewritten)
    assert "O_single_U" not in str(lower_program(replace(with_constant, direct=True), InterpTarget(AVX512)).rewritten)


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_a_value_that_changes_between_its_readers_is_copied_again(target: str) -> None:
    text = """def f(f16[20,24] A, f16[24,28] B) -> (C, D) {
    T[i,k] = f16(A[i,k] + 1)
    C[i,j] += T[i,k] * B[k,j]
    T[i,k] = f16(A[i,k] * 2)
    D[i,j] += T[i,k] * B[k,j]
}"""
    a, b = normal((20, 24)), normal((24, 28), seed=1)
    first, second = polytc.compile(text, target)(a, b)
    one, two = (a + np.float16(1)).astype(np.float64), (a * np.float16(2)).astype(np.float64)
    wide = b.astype(np.float64)
    assert rounded_once(first, one @ wide, np.abs(one) @ np.abs(wide))
    assert rounded_once(second, two @ wide, np.abs(two) @ np.abs(wide))
    program = build(text, {"A": a.shape, "B": b.shape})
    assert len([t for t in table.named("widening").run(program, AVX512).tensors if t.name.startswith("T_wide")]) == 2


@pytest.mark.part(4)
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("beyond", [3.0, 0.1, 0.25, -1e-6])
def test_beyond_the_ends_is_what_the_guard_says(half: str, beyond: float) -> None:
    """As a half."""
    text = f"C[i,j] += f32(A[i+k-2] else {beyond}) * f32(B[k,j]) where i in 0:40"
    a, b = np.zeros(40, HALVES[half]), normal((5, 48), half, seed=1)
    got = polytc.compile(text)(a, b)
    padded = np.pad(a.astype(np.float64), 2, constant_values=float(HALVES[half].type(beyond)))
    want = sliding_window_view(padded, 5) @ b.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=abs(beyond) * 1e-5)


@pytest.mark.parametrize("half", HALVES)
def test_open_sizes(half: str) -> None:
    """A is used 80 times for all sizes; B, in how many rows is open."""
    text = f"def f({half}[M,K] A, {half}[K,80] B) -> (C) {{ C[i,j] += A[i,k] * B[k,j] }}"
    lowered = polytc.lower(text, "interp", shapes={"A": ("M", "K"), "B": ("K", 80)})
    assert {t.name for t in lowered.rewritten.tensors if t.name.endswith("_wide")} == {"A_wide"}
    op = polytc.compile(text, symbolic=True)
    for m, k in ((1, 5), (7, 96), (33, 64), (100, 1)):
        a, b = normal((m, k), half), normal((k, 80), half, 1)
        wide = a.astype(np.float64), b.astype(np.float64)
        assert rounded_once(op(a, b), wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1]))


def test_gpus_convert_as_they_read() -> None:
    program = build(MATMUL, {"A": (64, 64), "B": (64, 64)}, {"A": "f16", "B": "f16"})
    assert "_wide" not in str(behind_all(program, GENERIC_GPU))


def test_what_is_decided_is_done() -> None:
    """Only the operand that is used often enough."""
    before = build("C[i,j] += f32(A[i,k]) * f32(B[k,j])", {"A": (64, 64), "B": (64, 4)}, {"A": "f16", "B": "f16"})
    decision = widening.decide(before, AVX512)
    assert [str(r) for r in decision.reasons] == ["S1: not A of f16: each element is used 4 times, and a copy takes 16",
                                                  "S1: B of f16: each element is used 64 times, and converted once"]
    after = widening.widen(before, decision)
    assert {t.name for t in after.tensors} - {t.name for t in before.tensors} == {"B_wide"}
    same_results(before, after)
