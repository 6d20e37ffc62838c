"""Random operators without a seed: new numbers at each run, in the right distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import polytc


def twice(build: Any, op: str, x: np.ndarray | None, constants: dict[str, np.ndarray] | None = None, outputs: int = 1,
          **attributes: Any) -> list[list[np.ndarray]]:
    """Results of two runs of one model."""
    feeds = {} if x is None else {"x": x}
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, [*feeds, *(constants or {})], names, **attributes)
    model = polytc.load_onnx(build([node], feeds, names, constants or {}, 22)).compile(target="evaluate", strict=True)
    return [model.run(None, feeds) for _ in range(2)]


@pytest.mark.parametrize(("op", "mean", "deviation", "attributes"), [
    ("RandomNormal", 2.0, 3.0, {"mean": 2.0, "scale": 3.0}),
    ("RandomUniform", 1.0, 4 / np.sqrt(12), {"low": -1.0, "high": 3.0})])
@pytest.mark.parametrize("like", [False, True])
def test_numbers(build, op: str, mean: float, deviation: float, attributes: dict[str, Any], like: bool) -> None:
    shape = (50, 200)
    first, second = ([np.asarray(a) for a in run] for run in (
        twice(build, f"{op}Like", np.zeros(shape, np.float32), **attributes) if like
        else twice(build, op, None, shape=list(shape), **attributes)))
    assert first[0].dtype == np.float32
    assert first[0].shape == shape
    assert not np.array_equal(first[0], second[0])
    assert abs(first[0].mean() - mean) < 6 * deviation / 100
    assert abs(first[0].std() / deviation - 1) < 0.06


def test_bernoulli(build) -> None:
    x = np.tile(np.float32([0, 0.25, 1]), (5000, 1))
    (first,), (second,) = twice(build, "Bernoulli", x, dtype=9)
    assert first.dtype == bool
    assert not np.array_equal(first, second)
    np.testing.assert_allclose(first.mean(0), x[0], atol=0.04)


def test_multinomial(build) -> None:
    weights = np.array([0.5, 0.2, 0.3])
    (first,), (second,) = twice(build, "Multinomial", np.log(weights)[None].astype(np.float32), sample_size=5000, dtype=7)
    assert first.dtype == np.int64
    assert first.shape == (1, 5000)
    assert not np.array_equal(first, second)
    np.testing.assert_allclose(np.bincount(first[0], minlength=3) / 5000, weights, atol=0.04)


def test_dropout_in_training(build) -> None:
    x = 1 + np.arange(10000, dtype=np.float32)
    constants = {"ratio": np.float32(0.25).reshape(()), "training": np.array(True)}
    (y, mask), (other, _) = twice(build, "Dropout", x, constants, outputs=2)
    assert not np.array_equal(y, other)
    assert abs(mask.mean() - 0.75) < 0.03
    np.testing.assert_allclose(y, np.where(mask, x / 0.75, 0), rtol=1e-6)
