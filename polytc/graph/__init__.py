"""ONNX models: import, optimise, compile, run."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from polytc.graph.ir import Graph, Node, Value
from polytc.graph.model import Model, compile_graph
from polytc.graph.storing import stored
from polytc.graph.weight_sources import Places

if TYPE_CHECKING:
    from polytc.graph.operators.registry import Operator, register

__all__ = ["Graph", "Model", "Node", "Operator", "Value", "compile_graph", "load_onnx", "register"]


def load_onnx(source: Any, *, without: Collection[str] = (), strict: bool = False,
              folders: Collection[str | os.PathLike[str]] = (), in_place: bool = False) -> Graph:
    """The graph of an ONNX model: a path, the bytes of a file, or a ModelProto. Prints as text; `.compile()` makes a Model.

    The graph is simplified by the passes of graph/passes/ (docs/onnx.md lists them), except those named in `without`. Operators
    on strings, sequences and the like are left to onnx's own evaluator, and listed in `.report()`; strict=True refuses them.

    External data are read from the model's folder and those below it, links followed, and, if the path is a link, from the
    folder that it leads to; `folders` names others that links may lead to. Weights are read into memory, or mapped from a copy
    in the user's cache, so that nobody changes them later; in_place=True maps the model's own files, which then must stay as
    they are for as long as the model is used.

    Raises ModelError: E601 to E604 for a file that cannot be read, E605 with every operator that polytc does not have, E606 and
    E607 for a malformed model, E620 for a pass that does not exist.
    """
    places = Places.of(folders, in_place)
    origin = stored.origin(source, without, strict, places)
    known = stored.graph(origin, lambda: _imported(source, without, strict, places, None)) if origin is not None else None
    return known if known is not None else _imported(source, without, strict, places, origin)


def _imported(source: Any, without: Collection[str], strict: bool, places: Places, origin: stored.Origin | None) -> Graph:
    from polytc.graph import importing  # the onnx library is optional and slow to import

    if origin is None:
        return importing.read(source, without, strict, places)[0]
    return importing.load_and_keep(origin, without, strict, places)


def __getattr__(name: str) -> Any:
    if name in ("Operator", "register"):
        from polytc.graph.operators import registry  # needs the front end, which models that are found on disk do without

        return getattr(registry, name)
    raise AttributeError(f"module 'polytc.graph' has no attribute {name!r}")
