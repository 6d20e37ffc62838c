"""Elementary functions: their errors are those of the table in docs/accuracy.md, and do not depend on an element's place."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest

import minimax
from polytc.codegen import loops
from polytc.functions.table import DEFINITIONS
from polytc.machine import AVX2, GENERIC_CPU
from polytc.program.scalars import F32, F64, INTRINSICS, DType
from polytc.targets.llvm.elementary import coefficients
from polytc.targets.llvm.elementary.table import EXPANSIONS
from polytc.targets.llvm.target import LLVMTarget
from tests.targets.llvm.test_intrinsics import TARGET, apply, inputs, ulps

PAGE = Path(__file__).parents[3] / "docs" / "accuracy.md"
ROWS = re.findall(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \|", PAGE.read_text().split("## Elementary functions")[1], re.MULTILINE)
DOCUMENTED = {(name, dtype): float(limit) for name, *limits in ROWS for dtype, limit in zip((F32, F64), limits, strict=True)}
ONE = sorted(n for n in EXPANSIONS if INTRINSICS[n].arity == 1 and n not in (*DEFINITIONS, "logb"))
EXACT = {"fdim", "remainder", "ldexp", "logb", "nextafter"}
"""tests/functions has those that all targets share, and those that take floats apart."""
STEP = 10007
"""Every so manieth f32 is tried: some 430 000 of each function."""


def erf(x: np.ndarray) -> np.ndarray:
    """Computed once for what rounds to 1."""
    inside = np.abs(x) < 6
    return np.where(np.isnan(x), x, np.where(inside, np.vectorize(math.erf)(np.where(inside, x, 0)), np.sign(x)))


def sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


NUMPY: dict[str, Callable[[np.ndarray], np.ndarray]] = {"erf": erf, "sigmoid": sigmoid, "cbrt": np.cbrt} | {
    n: getattr(np, n.replace("a", "arc", 1) if n[0] == "a" else n) for n in ONE if n not in ("erf", "sigmoid", "cbrt")}
MPMATH = {"exp2": lambda x: mpmath.mpf(2)**x, "log2": lambda x: mpmath.log(x, 2), "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
          "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x))}


def compute(name: str, x: np.ndarray, dtype: DType, lanes: int, target: LLVMTarget = TARGET) -> np.ndarray:
    """The function, `lanes` elements at a time."""
    padded = np.concatenate([x, np.ones(-x.size % lanes, x.dtype)])
    return apply(lambda a: loops.Call(name, (a,), dtype, lanes), dtype, [padded], [dtype], lanes, target)[:x.size]


def patterns(start: int, stop: int, step: int) -> np.ndarray:
    """The f32 of these bits."""
    return np.arange(start, stop, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def worst(name: str, x: np.ndarray) -> tuple[float, np.float32]:
    """The largest error in units of the last place, and where."""
    with np.errstate(all="ignore"):
        want = NUMPY[name](x.astype(np.float64))
    error = np.nan_to_num(ulps(compute(name, x, F32, 16), want), nan=np.inf)
    return float(error.max()), x[error.argmax()]


def test_the_table_has_every_function() -> None:
    assert {n for n, _ in DOCUMENTED} == set(EXPANSIONS) - EXACT
    assert all(limit <= (4.7 if name in DEFINITIONS else 4) for (name, _), limit in DOCUMENTED.items() if name != "tgamma")


@pytest.mark.parametrize("name", ["EXP", "SIN", "ASIN", pytest.param("LOG", marks=pytest.mark.long)])
def test_the_coefficients_are_those_that_the_script_computes(name: str) -> None:
    _, fit, _ = minimax.TYPED[name]
    computed, error = minimax.solve(fit)
    assert tuple(np.float32(float(c)) for c in computed) == tuple(map(np.float32, getattr(coefficients, name)[F32]))
    assert error < 0.2 * 2.0**-24


@pytest.mark.part(3)
@pytest.mark.parametrize("name", ONE)
def test_single(name: str) -> None:
    error, at = worst(name, patterns(0, 1 << 32, STEP))
    assert error <= DOCUMENTED[name, F32], (error, at)


@pytest.mark.long
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid"])
def test_every_single(name: str) -> None:
    """All 2^32, some minutes each."""
    errors = (worst(name, patterns(start, start + (1 << 24), 1)) for start in range(0, 1 << 32, 1 << 24))
    error, at = max(errors)
    assert error <= DOCUMENTED[name, F32], (error, at)


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ONE)
def test_double(name: str) -> None:
    x = inputs(name, F64)[::7]
    function = MPMATH.get(name) or getattr(mpmath, name)
    got = compute(name, x, F64, 8)
    checked = 0
    with mpmath.workdps(40):
        for a, y in zip(x, got, strict=True):
            if not np.isfinite(a) or not np.isfinite(y) or y == 0:
                continue
            exact = function(mpmath.mpf(float(a)))
            error = float(abs(mpmath.mpf(float(y)) - exact) / np.spacing(abs(float(exact))))
            assert error <= DOCUMENTED[name, F64], (a, y, error)
            checked += 1
    assert checked > 300


@pytest.mark.part(2)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ["pow", "atan2"])
def test_two_arguments(name: str, dtype: DType) -> None:
    rng = np.random.default_rng(6)
    a = np.exp2(rng.uniform(-20, 20, 3000)) if name == "pow" else rng.standard_normal(3000) * np.exp2(rng.integers(-9, 9, 3000))
    b = rng.standard_normal(3000) * np.exp2(rng.integers(-6, 5, 3000))
    a, b = a.astype(dtype.numpy), b.astype(dtype.numpy)
    if name == "pow":
        b[:500] = (rng.uniform(-1, 1, 500) * 126 / np.log2(a[:500].astype(float))).astype(dtype.numpy)  # to the ends
    lanes = 64 // dtype.bytes
    a, b = (np.concatenate([x, np.ones(-x.size % lanes, x.dtype)]) for x in (a, b))
    got = apply(lambda x, y: loops.Call(name, (x, y), dtype, lanes), dtype, [a, b], [dtype] * 2, lanes)
    with mpmath.workdps(40):
        function = mpmath.power if name == "pow" else mpmath.atan2
        exact = [function(mpmath.mpf(float(x)), mpmath.mpf(float(y))) for x, y in zip(a, b, strict=True)]
        limits = np.finfo(dtype.numpy)
        errors = [float(abs(mpmath.mpf(float(g)) - e) / np.spacing(dtype.numpy.type(abs(float(e)))))
                  for g, e in zip(got, exact, strict=True) if limits.tiny < abs(e) < limits.max]
    assert len(errors) > 2000
    assert max(errors) <= DOCUMENTED[name, dtype]


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_arguments_far_from_zero(name: str, dtype: DType) -> None:
    """Among them the f32 that lies nearest to a multiple of pi/2, 16367173 * 2^72, and what lies near small multiples."""
    multiples = [k * math.pi / 2 for k in (1, 2, 3, 4, 1000, 20861, 683565275)]
    x = np.array([16367173 * 2.0**72, 1e9, 3e9, 32767.9, 32768, 1e5, 2.0**30, 1e22, 1e38, 1.0, 0.5, *multiples], dtype.numpy)
    x = np.concatenate([x, -x])
    with mpmath.workdps(400):
        exact = [getattr(mpmath, name)(mpmath.mpf(float(a))) for a in x]
        for lanes in (1, 64 // dtype.bytes):
            for y, e in zip(compute(name, x, dtype, lanes), exact, strict=True):
                assert abs(mpmath.mpf(float(y)) - e) <= DOCUMENTED[name, dtype] * float(np.spacing(dtype.numpy.type(abs(e))))


@pytest.mark.part(4)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("vectors", [(16,), pytest.param((2, 4, 8), marks=pytest.mark.long)], ids=str)
def test_the_place_of_an_element_does_not_matter(name: str, dtype: DType, vectors: tuple[int, ...]) -> None:
    x = patterns(0, 1 << 32, 1 << 19) if dtype == F32 else inputs(name, F64)
    results = [compute(name, x, dtype, lanes) for lanes in (1, *vectors)]
    assert all(np.array_equal(results[0], r, equal_nan=True) for r in results[1:])


@pytest.mark.part(4)
@pytest.mark.skipif(TARGET.machine.vector_bytes < 32, reason="compares x86 processors from AVX2 on with older ones")
@pytest.mark.parametrize("name", ONE)
def test_machines_agree(name: str) -> None:
    """With a fused multiply-add to the last bit, whatever the vectors; without it nearly so."""
    x = patterns(0, 1 << 32, 100003)
    here = compute(name, x, F32, 16)
    assert np.array_equal(compute(name, x, F32, 8, LLVMTarget(AVX2)), here, equal_nan=True)
    old = compute(name, x, F32, 4, LLVMTarget(GENERIC_CPU))
    with np.errstate(all="ignore"):
        assert ulps(old, NUMPY[name](x.astype(np.float64))).max() <= DOCUMENTED[name, F32] + 0.7


@pytest.mark.parametrize("name", ["sin", "cos", "tanh", "erf", "sigmoid"])
def test_nothing_exceeds_one(name: str) -> None:
    x = np.concatenate([patterns(0x3F000000, 0x41A00000, 997), -patterns(0x3F000000, 0x41A00000, 997)])
    y = compute(name, x, F32, 16)
    assert np.abs(y).max() <= 1
    assert name != "sigmoid" or y.min() >= 0


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", "sin tan asin atan sinh tanh asinh atanh expm1 log1p erf cbrt".split())
def test_odd_functions_keep_zero_and_tiny_numbers(name: str, dtype: DType) -> None:
    tiny = np.finfo(dtype.numpy).smallest_subnormal
    x = np.array([0.0, -0.0, tiny, -tiny], dtype.numpy)
    y = compute(name, x, dtype, 4)
    assert np.array_equal(np.signbit(y), np.signbit(x))
    assert np.array_equal(y[:2], x[:2])
    assert name in ("cbrt", "erf") or np.array_equal(y, x)


def test_results_may_be_subnormal() -> None:
    x = np.linspace(-103, -88, 64).astype(np.float32)
    for name in ("exp", "sigmoid"):
        got, want = compute(name, x, F32, 16), np.exp(x.astype(np.float64))
        assert np.all(got > 0)
        assert np.all(np.abs(got - want) <= 1.5 * 2.0**-149)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_remainders_are_exact(dtype: DType) -> None:
    """Quotients that round to the next whole number, huge ones, subnormal divisors, and what has no remainder."""
    rng = np.random.default_rng(8)
    y = np.exp2(rng.uniform(-140, 50, 4096)).astype(dtype.numpy)
    x = (y * rng.integers(0, 1 << 20, 4096)).astype(dtype.numpy)
    x[::3] = np.nextafter(x[::3], dtype.numpy.type(0))
    x[1::3] = y[1::3] * np.exp2(rng.uniform(-5, 60, y[1::3].size))
    x[::2] *= -1
    special = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -3.5, 1e-40], dtype.numpy)
    x, y = np.concatenate([x, np.repeat(special, 8)]), np.concatenate([y, np.tile(special, 8)])
    lanes = 64 // dtype.bytes
    got = apply(lambda a, b: loops.Call("fmod", (a, b), dtype, lanes), dtype, [x, y], [dtype] * 2, lanes)
    with np.errstate(all="ignore"):
        want = np.fmod(x, y)
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(want[~np.isnan(got)]))
