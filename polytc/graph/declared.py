"""What a model declares of its outputs against what is computed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from polytc.errors import ModelError, fail
from polytc.graph.ir import Graph, Value
from polytc.graph.plan import Array, type_of


def check_outputs(graph: Graph, types: Mapping[str, Array], known: Mapping[str, np.ndarray]) -> None:
    """Outputs are of the types that the graph declares; of its shapes too, if its inputs have the shapes that it declares. No
    dimensions at all are what exporters write for those they do not know. types: of what is computed; known: values that are
    computed already. Raises ModelError E606."""
    static = all(v.name in types and v.static_shape == types[v.name].shape for v in graph.inputs)
    for v in graph.outputs:
        found = type_of(known[v.name]) if v.name in known else types.get(v.name)
        if found is not None and not _agrees(v, found, static):
            raise fail("E606", f"the output {v.name!r} is declared as {v}, and computed as {found}", kind=ModelError,
                       notes=["declare what is computed, or leave the shape out; onnx.checker.check_model(model, "
                              "full_check=True) shows what onnx makes of it"])


def _agrees(declared: Value, found: Array, static: bool) -> bool:
    if declared.dtype is not None and declared.dtype != found.dtype:
        return False
    if not declared.shape:
        return True
    extents = [d for d in zip(declared.shape, found.shape) if isinstance(d[0], int)]
    return len(declared.shape) == len(found.shape) and (not static or all(d == e for d, e in extents))
