"""Common subexpressions: nodes that compute the same from the same values are one node, equal constants one constant.

    Mul(Exp(x), Add(Exp(x), x))                         with x[3,4]
    ->  a = Exp(x);  Mul(a, Add(a, x))
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from polytc.graph.evaluation.folding import RANDOM
from polytc.graph.ir import Graph, Node
from polytc.graph.passes.rewiring import pinned, rewired

_LARGEST = 1 << 16
"""Bytes: larger constants are not compared with each other."""


def merge_duplicates(graph: Graph) -> Graph:
    """No two nodes have the same operator, attributes and inputs; random numbers and nodes with bodies stay apart."""
    fixed = pinned(graph)
    merged: dict[str, str] = {}
    first: dict[object, str] = {}
    for name, array in graph.constants.items():
        if array.nbytes <= _LARGEST and array.dtype.kind != "O":
            owner = first.setdefault(("constant", array.dtype.str, array.shape, array.tobytes()), name)
            if owner != name and name not in fixed:
                merged[name] = owner
    seen: dict[object, Node] = {}
    for node in graph.nodes:
        key = _key(node, merged)
        twin = seen.setdefault(key, node) if key is not None else node
        if twin is not node and len(twin.outputs) == len(node.outputs) and not fixed.intersection(node.outputs):
            pairs = zip(node.outputs, twin.outputs, strict=True)
            if all(bool(a) <= bool(b) for a, b in zip(node.outputs, twin.outputs, strict=True)):
                merged |= {a: b for a, b in pairs if a}
    return rewired(graph, merged)


def _key(node: Node, merged: dict[str, str]) -> object:
    """What decides the results of a node; None for one that is always its own."""
    if node.op in RANDOM or "::" in node.op or any(isinstance(a, Graph) for a in node.attributes.values()):
        return None
    if node.op == "Dropout":
        return None
    attributes = tuple((k, _frozen(v)) for k, v in sorted(node.attributes.items()))
    return node.op, node.opset, tuple(merged.get(n, n) for n in node.inputs), attributes


def _frozen(value: Any) -> object:
    match value:
        case np.ndarray():
            return value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).digest()
        case list() | tuple():
            return tuple(map(_frozen, value))
        case int() | float() | str() | bytes():
            return type(value).__name__, repr(value)
        case _:
            return id(value)
