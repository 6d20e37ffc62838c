"""Other runtimes for ONNX models, to compare with. None of them is a dependency: each is imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import typer

Feeds: TypeAlias = Mapping[str, np.ndarray]
Run: TypeAlias = Callable[[], Sequence[np.ndarray]]
"""One inference on fixed inputs: the outputs, in the order of the model."""


class Refused(Exception):
    """The runtime does not take this model; the text says why."""


def onnxruntime(path: Path, feeds: Feeds, threads: int | None) -> Run:
    """ONNX Runtime with its own optimisations. threads: None for its choice."""
    library = _library("onnxruntime")
    settings = library.SessionOptions()
    settings.intra_op_num_threads = threads or 0
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 4  # what it refuses is said by Refused
    try:
        session = library.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        session.run(None, dict(feeds))
    except Exception as refusal:  # its exceptions have no common base
        raise Refused(" ".join(str(refusal).split())) from refusal
    return lambda: session.run(None, dict(feeds))


def openvino(path: Path, feeds: Feeds, threads: int | None) -> Run:
    """OpenVINO for latency, in f32, compiled for the shapes of these inputs."""
    library = _library("openvino")
    options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    options |= {"INFERENCE_NUM_THREADS": str(threads)} if threads else {}
    try:
        core = library.Core()
        model = core.read_model(str(path))
        if model.is_dynamic():
            model.reshape({n: list(a.shape) for n, a in feeds.items()})
        compiled = core.compile_model(model, "CPU", options)
        request = compiled.create_infer_request()
        known = {name for port in compiled.inputs for name in port.get_names()}  # it drops inputs that nothing uses
        tensors = {n: library.Tensor(np.ascontiguousarray(a)) for n, a in feeds.items() if n in known}
        request.infer(tensors)
    except Exception as refusal:  # RuntimeError and others
        raise Refused(" ".join(str(refusal).split())) from refusal

    def run() -> Sequence[np.ndarray]:
        request.infer(tensors)
        return [request.get_output_tensor(k).data for k in range(len(compiled.outputs))]
    return run


PEERS: Mapping[str, Callable[[Path, Feeds, int | None], Run]] = {"onnxruntime": onnxruntime, "openvino": openvino}
"""Name for --vs -> how to start it."""


def chosen(text: str) -> list[str]:
    """The names in `onnxruntime,openvino`; a usage error for others."""
    names = [n.strip() for n in text.split(",") if n.strip()]
    for name in names:
        if name not in PEERS:
            raise typer.BadParameter(f"--vs {name}: known are {', '.join(PEERS)}")
    return names


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise typer.BadParameter(f"{name} is not installed: pip install {name}") from None
