"""Evaluate one node on known inputs with onnx's reference evaluator: what constant folding uses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from polytc.graph.ir import Node


def evaluate_node(node: Node, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """The outputs of a standard operator; inputs: one array for each input of the node, None where it is left out."""
    if node.op == "GatherElements":  # the evaluator fails where the two inputs differ in extent
        data, places = (np.asarray(a) for a in inputs)
        axis = node.attributes.get("axis", 0)
        if places.size and (places.min() < -data.shape[axis] or places.max() >= data.shape[axis]):
            raise IndexError(f"an index is out of range for axis {axis} of extent {data.shape[axis]}")
        return [np.take_along_axis(data, places % data.shape[axis], axis)]
    attributes = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in node.attributes.items()}
    domain, _, op = node.op.rpartition("::")
    proto = onnx.helper.make_node(op, list(node.inputs), list(node.outputs), domain=domain or None, **attributes)
    info = onnx.helper.make_empty_tensor_value_info
    names = dict.fromkeys(n for n in node.inputs if n)
    graph = onnx.helper.make_graph([proto], "fold", [info(n) for n in names], [info(n) for n in node.outputs if n])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(domain, node.opset)])
    feeds = {n: a for n, a in zip(node.inputs, inputs, strict=True) if n and a is not None}
    results = ReferenceEvaluator(model).run(None, feeds)
    by_name = dict(zip((n for n in node.outputs if n), (np.asarray(r) for r in results), strict=True))
    return [by_name.get(n, np.empty(0)) for n in node.outputs]
