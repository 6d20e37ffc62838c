"""What the file of a model says about itself, and the model with weights that a caller gives."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

import onnx

from polytc.graph.ir import Value
from polytc.graph.onnx.importer import declared
from polytc.graph.onnx.reader import read_model


def about(source: Any) -> tuple[dict[str, Any], tuple[Value, ...]]:
    """The fields of the file by the names of ONNX Runtime's ModelMetadata, and the inputs that have a stored value. Raises
    ModelError (E60x)."""
    proto = read_model(source)[0]
    stored = {t.name for t in proto.graph.initializer}
    told = {"producer_name": proto.producer_name, "graph_name": proto.graph.name, "domain": proto.domain,
            "description": proto.doc_string, "graph_description": proto.graph.doc_string, "version": proto.model_version,
            "custom_metadata_map": {p.key: p.value for p in proto.metadata_props}}
    return told, tuple(declared(v) for v in proto.graph.input if v.name in stored)


def without_stored(source: Any, names: Collection[str]) -> onnx.ModelProto:
    """The model in which these inputs have no stored value. source: as of `read_model`."""
    proto = onnx.ModelProto()
    if isinstance(source, onnx.ModelProto):
        proto.CopyFrom(source)
    elif isinstance(source, str | os.PathLike):
        proto = onnx.load(source)
    else:
        proto = onnx.load_from_string(bytes(source))
    left = [t for t in proto.graph.initializer if t.name not in names]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(left)
    return proto
