"""benchmarks/algebra_errors.py: what it takes for exact is the model in f64, and its errors are those that arrays have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from algebra_errors import Errors, errors, exact, outputs_of, rows


def model(folder: Path, weight: np.ndarray) -> Path:
    """x W, resized by a factor, plus a constant of f32 that is no f64 number of few digits."""
    nodes = [make_node("MatMul", ["x", "w"], ["p"]), make_node("Unsqueeze", ["p", "zero"], ["u"]),
             make_node("Resize", ["u", "", "twice"], ["r"], mode="nearest"),
             make_node("Constant", [], ["c"], value_float=0.1), make_node("Add", ["r", "c"], ["s"]),
             make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT)]
    constants = {"w": weight, "zero": np.zeros(1, np.int64), "twice": np.array([1, 1, 2], np.float32)}
    graph = make_graph(nodes, "g", [make_tensor_value_info("x", TensorProto.FLOAT, (4, len(weight)))],
                       [make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 2 * weight.shape[1]))],
                       [numpy_helper.from_array(a, n) for n, a in constants.items()])
    onnx.save(make_model(graph, opset_imports=[make_opsetid("", 18)], ir_version=10), folder / "model.onnx")
    return folder / "model.onnx"


def test_the_f64_model_computes_in_f64(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight, x = rng.standard_normal((300, 8)).astype(np.float32), rng.standard_normal((4, 300)).astype(np.float32)
    path = model(tmp_path, weight)
    wanted = np.repeat(x.astype(np.float64) @ weight.astype(np.float64), 2, -1)[None] + np.float64(np.float32(0.1))
    found = exact(path, {"x": x})["y"]
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)
    assert errors(outputs_of(path, {"x": x}, "direct")["y"], wanted).largest > 1e-9


def test_models_that_compute_alike_have_no_rows(tmp_path: Path) -> None:
    model(tmp_path, np.eye(8, dtype=np.float32))
    assert list(rows(tmp_path)) == []


def test_errors() -> None:
    assert errors(np.array([4, 4], np.float32), np.array([4.0, 4.0])) == Errors(0.0, 0.0)
    assert errors(np.array([4, 2], np.float32), np.array([4.0, 4.0])) == Errors(0.5, 0.125 ** 0.5)
    assert errors(np.zeros(0, np.float32), np.zeros(0)) == Errors(0.0, 0.0)
    assert errors(np.array([np.inf, 2], np.float32), np.array([np.inf, 4.0])) == Errors(0.5, 0.5)
