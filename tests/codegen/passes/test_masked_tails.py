"""Vectors that cover the end of a loop by masked loads and stores, where the machine has them."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.codegen.passes.vectorize import chunks, masked_chunks
from polytc.compiler import compile_program, lower_program
from polytc.machine import AVX512
from polytc.stages import build
from polytc.targets.interp import InterpTarget

PROGRAMS = {
    "copy": ("O[i] = 2.0*A[i]", {"A": (23,)}),
    "stencil": ("O[h,w] += (A[h+r-1,w+s-1] else 0)*W[r,s] where h in 0:5, w in 0:14", {"A": (5, 14), "W": (3, 3)}),
    "strided": ("O[w] = A[3*w + 1] where w in 0:23", {"A": (70,)}),
    "strided store": ("O[i,j] = A[j,i]", {"A": (23, 7)}),
    "matmul": ("O[i,j] += A[i,k]*B[k,j]", {"A": (7, 5), "B": (5, 39)}),
    "gather": ("O[i] = A[J[i]]", {"A": (23,), "J": (39,)}),
    "integer quotient": ("O[i] = J[i] / K[i]", {"J": (23,), "K": (23,)}),
}


@pytest.mark.part(2)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_results(name: str, target: str) -> None:
    text, shapes = PROGRAMS[name]
    rng = np.random.default_rng(0)
    arrays = {n: rng.integers(1, 20, s) if n in "JK" else rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    expected = polytc.evaluate(text, **arrays)
    program = build(text, shapes, {n: "i64" for n in shapes if n in "JK"})
    run = compile_program(program, "cpu" if target == "cpu" else InterpTarget(AVX512))
    out = np.full_like(expected, 99)
    run.run([*(arrays[n] for n in program.inputs), out])
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_the_rest_is_one_vector() -> None:
    assert chunks(30, 16) == [(0, 16, 16), (16, 8, 8), (24, 4, 4), (28, 2, 2)]
    assert masked_chunks(30, 16) == [(0, 16, 16), (16, 16, 14)]
    assert masked_chunks(21, 16) == [(0, 16, 16), (16, 8, 5)]
    assert masked_chunks(17, 16) == [(0, 16, 16), (16, 1, 1)]
    assert masked_chunks(48, 16) == [(n, 16, 16) for n in (0, 16, 32)]


def test_nothing_beyond_the_end_is_touched() -> None:
    """The interpreter refuses accesses outside of buffers; here the idle lanes would be outside."""
    lowered = lower_program(build("O[i] = 2.0*A[i]", {"A": (23,)}), InterpTarget(AVX512))
    assert "ramp(16, 1, 8, active 7)" in str(lowered.loops)
