"""Dimensions in digits: split where all uses allow it, the same results everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.lang import build
from polytc.rewrite.tidy import delinearization

GROUPED = "Y[n,4*g+m,h] += X[n,3*g+c,h]*W[4*g+m,c] where g in 0:2, m in 0:4, c in 0:3"
TRANSPOSED = """Y[m,2*q+p] += (X[c,q+(p+1)//2-s] else 0) * W[c,m,(p+1)%2+2*s]
    where q in 0:8, p in 0:2, s in 0:2"""
SHAPES: dict[str, tuple[int, ...]] = {"X": (2, 6, 18), "W": (8, 3), "b": (8,)}

SPLIT = {
    "grouped": (GROUPED, SHAPES, (2, 2, 4, 18)),
    "epilogue": (GROUPED + "; Z[n,m,h] = max(Y[n,m,h] + b[m], 0)", SHAPES, (2, 2, 4, 18)),
    "transposed": (TRANSPOSED, {"X": (5, 8), "W": (5, 3, 4)}, (3, 8, 2)),
    "three digits": ("Y[6*a+2*b+c] += X[a,b,c,k]", {"X": (5, 3, 2, 7)}, (5, 3, 2)),
}
KEPT = {
    "mirrored": ("Y[3*a+b] += X[a,b,k]; Z[i] = Y[i] + Y[5-i] where i in 0:6", {"X": (2, 3, 7)}, (6,)),
    "overlapping": ("Y[2*a+b] += X[a,b]", {"X": (4, 3)}, (9,)),
    "part": ("Y[3*a+b] += X[a,b,k]; Z[i] = Y[i] where i in 0:4", {"X": (2, 3, 7)}, (6,)),
}


def shape(text: str, shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    return delinearization.delinearize(build(text, shapes)).tensor("Y").shape


@pytest.mark.parametrize("name", [*SPLIT, *KEPT])
def test_shape_of_the_result(name: str) -> None:
    text, shapes, expected = (SPLIT | KEPT)[name]
    assert shape(text, shapes) == expected


@pytest.mark.part(2)
@pytest.mark.parametrize("target", ["cpu", "interp"])
@pytest.mark.parametrize("name", [*SPLIT, *KEPT])
def test_results(name: str, target: str) -> None:
    text, shapes, _ = (SPLIT | KEPT)[name]
    rng = np.random.default_rng(0)
    program = build(text, shapes)
    arrays = {n: rng.standard_normal(shapes[n]).astype(np.float32) for n in program.inputs}
    expected = polytc.evaluate(text, **arrays)
    np.testing.assert_allclose(polytc.run(text, target=target, **arrays), expected, rtol=1e-5, atol=1e-5)
    assert polytc.run(text, target=target, **arrays).shape == expected.shape
