"""Rounding to floats of 16 bits: once, to the nearest, ties to even, against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from polytc.codegen import loops
from polytc.machine import AVX2
from polytc.program.scalars import BF16, F16, F32, F64, DType
from polytc.targets.llvm.target import LLVMTarget
from tests.targets.llvm.test_intrinsics import TARGET, apply

TARGETS = {"here": TARGET} | ({"avx2": LLVMTarget(AVX2)} if not LLVMTarget(AVX2).lacks() else {})
DIGITS = {F16: 10, BF16: 7}


def middles(dtype: DType, source: DType) -> np.ndarray:
    """Numbers in the middle of two, and the nearest ones on both sides of these that the source has, of both signs."""
    digits, rng = DIGITS[dtype], np.random.default_rng(0)
    normal = (1 + (rng.integers(0, 2**digits, 24) + 0.5) * 2.0**-digits) * 2.0 ** rng.integers(-12, 15, 24)
    small = (np.arange(6) + 0.5) * 2.0**-24 if dtype == F16 else np.ones(6)  # an instruction takes subnormal bf16 for 0
    exact = np.concatenate([normal, small, [1.0, 3.0]])
    near = [np.nextafter(exact.astype(source.numpy), source.numpy.type(end)) for end in (0, np.inf)]
    near += [(exact * (1 + beside)).astype(source.numpy) for beside in (0, 2.0**-30, -(2.0**-30))]
    return np.concatenate([*near, *(-x for x in near)])


def nearest(x: float, dtype: DType) -> int:
    """The bits of the nearest number, found among those around a guess."""
    guess = int(np.abs(dtype.numpy.type(x)).view(np.uint16))
    around = range(max(0, guess - 2), guess + 3)
    values = {bits: Fraction(float(np.uint16(bits).view(dtype.numpy))) for bits in around}
    best = min(around, key=lambda bits: (abs(values[bits] - abs(Fraction(x))), bits & 1))
    return best | (0x8000 if x < 0 else 0)


@pytest.mark.part(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", [F32, F64], ids=str)
@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_casts_round_once(dtype: DType, source: DType, target: str) -> None:
    x = middles(dtype, source)
    want = [nearest(float(v), dtype) for v in x]
    for lanes in (1, 2, 8, 16, 32):
        padded = np.concatenate([x, np.ones(-x.size % lanes, x.dtype)])
        got = apply(lambda a, n=lanes: loops.Cast(a, dtype, n), dtype, [padded], [source], lanes, TARGETS[target])[:x.size]
        assert list(got.view(np.uint16)) == want, lanes


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_what_is_too_large_or_no_number(dtype: DType, target: str) -> None:
    """The largest number and its middle to the next, which is infinite; NaN stays NaN, whatever its bits; zeros keep their
    signs."""
    largest = float(np.finfo(np.float16).max) if dtype == F16 else float(np.uint16(0x7F7F).view(BF16.numpy))
    step = largest / (2 ** (DIGITS[dtype] + 1) - 1)
    x = np.array([largest, largest + 0.49 * step, largest + 0.5 * step, np.inf, 0.0, -0.0, -largest, -largest - 0.5 * step])
    got = apply(lambda a: loops.Cast(a, dtype, 8), dtype, [x], [F64], 8, TARGETS[target]).astype(np.float64)
    assert list(got) == [largest, largest, np.inf, np.inf, 0, 0, -largest, -np.inf]
    assert list(np.signbit(got)) == list(np.signbit(x))
    nans = np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0x7FC00000] * 2, np.uint32).view(np.float32)
    assert np.isnan(apply(lambda a: loops.Cast(a, dtype, 8), dtype, [nans], [F32], 8, TARGETS[target]).astype(np.float32)).all()
