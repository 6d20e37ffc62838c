"""Intrinsics of the CPU target against numpy in higher precision, scalar and vector."""

from __future__ import annotations

import math

import numpy as np
import pytest

from polytc.codegen import loops, verify
from polytc.program.scalars import BOOL, F16, F32, F64, I32, INTRINSICS, REAL, DType
from polytc.targets.llvm.target import LLVMTarget
from tests.functions import exact
from tests.targets import numpy_semantics

TARGET = LLVMTarget()


def apply(build, result: DType, arrays: list[np.ndarray], dtypes: list[DType], lanes: int,
          target: LLVMTarget = TARGET) -> np.ndarray:
    """Element by element out[i] = build(a[i], b[i], ...), `lanes` at a time."""
    n = arrays[0].size
    assert n % lanes == 0
    ins = [loops.Buffer(f"in{k}", d, (n,)) for k, d in enumerate(dtypes)]
    out = loops.Buffer("out", result, (n,))
    at: loops.Expr = loops.Var("i") if lanes == 1 else loops.Ramp(loops.Var("i"), 1, lanes)
    value = build(*[loops.Load(b, (at,), b.dtype, lanes) for b in ins])
    body = loops.For("i", loops.const(0), loops.const(n), lanes, loops.Store(out, (at,), value))
    kernel = loops.Kernel("k", (*ins, out), ("out",), body)
    module = loops.Module("m", (*ins, out), ("out",), (), (kernel,))
    verify.verify(module)
    got = np.zeros(n, result.numpy)
    target.load(target.build(target.emit(module)), 1).run([*arrays, got])
    return got


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of want's type; 0 where both are the same special value."""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        step = np.spacing(np.abs(rounded)).astype(want.dtype)
        return np.where(same, 0, np.abs(got.astype(want.dtype) - want) / step)


def wide(dtype: DType) -> type:
    return np.longdouble if dtype == F64 else np.float64


DOMAINS = {
    "log": (1e-40, 1e30), "log2": (1e-40, 1e30), "log10": (1e-40, 1e30), "log1p": (-0.999, 1e6), "sqrt": (0, 1e30),
    "rsqrt": (1e-20, 1e20), "asin": (-1, 1), "acos": (-1, 1), "acosh": (1, 1e5), "atanh": (-0.999, 0.999),
    "exp": (-100, 88), "exp2": (-140, 127), "expm1": (-30, 80), "sinh": (-80, 80), "cosh": (-80, 80), "sin": (-50, 50),
    "cos": (-50, 50), "tan": (-50, 50), "sigmoid": (-80, 80), "tanh": (-12, 12), "erf": (-5, 5),
}
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 1e-30, -1e-30, 2.0]


def inputs(name: str, dtype: DType) -> np.ndarray:
    low, high = DOMAINS.get(name, (-20, 20))
    rng = np.random.default_rng(1)
    linear = rng.uniform(low, high, 1500)
    near = rng.uniform(max(low, -1.5), min(high, 1.5), 1000) * np.exp(rng.uniform(-12, 0, 1000))
    near = np.clip(near, low, high)
    spread = np.exp(rng.uniform(math.log(max(low, 1e-40)), math.log(high), 1000)) if low > 0 else linear[:1000]
    values = np.concatenate([linear, near, spread, SPECIAL])
    return np.concatenate([values, np.ones(-values.size % 8)]).astype(dtype.numpy)


def reference(name: str, args: list[np.ndarray]) -> np.ndarray:
    def erf(a: np.ndarray) -> np.ndarray:
        return np.vectorize(math.erf, otypes=[float])(a.astype(float)).astype(a.dtype)
    env = {"np": np, **exact.DOUBLE, "erf": erf, "power": numpy_semantics.power, **dict(zip("abc", args, strict=False))}
    with np.errstate(all="ignore"):
        return eval(INTRINSICS[name].reference, env)


LIMIT = {"exp": 1.5, "log": 1.5, "tanh": 3.5, "erf": 3.5, "sigmoid": 2.5}
FLOATS = [n for n, row in INTRINSICS.items() if row.result == "float" and row.arity == 1 and n not in exact.DOUBLE]
"""tests/functions has the others."""


@pytest.mark.part(6)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", FLOATS)
def test_float_functions(name: str, dtype: DType) -> None:
    x = inputs(name, dtype)
    want = reference(name, [x.astype(wide(dtype))])
    results = [apply(lambda a, n=lanes: loops.Call(name, (a,), dtype, n), dtype, [x], [dtype], lanes) for lanes in (1, 8)]
    for got in results:
        error = ulps(got, want)
        worst = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
        assert error[worst] <= LIMIT.get(name, 4), (name, x[worst], got[worst], want[worst], error[worst])
    assert np.array_equal(results[0], results[1], equal_nan=True)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sines_far_from_zero(name: str) -> None:
    rng = np.random.default_rng(2)
    quarter = np.arange(1, 257) * (np.pi / 2)  # where the result is nearly 0 or 1
    near_limit = np.array([9.9999e8, -9.9999e8, 1e9, 1.1e9, 3e38, -0.0, 0.0, 1e-40])
    x = np.concatenate([rng.uniform(-1e6, 1e6, 256), rng.uniform(-9e8, 9e8, 256), quarter, near_limit]).astype(np.float32)
    want = reference(name, [x.astype(np.float64)])
    for lanes in (1, 8):
        got = apply(lambda a, n=lanes: loops.Call(name, (a,), F32, n), F32, [x], [F32], lanes)
        assert ulps(got, want).max() <= 1.7
        assert np.array_equal(np.signbit(got[-3:-1]), np.signbit(want[-3:-1]))


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf", "expm1", "sqrt"])
def test_half_computes_in_single(name: str) -> None:
    x = np.random.default_rng(0).uniform(0.1, 3, 64).astype(np.float16)
    got = apply(lambda a: loops.Call(name, (a,), F16, 8), F16, [x], [F16], 8)
    assert ulps(got, reference(name, [x.astype(np.float64)])).max() <= 0.51


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ["pow", "fmod", "min", "max", "atan2"])
def test_two_arguments(name: str, dtype: DType) -> None:
    rng = np.random.default_rng(3)
    special = np.array([0.0, 1.0, -2.0, math.inf, -math.inf, math.nan, 3.0, -0.5])
    a = np.concatenate([rng.uniform(-5, 5, 256), np.repeat(special, 8)]).astype(dtype.numpy)
    b = np.concatenate([rng.uniform(-5, 5, 128), rng.integers(-4, 5, 128), np.tile(special, 8)]).astype(dtype.numpy)
    want = reference(name, [a.astype(wide(dtype)), b.astype(wide(dtype))])
    for lanes in (1, 4):
        got = apply(lambda x, y, n=lanes: loops.Call(name, (x, y), dtype, n), dtype, [a, b], [dtype] * 2, lanes)
        assert ulps(got, want).max() <= 2


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", REAL.values(), ids=str)
def test_unary_operators(dtype: DType, lanes: int) -> None:
    """The smallest integer is its own opposite."""
    a = np.array([0, 1, 2, 3, 100, 7, 127, 5] if dtype.kind != "i" else [0, 1, -1, 3, np.iinfo(dtype.numpy).min, -7, 127, 5])
    a = a.astype(dtype.numpy)
    for op, f in (("-", np.negative), ("~", np.invert), ("!", np.logical_not)):
        if (op == "-" and dtype.kind == "b") or (op == "~" and dtype.is_float) or (op == "!" and dtype.kind != "b"):
            continue
        got = apply(lambda x, o=op: loops.Unary(o, x, dtype, lanes), dtype, [a], [dtype], lanes)
        assert np.array_equal(got, f(a)), op


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_floors_of_quotients_that_are_nearly_whole(dtype: DType) -> None:
    """Divisors times whole numbers that have too many digits: the quotient ends a little beside the whole number."""
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-ends, ends, 512).astype(dtype.numpy) for ends in (1000, 9))
    beside = (a - np.fmod(a, b)) / b
    assert len(set(beside - np.floor(beside) > 0.5)) == 2
    for op, f in (("//", np.floor_divide), ("%", np.remainder)):
        for lanes in (1, 8):
            got = apply(lambda x, y, n=lanes, o=op: loops.Binary(o, x, y, dtype, n), dtype, [a, b], [dtype] * 2, lanes)
            assert np.array_equal(got, f(a, b))


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, 4.0, -1.0, 0.5])
def test_power_by_a_constant(exponent: float) -> None:
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, -2.0, 1e-40, 1.0]
    a = np.concatenate([np.random.default_rng(3).uniform(0.1, 5, 64), special]).astype(np.float32)
    got = apply(lambda x: loops.Call("pow", (x, loops.Const(exponent, F32, 8)), F32, 8), F32, [a], [F32], 8)
    with np.errstate(all="ignore"):
        # A single 0.5 would be the square root to numpy, which differs for -0 and -infinity.
        want = np.power(a.astype(float), np.full(a.size, exponent))
    assert ulps(got, want).max() <= 2
    assert np.array_equal(np.signbit(got[:-4]), np.signbit(want[:-4]))


@pytest.mark.part(2)
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", [F16, F32, F64], ids=str)
@pytest.mark.parametrize("op", ["min", "max"])
def test_extrema_with_a_constant_keep_nan(op: str, dtype: DType, lanes: int) -> None:
    a = np.array([math.nan, -1, 0, 2, math.inf, -math.inf, 0.5, math.nan], dtype.numpy)
    for constant in (0.0, 0.5, math.inf, math.nan):
        want = reference(op, [a, np.full_like(a, constant)])
        c = loops.Const(constant, dtype, lanes)
        left = apply(lambda x, k=c: loops.Call(op, (x, k), dtype, lanes), dtype, [a], [dtype], lanes)
        right = apply(lambda x, k=c: loops.Call(op, (k, x), dtype, lanes), dtype, [a], [dtype], lanes)
        assert np.array_equal(left, want, equal_nan=True)
        assert np.array_equal(right, want, equal_nan=True)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_predicates_and_clamp(dtype: DType) -> None:
    a = np.array([math.nan, -1, 0, 2, math.inf, -math.inf, 0.5, -7], dtype.numpy)
    for lanes in (1, 8):
        for name in ("isnan", "isinf"):
            got = apply(lambda x, f=name, n=lanes: loops.Call(f, (x,), BOOL, n), BOOL, [a], [dtype], lanes)
            assert np.array_equal(got, reference(name, [a]))
        low, high = loops.Const(-2.0, dtype, lanes), loops.Const(1.0, dtype, lanes)
        got = apply(lambda x, n=lanes, lo=low, hi=high: loops.Call("clamp", (x, lo, hi), dtype, n), dtype, [a], [dtype], lanes)
        assert np.array_equal(got, np.clip(a, -2, 1), equal_nan=True)


INTS = [d for d in REAL.values() if d.is_int]


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ["abs", "sign", "floor", "ceil", "trunc", "round"])
def test_rounding(name: str, dtype: DType) -> None:
    a = np.array([*np.linspace(-3, 3, 49), math.nan, math.inf, -math.inf, -0.0, 1e20, 2.5, 0.5], dtype.numpy)
    for lanes in (1, 8):
        got = apply(lambda x, n=lanes: loops.Call(name, (x,), dtype, n), dtype, [a], [dtype], lanes)
        want = reference(name, [a])
        assert np.array_equal(got, want, equal_nan=True)


@pytest.mark.part(6)
@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("name", ["abs", "sign", "floor", "ceil", "trunc", "round", "min", "max", "pow", "fmod", "clamp"])
def test_integers(name: str, dtype: DType) -> None:
    info = np.iinfo(dtype.numpy)
    rng = np.random.default_rng(4)
    small = rng.integers(max(info.min, -99), min(info.max, 99), 56)
    a = np.concatenate([small.astype(dtype.numpy), np.array([0, 1, 2, 3, info.max, info.min, info.min, 5], dtype.numpy)])
    b = rng.integers(0, 12, 64)
    if name == "fmod":
        b = np.where(b == 0, 7, b) * (np.where(np.arange(64) % 2, 1, -1) if dtype.kind == "i" else 1)
    a, b = a.astype(dtype.numpy), b.astype(dtype.numpy)
    arity = INTRINSICS[name].arity
    args = [a, b, (b + 3).astype(dtype.numpy)][:arity]
    want = reference(name, args)
    for lanes in (1, 8):
        got = apply(lambda *x, n=lanes: loops.Call(name, x, dtype, n), dtype, args, [dtype] * arity, lanes)
        assert np.array_equal(got, want)


def test_fma_rounds_once() -> None:
    a = np.array([1 + 2.0**-12] * 8, np.float32)
    got = apply(lambda x: loops.Call("fma", (x, x, loops.Const(-1.0, F32, 8)), F32, 8), F32, [a], [F32], 8)
    exact = a.astype(np.float64)**2 - 1
    assert np.array_equal(got, exact.astype(np.float32)) or not TARGET.machine.features.count("+fma")


def test_relu_is_one_instruction() -> None:
    """max with a number needs no test for NaN."""
    if TARGET.machine.vector_bytes < 32:
        pytest.skip("checks AVX code")
    b, out = (loops.Buffer(n, F32, (64,)) for n in ("a", "out"))
    at = loops.Ramp(loops.Var("i"), 1, 8)
    value = loops.Call("max", (loops.Load(b, (at,), F32, 8), loops.Const(0.0, F32, 8)), F32, 8)
    body = loops.For("i", loops.const(0), loops.const(64), 8, loops.Store(out, (at,), value))
    module = loops.Module("m", (b, out), ("out",), (), (loops.Kernel("k", (b, out), ("out",), body),))
    text = TARGET.assembly(TARGET.emit(module))
    assert "vmaxps" in text
    assert "vcmp" not in text


def test_conversions_of_the_index() -> None:
    a = np.zeros(16, np.int32)
    got = apply(lambda x: loops.Cast(loops.Ramp(loops.Var("i"), 1, 8), I32, 8), I32, [a], [I32], 8)
    assert np.array_equal(got, np.arange(16))
