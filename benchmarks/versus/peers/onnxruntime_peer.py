"""ONNX Runtime: a session whose inputs and outputs are bound to numpy's memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnxruntime

from versus import onnx_model
from versus.case import Case
from versus.peers import Prepared, empty


def version() -> str:
    return str(onnxruntime.__version__)


def prepare(case: Case, inputs: Mapping[str, np.ndarray], threads: int) -> Prepared | None:
    if not case.onnx:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(onnx_model.build(case, inputs).SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    outputs, binding = empty(case), session.io_binding()
    for given in session.get_inputs():
        binding.bind_cpu_input(given.name, inputs[given.name])
    for name, array in outputs.items():
        binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    return Prepared(lambda: session.run_with_iobinding(binding), lambda _: tuple(outputs.values()))
