"""Patterns: found in either order of operands, only where nobody else reads what is inside."""

from __future__ import annotations

import numpy as np
import pytest

from polytc.graph.passes.matching import Match, Matcher, P, Scalar
from tests.graph.passes.expressions import graph_of

SHAPES = {n: (np.dtype(np.float32), (3, 4)) for n in "xy"}
HALF_OF_SUM = P("Mul", 0.5, P("Add", "x", P("Exp", "x"), label="sum"))


def found(text: str, pattern: P) -> Match | None:
    graph = graph_of(text, {n: s for n, s in SHAPES.items() if n in text.replace("Exp", "")}, {})
    return Matcher(graph).at(next(n for n in graph.nodes if n.outputs[0] == "result0"), pattern)


@pytest.mark.parametrize("text", ["Mul(0.5, Add(x, Exp(x)))", "Mul(Add(x, Exp(x)), 0.5)", "Mul(Add(Exp(x), x), 0.5)"])
def test_operands_in_either_order(text: str) -> None:
    match = found(text, HALF_OF_SUM)
    assert match is not None
    assert match.values == {"x": "x"}
    assert match.labels["sum"].op == "Add"
    assert sorted(n.op for n in match.nodes.values()) == ["Add", "Exp", "Mul"]


@pytest.mark.parametrize("text", [
    "Mul(0.25, Add(x, Exp(x)))", "Mul(0.5, Sub(x, Exp(x)))", "Mul(0.5, Add(y, Exp(x)))",
    "a = Exp(x); Mul(0.5, Add(x, a)); Relu(a)"])
def test_other_numbers_operators_values_and_readers(text: str) -> None:
    """One name is one value everywhere; what somebody else reads must stay."""
    assert found(text, HALF_OF_SUM) is None


def test_operands_of_a_difference_keep_their_order() -> None:
    pattern = P("Sub", "x", Scalar("c"))
    match = found("Sub(x, 3.0)", pattern)
    assert match is not None
    assert match.scalars == {"c": 3.0}
    assert found("Sub(3.0, x)", pattern) is None
