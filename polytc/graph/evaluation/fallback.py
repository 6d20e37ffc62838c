"""Nodes that onnx's own evaluator runs: which they are, why, and how they are reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polytc.errors import ModelError, fail
from polytc.graph.hosts import Host, Work
from polytc.graph.ir import Graph, Node

SEQUENCES = frozenset({
    "SequenceConstruct", "SequenceEmpty", "SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength",
    "SplitToSequence", "ConcatFromSequence"})
"""Operators on values that are no tensors."""

OPTIONAL: dict[str, Work] = {
    "Optional": lambda *values: [values[0] if values else None],
    "OptionalHasElement": lambda *values: [np.array(bool(values) and values[0] is not None)],
    "OptionalGetElement": lambda value: [_there(value)], "Identity": lambda value: [value]}
"""Operators that hand a value on whatever it is. An optional value is the value, or None."""

STRINGS = frozenset({"StringNormalizer", "StringConcat", "StringSplit", "RegexFullMatch"})

def reason(node: Node) -> str:
    """Why a node that has no row is left to onnx's evaluator."""
    if node.op in SEQUENCES:
        return "it works on sequences"
    if node.op in STRINGS:
        return "it works on strings"
    if node.op.startswith("ai.onnx.ml::"):
        return "it belongs to ai.onnx.ml"
    return "polytc has no text for it"


def function_body(node: Node, types: Sequence[tuple[np.dtype, tuple[int, ...]] | None]) -> Graph | None:
    """The definition of an operator by others, see graph.onnx.functions."""
    from polytc.graph import onnx  # the library is optional and slow to import

    return onnx.function_body(node, types)


def evaluable(node: Node) -> bool:
    """Does onnx's evaluator have the operator?"""
    from polytc.graph.onnx import evaluator  # the onnx library is optional and slow to import

    try:
        evaluator(node)
    except Exception:  # whatever it raises for what it does not know
        return False
    return True


def host(node: Node, why: str) -> Host:
    """The step that runs a node by onnx's evaluator. Raises ModelError E605 where that does not have it either."""
    from polytc.graph.onnx import evaluator  # the onnx library is optional and slow to import

    try:
        run = evaluator(node)
    except Exception as error:  # whatever it raises for what it does not know
        raise fail("E605", f"polytc does not have the operator {node.op} ({node.label}), and onnx's evaluator cannot run it: "
                   f"{error}", kind=ModelError) from error

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
