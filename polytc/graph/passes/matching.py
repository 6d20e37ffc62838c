"""Patterns over nodes: expressions of operators, numbers and names, found in a graph whichever way exporters wrote them.

    P("Mul", P("Mul", "x", 0.5), P("Add", P("Erf", P("Div", "x", 1.41421)), 1))

A string stands for any value, the same wherever it occurs; a number for a constant that holds it; `Scalar(name)` for any
constant of one number. Operands of Add and Mul may be in either order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from polytc.graph.ir import Graph, Node
from polytc.graph.passes.rewiring import pinned

_COMMUTATIVE = frozenset({"Add", "Mul"})


@dataclass(frozen=True)
class Scalar:
    """Any constant of one number, under a name."""

    name: str


@dataclass(frozen=True)
class P:
    """A node of operator `op` with these operands; `label` names it in the match."""

    op: str
    args: tuple[Term, ...]
    label: str = ""

    def __init__(self, op: str, *args: Term, label: str = "") -> None:
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "label", label)


Term: TypeAlias = "P | Scalar | str | float"


@dataclass(frozen=True)
class Match:
    """values: name -> value of the graph; scalars: name -> number; nodes: all that matched, by their first output; labels: name
    -> node."""

    values: Mapping[str, str] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    labels: Mapping[str, Node] = field(default_factory=dict)


class Matcher:
    """Finds patterns in one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers = {name: node for node in graph.nodes for name in node.outputs if name}
        self.fixed = pinned(graph)
        self.readers: dict[str, set[str]] = {}
        for node in graph.nodes:
            for name in node.inputs:
                self.readers.setdefault(name, set()).add(node.outputs[0])

    def at(self, node: Node, pattern: P) -> Match | None:
        """The pattern with its root at the node, if nothing outside of it reads what is computed on the way."""
        for match in self._node(node.outputs[0], pattern, Match()):
            inner = [name for first, n in match.nodes.items() if first != node.outputs[0] for name in n.outputs if name]
            if not any(name in self.fixed or not self.readers.get(name, set()) <= match.nodes.keys() for name in inner):
                return match
        return None

    def _term(self, value: str, term: Term, match: Match) -> Iterator[Match]:
        match term:
            case P():
                yield from self._node(value, term, match)
            case Scalar(name):
                number = self._number(value)
                if number is not None:
                    yield replace(match, scalars={**match.scalars, name: number})
            case str():
                if match.values.get(term, value) == value:
                    yield replace(match, values={**match.values, term: value})
            case _:
                number = self._number(value)
                if number is not None and math.isclose(number, term, rel_tol=self._tolerance(value)):
                    yield match

    def _node(self, value: str, pattern: P, match: Match) -> Iterator[Match]:
        node = self.makers.get(value)
        if node is None or node.op != pattern.op or len(node.inputs) < len(pattern.args):
            return
        labels = {**match.labels, pattern.label: node} if pattern.label else match.labels
        start = replace(match, nodes={**match.nodes, node.outputs[0]: node}, labels=labels)
        orders = [node.inputs, node.inputs[::-1]] if node.op in _COMMUTATIVE and len(node.inputs) == 2 else [node.inputs]
        for order in orders:
            yield from self._args(order, pattern.args, start)

    def _args(self, values: tuple[str, ...], terms: tuple[Term, ...], match: Match) -> Iterator[Match]:
        if not terms:
            yield match
            return
        for found in self._term(values[0], terms[0], match):
            yield from self._args(values[1:], terms[1:], found)

    def _tolerance(self, value: str) -> float:
        """By how much a constant may differ from a number that exporters computed and rounded to its type."""
        dtype = self.graph.constants[value].dtype
        return 4 * float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0

    def _number(self, value: str) -> float | None:
        array = self.graph.constants.get(value)
        if array is None or array.size != 1 or array.dtype.kind not in "fiu":
            return None
        return float(np.asarray(array).reshape(-1)[0])
