"""Evaluation of nodes whose inputs are all known, the same for graph passes and for specialisation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from polytc.errors import ModelError, fail
from polytc.graph.evaluation.fallback import OPTIONAL, SEQUENCES
from polytc.graph.ir import Node, bodies
from polytc.graph.planning import memory

RANDOM = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"})
"""Operators whose result is not decided by their inputs."""

MISTAKEN = frozenset({"Attention", "AveragePool", "ConvTranspose", "GridSample", "LpPool", "MaxPool", "RMSNormalization",
                      "TfIdfVectorizer"})
"""Operators of which onnx's evaluator (1.23) gets some cases wrong: kernels, paddings and strides that differ along the axes,
SAME_LOWER, dilations with ceil_mode; cubic samples at a border; causal attention with a mask of one row; the type of a
normalisation with a scale of halves; words that are skipped."""

BY_VALUE = frozenset({"BlackmanWindow", "ConstantOfShape", "HammingWindow", "HannWindow", "MelWeightMatrix", "Range"})
"""Operators that nothing but the evaluator computes where all of their inputs are known."""

LARGEST = min(1 << 32, memory.LARGEST // 8)
"""Bytes of a result that is computed once and for all. The evaluator may need several times as many."""


def foldable(node: Node) -> bool:
    """May the node be evaluated once and for all? Not operators of other domains, on sequences, with bodies, or of random
    numbers."""
    passing = node.op in OPTIONAL and node.op != "Identity"
    return "::" not in node.op and node.op not in RANDOM | SEQUENCES and not passing and not bodies(node)


def known_early(node: Node) -> bool:
    """May onnx's evaluator compute the node once and for all where all of its inputs are known? Not what it gets wrong,
    which is compiled instead."""
    return foldable(node) and node.op not in MISTAKEN


class TooLarge(ModelError):
    """Results would take more memory than they may."""


class Unable(ModelError):
    """onnx's evaluator does not have the operator, or not this use of it; or the node is wrong, which its row will say."""


def evaluate(node: Node, inputs: Sequence[np.ndarray | None], largest: int = LARGEST) -> list[np.ndarray]:
    """The outputs of a foldable node; inputs: None where one is left out; largest: bytes of one output. Raises ModelError E608
    or E609, Unable, E609, and TooLarge, E612."""
    if node.op == "Constant":
        try:
            return [_literal(node)]
        except (TypeError, ValueError, OverflowError) as error:
            raise fail("E609", f"{node.label}: its value cannot be read: {error}", kind=ModelError) from error
    if node.op == "Identity" and inputs and inputs[0] is not None:
        return [inputs[0]]
    from polytc.graph.onnx import evaluate_node  # the onnx library is optional and slow to import

    types = _expected(node, inputs)
    for name, (dtype, shape) in zip(filter(None, node.outputs), types):
        size = math.prod(shape) * dtype.itemsize
        if size > largest:
            raise fail("E612", f"{node.label}: {name!r} would be {dtype}{list(shape)}, {size / 1e9:,.1f} GB", kind=TooLarge,
                       notes=[f"what follows from constants and shapes may have up to {largest / 1e9:,.1f} GB here"])
    try:
        return [np.ascontiguousarray(a) if a.ndim else a for a in evaluate_node(node, inputs)]
    except Exception as error:  # the evaluator raises whatever its numpy code raises, for tensors without elements above all
        empty = any(a is not None and a.size == 0 for a in inputs)
        if empty and types and all(node.outputs) and all(0 in shape for _, shape in types):
            return [np.zeros(shape, dtype) for dtype, shape in types]
        raise fail("E609", f"{node.label} cannot be evaluated: {error}", kind=Unable) from error


def evaluate_or_leave(node: Node, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray] | None:
    """The same of an operator that has a row; None where the evaluator is unable, and the row may be able, or says why not."""
    try:
        return evaluate(node, inputs)
    except Unable:
        if node.op in BY_VALUE:
            raise
        return None


def _expected(node: Node, inputs: Sequence[np.ndarray | None]) -> list[tuple[np.dtype, tuple[int, ...]]]:
    """Types and shapes of the outputs that have names, before they are computed; empty where onnx cannot tell."""
    from polytc.graph.onnx import result_types  # the onnx library is optional and slow to import

    return result_types(node, [None if a is None else (a.dtype, a.shape, a) for a in inputs]) or []


def _literal(node: Node) -> np.ndarray:
    """The value of a Constant node, from whichever attribute holds it."""
    for name, value in node.attributes.items():
        if name in ("value_float", "value_floats"):
            return np.array(value, np.float32)
        if name in ("value_int", "value_ints"):
            return np.array(value, np.int64)
        if name == "value" and isinstance(value, np.ndarray):
            return value
    raise fail("E608", f"{node.label}: this kind of constant ({', '.join(node.attributes)}) is not supported", kind=ModelError)
