"""Windows that lie mostly outside of their data: taps apart, the same results everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.lang import build
from polytc.rewrite.tidy import taps

Shapes = dict[str, tuple[int, ...]]
IMAGE: Shapes = {"X": (9, 8, 24), "W": (3, 3, 24, 16)}
CONV = "Y[y,x,f] += (X[y+{d}*p-{d},x+{d}*q-{d},c] else 0)*W[p,q,c,f] where y in 0:9, x in 0:8"

DIVIDED: dict[str, tuple[str, Shapes, int]] = {
    "some taps": (CONV.format(d=6), IMAGE, 9),
    "only the middle": (CONV.format(d=9), IMAGE, 1),
    "strided": ("Y[y,f] += (X[2*y+9*p-9,c] else 0)*W[p,c,f] where y in 0:6", {"X": (12, 64), "W": (3, 64, 64)}, 3),
    "mirrored": ("Y[y,f] += (X[8-y-9*p+9,c] else 0)*W[p,c,f] where y in 0:9", {"X": (9, 64), "W": (3, 64, 64)}, 1),
    "largest": ("Y[y,x] max= X[y+20*p-20,x+20*q-20] else -inf where y in 0:99, x in 0:99, p in 0:5, q in 0:5",
                {"X": (30, 30)}, 9),
}
KEPT: dict[str, tuple[str, Shapes]] = {
    "mostly inside": (CONV.format(d=1), IMAGE),
    "few terms": ("Y[y] += (X[y+9*p-9] else 0)*W[p] where y in 0:9", {"X": (9,), "W": (3,)}),
    "another default": (CONV.format(d=9).replace("else 0", "else 1"), IMAGE),
    "no factor": (CONV.format(d=9).replace("else 0)", "else 0) + W[0,0,c,f]", 1), IMAGE),
    "precise": ("precise def f(X, W) -> Y { " + CONV.format(d=9) + " }", IMAGE),
}


def divided(text: str, shapes: Shapes) -> list[str]:
    return [s.name for s in taps.split(build(text, shapes)).statements if "_tap" in s.name]


@pytest.mark.parametrize("name", DIVIDED)
def test_a_statement_for_each_tap_that_meets_data(name: str) -> None:
    text, shapes, count = DIVIDED[name]
    assert len(set(divided(text, shapes))) == count


@pytest.mark.parametrize("name", KEPT)
def test_what_stays(name: str) -> None:
    assert not divided(*KEPT[name])


@pytest.mark.part(5)
@pytest.mark.parametrize("target", ["cpu", "interp"])
@pytest.mark.parametrize("name", DIVIDED)
def test_results(name: str, target: str) -> None:
    text, shapes, _ = DIVIDED[name]
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal(shapes[n]).astype(np.float32) for n in shapes}
    np.testing.assert_allclose(polytc.run(text, target=target, **arrays), polytc.evaluate(text, **arrays), rtol=1e-4, atol=1e-4)


def test_dilated_convolution_is_numpys() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(IMAGE[n]).astype(np.float32) for n in IMAGE)
    padded = np.pad(x, ((6, 6), (6, 6), (0, 0)))
    expected = sum(padded[6 * p:6 * p + 9, 6 * q:6 * q + 8] @ w[p, q] for p in range(3) for q in range(3))
    np.testing.assert_allclose(polytc.run(CONV.format(d=6), X=x, W=w), expected, rtol=1e-4, atol=1e-4)
