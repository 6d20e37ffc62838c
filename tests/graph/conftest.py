"""Small ONNX models for the tests, and their reference results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.graph.small_models import model_of


@pytest.fixture
def build() -> Callable[..., onnx.ModelProto]:
    return model_of


@pytest.fixture
def reference() -> Callable[..., list[np.ndarray]]:
    """Results of onnx's own evaluator."""
    def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, feeds)]
    return run


@pytest.fixture
def runtime() -> Callable[..., list[np.ndarray]]:
    """Results of ONNX Runtime, without its optimisations."""
    def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, feeds))
    return run


@pytest.fixture
def small_cnn() -> onnx.ModelProto:
    """conv + batch norm + relu, a residual branch with squeeze and excitation, pooling, and a classifier."""
    r = np.random.default_rng(1)

    def weights(*shape: int) -> np.ndarray:
        return (r.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    constants = {"w1": weights(8, 3, 3, 3), "b1": weights(8), "s": 1 + weights(8), "o": weights(8), "m": weights(8),
                 "v": abs(weights(8)) + 0.5, "w2": weights(8, 1, 3, 3), "w3": weights(4, 8, 1, 1),
                 "b3": weights(4), "w4": weights(8, 4, 1, 1),
                 "w5": weights(5, 8), "b5": weights(5), "shape": np.array([0, -1])}
    n = helper.make_node
    nodes = [
        n("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        n("BatchNormalization", ["c1", "s", "o", "m", "v"], ["n1"]),
        n("Relu", ["n1"], ["r1"]), n("Conv", ["r1", "w2"], ["c2"], group=8, pads=[1, 1, 1, 1]), n("HardSwish", ["c2"], ["h2"]),
        n("GlobalAveragePool", ["h2"], ["p"]), n("Conv", ["p", "w3", "b3"], ["q"]), n("Relu", ["q"], ["qr"]),
        n("Conv", ["qr", "w4"], ["z"]),
        n("HardSigmoid", ["z"], ["g"]), n("Mul", ["h2", "g"], ["e"]), n("Add", ["e", "r1"], ["a"]),
        n("MaxPool", ["a"], ["mp"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1), n("GlobalAveragePool", ["mp"], ["gp"]),
        n("Reshape", ["gp", "shape"], ["f"]), n("Gemm", ["f", "w5", "b5"], ["l"], transB=1),
        n("Softmax", ["l"], ["y"], axis=-1)]
    return model_of(nodes, {"x": (np.float32, ["N", 3, "H", "W"])}, ["y"], constants)
