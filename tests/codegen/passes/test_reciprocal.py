"""Reciprocals of divisors that a loop does not change: where they are used, and what becomes of extreme divisors."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc import compiler
from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes import reciprocal
from polytc.lang import build
from polytc.program.scalars import F32, F64
from tests.codegen import loop_programs as P

BODY = "S[i] max= D[i,k]; Y[i,j] = X[i,j] / S[i]"
TEXT = f"fast def f(X[n,m], D[n,q]) -> (Y) {{ {BODY} }}"
EXTREME = [0.0, -0.0, 1e-45, 1e-40, 1.1754944e-38, 3e-38, 0.3, 7.0, -7.0, 1e30, 8.5e37, 1.7e38, 3.4e38, np.inf, -np.inf, np.nan]


def products(text: str) -> int:
    """Multiplications by a reciprocal."""
    module = compiler.lower_program(build(text, {"X": (40, 130), "D": (40, 3)}), "cpu").loops
    return sum(isinstance(e, L.Load) and e.buffer.name.startswith("reciprocal") for k in module.kernels
               for s in traverse.walk_stmt(k.body) for top in traverse.expressions(s) for e in traverse.walk_expr(top))


def test_a_row_is_multiplied_by_its_reciprocal() -> None:
    assert products(TEXT) > 0
    assert products("fast def f(X[n,m], D[n,q]) -> (Y) { Y[i,j] = D[i,0] / X[i,j] }") == 0
    assert products(TEXT.replace("fast", "precise")) == 0
    assert products(BODY) == 0


@pytest.mark.parametrize("target", ["cpu", "interp"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_extreme_divisors_and_dividends(dtype: str, target: str) -> None:
    type_ = np.dtype({"f32": np.float32, "f64": np.float64}[dtype])
    d = np.repeat(np.array(EXTREME, type_)[:, None], 2, 1)
    others = np.random.default_rng(0).standard_normal(111)
    x = np.tile(np.array([*EXTREME, 1.0, -3.0, 5.0, *others], type_), (len(d), 1))
    y = np.zeros_like(x)
    program = build(TEXT, {"X": x.shape, "D": d.shape}, {"X": dtype, "D": dtype})
    compiler.compile_program(program, target, 1).run([{"X": x, "D": d, "Y": y}[n] for n in (*program.inputs, *program.outputs)])
    with np.errstate(all="ignore"):
        expected = x / d[:, :1]
    np.testing.assert_allclose(y, expected, rtol=2e-7 if dtype == "f32" else 4e-16, atol=3e-45 if dtype == "f32" else 0)


def test_a_loop_without_an_iteration_reads_no_divisor() -> None:
    text = """fast def g(inout f32[n,n] A, inout f32[n] B) { for t in 1:n {
        B[t] = B[t-1]*0.5 + A[t-1,n-2]
        for j in t:n-1 { A[t,j] = A[t-1,j]*0.5 + A[t,j-1] / B[t+1] + B[t] }
    } }"""
    rng = np.random.default_rng(0)
    given = {"A": rng.random((9, 9), "f4") + 1, "B": rng.random(9, "f4") + 1}
    assert "reciprocal" in str(compiler.lower_program(build(text, {"A": (9, 9), "B": (9,)}), "cpu").loops)
    found = polytc.run(text, **{k: a.copy() for k, a in given.items()}, target="interp")
    for got, expected in zip(found, polytc.evaluate(text, **{k: a.copy() for k, a in given.items()}), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def row(fast: bool) -> L.Kernel:
    """for j { Y[j] = X[j] / s }, the example of the docstring."""
    x, y, s = L.Buffer("X", F32, (64,)), L.Buffer("Y", F32, (64,)), L.Buffer("s", F32, ())
    value = L.binary("/", P.load(x, L.Var("j")), P.load(s))
    return L.Kernel("k", (x, y, s), ("Y",), P.loop("j", 64, L.Store(y, (L.Var("j"),), value)), fast=fast)


def test_the_division_stays_beside_the_product() -> None:
    text = str(reciprocal.use_reciprocals(row(fast=True)))
    assert text.count("= (1.0 / s[])") == 1
    assert text.count("(X[j] * reciprocal") == text.count("(X[j] / s[])") == 1
    assert "else" in text
    kept = row(fast=False)
    assert reciprocal.use_reciprocals(kept) == kept


@pytest.mark.parametrize("dtype", [F32, F64])
def test_numbers_whose_reciprocals_have_all_digits(dtype) -> None:
    finfo = np.finfo(dtype.numpy)
    for number in (1.0, -3.0, 1e-30, 1e30, *map(float, (finfo.max, finfo.tiny, finfo.smallest_subnormal)), 0.0, np.inf, np.nan):
        with np.errstate(all="ignore"):
            inverse = abs(dtype.numpy.type(1) / dtype.numpy.type(number))
        if reciprocal.is_normal(number, dtype):
            assert finfo.tiny <= inverse <= finfo.max, number
    assert reciprocal.is_normal(3.0, dtype)
    assert not any(reciprocal.is_normal(n, dtype) for n in (0.0, np.inf, np.nan))
