"""Lists of numbers in expressions, `[1, 2, 1][k]`, against numpy and the second meaning."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import polytc
from tests.c_here import COMPILERS, CompiledC
from tests.meaning.run import meaning

A = np.random.default_rng(0).standard_normal(12).astype(np.float32)
X = np.random.default_rng(1).standard_normal((6, 7)).astype(np.float32)
SOBEL = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]], np.float32)
RUNS = ["cpu", "interp", pytest.param("opencl", marks=pytest.mark.opencl),
        pytest.param("c", marks=pytest.mark.skipif(not COMPILERS, reason="needs a C compiler"))]


def sobel() -> np.ndarray:
    return np.array([[(SOBEL * X[i:i + 3, j:j + 3]).sum() for j in range(5)] for i in range(4)], np.float32)


PROGRAMS = {
    "B[i] += [1, 2, 1][k] * A[i+k]": A[:-2] + 2 * A[1:-1] + A[2:],
    "B[i] += [0.25, 0.5, 0.25][k] * (A[i+k-1] else 0) where i in 0:A.shape[0]": np.convolve(A, [0.25, 0.5, 0.25], "same"),
    "S[i,j] += [[1,0,-1],[2,0,-2],[1,0,-1]][r,s] * X[i+r,j+s]": sobel(),
    "Y[i] = A[[0,2,1][i%3] + i//3*3] where i in 0:12": A.reshape(4, 3)[:, [0, 2, 1]].reshape(-1),
    "Y[i] = [pi, 2*A.shape[0], -1][i] + A[i]": np.array([np.pi, 24, -1], np.float32) + A[:3],
    "Y[i] = ([3, 4][i] else 0) * A[i]": np.array([3, 4, *[0] * 10], np.float32) * A,
    "for t in 0:3 { s += [1, 10, 100][t] * A[t]; R[t] = s }": np.cumsum(np.array([1, 10, 100]) * A[:3]),
    "def f(f32[N] x, f32 a) -> (y) { y[i] += [a, 1/N][k] * x[i+k] }\nY = f(A, 2)": 2 * A[:-1] + A[1:] / 12,
    "op f(x[*i, j]) -> y[*i, j] { y[*i, j] += [1, -1][k] * x[*i, j+k] }\nY = f(X)": X[:, :-1] - X[:, 1:],
    "Y[i] = [[1, 2], [1, 2]][i, k] * A[k] where k = 1": np.full(2, 2 * A[1]),
}


@pytest.mark.part(10)
@pytest.mark.parametrize("target", RUNS)
@pytest.mark.parametrize("text", PROGRAMS)
def test_lists(text: str, target: str) -> None:
    given = {"A": A} if "A" in text else {"X": X}
    got = np.asarray(polytc.run(text, target=CompiledC() if target == "c" else target, **given)) if "R[t]" not in text else \
        np.asarray(polytc.run(text + " -> (R)", target=CompiledC() if target == "c" else target, **given))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, PROGRAMS[text], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("text", PROGRAMS)
def test_lists_mean_the_same_to_the_second_meaning(text: str) -> None:
    found = list(meaning(text, {"A": A} if "A" in text else {"X": X}).values())[-1]
    np.testing.assert_allclose(found[0], PROGRAMS[text], rtol=1e-5, atol=1e-6)


def test_their_type_is_that_of_what_they_meet() -> None:
    """As that of a number; no memory of f64 is needed for f32."""
    program = polytc.build("B[i] += [0.1, 0.2][k] * A[i+k]", {"A": (9,)})
    assert {t.dtype.name for t in program.tensors} == {"f32"}
    for dtype in (np.float64, np.float16, ml_dtypes.bfloat16, np.int8):
        x = np.arange(6).astype(dtype)
        got = polytc.run("B[i] += [1, 2][k] * x[i+k]", x=x)
        assert got.dtype == x.dtype
        assert got.astype(float).tolist() == [2, 5, 8, 11, 14]
    assert polytc.run("B[i] += [0.5, 2][k] * x[i+k]", x=np.arange(4)).tolist() == [2, 4.5, 7]


def test_a_program_with_a_list_prints_as_itself() -> None:
    program = polytc.build("B[i] += [1, 2, 1][k] * A[i+k]; list1 = B[0]", {"A": (9,)})
    again = polytc.build(str(program), {"A": (9,)})
    assert str(again) == str(program)
    np.testing.assert_allclose(polytc.run(str(program), A=A[:9]), A[0] + 2 * A[1] + A[2], rtol=1e-6)


def test_long_lists_are_not_deep() -> None:
    numbers = list(range(1000))
    assert polytc.run(f"Y[i] = 2*{numbers}[i]").tolist() == [2 * n for n in numbers]


@pytest.mark.parametrize(("text", "code", "place"), [
    ("Y[i] = [1,2,3][i]*A[i] where i in 0:5", "E203", "[1,2,3][i]"), ("Y[i] = [[1,2],[3]][i,j]", "E117", "[[1,2],[3]]"),
    ("Y[i] = [1,A[0]][i]", "E117", "A[0]"), ("Y[i] = [1,2][i,j]", "E117", "[1,2][i,j]"),
    ("Y[i] = [1,[2]][i]", "E117", "[1,[2]]"),
])
def test_refusals(text: str, code: str, place: str) -> None:
    with pytest.raises(polytc.CompileError) as raised:
        polytc.run(text, **({"A": A} if "A" in text else {}))
    first = raised.value.diagnostics[0]
    assert (first.code, text[first.span.start:first.span.end]) == (code, place)
