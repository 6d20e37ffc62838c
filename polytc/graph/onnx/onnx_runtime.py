"""Single nodes by ONNX Runtime, where it is installed: a second opinion, and what nobody else here has."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx

from polytc.graph.ir import Node
from polytc.graph.onnx.node_evaluator import model_of_node, node_of

FORMAT = 10
"""Version of the file format that nodes are handed over in: one that older versions of ONNX Runtime know too."""

MOST_SESSIONS = 16
"""That are kept for one node."""


def second_opinion(node: Node, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray] | None:
    """The outputs that have names, by ONNX Runtime without its optimisations; None without it, and where it refuses."""
    try:
        return _run(_session(node, inputs), node, inputs)
    except Exception:  # its exceptions have no common base, and a refusal is no opinion
        return None


@cache
def _kernels() -> frozenset[str]:
    """The operators, as in Node.op, that the installed ONNX Runtime runs on processors; none where it is not installed. Not
    by the library itself, in whose place another module may stand (polytc.inference)."""
    try:
        state = importlib.import_module("onnxruntime.capi._pybind_state")
        found = state.get_all_opkernel_def()
    except Exception:  # not installed, or built without the list
        return frozenset()
    return frozenset(f"{k.domain}::{k.op_name}" for k in found if k.provider == "CPUExecutionProvider")


def runtime_has(op: str) -> bool:
    """Does the installed ONNX Runtime have an operator of a domain that is not onnx's own?"""
    return op in _kernels()


def runtime_evaluator(node: Node) -> Callable[[Sequence[Any]], list[Any]]:
    """The function from the values of the node's inputs to those of its outputs, by ONNX Runtime. A session is made for each
    set of types and shapes, and kept.

    Raises what ONNX Runtime raises for a node that it refuses.
    """
    sessions: dict[object, Any] = {}

    def run(values: Sequence[Any]) -> list[Any]:
        arrays = [None if v is None else np.asarray(v) for v in values]
        key = tuple(None if a is None else (a.dtype, a.shape) for a in arrays)
        if key not in sessions:
            if len(sessions) >= MOST_SESSIONS:
                sessions.pop(next(iter(sessions)))
            sessions[key] = _session(node, arrays)
        results = iter(_run(sessions[key], node, arrays))
        return [next(results) if n else None for n in node.outputs]
    return run


def _session(node: Node, inputs: Sequence[np.ndarray | None]) -> Any:
    library = importlib.import_module("onnxruntime")
    names = [f"x{i}" if n else "" for i, n in enumerate(node.inputs)]
    proto = node_of(node, names, [f"y{i}" if n else "" for i, n in enumerate(node.outputs)])
    model: onnx.ModelProto = model_of_node(proto, [a for a in inputs if a is not None], node.opset)
    model.ir_version = FORMAT
    settings = library.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    settings.graph_optimization_level = library.GraphOptimizationLevel.ORT_DISABLE_ALL
    return library.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])


def _run(session: Any, node: Node, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    names = [f"x{i}" if n else "" for i, n in enumerate(node.inputs)]
    found = session.run(None, {n: a for n, a in zip(names, inputs, strict=True) if n})
    return [np.asarray(a) for a in found]
