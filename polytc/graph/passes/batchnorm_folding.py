"""Batch normalisation after a convolution becomes part of its weights.

    BatchNormalization(Conv(x, w, b), s, t, mean, variance)
        with x[1,3,8,8], constant w[4,3,3,3], constant b[4], constant s[4], constant t[4], constant mean[4],
             constant variance[4]
    ->  Conv(x, w', b')
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polytc.graph.ir import Graph, Node, consumers, without_dead_nodes
from polytc.graph.operators.dense.normalisation import folded


def merge_batchnorm(graph: Graph) -> Graph:
    """No BatchNormalization with constant statistics follows a convolution with constant weights that nothing else reads."""
    constants = dict(graph.constants)
    readers = consumers(graph)
    outputs = {v.name for v in graph.outputs}
    makers = {n.outputs[0]: n for n in graph.nodes}
    merged: dict[str, Node] = {}
    dropped: set[str] = set()
    for node in graph.nodes:
        conv = makers.get(node.inputs[0]) if node.op == "BatchNormalization" and len(node.inputs) == 5 else None
        if conv is None or not _mergeable(node, conv, constants):
            continue
        if conv.outputs[0] in outputs or len(readers[conv.outputs[0]]) > 1:
            continue
        try:
            weights, bias = _merged(node, conv, constants)
        except (ValueError, TypeError, IndexError):  # shapes that do not fit: specialisation says which
            continue
        if not (np.isfinite(weights).all() and np.isfinite(bias).all()):  # halves that a scale takes out of range
            continue
        names = (f"{node.outputs[0]}.weights", f"{node.outputs[0]}.bias")
        constants |= dict(zip(names, (weights, bias), strict=True))
        merged[conv.outputs[0]] = replace(conv, inputs=(conv.inputs[0], *names), outputs=(node.outputs[0],))
        dropped.add(node.outputs[0])
    nodes = [merged.get(n.outputs[0], n) for n in graph.nodes if not (n.op == "BatchNormalization" and n.outputs[0] in dropped)]
    return without_dead_nodes(replace(graph, nodes=tuple(nodes), constants=constants))


def _mergeable(norm: Node, conv: Node, constants: dict[str, np.ndarray]) -> bool:
    transposed_groups = conv.op == "ConvTranspose" and conv.attributes.get("group", 1) != 1
    return (conv.op in ("Conv", "ConvTranspose") and not transposed_groups and not norm.attributes.get("training_mode", 0)
            and not any(norm.outputs[1:]) and all(n in constants for n in (*norm.inputs[1:], *conv.inputs[1:]) if n))


def _merged(norm: Node, conv: Node, constants: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Weights and bias, computed in double precision."""
    scale, shift = folded([constants[n] for n in norm.inputs[1:5]], norm.attributes.get("epsilon", 1e-5))
    weights = constants[conv.inputs[1]]
    channels = 0 if conv.op == "Conv" else 1
    if any(constants[n].shape != (weights.shape[channels],) for n in norm.inputs[1:5]):
        raise ValueError("statistics of another number of channels")
    along = [1] * weights.ndim
    along[channels] = -1
    bias = constants[conv.inputs[2]] if len(conv.inputs) > 2 and conv.inputs[2] else np.zeros(1)
    with np.errstate(over="ignore"):
        return (weights * scale.reshape(along)).astype(weights.dtype), (bias * scale + shift).astype(weights.dtype)
