"""Promotion: the type of every binary operation is numpy's, with Python numbers weak."""

import itertools

import numpy as np
import pytest

import polytc
from polytc import lang
from polytc.program import scalars
from polytc.program.scalars import BF16, BOOL, DTYPES, F16, F32, F64, I64

NUMBERS = [t for t in DTYPES.values() if t not in (BOOL, BF16)]
ORDERED = ("min", "//")
"""What complex numbers do not have."""


def dtype_of(text, **types):
    return lang.build(text, dict.fromkeys(types, (3,)), types).tensor("O").dtype


@pytest.mark.parametrize("op", ["+", "*", "-", "min", "//"])
@pytest.mark.parametrize(("a", "b"), list(itertools.combinations_with_replacement(NUMBERS, 2)), ids=str)
def test_two_tensors(op, a, b):
    text = f"O[i] = {op}(a[i], b[i])" if op == "min" else f"O[i] = a[i] {op} b[i]"
    if op in ORDERED and (a.is_complex or b.is_complex):
        with pytest.raises(polytc.CompileError, match="E312"):
            dtype_of(text, a=a, b=b)
        return
    assert dtype_of(text, a=a, b=b).numpy == np.promote_types(a.numpy, b.numpy)


@pytest.mark.parametrize("b", NUMBERS, ids=str)
def test_bf16_follows_f16_and_both_make_f32(b):
    with_f16 = dtype_of("O[i] = a[i] + b[i]", a=F16, b=b)
    want = F32 if b == F16 else BF16 if with_f16 == F16 else with_f16
    assert dtype_of("O[i] = a[i] + b[i]", a=BF16, b=b) == dtype_of("O[i] = b[i] * a[i]", a=BF16, b=b) == want


@pytest.mark.parametrize("a", NUMBERS, ids=str)
def test_python_numbers_are_weak(a):
    one = np.ones(1, a.numpy)
    assert dtype_of("O[i] = a[i] + 1", a=a).numpy == (one + 1).dtype
    assert dtype_of("O[i] = 0.5 * a[i]", a=a).numpy == (0.5 * one).dtype
    assert dtype_of("O[i] = a[i] * i", a=a).numpy == (one * 1).dtype
    assert dtype_of("O[i] = a[i] * (i + 0.5)", a=a).numpy == (one * 0.5).dtype
    assert dtype_of("O[i] = a[i] != 0 ? 1 : a[i]", a=a) == a
    assert dtype_of("O[i] = a[i] * 2j", a=a).numpy == (one * 2j).dtype
    assert dtype_of("O[i] = a[i] + exp(1j * i)", a=a).numpy == (one * 2j).dtype
    assert dtype_of("O[i] = a[i] + abs(1j * i)", a=a).numpy == (0.5 * one).dtype


def test_bools():
    assert dtype_of("O[i] = p[i] && p[i]", p=BOOL) == BOOL
    assert dtype_of("O[i] = p[i] + 1", p=BOOL) == I64
    assert dtype_of("O[i] = p[i] * 0.5", p=BOOL) == F64
    assert dtype_of("O[i] = p[i] * x[i]", p=BOOL, x=F32) == F32
    assert dtype_of("O[i] = x[i] < 3 | p[i]", p=BOOL, x=F32) == BOOL


@pytest.mark.parametrize("a", [t for t in NUMBERS if t.is_int], ids=str)
def test_integers_become_f64_where_a_float_is_needed(a):
    assert dtype_of("O[i] = a[i] / a[i]", a=a) == F64
    assert dtype_of("O[i] = exp(a[i])", a=a) == F64
    assert dtype_of("O[i] = abs(a[i])", a=a) == a
    assert dtype_of("O[i] = floor(a[i])", a=a) == a
    assert dtype_of("O[i] += a[i]", a=a) == a


def test_weak_values_alone():
    assert dtype_of("O[i] = i where i in 0:3", a=F32) == I64
    assert dtype_of("O[i] = i / 2 where i in 0:3", a=F32) == F64


def test_several_writers_agree():
    """A weak writer takes the type of the others, wherever it stands; strong ones are promoted together."""
    assert dtype_of("O[i] = 0 where i in 0:3; O[i] += a[i]", a=F32) == F32
    p = lang.build("O[i] = a[i]; T[i] = O[i]; O[i+3] = b[i] -> (O, T)", {"a": (3,), "b": (3,)}, {"a": "i8", "b": "f32"})
    assert [p.tensor(n).dtype for n in "OT"] == [F32, F32]
    x = lang.evaluate(p, {"a": np.array([1, 2, 3], "i1"), "b": np.array([4, 5, 6], "f4")})["O"]
    np.testing.assert_array_equal(x, [1, 2, 3, 4, 5, 6])


def test_declared_outputs_widen_the_accumulator():
    text = "def f(i8[N] a) -> (i32 s) { s += a[i] }"
    p = lang.build(text.replace("i32 s)", "i32[] s)"), {"a": (300,)})
    assert lang.evaluate(p, {"a": np.full(300, 100, "i1")})["s"] == 30000
    p = lang.build(text, {"a": (300,)})
    assert p.tensor("s").dtype == scalars.I32
    p = lang.build("s += a[i]", {"a": (300,)}, {"a": "i8"})
    assert lang.evaluate(p, {"a": np.full(300, 100, "i1")})["s"] == 30000 % 256


def test_weak_floats_are_computed_in_the_type_they_meet():
    p = lang.build("O[i] = a[i] * (0.5 * i + 1)", {"a": (3,)})
    assert "f64" not in str(p)


def test_spellings_of_types():
    text = "def f(float(N) a, double(N) b, uint8(N) c) -> (O) { O(i) = a(i) + b(i) + c(i) }"
    p = lang.build(text, dict.fromkeys("abc", (3,)))
    assert [str(p.tensor(n).dtype) for n in "abcO"] == ["f32", "f64", "u8", "f64"]


def test_a_declared_scalar_has_its_type_however_it_is_given():
    text = "def f(f32 a, f32[N] x) -> (f32[N] y) { k = exp(a); y[i] = k*x[i] }"
    x = np.arange(4, dtype=np.float32)
    for target in ("evaluate", "interp", "cpu"):
        fixed = polytc.compile(text, target, scalars={"a": 0.1})(x)
        np.testing.assert_allclose(fixed, np.exp(np.float32(0.1)) * x, rtol=1e-6)
        np.testing.assert_allclose(fixed, polytc.run(text, 0.1, x, target=target), rtol=1e-6)
    called = "def g(f32 a, f16[N] x) -> (y) { y[i] = a*x[i] }\ny = g(0.1, h)"
    assert polytc.run(called, h=x.astype(np.float16)).dtype == np.float32


def test_a_declared_scalar_is_a_number_where_one_is_needed():
    text = """
        def f(f32 a, i32 n, f32[N] x) -> (y) {
            assume a > 0.05 && n < N
            y[i] = a > 0.05 ? x[i+n] : x[i-100] where i in 0:N-n
            y[i] += (x[i-5] else -2*a) where a < 1, i in 0:3
        }"""
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_allclose(polytc.compile(text, scalars={"a": 0.1, "n": 2})(x), x[2:] + np.float32(-2) * np.float32(0.1))


@pytest.mark.parametrize("condition", ["isnan(s)", "isinf(2*s)", "sin(s) > 1", "s > 1 || isnan(s)", "!isnan(nan)",
                                       "cbrt(s) < 0"])
def test_a_condition_of_numbers_alone_leaves_a_branch_out(condition):
    """Functions that are not computed with the program are part of conditions, too."""
    built = lang.build(f"O[i] = {condition} ? a[i+9] : 1 where i in 0:3", {"a": (3,)}, {"a": F32},
                       scalars={"s": 0.75} if "(s)" in condition or "2*s" in condition else {})
    assert built.tensor("O").dtype == I64


@pytest.mark.parametrize("value", ["clamp({p} + a[t], -3, 3)", "max({p} + a[t], -3)", "{p} + a[t] + (-3)",
                                   "(a[t] > 0 ? {p} + a[t] : 300)"])
def test_a_number_that_does_not_fit_is_refused_where_a_for_makes_the_type_too(value):
    """The type is that of `a`; i64, with which it would fit, is not the least."""
    text = f"for t in 0:3 {{ O[t] = {value.format(p='(O[t-1] else 0)')} }}"
    with pytest.raises(polytc.CompileError, match="does not fit into u8"):
        lang.build(text, {"a": (3,)}, {"a": "u8"})
    assert lang.build(text, {"a": (3,)}, {"a": "i16"}).tensor("O").dtype == DTYPES["i16"]
