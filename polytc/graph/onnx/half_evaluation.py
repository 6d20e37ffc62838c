"""Nodes of halves on onnx's evaluator: computed in f32 and rounded once, as compiled nodes are.

    Gelu(-3.127 in f16)    ->  -0.00276, and not -0.00305, the half that onnx's function has of 1 + erf(x) in halves

What only moves elements, and what looks at their types (Cast, BitCast), stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

from polytc.graph.ir import Node
from polytc.graph.onnx.cropping import cropped
from polytc.graph.onnx.node_evaluator import evaluator
from polytc.graph.onnx.shape_inference import result_types
from polytc.program.scalars import from_numpy

MOVING = frozenset(("Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad", "Reshape",
                    "Shape", "Size", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"))
"""Operators that compute nothing: large weights go through them as they are."""


def evaluate_node(node: Node, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """The outputs of a standard operator; inputs: one array for each input of the node, None where it is left out."""
    return [np.empty(0) if r is None else np.asarray(r) for r in evaluate_values(node, cropped(node, inputs))]


def evaluate_values(node: Node, inputs: Sequence[Any]) -> list[Any]:
    """The same for values that may be arrays, sequences or None."""
    return _rounded_once(node, inputs, lambda values: evaluator(node)(values))


def _rounded_once(node: Node, inputs: Sequence[Any], evaluate: Callable[[Sequence[Any]], list[Any]]) -> list[Any]:
    """The outputs of a node, which `evaluate` computes in the types that it is given."""
    if node.op in MOVING or not any(isinstance(a, np.ndarray) and _half(a.dtype) for a in inputs):
        return evaluate(inputs)
    wide = [a.astype(np.float32) if isinstance(a, np.ndarray) and _half(a.dtype) else a for a in inputs]
    types, wide_types = _types(node, inputs), _types(node, wide)
    if types is None:
        types = _by_variables(node, inputs)
        if all(t is None for t in types):
            return evaluate(inputs)
    elif not any(t is not None and _half(t) for t in types) or wide_types != [_wider(t) for t in types]:
        return evaluate(inputs)
    named = iter(types)
    with np.errstate(over="ignore"):  # what is beyond the halves is infinite
        return [_as(r, next(named)) if n else r for n, r in zip(node.outputs, evaluate(wide), strict=True)]


def _half(dtype: np.dtype) -> bool:
    known = from_numpy(dtype)
    return known is not None and known.is_half


def _wider(dtype: np.dtype | None) -> np.dtype | None:
    return np.dtype(np.float32) if dtype is not None and _half(dtype) else dtype


def _as(result: Any, dtype: np.dtype | None) -> Any:
    return result if dtype is None else np.asarray(result).astype(dtype)


def _types(node: Node, inputs: Sequence[Any]) -> list[np.dtype | None] | None:
    """Of the outputs that have names; None where onnx does not know them."""
    if not all(a is None or isinstance(a, np.ndarray) for a in inputs):
        return None
    found = result_types(node, [None if a is None else (a.dtype, a.shape, a) for a in inputs])
    return [t for t, _ in found] if found is not None else None


def _by_variables(node: Node, inputs: Sequence[Any]) -> list[np.dtype | None]:
    """Of the outputs that have names, where onnx writes the same variable for their type and for that of an input of halves;
    None for others."""
    domain, _, op = node.op.rpartition("::")
    try:
        schema = onnx.defs.get_schema(op, node.opset, domain)
    except onnx.defs.SchemaError:
        return []

    def variable(formal: Sequence[Any], k: int) -> str:
        return str(formal[min(k, len(formal) - 1)].type_str)  # the last one may stand for any number
    known = {variable(schema.inputs, k): a.dtype for k, a in enumerate(inputs) if isinstance(a, np.ndarray) and _half(a.dtype)}
    return [known.get(variable(schema.outputs, k)) for k, n in enumerate(node.outputs) if n]
