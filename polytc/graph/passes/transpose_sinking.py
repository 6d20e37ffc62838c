"""Transpositions and reshapes move towards the end of the graph, through element-wise work, where they meet and cancel.

    Relu(Transpose(x, perm=[1, 0]))                     with x[3,4]
    ->  Transpose(Relu(x), perm=[1, 0])

    Transpose(Transpose(x, perm=[1, 2, 0]), perm=[1, 0, 2])     with x[3,4,5]
    ->  Transpose(x, perm=[2, 1, 0])

    MatMul(Transpose(Transpose(x, perm=[1, 0]), perm=[1, 0]), y)    with x[3,4], y[4,5]
    ->  MatMul(x, y)

What is left behind an element-wise node no longer stands between it and the product that makes its data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from polytc.graph.ir import Graph, Node, without_dead_nodes
from polytc.graph.passes.identities import drop_identities
from polytc.graph.passes.rewiring import sole_readers
from polytc.graph.ranks import BROADCAST, ranks

UNARY = frozenset(
    "Abs Acos Acosh Asin Asinh Atan Atanh Cast Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish IsInf IsNaN "
    "LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh "
    "ThresholdedRelu".split())


def sink_transposes(graph: Graph) -> Graph:
    """No transposition feeds another one, nor (alone, or with its like) an element-wise node; no Reshape a unary one."""
    return drop_identities(_Sinking(graph).run())


class _Sinking:
    """One walk in order, so that what sinks through one node meets the next."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants = dict(graph.constants)
        self.ranks = ranks(graph)
        self.sole = sole_readers(graph)
        self.made: dict[str, Node] = {}
        self.nodes: list[Node] = []

    def run(self) -> Graph:
        for node in self.graph.nodes:
            for each in self.turned(node):
                for name in each.outputs:
                    self.made[name] = each
                self.nodes.append(each)
        if len(self.nodes) == len(self.graph.nodes) and all(a is b for a, b in zip(self.nodes, self.graph.nodes, strict=True)):
            return self.graph
        return without_dead_nodes(replace(self.graph, nodes=tuple(self.nodes), constants=self.constants))

    def turned(self, node: Node) -> tuple[Node, ...]:
        """What stands in place of the node."""
        if node.op == "Transpose":
            return (self.composed(node),)
        if node.op in UNARY and len(node.inputs) == 1 and len(node.outputs) == 1:
            return self.through_unary(node)
        if node.op in BROADCAST and len(node.outputs) == 1:
            return self.through_broadcast(node)
        return (node,)

    def composed(self, node: Node) -> Node:
        """A transposition of a transposition is one of what is below."""
        before, perm = self.made.get(node.inputs[0]), self.perm(node)
        inner = self.perm(before) if before is not None and before.op == "Transpose" else None
        if before is None or perm is None or inner is None or len(inner) != len(perm):
            return node
        return replace(node, inputs=before.inputs, attributes={"perm": [inner[p] for p in perm]})

    def perm(self, node: Node) -> list[int] | None:
        """The axes of a transposition; reversed where it does not say."""
        given, rank = node.ints("perm"), self.ranks.get(node.inputs[0])
        if "perm" not in node.attributes:
            return list(range(rank))[::-1] if rank is not None else None
        return given if given is not None and sorted(given) == list(range(len(given))) else None

    def through_unary(self, node: Node) -> tuple[Node, ...]:
        mover = self.made.get(node.inputs[0])
        if mover is None or mover.op not in ("Transpose", "Reshape") or mover.outputs[0] not in self.sole:
            return (node,)
        return self.behind(node, mover, (mover.inputs[0],))

    def through_broadcast(self, node: Node) -> tuple[Node, ...]:
        """All operands are turned alike, or are constants, which are turned back."""
        movers = [self.made.get(n) for n in node.inputs]
        first = next((m for m in movers if m is not None and m.op == "Transpose"), None)
        perm = self.perm(first) if first is not None else None
        if first is None or perm is None:
            return (node,)
        inputs: list[str] = []
        for name, mover in zip(node.inputs, movers, strict=True):
            if mover is not None and mover.op == "Transpose" and self.perm(mover) == perm and name in self.sole:
                inputs.append(mover.inputs[0])
            elif name in self.constants and self.constants[name].ndim <= len(perm):
                inputs.append(self.turned_back(name, perm))
            else:
                return (node,)
        return self.behind(node, first, tuple(inputs))

    def turned_back(self, name: str, perm: list[int]) -> str:
        """The constant as it is to be read below the transposition."""
        array = self.constants[name]
        if array.size == 1:
            return name
        full = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
        new = f"{name}.turned{''.join(map(str, perm))}"
        self.constants[new] = np.ascontiguousarray(full.transpose(np.argsort(perm)))
        return new

    def behind(self, node: Node, mover: Node, inputs: tuple[str, ...]) -> tuple[Node, ...]:
        """The node on `inputs`, and the mover on its result."""
        inner = f"{node.outputs[0]}.before.{mover.op}"
        rank = self.ranks.get(mover.inputs[0])
        if rank is not None:
            self.ranks[inner] = rank
        perm = self.perm(mover) if mover.op == "Transpose" else None
        attributes: Mapping[str, object] = {"perm": perm} if perm is not None else mover.attributes
        return (replace(node, inputs=inputs, outputs=(inner,)),
                replace(mover, name=f"{mover.name}.{node.name}" if node.name else mover.name, inputs=(inner, *mover.inputs[1:]),
                        outputs=node.outputs, attributes=attributes))
