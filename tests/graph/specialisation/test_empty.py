"""Tensors without elements, as inputs of a run and as results, against onnx's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import polytc
from tests.graph.operators.operator_case import f, numbers

NONE = np.zeros(0, np.int64)

CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("Add", [f(0, 3), f(3)], {}), ("Add", [f(2, 3), f(0, 1, 1)], {}), ("Where", [np.zeros((0, 3), bool), f(3), f(1)], {}),
    ("MatMul", [f(2, 3), f(3, 0)], {}), ("MatMul", [f(2, 0), f(0, 3)], {}), ("Gemm", [f(0, 2), f(0, 3), f(3)], {"transA": 1}),
    ("Concat", [f(2, 0), f(2, 3), f(2, 1)], {"axis": 1}), ("Gather", [f(3, 4), NONE], {}),
    ("Gather", [f(3, 0), numbers(1, 2)], {}),
    ("GatherND", [f(3, 4), NONE.reshape(0, 1)], {}), ("GatherElements", [f(3, 4), NONE.reshape(0, 4)], {}),
    ("ScatterND", [f(3, 4), NONE.reshape(0, 1), f(0, 4)], {}), ("Expand", [f(1, 3), numbers(0, 3)], {}),
    ("Tile", [f(2, 3), numbers(0, 1)], {}), ("Slice", [f(3, 4), numbers(3), numbers(3)], {}),
    ("Split", [f(3, 2), numbers(0, 3)], {"axis": 0}), ("Conv", [f(0, 3, 5, 5), f(2, 3, 3, 3)], {}),
    ("LayerNormalization", [f(0, 4), f(4)], {}), ("ReduceSum", [f(0, 3), numbers(0)], {}),
    ("Max", [f(0, 2), f(2), f(1, 2)], {}),
    ("ReverseSequence", [f(0, 3), numbers(1, 2, 3)], {}),
    ("RoiAlign", [f(1, 2, 3, 3), f(0, 4), NONE], {"output_height": 2, "output_width": 2}),
    ("Einsum", [f(2, 0), f(0, 2)], {"equation": "ij,jk->ik"}), ("Einsum", [f(2, 1), f(0, 3)], {"equation": "ij,jk->ik"}),
    ("Einsum", [f(2, 0), f(2, 1)], {"equation": "ij,ij->ij"}), ("Squeeze", [f(1, 0, 3)], {})]


@pytest.mark.parametrize(("op", "inputs", "attributes"), CASES)
def test_empty(op: str, inputs: list[np.ndarray], attributes: dict[str, Any], build, reference) -> None:
    feeds = {f"x{i}": a for i, a in enumerate(inputs)}
    outputs = ["y0", "y1"] if op == "Split" else ["y0"]
    model = build([helper.make_node(op, list(feeds), outputs, **attributes)], feeds, outputs)
    results = polytc.load_onnx(model).compile(target="evaluate", strict=True).run(None, feeds)
    for got, wanted in zip(results, reference(model, feeds), strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize(("op", "shape", "attributes"), [
    ("GlobalAveragePool", (0, 3, 4), {}), ("Flatten", (0, 3, 2), {}), ("MaxPool", (0, 3, 5), {"kernel_shape": [2]})])
def test_known_and_empty(op: str, shape: tuple[int, ...], attributes: dict[str, Any], build) -> None:
    """Nodes of empty inputs alone are folded, also those that onnx's evaluator cannot compute."""
    model = build([helper.make_node(op, ["x"], ["y"], **attributes)], {"x": f(*shape)}, ["y"])
    got = polytc.load_onnx(model).compile(target="evaluate")(f(*shape))
    assert got.shape == {"GlobalAveragePool": (0, 3, 1), "Flatten": (0, 6), "MaxPool": (0, 3, 4)}[op]
