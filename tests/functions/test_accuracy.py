"""The functions that all targets share: their errors on each target, against mpmath, and their special values."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

import minimax
import minimax_special
import polytc
from polytc.codegen import loops
from polytc.functions import coefficients
from polytc.functions.numbers import FUNCTIONS
from polytc.functions.table import DEFINITIONS
from polytc.machine import GENERIC_CPU
from polytc.program.scalars import F32, F64, DType
from polytc.targets.llvm.target import LLVMTarget
from tests.c_here import COMPILERS, CompiledC
from tests.functions import exact
from tests.targets.llvm.test_intrinsics import TARGET, apply

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
ROWS = re.findall(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \|", PAGE.read_text().split("## Elementary functions")[1], re.MULTILINE)
LIMITS = {(name, dtype): float(limit) for name, *limits in ROWS for dtype, limit in zip((F32, F64), limits, strict=True)}
NAMES = sorted(exact.FUNCTIONS)
DTYPES = pytest.mark.parametrize("dtype", [F32, F64], ids=str)
RUNS = ["cpu", "interp", pytest.param("opencl", marks=pytest.mark.opencl),
        pytest.param("c", marks=pytest.mark.skipif(not COMPILERS, reason="needs a C compiler"))]
TARGETS = pytest.mark.parametrize("target", RUNS)
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 2.5, -2.5, 3.0, 1e-40, -1e-40, 3e38,
           -3e38]


def compute(name: str, dtype: DType, *args: np.ndarray, lanes: int = 1, target: LLVMTarget = TARGET) -> np.ndarray:
    """On CPUs, `lanes` elements at a time."""
    size, padded = args[0].size, [np.concatenate([x, np.ones(-x.size % lanes, x.dtype)]) for x in args]
    return apply(lambda *a: loops.Call(name, a, dtype, lanes), dtype, padded, [dtype] * len(args), lanes, target)[:size]


def run(name: str, target: str, *args: np.ndarray) -> np.ndarray:
    """By a program."""
    given = dict(zip("xyz", args, strict=False))
    text = f"Y[i] = {name}({', '.join(f'{n}[i]' for n in given)})"
    return np.asarray(polytc.run(text, target=CompiledC() if target == "c" else target, **given))


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal, signs of zeros included."""
    numbers = ~np.isnan(b)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a)[numbers], np.signbit(b)[numbers])


@pytest.mark.part(5)
@pytest.mark.parametrize("name", ["SINPI", "RGAMMA", "GAMMA", "LGAMMA", "ERF_NEAR"])
def test_the_coefficients_are_those_that_the_script_computes(name: str) -> None:
    computed, lost = minimax.solve(minimax_special.TYPED[name][1])
    assert tuple(np.float32(float(c)) for c in computed) == tuple(map(np.float32, getattr(coefficients, name)[24]))
    assert lost < 2.0**-24


def test_every_definition_has_an_oracle() -> None:
    assert {*exact.FUNCTIONS, "hypot", "fdim", "remainder"} == set(DEFINITIONS)


@pytest.mark.part(8)
@DTYPES
@pytest.mark.parametrize("name", NAMES)
def test_the_error_is_the_documented_one(name: str, dtype: DType) -> None:
    x = exact.numbers(name, dtype.numpy, 120)
    y = compute(name, dtype, x, lanes=64 // dtype.bytes)
    found, at = exact.error(name, x, y)
    assert found <= LIMITS[name, dtype], (found, at)
    assert np.array_equal(compute(name, dtype, x), y, equal_nan=True)  # the place of an element does not matter


@pytest.mark.part(32)
@DTYPES
@TARGETS
@pytest.mark.parametrize("name", NAMES)
def test_the_error_of_each_target(name: str, target: str, dtype: DType) -> None:
    """OpenCL's exp, log and pow may be a few units less exact than those of the table."""
    x = exact.numbers(name, dtype.numpy, 25, seed=1)
    found, at = exact.error(name, x, run(name, target, x))
    assert found <= LIMITS[name, dtype] + (8 if target == "opencl" else 1), (found, at)


@pytest.mark.part(2)
@pytest.mark.parametrize("name", NAMES)
def test_machines_without_fused_multiply_add(name: str) -> None:
    x = exact.numbers(name, np.float32, 60, seed=2)
    found, at = exact.error(name, x, compute(name, F32, x, lanes=4, target=LLVMTarget(GENERIC_CPU)))
    assert found <= LIMITS[name, F32] + 1, (found, at)


INF, NAN = math.inf, math.nan
VALUES = {
    "erfc": [(0, 1), (-0.0, 1), (INF, 0), (-INF, 2), (NAN, NAN), (1e-40, 1), (30, 0), (-30, 2)],
    "erfcx": [(0, 1), (-0.0, 1), (INF, 0.0), (-INF, INF), (NAN, NAN), (-30, INF), (1e-40, 1)],
    "normcdf": [(0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0), (NAN, NAN), (-50, 0), (50, 1), (1e-40, 0.5)],
    "erfinv": [(0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (-2, NAN), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "erfcinv": [(0, INF), (-0.0, INF), (1, 0.0), (2, -INF), (-1e-30, NAN), (2.5, NAN), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "normcdfinv": [(0, -INF), (1, INF), (0.5, 0), (-0.1, NAN), (1.1, NAN), (INF, NAN), (NAN, NAN)],
    "lgamma": [(1, 0.0), (2, 0.0), (0, INF), (-0.0, INF), (-1, INF), (-2, INF), (INF, INF), (-INF, INF), (NAN, NAN),
               (-1e30, INF)],
    "tgamma": [(0, INF), (-0.0, -INF), (1, 1), (2, 1), (-1, NAN), (-2, NAN), (INF, INF), (-INF, NAN), (NAN, NAN), (300, INF),
               (-1e30, NAN), (-300.5, -0.0), (-301.5, 0.0)],
    "exp10": [(0, 1), (INF, INF), (-INF, 0), (NAN, NAN), (400, INF), (-400, 0), (-0.0, 1)],
    "sinpi": [(0, 0.0), (-0.0, -0.0), (1, 0.0), (-1, -0.0), (0.5, 1), (1.5, -1), (-0.5, -1), (1e30, 0.0), (INF, NAN),
              (NAN, NAN), (2.0**23 + 1, 0.0), (2.0**22 + 0.5, 1)],
    "cospi": [(0, 1), (0.5, 0.0), (1.5, 0.0), (-0.5, 0.0), (1, -1), (2, 1), (1e30, 1), (-INF, NAN), (NAN, NAN),
              (2.0**23 + 1, -1)],
    "rcbrt": [(8, 0.5), (-8, -0.5), (0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0), (NAN, NAN)],
    "logb": [(1, 0), (-0.75, -1), (0, -INF), (-0.0, -INF), (INF, INF), (-INF, INF), (NAN, NAN), (8, 3), (2.0**-140, -140)],
    "hypot": [((3, 4), 5), ((INF, NAN), INF), ((NAN, -INF), INF), ((NAN, 1), NAN), ((1, NAN), NAN), ((0, -0.0), 0.0),
              ((3 * 2.0**125, 4 * 2.0**125), 5 * 2.0**125), ((3 * 2.0**-149, 4 * 2.0**-149), 5 * 2.0**-149)],
    "fdim": [((3, 2), 1), ((2, 3), 0.0), ((INF, INF), 0.0), ((INF, 1), INF), ((1, -INF), INF), ((NAN, 1), NAN),
             ((1, NAN), NAN)],
    "remainder": [((5, 3), -1), ((-5, 3), 1), ((4, 8), 4), ((12, 8), -4), ((20, 8), 4), ((-12, 8), 4), ((1, 0), NAN),
                  ((INF, 1), NAN), ((1, INF), 1),
                  ((-0.0, 1), -0.0), ((-3, 3), -0.0), ((3, -3), 0.0), ((3e38, 3e38), 0.0), ((NAN, 1), NAN)],
    "copysign": [((2, -0.0), -2), ((-2, INF), 2), ((NAN, 1), NAN), ((0, -1), -0.0), ((INF, -3), -INF)],
    "ldexp": [((3, 4), 48), ((3, -1.9), 1.5), ((1, -149), 2.0**-149), ((2.0**-149, 200), 2.0**51), ((1, 5000), INF),
              ((-1, -5000), -0.0), ((INF, -5), INF), ((NAN, 1), NAN), ((1, NAN), NAN), ((0, INF), 0.0), ((-0.0, 3), -0.0),
              ((1, INF), INF)],
    "nextafter": [((NAN, 1), NAN), ((1, NAN), NAN), ((0.0, -0.0), -0.0), ((INF, INF), INF), ((2, 2), 2)],
    "fma": [((2, 3, 4), 10), ((INF, 1, -INF), NAN), ((0, INF, 1), NAN), ((1, 1, -1), 0.0)],
    "isfinite": [(1, True), (INF, False), (-INF, False), (NAN, False), (0, True)],
    "signbit": [(1, False), (-1, True), (-0.0, True), (0, False), (-INF, True)],
}


@pytest.mark.part(13)
@DTYPES
@TARGETS
@pytest.mark.parametrize("name", sorted(VALUES))
def test_special_values(name: str, target: str, dtype: DType) -> None:
    args = [a if isinstance(a, tuple) else (a,) for a, _ in VALUES[name]]
    want = np.array([v for _, v in VALUES[name]])
    got = run(name, target, *(np.array(x, dtype.numpy) for x in zip(*args, strict=True)))
    if got.dtype == bool:
        assert got.tolist() == want.tolist()
        return
    assert same(got, want.astype(dtype.numpy)), list(zip(args, got, want, strict=True))


def two(dtype: DType, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs from all over the range, and of special values."""
    rng, ends = np.random.default_rng(seed), (149 if dtype == F32 else 1074, 127 if dtype == F32 else 1020)
    a, b = (np.exp2(rng.uniform(-ends[0], ends[1], 200)) * rng.choice([-1, 1], 200) for _ in range(2))
    b[:100] = a[:100] * np.exp2(rng.uniform(-9, 9, 100))
    s = np.array(SPECIAL)
    with np.errstate(all="ignore"):
        a, b = np.concatenate([a, np.repeat(s, s.size)]), np.concatenate([b, np.tile(s, s.size)])
        return a.astype(dtype.numpy), b.astype(dtype.numpy)


@pytest.mark.part(10)
@DTYPES
@TARGETS
@pytest.mark.parametrize("name", ["remainder", "copysign", "nextafter", "fdim", "hypot"])
def test_functions_of_two_numbers(name: str, target: str, dtype: DType) -> None:
    a, b = two(dtype, 3)
    got = run(name, target, a, b)
    with np.errstate(all="ignore"):
        if name in ("nextafter", "copysign"):
            want = getattr(np, name)(a, b)
        else:
            want = exact.DOUBLE[name](a, b).astype(dtype.numpy)
        if name != "hypot":
            assert same(got, want)
            return
        off = np.where((got == want) | np.isnan(got) & np.isnan(want), 0, np.abs(got - want) / np.spacing(np.abs(want)))
    assert off.max() <= 1


@pytest.mark.part(2)
@DTYPES
@TARGETS
def test_ldexp_rounds_once(target: str, dtype: DType) -> None:
    rng, far = np.random.default_rng(5), 300 if dtype == F32 else 2200
    x = (rng.standard_normal(500) * np.exp2(rng.integers(-far // 4, far // 4, 500))).astype(dtype.numpy)
    n = rng.integers(-far, far, 500)
    got = np.asarray(polytc.run("Y[i] = ldexp(x[i], n[i])", target=CompiledC() if target == "c" else target, x=x, n=n))
    assert got.dtype == dtype.numpy
    with np.errstate(all="ignore"):
        assert same(got, np.ldexp(x, n.astype(np.int32)))


@DTYPES
def test_the_logarithm_of_gamma_between_its_poles(dtype: DType) -> None:
    """Where it is near 0 the error is one of the parts that cancel."""
    x = -np.random.default_rng(6).uniform(0.3, 60, 600).astype(dtype.numpy)
    got, unit = compute("lgamma", dtype, x, lanes=64 // dtype.bytes), float(np.finfo(dtype.numpy).eps)
    with mp.workdps(40):
        for a, y in zip(x, got, strict=True):
            exact_value = mp.log(abs(mp.gamma(mp.mpf(float(a)))))
            assert abs(mp.mpf(float(y)) - exact_value) <= 4 * unit * max(1, abs(float(a) * math.log(abs(a))), abs(exact_value))


@pytest.mark.part(2)
@TARGETS
def test_fma_rounds_once(target: str) -> None:
    for dtype in (np.float32, np.float64):
        x = (1 + np.arange(1, 65) * np.finfo(dtype).eps).astype(dtype)
        got = run("fma", target, x, x, -(x * x))
        errors = [float(Fraction(float(a)) ** 2 - Fraction(float(a * a))) for a in x]
        assert np.array_equal(got, np.array(errors, dtype))


@pytest.mark.parametrize("name", ["hypot", "erfc", "tgamma", "nextafter", "ldexp", "logb", "copysign"])
def test_halves_are_computed_in_f32(name: str) -> None:
    x = np.random.default_rng(4).uniform(0.1, 3, 40).astype(np.float16)
    args = [x, x[::-1].copy()][:2 if name in ("hypot", "nextafter", "ldexp", "copysign") else 1]
    want = FUNCTIONS[name](*(a.astype(np.float32) for a in args)) if name in FUNCTIONS else np.copysign(*args)
    for target in ("cpu", "interp"):
        got = run(name, target, *args)
        assert got.dtype == np.float16
        assert np.abs(got.view(np.int16).astype(int) - want.astype(np.float16).view(np.int16)).max() <= 1


def test_integers_become_f64() -> None:
    n = np.arange(1, 9)
    np.testing.assert_allclose(polytc.run("Y[i] = tgamma(n[i])", n=n), [math.gamma(k) for k in n], rtol=1e-15)
    assert polytc.run("Y[i] = ldexp(x[i], i)", x=np.ones(5, np.float32)).tolist() == [1, 2, 4, 8, 16]


def test_cs_names() -> None:
    x = np.array([0.5, 1.5, -2.5], np.float32)
    assert polytc.run("Y[i] = nearbyint(x[i])", x=x).tolist() == [0, 2, -2]
    assert polytc.run("Y[i] = scalbn(x[i], 3)", x=x).tolist() == [4, 12, -20]
