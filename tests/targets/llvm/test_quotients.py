"""Divisions by known numbers: the rounded quotient, by multiplications."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.compiler import lower_program
from polytc.lang import build
from polytc.machine import AVX512
from polytc.targets.llvm.target import LLVMTarget

R = np.random.default_rng(3)


def dividends() -> np.ndarray:
    """Numbers of all magnitudes, and the ends: zeros, infinities, NaN, the largest."""
    significands = R.integers(0, 2**23, 1 << 16, np.uint32)
    exponents = np.repeat(R.integers(0, 255, 1 << 12, np.uint32), 16)  # vectors of equal magnitude
    signs = R.integers(0, 2, 1 << 16, np.uint32)
    numbers = (signs << 31 | exponents << 23 | significands).view(np.float32)
    ends = np.array([0, -0.0, np.inf, -np.inf, np.nan, 3.4028235e38, -3.4028235e38, 1, 1e-30], np.float32)
    return np.concatenate([numbers, ends])


@pytest.mark.part(2)
@pytest.mark.parametrize("divisor", [3.0, 10.0, 0.1, 255.0, 0.0068754046224057674, -0.3, 1.9999999, 1.9999998, 0.5, 1e-10,
                                     1e18, -1e-18])
def test_quotients_are_rounded_once(divisor: float) -> None:
    x = dividends()
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x / np.float32(divisor)
    got = polytc.compile(f"Y[i] = X[i] / {divisor}")(x)
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(expected)[numbers])


def test_a_division_is_left_for_small_numbers() -> None:
    program = build("Y[i] = X[i] / 3", {"X": (64,)})
    avx = lower_program(program, LLVMTarget(replace(AVX512, features="+avx512f,+fma")))
    assert "llvm.fma" in avx.source.text
    assert all(re.search(r"else[^:]*:\n[^\n]*$", before) for before in avx.source.text.split("fdiv")[:-1])
    assert "llvm.fma" not in lower_program(replace(program, precise=True), LLVMTarget(AVX512)).source.text


@pytest.mark.parametrize("divisor", [3.0, 0.0068754046224057674, -0.3, 1e-10])
def test_quotients_that_are_rounded_to_whole_numbers_need_no_division(divisor: float) -> None:
    """However small they are: what is close to 0 becomes 0 of its sign."""
    text = f"Y[i] = round(clamp(X[i] / {divisor}, -128, 127)); Q[i] = i32(round(clamp(X[i] / {divisor}, -128, 127)))"
    x = np.concatenate([dividends(), R.integers(-300, 300, 4096).astype(np.float32) * np.float32(divisor / 2)])
    x = x[~np.isnan(x)]
    with np.errstate(over="ignore"):
        expected = np.round(np.clip(x / np.float32(divisor), -128, 127))
    got, whole = polytc.compile(text)(x)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))
    np.testing.assert_array_equal(whole, expected.astype(np.int32))
    program = build(text, {"X": (64,)})
    assert "fdiv" not in lower_program(program, LLVMTarget(replace(AVX512, features="+avx512f,+fma"))).source.text


def near_halves(divisor: np.float32, low: int, high: int) -> np.ndarray:
    """Dividends whose quotients are halves, or next to them."""
    middle = (np.arange(low - 2, high + 3) + 0.5).astype(np.float32) * divisor
    return np.concatenate([middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sign", [1, -1])
def test_divisors_of_a_range_that_are_not_in_the_text(seed: int, sign: int) -> None:
    """`clamp` tells the range of what is in memory; zero points are bytes, as those of quantised tensors."""
    rng = np.random.default_rng(seed)
    s = np.float32(sign * (1 + rng.random()) * 2.0 ** rng.integers(-50, 50)) if seed else np.float32(sign * 1.9999999)
    ends = (1e-18, 1e18) if sign > 0 else (-1e18, -1e-18)
    z = np.uint8(rng.integers(0, 256))
    cut = f"clamp(X[i]/clamp(s[], {ends[0]}, {ends[1]}), 0 - f32(z[]), 255 - f32(z[]))"
    text = f"Y[i] = round({cut}); Z[i] = round({cut}) + 0.0; Q[i] = i32(round({cut}))"
    x = np.concatenate([dividends(), near_halves(s, -int(z), 255 - int(z))])
    x = x[~np.isnan(x)]
    with np.errstate(over="ignore"):
        expected = np.round(np.clip(x / s, -np.float32(z), 255 - np.float32(z)))
    y, plus, whole = polytc.compile(text)(X=x, s=s, z=z)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(plus, expected)
    np.testing.assert_array_equal(whole, expected.astype(np.int32))
    np.testing.assert_array_equal(np.signbit(y)[expected != 0], np.signbit(expected)[expected != 0])
    assert not np.signbit(plus[plus == 0]).any()


@pytest.mark.parametrize(("divisor", "ends", "divided"), [
    ("clamp(s, 1e-10, 1e10)", "-128, 127", False), ("s", "-128, 127", True), ("clamp(s, -1.0, 1.0)", "-128, 127", True),
    ("clamp(s, 1e-30, 1e10)", "-128, 127", True), ("clamp(s, 1e-10, 1e10)", "-128.5, 127", True),
    ("clamp(s, 1e-10, 1e10)", "-128, 1e9", True), ("clamp(s, 1e-10, 1e10)", "f32(z), 255", False)])
def test_what_is_known_of_the_divisor_and_the_ends(divisor: str, ends: str, divided: bool) -> None:
    divisor, ends = divisor.replace("s", "s[]"), ends.replace("z", "z[]")
    shapes = {n: shape for n, shape in {"X": (64,), "s": (), "z": ()}.items() if f"{n}[" in f"X[ {divisor} {ends}"}
    program = build(f"Q[i] = i32(round(clamp(X[i]/{divisor}, {ends})))", shapes, {"z": "u8"} if "z" in shapes else {})
    text = lower_program(program, LLVMTarget(replace(AVX512, features="+avx512f,+fma"))).source.text
    assert ("fdiv <16 x float>" in text) == divided


def test_nan_stays_nan() -> None:
    x = np.full(64, np.nan, np.float32)
    assert np.isnan(polytc.compile("Y[i] = round(clamp(X[i]/0.3, -128, 127))")(x)).all()
    assert np.isnan(polytc.compile("Y[i] = clamp(X[i], 0 - f32(z[]), 255 - f32(z[]))")(x, np.uint8(3))).all()


@pytest.mark.parametrize("divisor", [0.3, -0.3])
@pytest.mark.parametrize(("low", "high"), [(9, 5), (5, 9), (7, 7)])
def test_the_upper_end_decides(low: int, high: int, divisor: float) -> None:
    """As in clamp, where the lower one is larger."""
    x = np.arange(-64, 64, dtype=np.float32)
    expected = np.minimum(np.maximum(np.round(x / np.float32(divisor)), low), high)
    np.testing.assert_array_equal(polytc.compile(f"Y[i] = round(clamp(X[i]/{divisor}, {low}, {high}))")(x), expected)
    ends = (1e-18, 1e18) if divisor > 0 else (-1e18, -1e-18)
    text = f"Y[i] = i32(round(clamp(X[i]/clamp(s[], {ends[0]}, {ends[1]}), f32(a[]), f32(b[]))))"
    found = polytc.compile(text)(X=x, s=np.float32(divisor), a=np.uint8(low), b=np.uint8(high))
    np.testing.assert_array_equal(found, expected.astype(np.int32))
