"""Numbers of axes, told by the operators: never one that is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from polytc.graph.ranks import ranks
from tests.graph.passes.expressions import graph_of

INPUTS = {"x": (np.dtype(np.float32), (2, 3, 4)), "w": (np.dtype(np.float32), (4, 5)), "v": (np.dtype(np.float32), (4,))}


@pytest.mark.parametrize(("text", "rank"), [
    ("Relu(x)", 3), ("Add(x, v)", 3), ("MatMul(x, w)", 3), ("Gemm(w, w, transB=1)", 2), ("Flatten(x)", 2),
    ("ReduceSum(x)", 3), ("ReduceSum(x, keepdims=0)", None), ("Transpose(x, perm=[2, 0, 1])", 3), ("MatMul(x, v)", None),
    ("Relu(Reshape(x, s))", None)])
def test_ranks(text: str, rank: int | None) -> None:
    graph = graph_of(text, {n: s for n, s in INPUTS.items() if n in text}, {"s": np.array([4, 6])} if "s)" in text else {})
    found = ranks(graph)
    assert found.get("result0") == rank
    assert all(found[v.name] == len(v.shape or ()) for v in graph.inputs)
