"""Types and shapes of a node's results by onnx's shape inference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.shape_inference
from onnx import numpy_helper

from polytc.graph.ir import Node
from polytc.graph.onnx.node_evaluator import node_of

Known = tuple[np.dtype, tuple[int, ...], "np.ndarray | None"]
"""Element type, shape, and the value where it is known."""


def result_types(node: Node, inputs: Sequence[Known | None]) -> list[tuple[np.dtype, tuple[int, ...]]] | None:
    """Of the outputs that have names; None where onnx does not know one of them. inputs: None where one is left out."""
    try:
        found = _inferred(node, inputs)
        return [_type(found[n]) for n in node.outputs if n]
    except Exception:  # whatever onnx's C++ code raises: it does not know
        return None


def refused_by_inference(node: Node, inputs: Sequence[Known | None]) -> str | None:
    """Why onnx says that a node does not fit its inputs; None if it does, or if onnx does not know."""
    try:
        _inferred(node, inputs)
    except onnx.shape_inference.InferenceError as error:
        return str(error).strip()
    except Exception:  # whatever else onnx's C++ code raises
        return None
    return None


def _inferred(node: Node, inputs: Sequence[Known | None]) -> dict[str, onnx.TypeProto]:
    """Raises what onnx's C++ code raises."""
    domain, _, op = node.op.rpartition("::")
    given = {n: k for n, k in zip(node.inputs, inputs, strict=True) if n and k is not None}
    types = {n: onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(t), s)
             for n, (t, s, _) in given.items()}
    data = {n: numpy_helper.from_array(v, n) for n, (_, _, v) in given.items() if v is not None and v.size < 64}
    found: dict[str, onnx.TypeProto] = onnx.shape_inference.infer_node_outputs(
        onnx.defs.get_schema(op, node.opset, domain), node_of(node, list(node.inputs), list(node.outputs)), types, data,
        opset_imports=[onnx.helper.make_opsetid(domain, node.opset)])
    return found


def _type(t: onnx.TypeProto) -> tuple[np.dtype, tuple[int, ...]]:
    """Raises ValueError where an extent is not known."""
    if not t.tensor_type.HasField("shape") or any(not d.HasField("dim_value") for d in t.tensor_type.shape.dim):
        raise ValueError("the shape is not known")
    return onnx.helper.tensor_dtype_to_np_dtype(t.tensor_type.elem_type), tuple(d.dim_value for d in t.tensor_type.shape.dim)
