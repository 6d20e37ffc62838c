"""Random graphs that compute with shapes: one model at many sizes, in any order, and ONNX Runtime at each."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import polytc
from tests.graph.random_shapes import RandomGraph

POINTS = 10


@pytest.mark.part(48)
@pytest.mark.parametrize("seed", range(96))
def test_one_model_at_many_sizes(seed: int) -> None:
    graph = RandomGraph(seed, (6, 10, 14)[seed % 3])
    made = graph.model()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    model = polytc.load_onnx(made).compile(threads=1, symbolic=True)
    points = [graph.point() for _ in range(POINTS)]
    for point in (*points, *points[:3]):
        feeds = graph.feeds(point)
        try:
            wanted = session.run(None, feeds)
        except Exception:  # sizes that a node refuses
            continue
        for name, mine, other in zip((o.name for o in made.graph.output), model.run(None, feeds), wanted, strict=True):
            assert (mine.dtype, mine.shape) == (other.dtype, other.shape), (name, point)
            largest = np.abs(other).max(initial=1) if other.dtype.kind == "f" else 0
            np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-5 * largest, err_msg=f"{name} {point}")
