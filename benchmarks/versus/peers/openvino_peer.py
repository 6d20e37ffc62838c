"""OpenVINO: one request on shared memory. Precision is held at f32, which on processors with bf16 is not its default."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import openvino

from versus import onnx_model
from versus.case import Case
from versus.peers import Prepared, empty


def version() -> str:
    return str(openvino.__version__)


def prepare(case: Case, inputs: Mapping[str, np.ndarray], threads: int) -> Prepared | None:
    if not case.onnx:
        return None
    core = openvino.Core()
    model = core.read_model(onnx_model.build(case, inputs).SerializeToString())
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32",
                                                 "PERFORMANCE_HINT": "LATENCY"})
    request = compiled.create_infer_request()
    outputs = empty(case)
    for port in compiled.inputs:
        name = next(iter(port.get_names()))
        request.set_tensor(port, openvino.Tensor(inputs[name], shared_memory=True))
    for port, array in zip(compiled.outputs, outputs.values(), strict=True):
        request.set_tensor(port, openvino.Tensor(array, shared_memory=True))
    return Prepared(request.infer, lambda _: tuple(outputs.values()))
