"""Single nodes on onnx's reference evaluator: constant folding, and what polytc leaves to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from polytc.graph.ir import Node
from polytc.graph.onnx.corrections import corrected


def evaluator(node: Node) -> Callable[[Sequence[Any]], list[Any]]:
    """The function from the values of the node's inputs to those of its outputs, which may be arrays, lists or None: onnx's,
    but for operators that it computes otherwise than they are defined.

    Raises what onnx raises for an operator that its evaluator does not have.
    """
    known = _onnx_evaluator(node)

    def run(values: Sequence[Any]) -> list[Any]:
        found = corrected(node, values, lambda other, given: _onnx_evaluator(other)(given))
        return known(values) if found is None else found
    return run


def _onnx_evaluator(node: Node) -> Callable[[Sequence[Any]], list[Any]]:
    domain, _, _ = node.op.rpartition("::")
    inputs = [f"x{i}" if n else "" for i, n in enumerate(node.inputs)]
    outputs = [f"y{i}" if n else "" for i, n in enumerate(node.outputs)]
    proto = node_of(node, inputs, outputs)
    info = onnx.helper.make_empty_tensor_value_info
    graph = onnx.helper.make_graph([proto], "node", [info(n) for n in inputs if n], [info(n) for n in outputs if n])
    opset = max(node.opset, 19) if node.op == "DequantizeLinear" else node.opset  # of older versions onnx's evaluator has none
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(domain, opset)])
    from onnx.reference import ReferenceEvaluator  # 12 MB, and not needed by most models

    known = ReferenceEvaluator(model)

    def run(values: Sequence[Any]) -> list[Any]:
        results = iter(known.run(None, {n: v for n, v in zip(inputs, values, strict=True) if n}))
        return [next(results) if n else None for n in outputs]
    return run


def node_of(node: Node, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    """A node without bodies as onnx has it, with other names of values."""
    attributes = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in node.attributes.items()}
    domain, _, op = node.op.rpartition("::")
    return onnx.helper.make_node(op, inputs, outputs, domain=domain or None, **attributes)


def model_of_node(node: onnx.NodeProto, arrays: Sequence[Any], version: int | None) -> onnx.ModelProto:
    """A model that consists of one node. arrays: of its inputs, in order; version: of its operator set, None for the newest."""
    infos = [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for n, a in zip((n for n in node.input if n), arrays, strict=True)]
    outputs = [onnx.helper.make_empty_tensor_value_info(n) for n in node.output if n]
    graph = onnx.helper.make_graph([node], "node", infos, outputs)
    opset = onnx.helper.make_opsetid(node.domain, version or onnx.defs.onnx_opset_version())
    return onnx.helper.make_model(graph, opset_imports=[opset])
