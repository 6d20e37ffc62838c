"""Which value stands for which: readers follow, dead nodes go, and outputs keep their names."""

from __future__ import annotations

import numpy as np

from polytc.graph.passes.rewiring import pinned, renamed, rewired, sole_readers
from tests.graph.passes.expressions import graph_of

X = {"x": (np.dtype(np.float32), (3, 4))}


def test_readers_follow_and_dead_nodes_go() -> None:
    graph = graph_of("a = Relu(x); b = Neg(a); Exp(b)", X, {})
    made = rewired(graph, {"b": "a"})
    assert [(n.op, n.inputs) for n in made.nodes] == [("Relu", ("x",)), ("Exp", ("a",))]
    chain = rewired(graph, {"b": "a", "a": "x"})
    assert [(n.op, n.inputs) for n in chain.nodes] == [("Exp", ("x",))]
    assert rewired(graph, {}) is graph


def test_outputs_keep_their_nodes() -> None:
    graph = graph_of("a = Relu(x); Identity(a)", X, {})
    assert pinned(graph) == {"result0"}
    assert rewired(graph, {"result0": "a"}).nodes == graph.nodes


def test_a_result_gets_the_name_of_its_copy() -> None:
    graph = graph_of("a = Relu(x); Identity(a)", X, {})
    made = renamed(graph, {"a": "result0"})
    assert [(n.op, n.outputs) for n in made.nodes] == [("Relu", ("result0",))]


def test_sole_readers() -> None:
    graph = graph_of("a = Relu(x); b = Neg(a); c = Mul(b, b); Add(c, a)", X, {})
    assert {name: node.op for name, node in sole_readers(graph).items()} == {"x": "Relu", "c": "Add"}
