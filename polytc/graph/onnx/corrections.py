"""Operators that onnx's evaluator computes otherwise than their definition says, mostly those of older operator sets.

    BatchNormalization before 14   takes any `momentum`, or any version before 9, for a request to train
    Softmax and its like before 13 work along one axis, where all axes from `axis` on count as one
    Dropout before 10              makes a mask of booleans, where it has the type of the data
    LRN                            fills as many channels as there are images in the batch
    GlobalMaxPool                  reduces the wrong axes where the rank is not 4
    LpNormalization                forgets the sign of what it adds for p = 1
    RoiAlign before 16             shifts regions by half a pixel, as later versions do
    Pow                            fails for integers to negative powers
    Slice                          loses the first element where it goes backwards from before the start
    GatherElements                 fails where the two inputs differ in extent
    Range                          gives nothing for steps of 0, which lead nowhere
    DynamicQuantizeLinear          fails without elements, of which ONNX Runtime makes a scale of 1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from polytc.graph.ir import Node
from polytc.program.evaluator import power

Given: TypeAlias = Sequence["np.ndarray | None"]
Evaluate: TypeAlias = Callable[[Node, Given], list[np.ndarray]]


def corrected(node: Node, inputs: Given, evaluate: Evaluate) -> list[np.ndarray] | None:
    """The outputs of a node by its definition; None for one that onnx's evaluator gets right. evaluate: by that evaluator.

    Raises what numpy raises for a node that makes no sense.
    """
    found = _TABLE.get(node.op)
    return found(node, inputs, evaluate) if found is not None and inputs and inputs[0] is not None else None


def _batch(node: Node, inputs: Given, evaluate: Evaluate) -> list[np.ndarray] | None:
    """With the statistics that are given: a node that trains names more outputs than the first."""
    if node.opset >= 14 or any(node.outputs[1:]):
        return None
    attributes = {k: v for k, v in node.attributes.items() if k == "epsilon"}
    return evaluate(replace(node, attributes=attributes, outputs=node.outputs[:1], opset=15), inputs)


def _along_the_rest(node: Node, inputs: Given, evaluate: Evaluate) -> list[np.ndarray] | None:
    if node.opset >= 13:
        return None
    x = _array(inputs)
    axis = node.attributes.get("axis", 1)
    if not -x.ndim <= axis <= x.ndim:
        raise ValueError(f"axis {axis} is out of range for rank {x.ndim}")
    rows = math.prod(x.shape[:axis if axis >= 0 else axis + x.ndim])
    flat = x.reshape(rows, x.size // rows if rows else 0)
    newer = replace(node, attributes={"axis": 1}, opset=13)
    return [evaluate(newer, [flat])[0].reshape(x.shape)]


def _dropout(node: Node, inputs: Given, evaluate: Evaluate) -> list[np.ndarray] | None:
    x = _array(inputs)
    return [x, np.ones_like(x)][:len(node.outputs)] if node.opset < 10 else None


def _local_response(node: Node, inputs: Given, evaluate: Evaluate) -> list[np.ndarray]:
    x = _array(inputs)
    defaults = {"size": 0, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    size, alpha, beta, bias = (node.attributes.get(k, default) for k, default in defaults.items())
    if x.ndim < 2 or size < 1:
        raise ValueError(f"an input of rank {x.ndim} and windows of {size}")
    channels = x.shape[1]
    squares = x.astype(np.float64) ** 2
    before, after = (size - 1) // 2, size // 2
    sums = [squares[:, max(c - before, 0):min(c + after + 1, channels)].sum(1) for c in range(channels)]
    scale = (bias + alpha / size * np.stack(sums, 1)) ** beta if channels else 1.0
    return [(x / scale).astype(x.dtype)]


def _largest(node: Node, inputs: Given, evaluate: Evaluate) -> list[np.ndarray]:
    x = _array(inputs)
    return [x.max(tuple(range(2, x.ndim)), keepdims=True)]


def _normalised(node: Node, inputs: Given, evaluate: Evaluate) -> list[np.ndarray] | None:
    if node.attributes.get("p", 2) != 1:
        return None
    x = _array(inputs)
    norm = np.abs(x).sum(node.attributes.get("axis", -1), keepdims=True)
    return [np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm)).astype(x.dtype)]


def _regions(node: Node, inputs: Given, evaluate: Evaluate) -> list[np.ndarray] | None:
    if node.opset >= 16:
        return None
    attributes = {**node.attributes, "coordinate_transformation_mode": "output_half_pixel"}
    return evaluate(replace(node, attributes=attributes, opset=16), inputs)


def _power(node: Node, inputs: Given, evaluate: Evaluate) -> list[np.ndarray] | None:
    a, b = (np.asarray(x) for x in inputs)
    return [power(a, b).astype(a.dtype)] if a.dtype.kind in "iu" and b.dtype.kind == "i" and (b < 0).any() else None


def _slice(node: Node, inputs: Given, evaluate: Evaluate) -> list[np.ndarray] | None:
    data, given = _array(inputs), [*inputs, None, None, None, None][1:5]
    starts, axes, steps = given[0], given[2], given[3]
    if node.opset < 10 or starts is None or steps is None or not (np.asarray(steps) < 0).any():
        return None
    extents = np.array(data.shape, np.int64)[np.arange(starts.size) if axes is None else axes]
    clamped = np.where(steps < 0, np.maximum(starts, -extents), starts).astype(starts.dtype)
    return evaluate(node, [data, clamped, *inputs[2:]])


def _gather(node: Node, inputs: Given, evaluate: Evaluate) -> list[np.ndarray]:
    data, places = (np.asarray(a) for a in inputs)
    axis = node.attributes.get("axis", 0)
    if places.size and (places.min() < -data.shape[axis] or places.max() >= data.shape[axis]):
        raise IndexError(f"an index is out of range for axis {axis} of extent {data.shape[axis]}")
    return [np.take_along_axis(data, places % data.shape[axis], axis)]


def _range(node: Node, inputs: Given, evaluate: Evaluate) -> None:
    if len(inputs) > 2 and inputs[2] is not None and not np.any(inputs[2]):
        raise ValueError("steps of 0 lead nowhere")


def _quantised(node: Node, inputs: Given, evaluate: Evaluate) -> list[np.ndarray] | None:
    x = _array(inputs)
    nothing: list[np.ndarray] = [np.zeros(x.shape, np.uint8), np.array(1, np.float32), np.array(0, np.uint8)]
    return None if x.size else nothing[:len(node.outputs)]


def _array(inputs: Given) -> np.ndarray:
    assert inputs[0] is not None, "looked at in `corrected`"
    return inputs[0]


_TABLE: Mapping[str, Callable[[Node, Given, Evaluate], list[np.ndarray] | None]] = {
    "BatchNormalization": _batch, "Softmax": _along_the_rest, "LogSoftmax": _along_the_rest, "Hardmax": _along_the_rest,
    "Dropout": _dropout, "LRN": _local_response, "GlobalMaxPool": _largest, "LpNormalization": _normalised,
    "RoiAlign": _regions, "Slice": _slice, "Pow": _power,
    "GatherElements": _gather, "Range": _range, "DynamicQuantizeLinear": _quantised}
