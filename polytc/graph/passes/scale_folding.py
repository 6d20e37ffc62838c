"""Products and sums with constants, one a channel, behind a convolution or product become part of its constant weights.

    Add(Mul(Conv(x, w, b), s), t)
        with x[1,3,8,8], constant w[4,3,3,3], constant b[4], constant s[4,1,1], constant t[4,1,1]
    ->  Conv(x, w', b')

    Mul(MatMul(x, w), s)                                with x[5,6], constant w[6,7], constant s[7]
    ->  MatMul(x, w')
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polytc.graph.ir import Graph, Node, without_dead_nodes
from polytc.graph.passes.rewiring import pinned

_LINEAR = frozenset({"Conv", "ConvTranspose", "MatMul"})


def merge_scales(graph: Graph) -> Graph:
    """Conv(x, w, b) * s + t -> Conv(x, w * s, b * s + t), for s and t of one number a channel, or one in all; MatMul(x, w) * s
    -> MatMul(x, w * s). The sums behind a MatMul stay: it has no bias. Weights are computed in double precision;
    factors that would make them infinite, or so small that they lose digits, stay behind the sum."""
    return _Merging(graph).run()


class _Merging:
    """One walk. makers: value -> the linear node, as far as it is merged, that computes it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants = dict(graph.constants)
        self.fixed = pinned(graph)
        self.reads: dict[str, int] = {}
        for node in graph.nodes:
            for name in node.inputs:
                self.reads[name] = self.reads.get(name, 0) + 1
        self.makers: dict[str, int] = {}
        self.nodes: list[Node] = []
        self.changed = False

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if not self.merge(node):
                if node.op in _LINEAR and self.mergeable(node):
                    self.makers[node.outputs[0]] = len(self.nodes)
                self.nodes.append(node)
        if not self.changed:
            return self.graph
        return without_dead_nodes(replace(self.graph, nodes=tuple(self.nodes), constants=self.constants))

    def mergeable(self, node: Node) -> bool:
        weights = self.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
        grouped = node.op == "ConvTranspose" and node.attributes.get("group", 1) != 1
        return (weights is not None and weights.dtype in (np.float32, np.float64) and not grouped
                and weights.ndim == (2 if node.op == "MatMul" else max(weights.ndim, 3))
                and all(n in self.constants for n in node.inputs[2:] if n))

    def merge(self, node: Node) -> bool:
        """Make the node part of the one before it, if it is such a product or sum."""
        if node.op not in ("Mul", "Add", "Sub", "Div") or len(node.inputs) != 2:
            return False
        a, b = node.inputs
        if node.op in ("Mul", "Add") and a in self.constants:
            a, b = b, a
        place, number = self.makers.get(a), self.constants.get(b)
        if place is None or number is None or self.reads[a] != 1 or a in self.fixed:
            return False
        linear = self.nodes[place]
        along = self.by_channel(linear, number)
        if along is None or (linear.op == "MatMul" and node.op in ("Add", "Sub")):
            return False
        with np.errstate(all="ignore"):
            merged = self.combined(linear, node, along)
        if merged is None:
            return False
        self.nodes[place] = merged
        self.makers[node.outputs[0]] = place
        self.changed = True
        return True

    def by_channel(self, linear: Node, number: np.ndarray) -> np.ndarray | None:
        """The constant as one number for each channel of the result, in double precision; None if it is not that."""
        weights = self.constants[linear.inputs[1]]
        matrix = linear.op == "MatMul"
        axis = 1 if matrix or linear.op == "ConvTranspose" else 0
        channels = weights.shape[axis]
        rank = 1 if matrix else weights.ndim  # a product may have any number of axes before its last
        if number.ndim > rank or number.dtype != weights.dtype:
            return None
        shape = (1,) * (rank - number.ndim) + number.shape
        place = 0 if matrix else 1
        if any(e != 1 for k, e in enumerate(shape) if k != place) or shape[place] not in (1, channels):
            return None
        return np.broadcast_to(number.astype(np.float64).reshape(-1), (channels,))

    def combined(self, linear: Node, node: Node, along: np.ndarray) -> Node | None:
        """The linear node with other weights, computing what `node` did."""
        weights = self.constants[linear.inputs[1]]
        bias = self.constants[linear.inputs[2]] if len(linear.inputs) > 2 and linear.inputs[2] else None
        axis = 0 if linear.op == "Conv" else 1
        if weights.shape[axis] != along.size or (bias is not None and bias.shape != along.shape):
            return None
        if node.op in ("Mul", "Div"):
            scale = along if node.op == "Mul" else 1 / along
            shape = [1] * weights.ndim
            shape[axis] = -1
            changed = weights * scale.reshape(shape)
            least = float(np.finfo(weights.dtype).tiny)
            if not np.isfinite(changed.astype(weights.dtype)).all() or ((changed != 0) & (abs(changed) < least)).any():
                return None
            inputs = [linear.inputs[0], self.constant(node, "weights", changed.astype(weights.dtype))]
            inputs += [self.constant(node, "bias", (bias * scale).astype(weights.dtype))] if bias is not None else []
        else:
            shift = along if node.op == "Add" else -along
            total = shift if bias is None else bias + shift
            inputs = [linear.inputs[0], linear.inputs[1], self.constant(node, "bias", total.astype(weights.dtype))]
        return replace(linear, inputs=tuple(inputs), outputs=(node.outputs[0],))

    def constant(self, node: Node, what: str, array: np.ndarray) -> str:
        name = f"{node.outputs[0]}.{what}"
        self.constants[name] = array
        return name
