"""A case as an ONNX model; constant inputs are stored in it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper

from versus.case import Case, Tensor

OPSET, IR_VERSION = 21, 10


def build(case: Case, inputs: Mapping[str, np.ndarray]) -> ModelProto:
    stored = {n: inputs[n] for n, t in case.inputs.items() if t.constant} | dict(case.onnx_constants)
    variable = {n: t for n, t in case.inputs.items() if not t.constant}
    nodes = [helper.make_node(n.op, n.inputs.split(), n.outputs.split(), **n.attributes) for n in case.onnx]
    graph = helper.make_graph(nodes, "case", [_value(*item) for item in variable.items()],
                              [_value(*item) for item in case.outputs.items()],
                              [numpy_helper.from_array(a, n) for n, a in stored.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def _value(name: str, t: Tensor) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(t.dtype)), t.shape)
