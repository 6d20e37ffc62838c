"""An MLServer runtime (https://mlserver.readthedocs.io): ONNX models, compiled by polytc.

Lies beside model-settings.json, which names it:

    {"name": "mlp", "implementation": "polytc_runtime.PolytcRuntime",
     "parameters": {"uri": "./model.onnx", "extra": {"threads": 1, "sessions": 2, "symbolic": true, "shapes": {"x": [8, 4]}}}}

threads: of one inference. sessions: inferences at once, each with memory of its own for intermediate values; weights and
code are shared. symbolic: code for all sizes, which suits requests of changing batches. shapes: of all inputs, for which code
is made while the model is loaded, so that the first request need not wait for it; what an earlier process compiled comes from
polytc's cache.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.errors import MLServerError
from mlserver.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataModelResponse,
    MetadataTensor,
    RequestInput,
    ResponseOutput,
)
from mlserver.utils import get_model_uri

import polytc
from polytc.graph.ir import Value
from polytc.graph.model import Model

DATATYPES = {"f16": "FP16", "f32": "FP32", "f64": "FP64", "bool": "BOOL"} | {
    f"{short}{bits}": f"{long}{bits}" for short, long in (("i", "INT"), ("u", "UINT")) for bits in (8, 16, 32, 64)}
"""polytc's names of element types -> those of the Open Inference Protocol. Others are BYTES there."""


class PolytcRuntime(MLModel):
    """One model. Requests wait for a free session."""

    async def load(self) -> bool:
        """Compile the model, and make its sessions."""
        extra: dict[str, Any] = dict((self.settings.parameters and self.settings.parameters.extra) or {})
        path = await get_model_uri(self.settings, wellknown_filenames=["model.onnx"])
        self._model = await asyncio.to_thread(_compiled, path, extra)
        self._sessions: asyncio.Queue[Model] = asyncio.Queue()
        for session in [self._model, *(self._model.session() for _ in range(int(extra.get("sessions", 1)) - 1))]:
            self._sessions.put_nowait(session)
        return True

    async def metadata(self) -> MetadataModelResponse:
        """What the model declares."""
        found = await super().metadata()
        found.platform = "polytc"
        found.inputs, found.outputs = (list(map(_described, v)) for v in (self._model.inputs, self._model.outputs))
        return found

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """The outputs that the request names, all of them where it names none. Requests that do not fit are answered with
        status 400 and polytc's message."""
        wanted = [output.name for output in payload.outputs or ()] or None
        session = await self._sessions.get()
        try:
            feeds = {each.name: _array(each) for each in payload.inputs}
            results = await asyncio.to_thread(session.run, wanted, feeds)
        except (polytc.ArgumentError, ValueError) as error:
            raise MLServerError(str(error), 400) from error
        finally:
            self._sessions.put_nowait(session)
        names = wanted or [v.name for v in self._model.outputs]
        return InferenceResponse(model_name=self.name, model_version=self.version, id=payload.id,
                                 outputs=[_output(n, a) for n, a in zip(names, results, strict=True)])


def _compiled(path: str, extra: dict[str, Any]) -> Model:
    shapes = {name: tuple(shape) for name, shape in extra.get("shapes", {}).items()}
    model = polytc.load_onnx(path).compile(threads=extra.get("threads"), symbolic=bool(extra.get("symbolic", False)))
    if shapes:
        model.prepare_early(shapes)
    return model


def _described(v: Value) -> MetadataTensor:
    """-1 stands for an extent that is open."""
    extents = [d if isinstance(d, int) else -1 for d in v.shape] if v.shape is not None else [-1]
    return MetadataTensor(name=v.name, datatype=DATATYPES.get(str(v.dtype), "BYTES"), shape=extents)


def _array(given: RequestInput) -> np.ndarray:
    if given.datatype == "BYTES":
        return np.array(StringCodec.decode_input(given), object).reshape(given.shape)
    return np.asarray(NumpyCodec.decode_input(given)).reshape(given.shape)


def _output(name: str, result: Any) -> ResponseOutput:
    array = np.asarray(result)
    if array.dtype.kind in "OU":
        if not all(isinstance(word, str) for word in array.ravel()):
            raise MLServerError(f"the output {name!r} is no tensor: leave out the ZipMap at the end of the model", 400)
        made = StringCodec.encode_output(name, [str(word) for word in array.ravel()])
    else:
        made = NumpyCodec.encode_output(name, array)
    made.shape = list(array.shape)  # the codecs tell vectors as columns
    return made
