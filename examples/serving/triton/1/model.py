"""model.onnx, compiled by polytc, in Triton's Python backend (https://github.com/triton-inference-server/python_backend).

    models/NAME/config.pbtxt    inputs, outputs, instance_group: each instance has memory of its own for intermediate values
    models/NAME/1/model.py      this file
    models/NAME/1/model.onnx

Triton starts a process for each instance. The first compiles, all others and later servers find the code in polytc's cache, and
weights are pages that the processes share.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils

import polytc


class TritonPythonModel:
    """What Triton calls."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the model, and compile it where all shapes are known. The parameters `threads` and `symbolic` are those of
        polytc's compile."""
        config = json.loads(args["model_config"])
        given = {name: value["string_value"] for name, value in config.get("parameters", {}).items()}
        path = Path(args["model_repository"]) / args["model_version"] / "model.onnx"
        self.model = polytc.load_onnx(path).compile(threads=int(given.get("threads", 1)),
                                                    symbolic=given.get("symbolic", "true") == "true")
        self.inputs = [v.name for v in self.model.inputs]

    def execute(self, requests: list[Any]) -> list[Any]:
        """A response for each request; what does not fit the model is an error of that request alone."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        wanted = list(request.requested_output_names())
        try:
            tensors = {name: pb_utils.get_input_tensor_by_name(request, name) for name in self.inputs}
            feeds = {name: tensor.as_numpy() for name, tensor in tensors.items() if tensor is not None}
            results = self.model.run(wanted, feeds)
        except polytc.PolytcError as error:
            return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(str(error)))
        return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor(n, a) for n, a in zip(wanted, results, strict=True)])
