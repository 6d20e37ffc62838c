"""ONNX models: import, optimise, compile, run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from polytc.graph.ir import Graph, Node, Value
from polytc.graph.model import Model
from polytc.graph.registry import register

__all__ = ["Graph", "Model", "Node", "Value", "load_onnx", "register"]


def load_onnx(source: Any, *, without: Collection[str] = (), strict: bool = False) -> Graph:
    """The graph of an ONNX model: a path, the bytes of a file, or a ModelProto. Prints as text; `.compile()` makes a Model.

    The graph is simplified by the passes of graph/passes/ (docs/onnx.md lists them), except those named in `without`. Operators
    on strings, sequences and the like are left to onnx's own evaluator, and listed in `.report()`; strict=True refuses them.

    Raises ModelError: E601 to E604 for a file that cannot be read, E605 with every operator that polytc does not have, E606 and
    E607 for a malformed model, E620 for a pass that does not exist.
    """
    from polytc.graph.importing import load  # the onnx library is optional and slow to import

    return load(source, without, strict)
