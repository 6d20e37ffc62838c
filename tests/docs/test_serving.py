"""examples/serving: MLServer with polytc's runtime, asked by HTTP and gRPC; Triton's Python backend behind its interface."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import types
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tests.graph.small_models import model_of

SERVING = Path(__file__).parents[2] / "examples" / "serving"
R = np.random.default_rng(4)
WAIT = 90


def mlp() -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Softmax", ["a"], ["y"]),
             helper.make_node("ArgMax", ["a"], ["k"], axis=1, keepdims=0)]
    made = model_of(nodes, {"x": (np.float32, ("n", 4))}, ["y", "k"], {"w": R.normal(size=(4, 3)).astype(np.float32)}, opset=18)
    declared = (("y", onnx.TensorProto.FLOAT, ["n", 3]), ("k", onnx.TensorProto.INT64, ["n"]))
    del made.graph.output[:]
    made.graph.output.extend(helper.make_tensor_value_info(*t) for t in declared)
    return made


def expected(x: np.ndarray, model: Path) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).run(None, {"x": x})


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Server:
    """MLServer with one model."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.model = folder, folder / "model.onnx"
        self.http, self.grpc, metrics = free_ports(3)
        shutil.copy(SERVING / "mlserver" / "polytc_runtime.py", folder)
        shutil.copy(SERVING / "mlserver" / "model-settings.json", folder)
        onnx.save(mlp(), self.model)
        settings = {"host": "127.0.0.1", "http_port": self.http, "grpc_port": self.grpc, "metrics_port": metrics,
                    "parallel_workers": 0}
        (folder / "settings.json").write_text(json.dumps(settings))
        root = str(Path(__file__).parents[2])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((root, os.environ.get("PYTHONPATH", "")))}
        self.process = subprocess.Popen([sys.executable, "-c", "from mlserver.cli import main; main()", "start", str(folder)],
                                        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def wait(self) -> None:
        end = time.monotonic() + WAIT
        while True:
            try:
                self.ask("/v2/models/model/ready")
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    self.process.kill()
                    pytest.fail(f"the server did not start: {self.process.communicate()[0][-2000:]}")
                time.sleep(0.2)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("mlserver")
    made = Server(tmp_path_factory.mktemp("mlserver"))
    try:
        made.wait()
        yield made
    finally:
        made.process.terminate()
        made.process.wait(30)


def tensor(x: np.ndarray, datatype: str = "FP32") -> dict[str, Any]:
    return {"name": "x", "shape": list(x.shape), "datatype": datatype, "data": x.ravel().tolist()}


def by_http(server: Server, x: np.ndarray, **more: Any) -> dict[str, np.ndarray]:
    answer = server.ask("/v2/models/model/infer", {"inputs": [tensor(x)], **more})
    kinds = {"FP32": np.float32, "INT64": np.int64}
    return {o["name"]: np.array(o["data"], kinds[o["datatype"]]).reshape(o["shape"]) for o in answer["outputs"]}


def test_http(server: Server) -> None:
    for n in (1, 5, 64):
        x = R.normal(size=(n, 4)).astype(np.float32)
        found, (y, k) = by_http(server, x), expected(x, server.model)
        np.testing.assert_allclose(found["y"], y, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(found["k"], k)
    assert list(by_http(server, x, outputs=[{"name": "k"}])) == ["k"]


def test_requests_at_once(server: Server) -> None:
    inputs = [R.normal(size=(n, 4)).astype(np.float32) for n in range(1, 33)]
    with ThreadPoolExecutor(8) as pool:
        for x, found in zip(inputs, pool.map(lambda x: by_http(server, x), inputs), strict=True):
            np.testing.assert_allclose(found["y"], expected(x, server.model)[0], rtol=1e-6, atol=1e-7)


def test_grpc(server: Server) -> None:
    import grpc
    from mlserver.grpc import dataplane_pb2, dataplane_pb2_grpc

    x = R.normal(size=(7, 4)).astype(np.float32)
    request = dataplane_pb2.ModelInferRequest(model_name="model")
    given = request.inputs.add(name="x", datatype="FP32", shape=x.shape)
    given.contents.fp32_contents.extend(x.ravel().tolist())
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        answer = dataplane_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=30)
        request.ClearField("inputs")
        request.inputs.add(name="x", datatype="FP32", shape=x.shape)
        request.raw_input_contents.append(x.tobytes())
        raw = dataplane_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=30)
    y, k = expected(x, server.model)
    assert [(o.name, tuple(o.shape)) for o in (*answer.outputs, *raw.outputs)] == [("y", y.shape), ("k", k.shape)] * 2
    first, second = (o.contents for o in answer.outputs)
    for found in (np.array(first.fp32_contents), np.frombuffer(raw.raw_output_contents[0], np.float32)):
        np.testing.assert_allclose(found.reshape(y.shape), y, rtol=1e-6, atol=1e-7)
    for found in (np.array(second.int64_contents), np.frombuffer(raw.raw_output_contents[1], np.int64)):
        np.testing.assert_array_equal(found, k)


def test_what_the_model_declares(server: Server) -> None:
    told = server.ask("/v2/models/model")
    assert told["platform"] == "polytc"
    assert [(v["name"], v["datatype"], v["shape"]) for v in (*told["inputs"], *told["outputs"])] == [
        ("x", "FP32", [-1, 4]), ("y", "FP32", [-1, 3]), ("k", "INT64", [-1])]


@pytest.mark.parametrize(("shape", "datatype", "outputs"), [
    ((2, 5), "FP32", "y"), ((2, 4), "FP64", "y"), ((2, 4), "FP32", "z")])
def test_requests_that_do_not_fit(server: Server, shape: tuple[int, int], datatype: str, outputs: str) -> None:
    body = {"inputs": [tensor(np.ones(shape), datatype)], "outputs": [{"name": outputs}]}
    with pytest.raises(urllib.error.HTTPError) as caught:
        server.ask("/v2/models/model/infer", body)
    assert caught.value.code == 400
    assert "E61" in json.loads(caught.value.read())["error"]


class Backend(types.ModuleType):
    """What Triton gives to a Python model, as its documentation tells it."""

    def __init__(self) -> None:
        super().__init__("triton_python_backend_utils")

    class Tensor:
        def __init__(self, name: str, array: np.ndarray) -> None:
            self.name, self._array = name, array

        def as_numpy(self) -> np.ndarray:
            return self._array

    class TritonError(Exception):
        pass

    class InferenceResponse:
        def __init__(self, output_tensors: list[Any], error: Any = None) -> None:
            self.output_tensors, self.error = output_tensors, error

    class Request:
        def __init__(self, inputs: list[Any], wanted: list[str]) -> None:
            self.inputs, self.wanted = inputs, wanted

        def requested_output_names(self) -> list[str]:
            return self.wanted

    @staticmethod
    def get_input_tensor_by_name(request: Any, name: str) -> Any:
        return next((t for t in request.inputs if t.name == name), None)


def test_triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Triton: a model of its Python backend, called as that calls it."""
    backend = Backend()
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", backend)
    spec = importlib.util.spec_from_file_location("triton_model", SERVING / "triton" / "1" / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "1").mkdir()
    onnx.save(mlp(), tmp_path / "1" / "model.onnx")
    model = module.TritonPythonModel()
    config = {"parameters": {"threads": {"string_value": "1"}, "symbolic": {"string_value": "true"}}}
    model.initialize({"model_config": json.dumps(config), "model_repository": str(tmp_path), "model_version": "1"})
    arrays = [R.normal(size=(n, 4)).astype(np.float32) for n in (1, 3, 20)]
    wrong = backend.Request([backend.Tensor("x", np.ones((2, 5), np.float32))], ["y"])
    missing = backend.Request([], ["y"])
    *right, first, second = model.execute(
        [backend.Request([backend.Tensor("x", x)], ["k", "y"]) for x in arrays] + [wrong, missing])
    for x, answer in zip(arrays, right, strict=True):
        y, k = expected(x, tmp_path / "1" / "model.onnx")
        assert [t.name for t in answer.output_tensors] == ["k", "y"]
        np.testing.assert_array_equal(answer.output_tensors[0].as_numpy(), k)
        np.testing.assert_allclose(answer.output_tensors[1].as_numpy(), y, rtol=1e-6, atol=1e-7)
    assert all("E61" in str(answer.error) for answer in (first, second))
