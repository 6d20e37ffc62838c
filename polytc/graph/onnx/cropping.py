"""Pad with negative numbers, which crop: onnx's evaluator does not know them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polytc.graph.ir import Node


def cropped(node: Node, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
    """The inputs of a Pad node with its data cropped and no number negative; other inputs as they are, and those of a node that
    makes no sense."""
    found = list(inputs)
    data, pads, axes = (found[k] if k < len(found) else None for k in (0, 1, 3))
    if node.op != "Pad" or data is None or pads is None or pads.dtype.kind != "i" or not (pads < 0).any():
        return found
    chosen = [int(a) for a in (range(data.ndim) if axes is None else axes.ravel())]
    if pads.size != 2 * len(chosen) or any(not -data.ndim <= a < data.ndim for a in chosen):
        return found
    for a, before, after in zip(chosen, pads.ravel(), pads.ravel()[len(chosen):]):
        first, end = max(-int(before), 0), data.shape[a] - max(-int(after), 0)
        if first > end:
            return found
        data = data.take(range(first, end), a)
    found[0], found[1] = data, np.maximum(pads, 0)
    return found
