"""Grouping: operators that exporters wrote out in primitives get their names back, and with them their text.

    Mul(Mul(x, 0.5), Add(Erf(Div(x, 1.4142135)), 1.0))   with x[3,4]
    ->  Gelu(x)

Gelu (both forms), Swish, HardSwish, Mish, LayerNormalization and RMSNormalization. The text of the named operator is the better
one: it reads its input once, and its statements keep together when programs are formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from polytc.graph.ir import Graph, Node, without_dead_nodes
from polytc.graph.passes.matching import Match, Matcher, P, Scalar, Term
from polytc.graph.ranks import ranks

_NEWEST = 24
"""The version of the operator set that has all the named operators."""

_ROOT2 = math.sqrt(2)
_TANH = math.sqrt(2 / math.pi)


def group_patterns(graph: Graph) -> Graph:
    """The graph with named operators where their definitions stood."""
    matcher, rank = Matcher(graph), ranks(graph)
    nodes, constants = [], dict(graph.constants)
    for node in graph.nodes:
        nodes.append(_named(node, matcher, rank, constants) or node)
    if all(a is b for a, b in zip(nodes, graph.nodes, strict=True)):
        return graph
    return without_dead_nodes(replace(graph, nodes=tuple(nodes), constants=constants))


def _named(node: Node, matcher: Matcher, rank: Mapping[str, int], constants: dict[str, np.ndarray]) -> Node | None:
    """The operator whose definition ends in the node."""
    for pattern, build in _PATTERNS.get(node.op, ()):
        match = matcher.at(node, pattern)
        made = build(node, match, rank, constants) if match is not None else None
        if made is not None:
            return made
    return None


Build = Callable[[Node, Match, Mapping[str, int], dict[str, np.ndarray]], Node | None]


# ---- activations

def _activation(op: str, **attributes: object) -> Build:
    def build(node: Node, match: Match, rank: Mapping[str, int], constants: dict[str, np.ndarray]) -> Node:
        return replace(node, op=op, inputs=(match.values["x"],), attributes=attributes, opset=_NEWEST)
    return build


def _half_products(x: Term, factor: Term) -> list[P]:
    """0.5 * x * factor in the orders in which it is written."""
    return [P("Mul", P("Mul", x, 0.5), factor), P("Mul", P("Mul", x, factor), 0.5), P("Mul", x, P("Mul", factor, 0.5)),
            P("Mul", P("Div", x, 2), factor)]


def _gelus() -> list[P]:
    erfs = [P("Erf", P("Div", "x", _ROOT2)), P("Erf", P("Mul", "x", 1 / _ROOT2))]
    return [p for erf in erfs for p in _half_products("x", P("Add", erf, 1))]


def _tanh_gelus() -> list[P]:
    cubes = [P("Pow", "x", 3), P("Mul", P("Mul", "x", "x"), "x")]
    inner = [P("Mul", P("Add", "x", P("Mul", cube, 0.044715)), _TANH) for cube in cubes]
    inner += [P("Mul", P("Mul", "x", _TANH), P("Add", P("Mul", P("Mul", "x", "x"), 0.044715), 1))]
    return [p for each in inner for p in _half_products("x", P("Add", P("Tanh", each), 1))]


def _hard_swish(node: Node, match: Match, rank: Mapping[str, int], constants: dict[str, np.ndarray]) -> Node | None:
    given = match.labels["gate"].attributes
    if np.float32(given.get("alpha", 0.2)) != np.float32(1 / 6) or given.get("beta", 0.5) != 0.5:
        return None
    return replace(node, op="HardSwish", inputs=(match.values["x"],), attributes={}, opset=_NEWEST)


# ---- normalisations

def _mean(of: Term, label: str) -> P:
    return P("ReduceMean", of, label=label)


def _layer_norms() -> list[P]:
    """(x - mean) / sqrt(mean((x - mean)^2) + e) * scale + shift."""
    centred = P("Sub", "x", _mean("x", "mean"))
    squares: list[Term] = [P("Pow", centred, 2), P("Mul", centred, centred)]
    roots = [P("Sqrt", P("Add", _mean(square, "variance"), Scalar("epsilon"))) for square in squares]
    normal = [P("Div", centred, root) for root in roots]
    normal += [P("Mul", centred, P("Reciprocal", root)) for root in roots]
    return [P("Add", P("Mul", each, "scale"), "shift") for each in normal]


def _rms_norms() -> list[P]:
    squares: list[Term] = [P("Pow", "x", 2), P("Mul", "x", "x")]
    roots = [P("Sqrt", P("Add", _mean(square, "variance"), Scalar("epsilon"))) for square in squares]
    normal = [P("Div", "x", root) for root in roots]
    normal += [P("Mul", "x", P("Reciprocal", root)) for root in roots]
    normal += [P("Mul", "x", P("Div", 1, root)) for root in roots]
    return [P("Mul", each, "scale") for each in normal]


def _normalisation(op: str, *names: str) -> Build:
    def build(node: Node, match: Match, rank: Mapping[str, int], constants: dict[str, np.ndarray]) -> Node | None:
        axes = {_last_axis(match.labels[n], rank, constants) for n in ("mean", "variance") if n in match.labels}
        vectors = [constants.get(match.values[n]) for n in names]
        if axes != {True} or any(v is None or v.ndim != 1 or v.size == 1 for v in vectors):
            return None
        inputs = (match.values["x"], *(match.values[n] for n in names))
        attributes = {"axis": -1, "epsilon": match.scalars["epsilon"]}
        return replace(node, op=op, inputs=inputs, attributes=attributes, opset=_NEWEST)
    return build


def _last_axis(mean: Node, rank: Mapping[str, int], constants: Mapping[str, np.ndarray]) -> bool:
    """Does a ReduceMean go along the last axis alone, and keep it?"""
    axes = mean.ints("axes")
    if axes is None and len(mean.inputs) > 1:
        given = constants.get(mean.inputs[1])
        axes = None if given is None else [int(a) for a in given.reshape(-1)]
    last = (-1, rank.get(mean.inputs[0], 0) - 1)
    return bool(mean.attributes.get("keepdims", 1)) and axes is not None and len(axes) == 1 and axes[0] in last


def _table() -> dict[str, list[tuple[P, Build]]]:
    """operator of the root -> patterns with what to build."""
    rows: list[tuple[P, Build]] = [
        *((p, _activation("Gelu", approximate="none")) for p in _gelus()),
        *((p, _activation("Gelu", approximate="tanh")) for p in _tanh_gelus()),
        (P("Mul", "x", P("Sigmoid", "x")), _activation("Swish", alpha=1.0)),
        (P("Mul", "x", P("HardSigmoid", "x", label="gate")), _hard_swish),
        (P("Mul", "x", P("Tanh", P("Softplus", "x"))), _activation("Mish")),
        *((p, _normalisation("LayerNormalization", "scale", "shift")) for p in _layer_norms()),
        *((p, _normalisation("RMSNormalization", "scale")) for p in _rms_norms())]
    table: dict[str, list[tuple[P, Build]]] = {}
    for pattern, build in rows:
        table.setdefault(pattern.op, []).append((pattern, build))
    return table


_PATTERNS = _table()
