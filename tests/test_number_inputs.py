"""Python floats are data: another one compiles nothing, unless it decides something; types and results are those of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polytc
from polytc import compiler, loading
from polytc.program.inputs import numbers as number_inputs
from polytc.program.program import Program

X = np.random.default_rng(0).standard_normal(50).astype(np.float32)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The programs that are made into code, from no cache."""
    found: list[Program] = []
    lower = compiler.lower_program

    def noted(program: Program, *others: Any) -> compiler.Lowered:
        found.append(program)
        return lower(program, *others)
    monkeypatch.setattr(compiler, "lower_program", noted)
    monkeypatch.setenv("POLYTC_CACHE", "0")
    return found


def results(text: str, *numbers: dict[str, float], target: str = "cpu", a: np.ndarray = X) -> list[np.ndarray]:
    op = polytc.compile(text, target=target)
    return [op(X=a, **n) for n in numbers]


@pytest.mark.parametrize("target", ["cpu", "interp", "evaluate"])
def test_another_float_is_the_same_code(target: str, compiled: list[Program]) -> None:
    found = results("Y[i] = al5*X[i] + X[i]/be5", *({"al5": a, "be5": b} for a, b in ((0.5, 3.0), (0.25, 7.5), (-2.5, 1e30))),
                    target=target)
    for y, (a, b) in zip(found, ((0.5, 3.0), (0.25, 7.5), (-2.5, 1e30)), strict=True):
        np.testing.assert_allclose(y, np.float32(a) * X + X / np.float32(b), rtol=1e-6)
    assert len(compiled) == (target != "evaluate")


def test_the_same_number_twice_and_in_two_types(compiled: list[Program]) -> None:
    op = polytc.compile("Y[i] = al6*X[i]; Z[i] = be6*D[i]")
    d = X.astype(np.float64)
    for a, b in ((0.1, 0.1), (0.7, 0.7), (0.3, 0.2)):
        y, z = op(X=X, D=d, al6=a, be6=b)
        assert (y.dtype, z.dtype) == (np.float32, np.float64)
        np.testing.assert_array_equal(y, np.float32(a) * X)
        np.testing.assert_array_equal(z, b * d)
    assert len(compiled) == 1


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_types_stay_those_of_the_array(dtype: type) -> None:
    a = X.astype(dtype)
    for y, n in zip(results("Y[i] = al7*X[i] + 1", {"al7": 0.3}, {"al7": 0.7}, a=a), (0.3, 0.7), strict=True):
        assert y.dtype == dtype
        np.testing.assert_allclose(y, dtype(n) * a + dtype(1), rtol=1e-6, atol=2e-3 if dtype is np.float16 else 0)


def test_numbers_that_decide_are_another_program() -> None:
    text = "Y[i] = (al8 > 0 ? X[i] : -X[i]) * al8"
    for y, n in zip(results(text, {"al8": 0.5}, {"al8": -0.5}, {"al8": 0.75}), (0.5, -0.5, 0.75), strict=True):
        np.testing.assert_array_equal(y, (X if n > 0 else -X) * np.float32(n))


def test_what_the_front_end_computes_from_them() -> None:
    text = "Y[i] = X[i] * (2*al9 + 1) + al9"
    for y, n in zip(results(text, {"al9": 0.5}, {"al9": 0.25}, {"al9": 3.5}), (0.5, 0.25, 3.5), strict=True):
        np.testing.assert_allclose(y, X * np.float32(2 * n + 1) + np.float32(n), rtol=1e-6)


@pytest.mark.parametrize("n", [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-42, 1e39, 2, True])
def test_special_numbers(n: float) -> None:
    with np.errstate(all="ignore"):
        (y,) = results("Y[i] = X[i]*al10 + al10", {"al10": n})
        np.testing.assert_allclose(y, X * np.float32(n) + np.float32(n), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [0.5, 0.0, 1.0, -np.inf])
def test_numbers_like_those_that_reductions_begin_with(n: float) -> None:
    """Only what stands in the text changes."""
    y = polytc.run("P *= X[i]*al11 where i in 0:3; M max= X[i] + al11; Y[i] = P + M + X[i]", X=X, al11=n)
    with np.errstate(invalid="ignore"):
        product, most = np.prod(X[:3] * np.float32(n), dtype=np.float32), np.float32((X + np.float32(n)).max())
        np.testing.assert_allclose(y, product + most + X, rtol=1e-5)


def test_arrays_that_are_written_in_place() -> None:
    op = polytc.compile("def f(inout f32[N] X, alpha) -> (X) { X[i] = X[i]*alpha }")
    for n in (0.5, 0.25):
        a = X.copy()
        op(a, n)
        np.testing.assert_array_equal(a, X * np.float32(n))


def test_open_sizes(compiled: list[Program]) -> None:
    op = polytc.compile("Y[i] = al12*X[i]", shapes={"X": ("N",)})
    for size, n in ((10, 0.5), (33, 0.25), (50, 2.5)):
        np.testing.assert_array_equal(op(X=X[:size].copy(), al12=n), np.float32(n) * X[:size])
    assert len(compiled) == 1


def test_checked_indices() -> None:
    op = polytc.compile("Y[i] = al13*X[P[i]]", checked=True)
    places = np.array([3, 1, 49])
    for n in (0.5, 0.25):
        np.testing.assert_array_equal(op(X=X, P=places, al13=n), np.float32(n) * X[places])
    with pytest.raises(IndexError):
        op(X=X, P=places + 1, al13=0.125)


def test_the_program_of_the_docstring() -> None:
    program = polytc.build("Y[i] = alpha*X[i] + 1", {"X": (5,)}, scalars={"alpha": 0.25})
    made, arrays = number_inputs.as_inputs(program, {"alpha": 0.25})
    assert "alpha_f32*X[i] + 1" in str(made).replace(" * ", "*")
    assert made.inputs == ("X", "alpha_f32")
    assert {n: (a.shape, float(a), a.dtype) for n, a in arrays.items()} == {"alpha_f32": ((), 0.25, np.float32)}
    assert number_inputs.as_inputs(program, {"alpha": 3}) == (program, {})
    assert loading.with_numbers(program, {}, lambda s: program, lambda p, build: p) is program  # type: ignore[arg-type,return-value]
