"""Algebraic simplification: sums with 0, products with 1, double negations, chains of integer constants and of reshapes.

    Relu(Neg(Neg(x)))                                   with x[3,4]
    ->  Relu(x)

    Mul(Mul(x, a), b)                                   with i32 x[3,4], constant i32 a[], constant i32 b[]
    ->  Mul(x, c')

Only what changes no bit: x + 0 is x for integers, but 0 for a float x of -0; chains of floats are rounded at each link.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polytc.graph.ir import Graph, Node, without_dead_nodes
from polytc.graph.passes.rewiring import pinned, rewired, sole_readers
from polytc.graph.ranks import ranks

_NEUTRAL = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1, "Pow": 1}
_INVOLUTIONS = frozenset({"Neg", "Not", "BitwiseNot"})
_IDEMPOTENT = frozenset({"Relu", "Abs", "Ceil", "Floor", "Round", "Sign"})
_VIEWS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})


def simplify(graph: Graph) -> Graph:
    """Nodes that do nothing, and pairs that do together what one does, are gone."""
    return _neutral(_chains(graph))


def _neutral(graph: Graph) -> Graph:
    """Reads through neutral operations, pairs of involutions and repeated idempotent ones."""
    fixed, rank = pinned(graph), ranks(graph)
    makers = {n.outputs[0]: n for n in graph.nodes}
    found: dict[str, str] = {}
    for node in graph.nodes:
        result = node.outputs[0]
        before = makers.get(node.inputs[0]) if node.inputs else None
        if result in fixed:
            continue
        if node.op in _NEUTRAL and len(node.inputs) == 2:
            kept = _untouched(node, graph, rank)
            if kept is not None:
                found[result] = kept
        elif before is not None and before.op == node.op and node.op in _INVOLUTIONS:
            found[result] = before.inputs[0]
        elif before is not None and before.op == node.op and node.op in _IDEMPOTENT:
            found[result] = before.outputs[0]
    return rewired(graph, found)


def _untouched(node: Node, graph: Graph, rank: dict[str, int]) -> str | None:
    """The operand that the node passes on."""
    a, b = node.inputs
    sides = [(a, b), (b, a)] if node.op in ("Add", "Mul") else [(a, b)]
    for kept, other in sides:
        number = graph.constants.get(other)
        if number is not None and number.size == 1 and number.ndim <= rank.get(kept, 0) and _is_neutral(number, node.op):
            return kept
    return None


def _is_neutral(number: np.ndarray, op: str) -> bool:
    """Does the operation with it give back every number, -0 too?"""
    if number.item() != _NEUTRAL[op]:
        return False
    return number.dtype.kind in "biu" or op not in ("Add", "Sub") or bool(np.signbit(number.item())) == (op == "Add")


def _chains(graph: Graph) -> Graph:
    """(x * a) * b -> x * (a b), likewise for sums, with integers of one number; Reshape reads below the views before it."""
    sole, constants = sole_readers(graph), dict(graph.constants)
    made: dict[str, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        changed = _merged(node, made, constants, sole) if node.op in ("Mul", "Add") else _reshaped(node, made, constants)
        made[changed.outputs[0]] = changed
        nodes.append(changed)
    if all(a is b for a, b in zip(nodes, graph.nodes, strict=True)):
        return graph
    return without_dead_nodes(replace(graph, nodes=tuple(nodes), constants=constants))


def _merged(node: Node, made: dict[str, Node], constants: dict[str, np.ndarray], sole: dict[str, Node]) -> Node:
    """The product (sum) with both constants in one, if the node before it is one that only this node reads."""
    variable, number = _by_number(node, constants)
    before = made.get(variable) if variable is not None else None
    if before is None or number is None or before.op != node.op or before.outputs[0] not in sole:
        return node
    inner, other = _by_number(before, constants)
    if inner is None or other is None or other.dtype != number.dtype or number.dtype.kind not in "iu":
        return node
    with np.errstate(all="ignore"):
        both = number * other if node.op == "Mul" else number + other
    name = f"{node.outputs[0]}.constant"
    constants[name] = np.asarray(both, number.dtype)
    return replace(node, inputs=(inner, name))


def _by_number(node: Node, constants: dict[str, np.ndarray]) -> tuple[str | None, np.ndarray | None]:
    """(operand, constant) of a node that has one constant operand of one number."""
    if len(node.inputs) == 2:
        for variable, other in (node.inputs, node.inputs[::-1]):
            number = constants.get(other)
            if number is not None and number.size == 1 and variable not in constants:
                return variable, number
    return None, None


def _reshaped(node: Node, made: dict[str, Node], constants: dict[str, np.ndarray]) -> Node:
    """A Reshape to a shape that copies no extent of its input needs only the elements, in whatever shape."""
    if node.op != "Reshape" or len(node.inputs) != 2:
        return node
    shape = constants.get(node.inputs[1])
    if shape is None or (shape == 0).any():
        return node
    source = node.inputs[0]
    while source in made and made[source].op in _VIEWS and made[source].inputs:
        source = made[source].inputs[0]
    return node if source == node.inputs[0] else replace(node, inputs=(source, node.inputs[1]))
