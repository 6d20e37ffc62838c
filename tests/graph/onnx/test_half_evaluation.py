"""Halves on onnx's evaluator: constants are computed in f32 and rounded once, as what is compiled is."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.graph import onnx
from polytc.graph.ir import Node
from tests.graph.small_models import model_of

X = np.random.default_rng(5).normal(0, 3, (4, 300)).astype(np.float64)
TYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normalised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


CASES = {
    "Gelu": ({}, lambda x: x * 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2))),
    "Mish": ({}, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "Softmax": ({"axis": -1}, softmax),
    "LogSoftmax": ({"axis": -1}, lambda x: np.log(softmax(x))),
    "MeanVarianceNormalization": ({"axes": [1]}, lambda x: (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-9)),
    "ReduceMean": ({"keepdims": 0, "noop_with_empty_axes": 0}, lambda x: x.mean()),
    "ReduceL2": ({"keepdims": 0}, lambda x: np.sqrt((x * x).sum())),
    "ReduceLogSumExp": ({"keepdims": 0}, lambda x: np.log(np.exp(x).sum())),
    "LpNormalization": ({"axis": 1, "p": 2}, lambda x: x / np.sqrt((x * x).sum(1, keepdims=True))),
    "Celu": ({}, lambda x: np.maximum(x, 0) + np.minimum(0, np.expm1(x)))}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op", CASES)
def test_constants_are_rounded_once(op: str, dtype: np.dtype) -> None:
    attributes, formula = CASES[op]
    x = X.astype(dtype)
    node = Node(op, "", ("x",), ("y",), attributes, opset=21)
    found, = onnx.evaluate_node(node, [x])
    wanted = np.asarray(formula(x.astype(np.float64)))
    place = np.spacing(np.abs(wanted).astype(dtype)).astype(np.float64) + np.finfo(np.float32).eps * np.abs(wanted).max() * 4
    assert (found.dtype, found.shape) == (dtype, wanted.shape)
    off = np.abs(found.astype(np.float64) - wanted)
    np.testing.assert_array_less(off, 0.51 * place + 1e-6 * np.abs(wanted) + 1e-12)


def test_products_of_constants() -> None:
    """In f32, as compiled ones: 300 terms in halves would be off by many places."""
    a, b = X.astype(np.float16), X.T.astype(np.float16)
    found, = onnx.evaluate_node(Node("MatMul", "", ("a", "b"), ("y",), {}, opset=21), [a, b])
    np.testing.assert_array_equal(found, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


@pytest.mark.parametrize(("op", "attributes", "wanted"), [
    ("Cast", {"to": 1}, np.dtype(np.float32)), ("Cast", {"to": 10}, np.dtype(np.float16)), ("IsNaN", {}, np.dtype(bool)),
    ("BitCast", {"to": 5}, np.dtype(np.int16)), ("Shape", {}, np.dtype(np.int64)), ("Transpose", {}, np.dtype(np.float16))])
def test_types_stay(op: str, attributes: dict, wanted: np.dtype) -> None:
    found, = onnx.evaluate_node(Node(op, "", ("x",), ("y",), attributes, opset=26), [X.astype(np.float16)])
    assert found.dtype == wanted


def test_what_is_beyond_halves_is_infinite() -> None:
    found, = onnx.evaluate_node(Node("Mul", "", ("x", "x"), ("y",), {}, opset=21), [np.full(2, 300, np.float16)] * 2)
    assert found.dtype == np.float16
    assert np.isinf(found).all()


def test_a_model_of_a_constant() -> None:
    """The result does not depend on whether the input is a constant."""
    x = np.array([-3.127, -3.82, 1.5], np.float16)
    nodes = [helper.make_node("Gelu", ["c"], ["y"], domain="com.microsoft"), helper.make_node("Gelu", ["x"], ["z"])]
    y, z = polytc.load_onnx(model_of(nodes, {"x": x}, ["y", "z"], {"c": x})).compile().run(None, {"x": x})
    np.testing.assert_array_equal(y, z)
    np.testing.assert_allclose(y, CASES["Gelu"][1](x.astype(np.float64)), rtol=1e-3)


def test_an_operator_of_no_version() -> None:
    """BitCast came with opset 26: onnx's evaluator runs it in models that say less, on the bits of halves."""
    x = X.astype(np.float16)
    found, = onnx.evaluate_node(Node("BitCast", "", ("x",), ("y",), {"to": 5}, opset=18), [x])
    np.testing.assert_array_equal(found, x.view(np.int16))
