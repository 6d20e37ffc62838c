"""Nodes that onnx's own evaluator or ONNX Runtime runs: which they are, why, and how they are reported."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from polytc.errors import ModelError, fail
from polytc.graph.hosts import Host, Work
from polytc.graph.ir import Graph, Node, bodies, foreign, runner

SEQUENCES = frozenset({
    "SequenceConstruct", "SequenceEmpty", "SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength",
    "SplitToSequence", "ConcatFromSequence"})
"""Operators on values that are no tensors."""

OPTIONAL: dict[str, Work] = {
    "Optional": lambda *values: [values[0] if values else None],
    "OptionalHasElement": lambda *values: [np.array(bool(values) and values[0] is not None)],
    "OptionalGetElement": lambda value: [_there(value)], "Identity": lambda value: [value]}
"""Operators that hand a value on whatever it is. An optional value is the value, or None."""

NO_TEXT = "polytc has no text for it"

STRINGS = frozenset({"StringNormalizer", "StringConcat", "StringSplit", "RegexFullMatch"})


class NoDefinition(Exception):
    """There is a definition of an operator by others, but none for this node; the message says why."""


def reason(node: Node) -> str:
    """Why a node that has no row is left to onnx's evaluator or to ONNX Runtime."""
    if node.op in SEQUENCES:
        return "it works on sequences"
    if node.op in STRINGS:
        return "it works on strings"
    if node.op.startswith("ai.onnx.ml::"):
        return "it belongs to ai.onnx.ml"
    from polytc.graph import onnx  # the library is optional and slow to import

    return onnx.why_not(node) or NO_TEXT


def defined_later(node: Node) -> bool:
    """Is a node, by what is known of it without its inputs, one whose definition by others can be written with them?"""
    from polytc.graph import onnx  # the library is optional and slow to import

    return onnx.why_not(node) is None


def function_body(node: Node, types: Sequence[tuple[np.dtype, tuple[int, ...]] | None]) -> Graph | None:
    """The definition of an operator by others, see graph.onnx.functions and graph.onnx.contrib. Raises NoDefinition."""
    from polytc.graph import onnx  # the library is optional and slow to import

    try:
        return onnx.definition(node, types) or onnx.function_body(node, types)
    except onnx.NoText as why:
        raise NoDefinition(str(why)) from why


def evaluable(node: Node) -> bool:
    """Does onnx's evaluator have the operator, or, for one that is not onnx's own, ONNX Runtime?"""
    from polytc.graph import onnx  # the onnx library is optional and slow to import

    if foreign(node.op):
        return not bodies(node) and onnx.runtime_has(node.op)
    try:
        onnx.evaluator(node)
    except Exception:  # whatever it raises for what it does not know
        return False
    return True


def host(node: Node, why: str) -> Host:
    """The step that runs a node by onnx's evaluator, or, for an operator that is not onnx's own, by ONNX Runtime. Raises
    ModelError E605 where that does not have it either."""
    from polytc.graph import onnx  # the onnx library is optional and slow to import

    if not evaluable(node):
        raise fail("E605", f"polytc does not have the operator {node.op} ({node.label}), and {runner(node.op)} cannot run it",
                   kind=ModelError, notes=[f"why polytc has no code for it: {why}"])
    run = onnx.runtime_evaluator(node) if foreign(node.op) else partial(onnx.evaluate_values, node)

    def work(*values: Any) -> Sequence[Any]:
        return [_array(v) for v in run(values)]
    return Host(node.label, node.op, work, node.inputs, node.outputs, why)


def _there(value: Any) -> Any:
    if value is None:
        raise ValueError("the optional value is empty")
    return value


def _array(value: Any) -> Any:
    """Numbers of numpy as arrays of rank 0; sequences and missing values as they are."""
    return np.asarray(value) if isinstance(value, np.generic) else value
