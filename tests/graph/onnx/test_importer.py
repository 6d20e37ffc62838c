"""What bad model files get: a diagnostic with a code that names the thing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import polytc
from polytc.disk.mapped import origin
from polytc.errors import ModelError


def refused(source, code: str, *parts: str) -> None:
    with pytest.raises(ModelError) as caught:
        polytc.load_onnx(source)
    assert caught.value.code == code
    for part in parts:
        assert part in str(caught.value)


def with_external(build, location: str, **entries: int) -> onnx.ModelProto:
    model = build([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (np.float32, [4])}, ["y"], {"w": np.ones(4, np.float32)})
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return model


def test_not_a_model(tmp_path: Path) -> None:
    refused(b"this is no protobuf message at all", "E601")
    refused(b"", "E601", "empty")
    refused(tmp_path / "missing.onnx", "E602", "missing.onnx")
    refused(3, "E602", "int")


def test_truncated(build, tmp_path: Path) -> None:
    data = build([helper.make_node("Relu", ["x"], ["y"])], {"x": (np.float32, [4])}, ["y"],
                 {"unused": np.ones(99)}).SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[:len(data) // 2])
    refused(path, "E601", "cut.onnx")


def test_every_missing_operator_is_listed(build) -> None:
    nodes = [helper.make_node("Plain", ["x"], ["a"], name="first", domain="com.example"),
             helper.make_node("Relu", ["x"], ["b"]),
             helper.make_node("Fancy", ["b"], ["c"], name="second", domain="com.example")]
    model = build(nodes, {"x": (np.float32, [4])}, ["a", "c"])
    with pytest.raises(ModelError) as caught:
        polytc.load_onnx(model)
    assert [d.code for d in caught.value.diagnostics] == ["E605", "E605"]
    assert "com.example::Plain" in str(caught.value)
    assert "'first'" in str(caught.value)
    assert "com.example::Fancy" in str(caught.value)


def test_operators_on_constants_need_no_binding(build) -> None:
    model = build([helper.make_node("NonZero", ["k"], ["a"]), helper.make_node("Cast", ["a"], ["b"], to=1),
    helper.make_node("Add", ["x", "b"], ["y"])],
                  {"x": (np.float32, [1])}, ["y"], {"k": np.array([0, 5, 0, 7])})
    result = polytc.load_onnx(model).compile(target="evaluate").run(None, {"x": np.float32([10])})[0]
    np.testing.assert_array_equal(result, [[11, 13]])


@pytest.mark.parametrize("in_place", [False, True])
def test_external_data_are_out_of_the_reach_of_others_unless_asked_for(build, tmp_path: Path, in_place: bool) -> None:
    (tmp_path / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    path = tmp_path / "model.onnx"
    path.write_bytes(with_external(build, "w.bin").SerializeToString())
    array = polytc.load_onnx(path, in_place=in_place).constants["w"]
    found = origin(array)
    assert found is not None
    assert (found.path, found.live) == (tmp_path / "w.bin", in_place)
    assert not array.flags.writeable


def test_external_data_of_a_sparse_tensor_or_a_function(build, tmp_path: Path) -> None:
    """No tensor, wherever it is, is read from outside of the model's folder."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    path = tmp_path / "inner" / "model.onnx"
    tensor = with_external(build, "../secret.bin").graph.initializer[0]
    model = build([helper.make_node("F", ["x"], ["y"], domain="own")], {"x": (np.float32, [4])}, ["y"])
    inner = [helper.make_node("Constant", [], ["k"], value=tensor), helper.make_node("Add", ["x", "k"], ["y"])]
    model.functions.append(helper.make_function("own", "F", ["x"], ["y"], inner, [helper.make_opsetid("", 21)]))
    model.opset_import.append(helper.make_opsetid("own", 1))
    path.write_bytes(model.SerializeToString())
    refused(path, "E604", "secret.bin")
    sparse = build([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (np.float32, [4])}, ["y"])
    places = helper.make_tensor("i", TensorProto.INT64, [4], [0, 1, 2, 3])
    sparse.graph.sparse_initializer.append(helper.make_sparse_tensor(tensor, places, [4]))
    path.write_bytes(sparse.SerializeToString())
    refused(path, "E604", "secret.bin")


def test_external_data(build, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"????" + np.arange(4, dtype=np.float32).tobytes())
    path = tmp_path / "model.onnx"
    path.write_bytes(with_external(build, "sub/w.bin", offset=4, length=16).SerializeToString())
    result = polytc.load_onnx(path).compile(target="evaluate")(np.zeros(4, np.float32))
    np.testing.assert_array_equal(result, [0, 1, 2, 3])


@pytest.mark.parametrize("location", ["../outside.bin", "/etc/hostname", "sub/../../outside.bin", "sub/../w.bin", "..",
                                      "sub\\..\\..\\outside.bin", "C:\\outside.bin", "\\\\host\\outside.bin"])
def test_external_data_outside_of_the_folder(build, tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "outside.bin").write_bytes(np.ones(4, np.float32).tobytes())
    path = folder / "model.onnx"
    path.write_bytes(with_external(build, location, length=16).SerializeToString())
    refused(path, "E604", repr(location))


def test_external_data_behind_a_link(build, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "outside.bin").write_bytes(np.ones(4, np.float32).tobytes())
    (folder / "w.bin").symlink_to(tmp_path / "outside.bin")
    path = folder / "model.onnx"
    path.write_bytes(with_external(build, "w.bin", length=16).SerializeToString())
    refused(path, "E604", "'w.bin'")
    assert polytc.load_onnx(path, folders=[tmp_path]).constants["w"].tolist() == [1, 1, 1, 1]
    refused(path, "E604", f"folders=['{tmp_path}']")


def hub(build, root: Path) -> Path:
    """The model of a hub: a folder of links into a folder of blobs, for each version of the model."""
    blobs, version = root / "blobs", root / "snapshots" / "0a1b" / "onnx"
    blobs.mkdir()
    version.mkdir(parents=True)
    (blobs / "11").write_bytes(with_external(build, "model.onnx_data").SerializeToString())
    (blobs / "22").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    (version / "model.onnx").symlink_to("../../../blobs/11")
    (version / "model.onnx_data").symlink_to("../../../blobs/22")
    return version / "model.onnx"


def test_the_layout_of_a_hub(build, tmp_path: Path) -> None:
    path = hub(build, tmp_path)
    result = polytc.load_onnx(path).compile(target="evaluate")(np.zeros(4, np.float32))
    np.testing.assert_array_equal(result, [0, 1, 2, 3])


def test_links_out_of_the_layout_of_a_hub(build, tmp_path: Path) -> None:
    """A link of the data leads elsewhere, or the model is no link, or what is in the folder of blobs leads on."""
    (tmp_path / "hub").mkdir()
    path = hub(build, tmp_path / "hub")
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(16))
    data, blob = path.with_name("model.onnx_data"), tmp_path / "hub" / "blobs" / "22"
    data.unlink()
    data.symlink_to(secret)
    refused(path, "E604", str(secret))
    data.unlink()
    data.symlink_to(blob)
    blob.unlink()
    blob.symlink_to(secret)
    refused(path, "E604", str(secret))
    blob.unlink()
    blob.write_bytes(bytes(16))
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    refused(path, "E604", str(blob))


def test_external_data_missing_or_short(build, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(with_external(build, "w.bin", length=16).SerializeToString())
    refused(path, "E603", "'w'")
    (tmp_path / "w.bin").write_bytes(b"12345678")
    refused(path, "E603", "16 bytes", "8 are there")
    refused(path.read_bytes(), "E603", "load the model from its path")


def test_a_sparse_constant(build) -> None:
    values = helper.make_tensor("v", TensorProto.FLOAT, [2], [3.0, 4.0])
    sparse = helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [2], [1, 5]), [2, 3])
    nodes = [helper.make_node("Constant", [], ["c"], sparse_value=sparse), helper.make_node("Add", ["x", "c"], ["y"])]
    model = polytc.load_onnx(build(nodes, {"x": (np.float32, [2, 3])}, ["y"])).compile()
    assert np.array_equal(model(np.zeros((2, 3), "f4")), [[0, 3, 0], [0, 0, 4]])


def test_broken_wiring(build) -> None:
    refused(build([helper.make_node("Relu", ["nowhere"], ["y"])], {"x": (np.float32, [4])}, ["y"]), "E606", "'nowhere'")
    refused(build([helper.make_node("Relu", ["x"], ["y"])], {"x": (np.float32, [4])}, ["z"]), "E606", "'z'")


def test_unknown_modes_name_the_node_and_the_known_ones(build) -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], name="up", mode="lanczos")
    with pytest.raises(ModelError) as caught:
        polytc.load_onnx(build([node], {"x": (np.float32, [1, 1, 4, 4])}, ["y"], {"s": np.float32([1, 1, 2, 2])}))
    assert caught.value.code == "E609"
    assert "'up'" in str(caught.value)
    assert "it may be nearest, linear, cubic" in str(caught.value)


def test_shapes_that_do_not_fit_name_the_node(build) -> None:
    graph = polytc.load_onnx(build([helper.make_node("MatMul", ["a", "b"], ["y"], name="product")],
                                   {"a": (np.float32, [2, 3]), "b": (np.float32, [4, 5])}, ["y"]))
    with pytest.raises(ModelError) as caught:
        graph.compile(target="evaluate", strict=True)
    assert caught.value.code == "E609"
    assert "'product'" in str(caught.value)
    assert "[2, 3], [4, 5]" in str(caught.value)


def test_graph_prints(build) -> None:
    node = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)
    text = str(polytc.load_onnx(build([node], {"x": (np.float32, ["N", 3, None])}, ["y"])))
    assert "input x: f32[N, 3, ?]" in text
    assert "y: ?[...] = LeakyRelu(x) {alpha=0.5}" in text
    assert "output y" in text


def test_model_local_functions_are_inlined(build) -> None:
    model = build([helper.make_node("Twice", ["x"], ["y"], domain="local")], {"x": (np.float32, [3])}, ["y"])
    function = helper.make_function("local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
                                    [helper.make_opsetid("", 21)])
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("local", 1))
    np.testing.assert_array_equal(polytc.load_onnx(model).compile(target="evaluate")(np.float32([1, 2, 3])), [2, 4, 6])


def test_without_the_onnx_library() -> None:
    code = ("import sys; sys.modules['onnx'] = None\nimport polytc, polytc.graph\n"
            "try: polytc.load_onnx(b'')\nexcept polytc.ModelError as e: print(e)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("E600")
    assert "pip install 'polytc[onnx]'" in done.stdout


def test_a_weight_that_does_not_fill_its_shape_is_refused(build) -> None:
    model = build([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (np.float32, [4])}, ["y"])
    weight = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[4], raw_data=b"\0" * 6)
    model.graph.initializer.append(weight)
    refused(model, "E607", "'w'")
