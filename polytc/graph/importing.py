"""An ONNX model from the file to the graph that is compiled: read, import, refuse what is missing, run the passes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polytc import errors, garbage
from polytc.disk import weights
from polytc.errors import Diagnostic, ModelError, fail
from polytc.graph import passes, string_codes
from polytc.graph.evaluation import fallback
from polytc.graph.evaluation.folding import known_early
from polytc.graph.evaluation.value_hosts import VALUE_HOSTS
from polytc.graph.ir import CONTROL, Graph, Node, bodies, foreign
from polytc.graph.operators import registry
from polytc.graph.storing import keeping
from polytc.graph.storing.stored import Origin
from polytc.graph.weight_sources import Places

errors.register(E600="the onnx library is not installed")

try:
    from polytc.graph import onnx as door
except ModuleNotFoundError as missing:
    raise fail("E600", f"the library {missing.name!r} is not installed", kind=ModelError,
               notes=["pip install 'polytc[onnx]'"]) from None


def load_and_keep(found: Origin, without: Collection[str], strict: bool, places: Places) -> Graph:
    """See `polytc.graph.load_onnx`; and note down for other processes what the graph declares."""
    graph, files = read(found.path, without, strict, places)
    keeping.keep_graph(found, graph, files)
    return graph


@garbage.seldom_collected()
def read(source: Any, without: Collection[str], strict: bool, places: Places) -> tuple[Graph, list[np.ndarray]]:
    """The graph, and the bytes of all files that it was read from."""
    model, files = door.read_model(source, places)
    graph = string_codes.with_codes(door.expand(door.import_model(door.expanded(model, _native), files)))
    outside = refuse_missing(graph, strict)
    graph = passes.run(graph, without)
    files.release()
    return replace(graph, outside=outside, constants=weights.to_file(graph.constants)), [files.own, *files.beside.values()]


def _native(op: str) -> bool:
    """Has polytc its own way for an operator?"""
    return registry.known(op) or op in CONTROL or op in fallback.OPTIONAL or op in VALUE_HOSTS


def refuse_missing(graph: Graph, strict: bool) -> tuple[str, ...]:
    """The nodes left to onnx's evaluator or to ONNX Runtime, each with the reason. Raises ModelError with one diagnostic for
    each operator of nodes that cannot be; where `strict`, of all of them.

    An operator that only works on constants and shapes needs no code: onnx's own evaluator computes it.
    """
    found = [n for n in _without_row(graph, set(graph.constants)) if not foreign(n.op) or not fallback.defined_later(n)]
    refused: dict[str, list[Node]] = {}
    for n in found:
        if strict or not fallback.evaluable(n):
            refused.setdefault(n.op, []).append(n)
    if refused:
        raise ModelError(_missing(nodes) for nodes in refused.values())
    return tuple(f"{n.label}: {fallback.reason(n)}" for n in found)


def _missing(nodes: Sequence[Node]) -> Diagnostic:
    """That polytc does not have the operator of these nodes."""
    first, more = nodes[0], f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    reasons = dict.fromkeys(why for why in map(fallback.reason, nodes) if why != fallback.NO_TEXT)
    return Diagnostic("E605", f"polytc does not have the operator {first.op} ({first.label}{more})", None, tuple(reasons))


def _without_row(graph: Graph, known: set[str]) -> Iterator[Node]:
    """Nodes of the graph and of all bodies in it that polytc has no text, routine or control for. known: constants."""
    for node in graph.nodes:
        for body in bodies(node):
            yield from _without_row(body, known | set(body.constants))
        constant = known_early(node) and all(n in known or not n for n in node.inputs)
        if constant or node.op in ("Shape", "Size"):
            known.update(node.outputs)
        elif not _native(node.op):
            yield node
