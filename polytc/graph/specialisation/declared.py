"""What a model and its bodies declare of their outputs against what is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from polytc.errors import ModelError, fail
from polytc.graph.ir import Graph, Value
from polytc.graph.plan import Array, type_of


@dataclass(frozen=True)
class Promise:
    """What a graph declares of its inputs and outputs, each with the name of the value that it is. of: in messages, after 'the
    output x'; empty for the model itself."""

    of: str
    inputs: tuple[tuple[Value, str], ...]
    outputs: tuple[tuple[Value, str], ...]


def promised(graph: Graph) -> Promise:
    """What the model itself declares."""
    return Promise("", *(tuple((v, v.name) for v in values) for values in (graph.inputs, graph.outputs)))


def check_outputs(whole: Promise, bodies: Iterable[Promise], types: Mapping[str, Array], known: Mapping[str, np.ndarray]
                  ) -> None:
    """Outputs are of the types that their graph declares; of its shapes too, if its inputs have the shapes that it declares,
    and those of the model have theirs. No dimensions at all are what exporters write for those they do not know. types: of what
    is computed; known: values that are computed already. Raises ModelError E606."""
    def found(name: str) -> Array | None:
        return type_of(known[name]) if name in known else types.get(name)

    def static(promise: Promise) -> bool:
        shapes = [(v.static_shape, found(name)) for v, name in promise.inputs]
        return all(t is not None and shape == t.shape for shape, t in shapes)

    fixed = static(whole)
    for promise in (whole, *bodies):
        for v, name in promise.outputs:
            t = found(name)
            if t is not None and not _agrees(v, t, fixed and static(promise)):
                owner = f" {promise.of}" if promise.of else ""
                raise fail("E606", f"the output {v.name!r}{owner} is declared as {v}, and computed as {t}", kind=ModelError,
                           notes=["declare what is computed, or leave the shape out; onnx.checker.check_model(model, "
                                  "full_check=True) shows what onnx makes of it"])


def _agrees(declared: Value, found: Array, static: bool) -> bool:
    if declared.dtype is not None and declared.dtype != found.dtype:
        return False
    if not declared.shape:
        return True
    extents = [d for d in zip(declared.shape, found.shape) if isinstance(d[0], int)]
    return len(declared.shape) == len(found.shape) and (not static or all(d == e for d, e in extents))
