"""Constant folding: nodes that compute the same in every run become stored arrays.

    MatMul(x, Exp(Transpose(w)))                        with x[3,4], constant w[5,4]
    ->  MatMul(x, w')
"""

from __future__ import annotations

from dataclasses import replace

from polytc.graph.evaluation.folding import TooLarge, Unable, evaluate, known_early
from polytc.graph.ir import Graph, Node, without_dead_nodes
from polytc.program.traces.values import any_traced

_LARGEST = 1 << 26
"""Bytes: a constant that would be larger than this (and than its inputs) is computed in each run instead."""


def fold_constants(graph: Graph) -> Graph:
    """No node of the result has only constants as inputs, but for those that `known_early` excepts or that onnx's evaluator
    cannot compute; what no output needs is gone."""
    known = dict(graph.constants)
    kept: list[Node] = []
    for node in graph.nodes:
        arrays = [known.get(n) for n in node.inputs]
        if not known_early(node) or any_traced(tuple(node.attributes.get("value_ints") or ())) or any(
                a is None and n for a, n in zip(arrays, node.inputs, strict=True)):
            kept.append(node)
            continue
        most = max(_LARGEST, sum(a.nbytes for a in arrays if a is not None))
        try:
            results = evaluate(node, arrays, most)
        except (TooLarge, Unable):
            kept.append(node)
            continue
        if sum(r.nbytes for r in results) > most:
            kept.append(node)
        else:
            known |= {n: a for n, a in zip(node.outputs, results, strict=True) if n}
    return without_dead_nodes(replace(graph, nodes=tuple(kept), constants=known))
