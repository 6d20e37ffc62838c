"""Constant folding: nodes that compute the same in every run become stored arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polytc.errors import ModelError, fail
from polytc.graph.ir import Graph, Node, without_dead_nodes
from polytc.graph.onnx import evaluate_node

_LARGEST = 1 << 24
"""Elements: a constant that would be larger than this (and than its inputs) is computed in each run instead."""

_KEPT = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"})


def fold_constants(graph: Graph) -> Graph:
    """No node of the result has only constants as inputs; what no output needs is gone."""
    known = dict(graph.constants)
    kept: list[Node] = []
    for node in graph.nodes:
        arrays = [known.get(n) for n in node.inputs]
        body = any(isinstance(v, Graph) for v in node.attributes.values())
        if body or node.op in _KEPT or any(a is None and n for a, n in zip(arrays, node.inputs, strict=True)):
            kept.append(node)
            continue
        results = _evaluate(node, arrays)
        if sum(r.size for r in results) > max(_LARGEST, sum(a.size for a in arrays if a is not None)):
            kept.append(node)
        else:
            known |= {n: a for n, a in zip(node.outputs, results, strict=True) if n}
    return without_dead_nodes(replace(graph, nodes=tuple(kept), constants=known))


def _evaluate(node: Node, arrays: list[np.ndarray | None]) -> list[np.ndarray]:
    if node.op == "Constant":
        return [_literal(node)]
    if node.op == "Identity" and arrays[0] is not None:
        return [arrays[0]]
    try:
        return [np.ascontiguousarray(a) if a.ndim else a for a in evaluate_node(node, arrays)]
    except Exception as error:  # the evaluator raises whatever its numpy code raises
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
