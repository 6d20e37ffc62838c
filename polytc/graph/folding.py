"""Evaluation of nodes whose inputs are all known, the same for graph passes and for specialisation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polytc.errors import ModelError, fail
from polytc.graph.fallback import OPTIONAL, SEQUENCES
from polytc.graph.ir import Node, bodies

RANDOM = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"})
"""Operators whose result is not decided by their inputs."""


def foldable(node: Node) -> bool:
    """May the node be evaluated once and for all? Not operators of other domains, on sequences, with bodies, or of random
    numbers."""
    passing = node.op in OPTIONAL and node.op != "Identity"
    return "::" not in node.op and node.op not in RANDOM | SEQUENCES and not passing and not bodies(node)


def evaluate(node: Node, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """The outputs of a foldable node; inputs: None where one is left out. Raises ModelError E608 or E609."""
    if node.op == "Constant":
        try:
            return [_literal(node)]
        except (TypeError, ValueError, OverflowError) as error:
            raise fail("E609", f"{node.label}: its value cannot be read: {error}", kind=ModelError) from error
    if node.op == "Identity" and inputs and inputs[0] is not None:
        return [inputs[0]]
    from polytc.graph.onnx import evaluate_node, result_types  # the onnx library is optional and slow to import

    try:
        return [np.ascontiguousarray(a) if a.ndim else a for a in evaluate_node(node, inputs)]
    except Exception as error:  # the evaluator raises whatever its numpy code raises, for tensors without elements above all
        types = result_types(node, [None if a is None else (a.dtype, a.shape, a) for a in inputs])
        if types and all(node.outputs) and all(0 in shape for _, shape in types):
            return [np.zeros(shape, dtype) for dtype, shape in types]
        raise fail("E609", f"{node.label} cannot be evaluated: {error}", kind=ModelError) from error


def _literal(node: Node) -> np.ndarray:
    """The value of a Constant node, from whichever attribute holds it."""
    for name, value in node.attributes.items():
        if name in ("value_float", "value_floats"):
            return np.array(value, np.float32)
        if name in ("value_int", "value_ints"):
            return np.array(value, np.int64)
        if name == "value" and isinstance(value, np.ndarray):
            return value
    raise fail("E608", f"{node.label}: this kind of constant ({', '.join(node.attributes)}) is not supported", kind=ModelError)
