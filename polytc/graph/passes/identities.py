"""Nodes that pass their input on unchanged are read through.

    Relu(Transpose(Dropout(Identity(x)), perm=[0, 1]))  with x[3,4]
    ->  Relu(x)
"""

from __future__ import annotations

from polytc.graph.ir import Graph, Node
from polytc.graph.passes.rewiring import pinned, renamed, rewired

_FOLDS = frozenset({"Concat", "Sum", "Max", "Min", "Mean"})


def drop_identities(graph: Graph) -> Graph:
    """No Identity, inference Dropout, Cast to the type that is there already, transposition that moves no axis, or fold of one
    input, except where an output of the graph would be an input, a constant or another output."""
    fixed = pinned(graph)
    idle = [node for node in graph.nodes if _passes_on(node, graph)]
    graph = rewired(graph, {node.outputs[0]: node.inputs[0] for node in idle if node.outputs[0] not in fixed})
    made = {name for node in graph.nodes for name in node.outputs}
    last = [n for n in graph.nodes if _passes_on(n, graph) and n.outputs[0] in fixed and n.inputs[0] in made - fixed]
    return renamed(graph, {node.inputs[0]: node.outputs[0] for node in last})


def _passes_on(node: Node, graph: Graph) -> bool:
    if not node.inputs or not node.inputs[0] or "::" in node.op:
        return False
    match node.op:
        case "Identity":
            return True
        case "Dropout":
            training = graph.constants.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
            unknown = len(node.inputs) > 2 and node.inputs[2] and training is None
            return not any(node.outputs[1:]) and not unknown and (training is None or not training.any()) and (
                node.opset >= 7 or bool(node.attributes.get("is_test")))
        case "Cast":
            value = graph.values.get(node.inputs[0])
            result = graph.values.get(node.outputs[0])
            return value is not None and result is not None and value.dtype is not None and value.dtype == result.dtype
        case "Transpose":
            perm = node.ints("perm")
            return perm is not None and perm == list(range(len(perm)))
        case op:
            return op in _FOLDS and len(node.inputs) == 1
