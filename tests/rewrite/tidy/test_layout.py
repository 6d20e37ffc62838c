"""Temporaries are stored along the indices that no loop carries; results stay."""

import numpy as np
import pytest

import polytc
from polytc.rewrite.tidy.layout import transpose_temporaries

SWEEP = """
def f(f64[N,M] X) -> (Y) {
    for j in 0:M { T[i,j] = X[i,j] + 0.5 * (T[i,j-1] else 0) }
    for j in M-1:-1:-1 { U[i,j] = T[i,j] + 0.25 * (U[i,j+1] else 0) where i in 0:N }
    Y[i,j] = 2 * U[i,j]
}"""
ALONG = "def f(f64[N,M] X) -> (Y) { for i in 0:N { T[i,j] = X[i,j] + 0.5 * (T[i-1,j] else 0) }; Y[i,j] = 2 * T[i,j] }"
SHAPES = {"X": (13, 21)}


def program(text):
    return polytc.lower(text, shapes=SHAPES, schedule="program").program


def test_dimensions_that_loops_carry_are_not_the_last():
    found = transpose_temporaries(program(SWEEP))
    assert {t.name: t.shape for t in found.tensors} == {"X": (13, 21), "Y": (13, 21), "T": (21, 13), "U": (21, 13)}


def test_what_is_walked_already_stays():
    p = program(ALONG)
    assert transpose_temporaries(p) is p


@pytest.mark.parametrize("text", [SWEEP, ALONG])
def test_results(text):
    x = np.random.default_rng(3).random((13, 21))
    expected = polytc.evaluate(text, X=x)
    for target in ("cpu", "interp"):
        np.testing.assert_allclose(polytc.run(text, X=x, target=target), expected, rtol=1e-12)
