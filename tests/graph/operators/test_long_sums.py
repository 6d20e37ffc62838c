"""Reductions of ONNX over long axes: within the bound of docs/accuracy.md, against f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from polytc import load_onnx

U = 2.0 ** -24
N = 600_000
Exact = Callable[..., Any]


def node(kind: str, inputs: int = 1, **attributes: Any) -> onnx.NodeProto:
    return onnx.helper.make_node(kind, ["x", "w"][:inputs], ["y"], **attributes)


def reduce(kind: str) -> onnx.NodeProto:
    return node(kind, 2, keepdims=0)


AXIS = np.array([1])
"""The reduced axis: a second input since opset 18."""

CASES: dict[str, tuple[onnx.NodeProto, tuple[int, ...], Any, Exact]] = {
    "sum": (reduce("ReduceSum"), (2, N), AXIS, lambda x, w: x.sum(1)),
    "sum of columns": (reduce("ReduceSum"), (1, 50_000, 7), AXIS, lambda x, w: x.sum(1)),
    "mean": (reduce("ReduceMean"), (2, N), AXIS, lambda x, w: x.mean(1)),
    "l1": (reduce("ReduceL1"), (2, N), AXIS, lambda x, w: abs(x).sum(1)),
    "l2": (reduce("ReduceL2"), (2, N), AXIS, lambda x, w: np.sqrt((x * x).sum(1))),
    "sum of squares": (reduce("ReduceSumSquare"), (2, N), AXIS, lambda x, w: (x * x).sum(1)),
    "log of a sum": (reduce("ReduceLogSum"), (2, N), AXIS, lambda x, w: np.log(x.sum(1))),
    "log of a sum of powers": (reduce("ReduceLogSumExp"), (2, N), AXIS, lambda x, w: np.log(np.exp(x).sum(1))),
    "pool": (node("GlobalAveragePool"), (1, 2, 600, 1000), None, lambda x: x.mean((2, 3), keepdims=True)),
    "gemm": (node("Gemm", 2), (3, 40_000), (40_000, 5), lambda x, w: x @ w),
    "matmul": (node("MatMul", 2), (40_000,), (40_000, 5), lambda x, w: x @ w),
    "einsum": (node("Einsum", 2, equation="ik,jk->ij"), (3, 40_000), (5, 40_000), lambda x, w: x @ w.T),
    "convolution": (node("Conv", 2), (1, 700, 5, 5), (3, 700, 3, 3), lambda x, w: np.einsum(
        "nchwrs,mcrs->nmhw", np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)), w)),
}


@pytest.mark.part(5)
@pytest.mark.parametrize("name", CASES)
def test_error(name: str, build: Callable[..., onnx.ModelProto]) -> None:
    """A constant's roundings all go one way. Of roots, logarithms and means the error is the sum's at most, and their own."""
    made, shape, w, exact = CASES[name]
    x = np.full(shape, 0.1, np.float32)
    constants = {} if w is None else {"w": np.full(w, 0.3, np.float32) if isinstance(w, tuple) else w}
    (found,) = load_onnx(build([made], {"x": (np.float32, list(shape))}, ["y"], constants)).compile().run(None, {"x": x})
    wide = exact(x.astype("f8"), *(c.astype("f8") if c.dtype == np.float32 else c for c in constants.values()))
    assert np.max(abs(found - wide) / abs(wide)) <= 600 * U
