"""f16 and bf16: stored in 16 bits, computed in f32, the same on every target."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest

import polytc
from polytc import lang
from polytc.errors import CompileError
from polytc.program import program as pr
from polytc.program import scalars
from polytc.program.scalars import F32

HALVES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
ALL = pytest.mark.parametrize("half", HALVES)


def every(half: str) -> np.ndarray:
    """All 65536 numbers of the type, and an odd rest."""
    return np.arange(65536 + 7, dtype=np.uint32).astype(np.uint16).view(HALVES[half])


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a == b) | (np.isnan(a) & np.isnan(b))


@ALL
def test_no_arithmetic_on_halves_is_left(half: str) -> None:
    text = "M[i] max= X[i,k]\nS[i] += exp(X[i,k] - M[i]) * 0.5\nY[i,k] = X[i,k] > 0 ? exp(X[i,k] - M[i]) / S[i] : -X[i,k]"
    p = lang.build(text, {"X": (3, 5)}, {"X": half})
    assert {t.name: t.dtype.name for t in p.tensors if t.dtype.is_half} == {"X": half, "Y": half}
    for s in p.statements:
        for e in pr.walk(s.value):
            assert isinstance(e, pr.Read | pr.Cast) or not e.dtype.is_half, pr.format_statement(s)
        assert s.op is None or p.tensor(s.target).dtype == F32


@ALL
def test_sums_are_in_single(half: str) -> None:
    ones = np.ones((2, 5000), HALVES[half])
    got = polytc.run("s[i] += x[i,k]", x=ones)
    assert got.dtype == HALVES[half]
    assert np.array_equal(got, np.full(2, 5000).astype(HALVES[half]))


@ALL
def test_reads_between_updates_are_rounded(half: str) -> None:
    x = np.array([1.0, 2.0**-12], HALVES[half])
    text = "s += x[i] where i in 0:2\nt = f32(s)\ns += x[i] where i in 0:1\n-> (s, t)"
    s, t = polytc.run(text, x=x)
    assert float(t) == 1.0
    assert float(s) == 2.0


@pytest.mark.part(8)
@ALL
@pytest.mark.parametrize("text", ["y[i] = x[i] + x[i] * 0.3", "y[i] = max(x[i], 0)", "y[i] = f32(x[i])", "y[i] = f16(x[i])",
                                  "y[i] = bf16(x[i])", "y[i] = x[i] < 1 ? x[i] : 1 / x[i]"])
@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_every_number_is_as_the_reference_has_it(half: str, text: str, target: str) -> None:
    x = every(half)
    with np.errstate(all="ignore"):
        want = polytc.evaluate(text, x=x)
        got = polytc.compile(text, target=target)(x)
        assert got.dtype == want.dtype
        # The processor's conversion to bf16 takes subnormal numbers for 0.
        tiny = np.abs(want.astype(np.float64)) < 2.0**-125 if want.dtype == HALVES["bf16"] else False
        assert (same(got, want) | tiny).all(), x[~same(got, want)][:5]


@ALL
def test_products_of_matrices(half: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(HALVES[half]) for shape in ((37, 61), (61, 45)))
    want = a.astype(np.float64) @ b.astype(np.float64)
    got = polytc.run("C[i,j] += A[i,k] * B[k,j]", A=a, B=b)
    places = ml_dtypes.finfo(HALVES[half]).nmant
    assert (np.abs(got.astype(np.float64) - want) <= np.abs(want) * 2.0 ** -(places + 1) + 1e-5).all()


def test_bf16_without_its_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    scalars.bfloat16.cache_clear()
    with pytest.raises(CompileError, match=r"E403.*ml_dtypes"):
        polytc.compile("y[i] = 2 * x[i]", dtypes={"x": "bf16"}, shapes={"x": (4,)})
    monkeypatch.undo()
    assert polytc.compile("y[i] = 2 * x[i]", dtypes={"x": "bf16"})(np.ones(4, np.uint16)).dtype == HALVES["bf16"]


def test_bits_of_bf16_are_taken_where_the_type_is_declared() -> None:
    x = np.linspace(-3, 3, 17).astype(HALVES["bf16"])
    double = polytc.compile("y[i] = 2 * x[i]", dtypes={"x": "bf16"})
    want = (2 * x.astype(np.float32)).astype(x.dtype)
    assert np.array_equal(double(x.view(np.uint16)), want)
    out = np.zeros(17, np.uint16)
    double(x, out=out)
    assert np.array_equal(out, want.view(np.uint16))
    with pytest.raises(CompileError, match="E406"):
        double(x.astype(np.float32))


def test_a_number_that_is_cast_to_a_narrow_integer_wraps() -> None:
    """Found by the generator."""
    text = "def f(f16[3] X, i32 n) -> (Y, Z) { Y[i] = X[i] + 1; Z[i] = u16(~n) where i in 0:3 }"
    found = polytc.evaluate(text, X=np.ones(3, np.float16), n=2)
    np.testing.assert_array_equal(found[1], np.full(3, 65533, np.uint16))


def test_a_number_that_does_not_fit_the_type_all_statements_agree_on() -> None:
    """Found by the generator: the type comes from a later statement."""
    text = "def f(u16[3] X) -> (T) { for t in 0:2 { T[i,t] = -1 where i in 0:3; T[i,t] = X[i] + 1 } }"
    with pytest.raises(CompileError) as caught:
        polytc.evaluate(text, X=np.ones(3, np.uint16))
    assert caught.value.code == "E306"
    assert "^" in str(caught.value)
