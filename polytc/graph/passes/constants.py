"""Constant folding: nodes that compute the same in every run become stored arrays."""

from __future__ import annotations

from dataclasses import replace

from polytc.graph.folding import evaluate, foldable
from polytc.graph.ir import Graph, Node, without_dead_nodes

_LARGEST = 1 << 24
"""Elements: a constant that would be larger than this (and than its inputs) is computed in each run instead."""


def fold_constants(graph: Graph) -> Graph:
    """No node of the result has only constants as inputs; what no output needs is gone."""
    known = dict(graph.constants)
    kept: list[Node] = []
    for node in graph.nodes:
        arrays = [known.get(n) for n in node.inputs]
        if not foldable(node) or any(a is None and n for a, n in zip(arrays, node.inputs, strict=True)):
            kept.append(node)
            continue
        results = evaluate(node, arrays)
        if sum(r.size for r in results) > max(_LARGEST, sum(a.size for a in arrays if a is not None)):
            kept.append(node)
        else:
            known |= {n: a for n, a in zip(node.outputs, results, strict=True) if n}
    return without_dead_nodes(replace(graph, nodes=tuple(kept), constants=known))
