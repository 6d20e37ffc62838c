"""Ops with constants: the same results, computed once what can be, and clear errors."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.errors import ArgumentError

LAYER = "Y[n,m] += X[n,k]*W[m,k]; Z[n,m] = max(Y[n,m] + b[m], 0)"
RNG = np.random.default_rng(0)
X, W, B = (RNG.standard_normal(s).astype(np.float32) for s in ((33, 64), (130, 64), (130,)))
EXPECTED = np.maximum(X @ W.T + B, 0)


@pytest.mark.part(6)
@pytest.mark.parametrize("target", ["cpu", "interp", "evaluate"])
@pytest.mark.parametrize("constants", [{"W": W}, {"W": W, "b": B}, {"b": B}, {}], ids=["W", "Wb", "b", "none"])
def test_results(constants: dict[str, np.ndarray], target: str) -> None:
    text = f"def layer(X, W, b) -> (Z) {{ {LAYER} }}"
    rows, columns = (5, 40) if target == "interp" else EXPECTED.shape  # loops in Python take long
    layer = polytc.compile(text, target=target, constants={n: a[:columns] for n, a in constants.items()})
    free = {"X": X, "W": W, "b": B}.keys() - constants.keys()
    assert set(layer.inputs) == free
    arrays = {n: a for n, a in (("X", X[:rows]), ("W", W[:columns]), ("b", B[:columns])) if n in free}
    for _ in range(2):
        np.testing.assert_allclose(layer(**arrays), EXPECTED[:rows, :columns], rtol=1e-4, atol=1e-4)


def test_other_shapes_and_out() -> None:
    layer = polytc.compile("Y[n,m] += X[n,k]*W[m,k]", constants={"W": W})
    np.testing.assert_allclose(layer(X), X @ W.T, rtol=1e-4, atol=1e-4)
    out = np.full((7, 130), np.nan, np.float32)
    assert layer(X[:7], out=out) is out
    np.testing.assert_allclose(out, X[:7] @ W.T, rtol=1e-4, atol=1e-4)


def test_constants_are_copied() -> None:
    weights = W.copy()
    layer = polytc.compile("Y[n,m] += X[n,k]*W[m,k]", constants={"W": weights})
    weights[:] = 0
    np.testing.assert_allclose(layer(X), X @ W.T, rtol=1e-4, atol=1e-4)


def test_a_padded_convolution_with_constant_weights() -> None:
    image, filters = (RNG.standard_normal(s).astype(np.float32) for s in ((32, 28, 28), (32, 32, 3, 3)))
    text = "O[m,h,w] += (I[c,h+r-1,w+s-1] else 0)*W[m,c,r,s] where h in 0:28, w in 0:28"
    expected = polytc.evaluate(text, I=image.astype(np.float64), W=filters.astype(np.float64))
    got = polytc.compile(text, constants={"W": filters})(image)
    assert abs(got - expected).max() <= 1e-5 * abs(expected).max()


def test_wrong_names_and_arguments() -> None:
    with pytest.raises(ArgumentError, match="E401"):
        polytc.compile("Y[n,m] += X[n,k]*W[m,k]", constants={"V": W})
    with pytest.raises(ArgumentError, match="E410"):
        polytc.compile("Y[n,m] += X[n,k]*W[m,k]", constants=[W])  # type: ignore[call-overload]
    layer = polytc.compile("Y[n,m] += X[n,k]*W[m,k]", constants={"W": W})
    for call in (lambda: layer(), lambda: layer(X, X), lambda: layer(W=W), lambda: layer(X, out=(X, X))):
        with pytest.raises(ArgumentError, match="E401"):
            call()


def test_decisions_and_explanations_know_the_constants() -> None:
    layer = polytc.compile(f"def layer(X, W, b) -> (Z) {{ {LAYER} }}", constants={"W": W, "b": B}, threads=1)
    for ask in (lambda: layer.decisions, layer.explain):
        with pytest.raises(ArgumentError, match="E401"):
            ask()
    layer(X)
    record = str(layer.decisions)
    assert record.startswith("polytc decisions")
    told = str(layer.explain(roofline=False))
    assert "constant" in told
    layer(X[:1])
    assert str(layer.decisions) != record
    assert str(polytc.compile(layer.text, constants={"W": W, "b": B}, decisions=record, threads=1)(X).shape) == "(33, 130)"
