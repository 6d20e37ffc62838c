"""A second opinion on a node: ONNX Runtime's, where it is installed."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import numpy as np
import onnx

from polytc.graph.ir import Node
from polytc.graph.onnx.node_evaluator import model_of_node, node_of

FORMAT = 10
"""Version of the file format that nodes are handed over in: one that older versions of ONNX Runtime know too."""


def second_opinion(node: Node, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray] | None:
    """The outputs that have names, by ONNX Runtime without its optimisations; None without it, and where it refuses."""
    try:
        library = importlib.import_module("onnxruntime")
        names = [f"x{i}" if n else "" for i, n in enumerate(node.inputs)]
        proto = node_of(node, names, [f"y{i}" if n else "" for i, n in enumerate(node.outputs)])
        model: onnx.ModelProto = model_of_node(proto, [a for a in inputs if a is not None], node.opset)
        model.ir_version = FORMAT
        settings = library.SessionOptions()
        settings.log_severity_level = 4
        settings.intra_op_num_threads = 1
        settings.graph_optimization_level = library.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = library.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
        found = session.run(None, {n: a for n, a in zip(names, inputs, strict=True) if n})
    except Exception:  # its exceptions have no common base, and a refusal is no opinion
        return None
    return [np.asarray(a) for a in found]
