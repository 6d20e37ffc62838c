"""Changing a graph by saying which value stands for which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polytc.graph.ir import Graph, Node, without_dead_nodes


def pinned(graph: Graph) -> set[str]:
    """Values that must keep their names: outputs of the graph, and what bodies of nodes read from around them."""
    found = {v.name for v in graph.outputs}
    todo = [a for n in graph.nodes for a in n.attributes.values() if isinstance(a, Graph)]
    while todo:
        body = todo.pop()
        found.update(v.name for v in body.outputs)
        for node in body.nodes:
            found.update(node.inputs)
            todo += [a for a in node.attributes.values() if isinstance(a, Graph)]
    return found


def rewired(graph: Graph, stands_for: Mapping[str, str]) -> Graph:
    """The graph in which each key is read under the name of its value, and what nobody needs any more is gone.

    Pinned values keep their nodes. The graph itself where there is nothing to do.
    """
    if not stands_for:
        return graph

    def final(name: str) -> str:
        while name in stands_for:
            name = stands_for[name]
        return name

    nodes = [node if not stands_for.keys() & set(node.inputs) else replace(node, inputs=tuple(map(final, node.inputs)))
             for node in graph.nodes]
    return without_dead_nodes(replace(graph, nodes=tuple(nodes)))


def renamed(graph: Graph, names: Mapping[str, str]) -> Graph:
    """The graph in which what was computed under each key is computed under the key's value; nodes that did nothing but give it
    that name are gone."""
    if not names:
        return graph
    nodes = []
    for node in graph.nodes:
        if node.outputs[0] not in names.values():
            inputs, outputs = (tuple(names.get(n, n) for n in each) for each in (node.inputs, node.outputs))
            nodes.append(replace(node, inputs=inputs, outputs=outputs))
    return replace(graph, nodes=tuple(nodes))


def sole_readers(graph: Graph) -> dict[str, Node]:
    """value -> the one node that reads it, and reads it once, of values that are not pinned."""
    count: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            count.setdefault(name, []).append(node)
    fixed = pinned(graph)
    return {name: nodes[0] for name, nodes in count.items() if len(nodes) == 1 and name not in fixed}
