"""An ONNX model from the file to the graph that is compiled: read, import, refuse what is missing, run the passes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from polytc import errors
from polytc.errors import Diagnostic, ModelError, fail
from polytc.graph import passes
from polytc.graph.bindings import TABLE
from polytc.graph.folding import foldable
from polytc.graph.ir import Graph, Node

errors.register(E600="the onnx library is not installed")

try:
    from polytc.graph import onnx as door
except ModuleNotFoundError as missing:
    raise fail("E600", f"the library {missing.name!r} is not installed", kind=ModelError,
               notes=["pip install 'polytc[onnx]'"]) from None


def load(source: Any, without: Collection[str] = ()) -> Graph:
    """See `polytc.graph.load_onnx`."""
    graph = door.import_model(door.read_model(source))
    refuse_missing(graph)
    return passes.run(graph, without)


def refuse_missing(graph: Graph) -> None:
    """Raise ModelError with one diagnostic for each node whose operator polytc does not have.

    An operator that only works on constants and shapes needs no code: onnx's own evaluator computes it.
    """
    known = set(graph.constants)
    missing: list[Node] = []
    for node in graph.nodes:
        constant = foldable(node) and all(n in known or not n for n in node.inputs)
        if constant or node.op in ("Shape", "Size"):
            known.update(node.outputs)
        elif node.op not in TABLE:
            missing.append(node)
    if missing:
        raise ModelError(Diagnostic("E605", f"polytc does not have the operator {n.op} ({n.label})") for n in missing)
