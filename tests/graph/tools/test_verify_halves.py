"""The reference that `polytc verify` computes for halves, against f64 of numpy: sums in f16 overflow, and lose terms."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from polytc.graph.ir import Node
from polytc.graph.tools import verify

R = np.random.default_rng(5)
KINDS = pytest.mark.parametrize("kind", [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)], ids=["f16", "bf16"])


def normalised(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


CASES = {
    "LayerNormalization": ({"epsilon": 1e-5}, normalised),
    "RMSNormalization": ({"epsilon": 1e-5}, lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)),
    "ReduceMean": ({"keepdims": 1}, lambda x: x.mean((0, 1), keepdims=True)),
    "ReduceL2": ({"keepdims": 1}, lambda x: np.sqrt((x * x).sum((0, 1), keepdims=True))),
    "ReduceLogSum": ({"keepdims": 1}, lambda x: np.log(x.sum((0, 1), keepdims=True))),
    "LpNormalization": ({}, lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True))),
    "Softmax": ({}, lambda x: (e := np.exp(x - x.max(-1, keepdims=True))) / e.sum(-1, keepdims=True)),
}


def result(op: str, kind: np.dtype, x: np.ndarray, attributes: dict, *more: np.ndarray) -> np.ndarray:
    names = [f"x{k}" for k in range(1 + len(more))]
    node = Node(op, "n", tuple(names), ("y",), attributes, 23 if op == "RMSNormalization" else 18)
    return verify.reference(node, dict(zip(names, (x, *more), strict=True)))[0]


@KINDS
@pytest.mark.parametrize("op", CASES)
def test_of_activations_with_a_mean_of_twenty(op: str, kind: np.dtype) -> None:
    attributes, exact = CASES[op]
    x = (20 + 5 * R.standard_normal((3, 4096))).astype(kind)
    more = [np.ones(4096, kind)] if op in ("LayerNormalization", "RMSNormalization") else []
    found = result(op, kind, x, attributes, *more)
    assert found.dtype == kind
    with np.errstate(over="ignore"):
        wanted = exact(x.astype(np.float64)).astype(kind)  # the sum of squares under a root: 1.3e4 and less
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=2 * ml_dtypes.finfo(kind).eps)


@KINDS
def test_what_is_no_float_is_as_the_halves_have_it(kind: np.dtype) -> None:
    x = np.array([0.5, 3, -2, 7], kind)
    np.testing.assert_array_equal(result("ArgMax", kind, x, {"axis": 0, "keepdims": 0}), 3)
    assert result("Greater", kind, x, {}, np.array(1, kind)).tolist() == [False, True, False, True]
    assert result("Cast", kind, x, {"to": 1}).dtype == np.float32
    assert result("Cast", kind, x, {"to": 6}).dtype == np.int32


def test_bits_are_not_those_of_f64() -> None:
    x = np.array([1.5, -2], np.float16)
    np.testing.assert_array_equal(result("BitCast", x.dtype, x, {"to": 5}).view(np.float16), x)
