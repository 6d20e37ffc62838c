"""Sessions beside ONNX Runtime's: what they tell, take and give."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import polytc
from polytc import inference
from polytc.inference import InferenceSession, OrtValue, SessionOptions

X = np.float32([[1, -2], [3, 4]])


def model() -> onnx.ModelProto:
    """Two outputs, a size with a name, a weight that may be given, and what the file says about itself."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"]), helper.make_node("Relu", ["x"], ["z"])], "g",
        [info("x", TensorProto.FLOAT, ["batch", 2]), info("w", TensorProto.FLOAT, [2])],
        [info("y", TensorProto.FLOAT, ["batch", 2]), info("z", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(np.float32([1, 2]), "w")], doc_string="a graph")
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="tests",
                             doc_string="a model", model_version=3, domain="org.tests")
    helper.set_model_props(made, {"k": "v"})
    return made


@pytest.fixture(scope="module")
def data() -> bytes:
    return model().SerializeToString()


@pytest.fixture
def session(data: bytes) -> InferenceSession:
    return InferenceSession(data)


@pytest.fixture
def theirs(data: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def test_what_they_tell(session: InferenceSession, theirs: Any) -> None:
    for name in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        found, expected = getattr(session, name)(), getattr(theirs, name)()
        assert [(a.name, a.type, a.shape) for a in found] == [(a.name, a.type, a.shape) for a in expected]
    ours, meta = session.get_modelmeta(), theirs.get_modelmeta()
    for field in ("producer_name", "graph_name", "domain", "description", "graph_description", "version",
                  "custom_metadata_map"):
        assert getattr(ours, field) == getattr(meta, field), field
    assert session.get_providers() == theirs.get_providers()
    assert session.get_provider_options() == theirs.get_provider_options()


@pytest.mark.parametrize(("names", "feeds"), [
    (None, {"x": X}), ([], {"x": X}), (["z"], {"x": X}), (["z", "y"], {"x": X}), (None, {"x": X.tolist()}),
    (None, {"x": [[1, 2]]}), (["y"], {"x": X, "w": np.float32([5, 7])}), (None, {"x": X.T}), (None, {"x": X[:, ::-1]})])
def test_runs(session: InferenceSession, theirs: Any, names: list[str] | None, feeds: dict[str, Any]) -> None:
    for found, expected in zip(session.run(names, feeds), theirs.run(names, feeds), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("feeds", [
    {"x": X.astype("f8")}, {"x": X.astype("i4")}, {}, {"x": X, "q": X}, {"x": X[0]}, {"x": np.zeros((2, 3), np.float32)},
    {"x": None}, {"x": X, "w": np.zeros(3, np.float32)}])
def test_what_both_refuse(session: InferenceSession, theirs: Any, feeds: dict[str, Any]) -> None:
    with pytest.raises(polytc.ArgumentError) as caught:
        session.run(None, feeds)
    assert caught.value.code in ("E610", "E611")
    with pytest.raises(Exception, match=r"."):
        theirs.run(None, feeds)


def test_names_that_both_refuse(session: InferenceSession, theirs: Any) -> None:
    for names in (["q"], "z"):
        with pytest.raises(polytc.ArgumentError):
            session.run(names, {"x": X})
        with pytest.raises(Exception, match=r"."):
            theirs.run(names, {"x": X})


def test_files(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    for source in (str(path), path, data, model()):
        session = InferenceSession(source)
        np.testing.assert_array_equal(session.run(["y"], {"x": X, "w": np.float32([9, 9])})[0], X + 9)
        np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], X + np.float32([1, 2]))
    for bad in (str(tmp_path / "none.onnx"), b"abc", b""):
        with pytest.raises(polytc.ModelError):
            InferenceSession(bad)


def test_values(session: InferenceSession, theirs: Any) -> None:
    value, other = OrtValue.ortvalue_from_numpy(X), onnxruntime.OrtValue.ortvalue_from_numpy(X)
    for name in ("shape", "data_type", "element_type", "device_name", "has_value", "is_tensor", "tensor_size_in_bytes",
                 "is_sparse_tensor", "is_tensor_sequence"):
        assert getattr(value, name)() == getattr(other, name)(), name
    np.testing.assert_array_equal(session.run(["z"], {"x": value})[0], np.maximum(X, 0))
    (found,) = session.run_with_ort_values(["z"], {"x": value})
    np.testing.assert_array_equal(found.numpy(), np.maximum(X, 0))
    value.update_inplace(-X)
    np.testing.assert_array_equal(session.run(["z"], {"x": value})[0], np.maximum(-X, 0))
    np.testing.assert_array_equal(np.asarray(value), -X)
    with pytest.raises(polytc.ArgumentError, match="the value is"):
        value.update_inplace(X[0])
    empty = OrtValue.ortvalue_from_shape_and_type([2, 3], np.int64)
    assert (empty.shape(), empty.data_type()) == ([2, 3], "tensor(int64)")
    assert OrtValue.ortvalue_from_shape_and_type([1], TensorProto.DOUBLE).numpy().dtype == np.float64
    with pytest.raises(polytc.ArgumentError, match="cuda"):
        OrtValue.ortvalue_from_numpy(X, "cuda", 0)


def test_binding(session: InferenceSession, theirs: Any) -> None:
    found: list[list[np.ndarray]] = []
    for s, values in ((session, OrtValue), (theirs, onnxruntime.OrtValue)):
        binding, place = s.io_binding(), np.zeros((2, 2), np.float32)
        binding.bind_cpu_input("x", X)
        binding.bind_output("z")
        binding.bind_output("y", "cpu", 0, np.float32, [2, 2], place.ctypes.data)
        s.run_with_iobinding(binding)
        found.append([*binding.copy_outputs_to_cpu(), place.copy()])
        binding.clear_binding_outputs()
        target = values.ortvalue_from_numpy(np.zeros((2, 2), np.float32))
        binding.bind_ortvalue_input("x", values.ortvalue_from_numpy(2 * X))
        binding.bind_ortvalue_output("y", target)
        s.run_with_iobinding(binding)
        found[-1] += [target.numpy(), binding.get_outputs()[0].numpy()]
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_runs_in_the_background(session: InferenceSession) -> None:
    done, told = threading.Event(), []

    def callback(*args: Any) -> None:
        told.append(args)
        done.set()
    session.run_async(["z"], {"x": X}, callback, "mine")
    assert done.wait(60)
    (outputs, data, error), = told
    np.testing.assert_array_equal(outputs[0], np.maximum(X, 0))
    assert (data, error) == ("mine", "")
    done.clear()
    session.run_async(["z"], {"q": X}, callback, None)
    assert done.wait(60)
    assert "E610" in told[1][2]


def test_many_threads(session: InferenceSession) -> None:
    wrong: list[int] = []

    def work(n: int) -> None:
        x = np.full((n + 1, 2), n, np.float32)
        for _ in range(50):
            if not np.array_equal(session.run(["y"], {"x": x})[0], x + np.float32([1, 2])):
                wrong.append(n)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_copies(data: bytes) -> None:
    options = SessionOptions()
    options.intra_op_num_threads = 1
    session = InferenceSession(data, options)
    for other in (copy.deepcopy(session), pickle.loads(pickle.dumps(session))):
        np.testing.assert_array_equal(other.run(["z"], {"x": X})[0], np.maximum(X, 0))
        assert other.get_session_options().intra_op_num_threads == 1


def test_options(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options, other = SessionOptions(), onnxruntime.SessionOptions()
    for name in ("intra_op_num_threads", "inter_op_num_threads", "enable_profiling", "enable_mem_pattern", "log_severity_level",
                 "enable_cpu_mem_arena", "logid", "profile_file_prefix", "use_deterministic_compute"):
        assert getattr(options, name) == getattr(other, name), name
    options.add_session_config_entry("session.x", "1")
    assert options.get_session_config_entry("session.x") == "1"
    options.add_free_dimension_override_by_name("batch", 2)
    options.graph_optimization_level = inference.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.enable_profiling = True
    session = InferenceSession(data, sess_options=options)
    with pytest.raises(polytc.ArgumentError, match="no run"):
        session.end_profiling()
    session.run(None, {"x": X})
    trace = json.loads(Path(session.end_profiling()).read_text())
    assert trace


def test_providers(data: bytes) -> None:
    assert inference.get_available_providers() == ["CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        session = InferenceSession(data, providers=[("CUDAExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]


@pytest.mark.long
def test_libraries_that_import_onnxruntime(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    script = f"""
import polytc.inference; polytc.inference.replace_onnxruntime()
import numpy as np, onnxruntime as ort
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions, get_available_providers
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
options = SessionOptions()
options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
session = InferenceSession({str(path)!r}, sess_options=options, providers=ort.get_available_providers())
name = session.get_inputs()[0].name
assert session.run(None, {{name: np.ones((3, 2), np.float32)}})[0].shape == (3, 2)
try:
    session.run(None, {{name: np.ones((3, 2))}})
except InvalidArgument as error:
    print(type(error).__module__)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert ran.stdout.strip() == "polytc.errors", ran.stderr


def test_outputs_that_are_not_as_declared() -> None:
    """ONNX Runtime warns of them and runs; so does a session."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [info("x", TensorProto.FLOAT, ["n", 2])],
                              [info("y", TensorProto.FLOAT, [1, "length", 3])])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    with pytest.raises(polytc.ModelError):
        polytc.load_onnx(made).compile().run(None, {"x": X})
    session = InferenceSession(made)
    with pytest.warns(UserWarning, match="not what the file declares"):
        found = session.run(None, {"x": X})
    np.testing.assert_array_equal(found[0], np.maximum(X, 0))
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(X, 0))
    assert session.get_outputs()[0].shape == [1, "length", 3]
