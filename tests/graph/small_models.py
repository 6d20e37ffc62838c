"""ONNX models of a few nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model_of(nodes: Sequence[onnx.NodeProto], inputs: dict[str, Any], outputs: Sequence[str],
             constants: dict[str, np.ndarray] | None = None, opset: int = 21) -> onnx.ModelProto:
    """A model whose inputs are given as (dtype, shape) pairs or example arrays; types of the outputs are left open."""
    infos = []
    for name, spec in inputs.items():
        dtype, shape = (spec.dtype, spec.shape) if isinstance(spec, np.ndarray) else spec
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape))
    results = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs]
    graph = helper.make_graph(list(nodes), "test", infos, results,
                              [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()])
    for o in graph.output:
        o.ClearField("type")
    return helper.make_model(graph, opset_imports=[
        helper.make_opsetid("", opset), *(helper.make_opsetid(n.domain, 1) for n in nodes if n.domain)], ir_version=10)
