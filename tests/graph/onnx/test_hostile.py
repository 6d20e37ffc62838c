"""Hostile models and calls: each gets a diagnostic that names the node, input or tensor, never a raw exception."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import polytc
from polytc.errors import ArgumentError, ModelError
from polytc.graph import passes
from polytc.graph.operators.table import TABLE

N = helper.make_node
X = {"x": (np.float32, [4, 6])}


def refusal(model: onnx.ModelProto) -> ModelError:
    with pytest.raises(ModelError) as caught:
        polytc.load_onnx(model).compile(target="evaluate", strict=True)
    return caught.value


def test_values_beyond_memory(build) -> None:
    nodes = [N("Expand", ["x", "s"], ["e"]), N("ReduceSum", ["e"], ["y"])]
    error = refusal(build(nodes, {"x": (np.float32, [2, 3])}, ["y"], {"s": np.array([10**6, 10**6, 2, 3])}))
    assert error.code == "E612"
    assert "'e'" in str(error)
    assert "Expand node" in str(error)
    assert refusal(build([N("Relu", ["x"], ["y"])], {"x": (np.float32, [10**9, 10**9])}, ["y"])).code == "E612"


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


ONE, IMAGE, LARGE = np.ones(1, np.float32), np.ones((1, 1, 2, 2), np.float32), 10**6


@pytest.mark.part(2)
@pytest.mark.parametrize(("op", "inputs", "attributes"), [
    ("ConstantOfShape", [numbers(2**40)], {}), ("ConstantOfShape", [numbers(2**40, 2**40)], {}),
    ("Expand", [ONE, numbers(LARGE, LARGE)], {}), ("Tile", [ONE, numbers(LARGE**2)], {}),
    ("Range", [np.array(0), np.array(LARGE**2), np.array(1)], {}),
    ("Range", [np.array(0.0), np.array(1.0), np.array(1e-13)], {}),
    ("OneHot", [numbers(1), np.array(LARGE**2), np.ones(2, np.float32)], {}), ("HannWindow", [np.array(LARGE**2)], {}),
    ("Pad", [IMAGE, numbers(0, 0, LARGE, LARGE, 0, 0, 0, 0)], {}), ("Add", [np.ones((LARGE, 1)), np.ones((1, LARGE))], {}),
    ("MatMul", [np.ones((LARGE, 1)), np.ones((1, LARGE))], {}), ("Einsum", [np.ones(LARGE)] * 2, {"equation": "i,j->ij"}),
    ("Resize", [IMAGE, ONE[:0], np.array([1, 1, LARGE, LARGE], np.float32)], {}),
    ("ConvTranspose", [IMAGE, IMAGE], {"strides": [LARGE, LARGE]}),
    ("CenterCropPad", [IMAGE[0, 0], numbers(LARGE, LARGE)], {})])
def test_constants_beyond_memory(build, op: str, inputs: list[np.ndarray], attributes: dict[str, object]) -> None:
    """Nothing is allocated for what a file of some hundred bytes asks to be computed beforehand."""
    names = [f"k{i}" for i in range(len(inputs))]
    nodes = [N(op, names, ["big"], **attributes), N("Shape", ["x"], ["s"]), N("ReduceSum", ["big"], ["y"], keepdims=0)]
    error = refusal(build(nodes, X, ["y", "s"], dict(zip(names, inputs, strict=True))))
    assert error.code == "E612"
    assert f"{op} node that computes 'big'" in str(error)


@pytest.mark.parametrize(("node", "shape", "constants", "code", "part"), [
    (N("Softmax", ["x"], ["y"], axis="abc"), [4, 6], {}, "E609", "axis='abc' is STRING, INT is needed"),
    (N("Conv", ["x", "w"], ["y"], strides=[0, 0]), [1, 1, 4, 4], {"w": np.ones((1, 1, 2, 2), np.float32)}, "E609", "strides"),
    (N("Conv", ["x", "w"], ["y"], pads=[1]), [1, 1, 4, 4], {"w": np.ones((1, 1, 2, 2), np.float32)}, "E609",
     "has 1 numbers, 4 are needed"),
    (N("Conv", ["x", "w"], ["y"], strides="ab"), [1, 1, 4, 4], {"w": np.ones((1, 1, 2, 2), np.float32)}, "E609", "strides"),
    (N("Conv", ["x", "w"], ["y"], group=0), [1, 1, 4, 4], {"w": np.ones((1, 1, 2, 2), np.float32)}, "E60", "Conv"),
    (N("Add", ["x"], ["y"]), [4], {}, "E60", "Add node"), (N("Relu", [], ["y"]), [4], {}, "E60", "Relu node"),
    (N("Identity", [], ["y"]), [4], {}, "E60", "Identity node"),
    (N("Transpose", ["x"], ["y"], perm=[0, 7]), [4, 6], {}, "E60", "Transpose node"),
    (N("Shape", ["x"], ["y"], start="a"), [4, 6], {}, "E609", "Shape node"),
    (N("Gather", ["x", "i"], ["y"]), [4, 6], {"i": np.array([0, 4])}, "E609", "the index 4 is out of range"),
    (N("Gather", ["x", "i"], ["y"]), [4, 6], {"i": np.array(-5)}, "E609", "the index -5 is out of range"),
    (N("GatherElements", ["x", "i"], ["y"]), [4, 6], {"i": np.array([[9]])}, "E609", "the index 9 is out of range"),
    (N("GatherND", ["x", "i"], ["y"]), [4, 6], {"i": np.array([[0, 6]])}, "E609", "the index 6 is out of range"),
    (N("BatchNormalization", ["x", "w"], ["y"]), [4, 6], {"w": np.ones(6, np.float32)}, "E60", "BatchNormalization"),
    (N("Sign", ["x"], ["p", "y"]), [4], {}, "E60", "Sign")])
def test_nodes_that_make_no_sense(build, node, shape, constants, code, part) -> None:
    error = refusal(build([node], {"x": (np.float32, shape)}, ["y"], constants))
    assert error.code.startswith(code), error
    assert part in str(error)


@pytest.mark.part(2)
@pytest.mark.parametrize(("op", "inputs", "attributes"), [
    ("ScatterElements", [np.arange(4), numbers(100), numbers(7)], {}),
    ("ScatterElements", [np.arange(4), numbers(-9), numbers(7)], {}),
    ("RoiAlign", [IMAGE, np.float32([[0, 0, 2, 2]]), numbers(1)], {}),
    ("RoiAlign", [IMAGE, np.float32([[0, 0, 2, 2]]), numbers(-7)], {}),
    ("MaxRoiPool", [IMAGE, np.float32([[3, 0, 0, 1, 1]])], {"pooled_shape": [1, 1]}),
    ("ReverseSequence", [np.float32([[1, 2], [3, 4]]), numbers(100, 2)], {})])
def test_indices_out_of_range_end_alike_on_all_targets(build, op: str, inputs: list[np.ndarray], attributes: dict[str, object]
                                                       ) -> None:
    """They are read from data, so that no compiler sees them: a wrong element, or none, and no raw error."""
    feeds = {f"x{i}": a for i, a in enumerate(inputs)}
    model = build([N(op, list(feeds), ["y"], **attributes)], feeds, ["y"])
    first, *others = (polytc.load_onnx(model).compile(target=t).run(None, feeds)[0] for t in ("evaluate", "interp", "cpu"))
    for each in others:
        np.testing.assert_array_equal(first, each)


def test_names_that_are_no_text(build) -> None:
    data = build([N("Relu", ["x"], ["y"], name="abcdefgh")], X, ["y"]).SerializeToString()
    data = data.replace(b"abcdefgh", b"\xff\xfe\xfdabcde")
    with pytest.raises(ModelError, match="'name' is no text") as caught:
        polytc.load_onnx(data)
    assert caught.value.code == "E601"


def test_a_body_whose_output_nothing_computes(build) -> None:
    info = helper.make_tensor_value_info("b", TensorProto.FLOAT, [4, 6])
    body = helper.make_graph([N("Relu", ["x"], ["a"])], "then", [], [info])
    other = helper.make_graph([N("Abs", ["x"], ["b"])], "else", [], [info])
    error = refusal(build([N("If", ["c"], ["y"], then_branch=body, else_branch=other)], X, ["y"], {"c": np.array(True)}))
    assert error.code == "E606"
    assert "body 'then' of If node" in str(error)


def test_a_result_named_twice(build) -> None:
    assert "computes 'y' a second time" in str(refusal(build([N("Split", ["x"], ["y", "y"], num_outputs=2)], X, ["y"])))


def test_an_input_that_is_left_out(build) -> None:
    assert "'scales' is missing" in str(refusal(build([N("Resize", ["x"], ["y"])], X, ["y"])))


def fails(_: object) -> None:
    raise TypeError("of a rule of ours")


def test_a_pass_that_fails_is_named(build, monkeypatch) -> None:
    monkeypatch.setitem(passes.PIPELINE, "patterns", fails)
    error = refusal(build([N("Relu", ["x"], ["y"])], X, ["y"]))
    assert error.code == "E606"
    assert "without=['patterns']" in str(error)


def test_a_row_that_fails_is_a_refusal_with_its_cause(build, monkeypatch) -> None:
    monkeypatch.setitem(TABLE, "Softmax", fails)
    error = refusal(build([N("Softmax", ["x"], ["y"], axis=1)], X, ["y"]))
    assert error.code == "E608"
    assert "x: f32[4, 6]" in str(error)
    assert "axis=1" in str(error)
    assert isinstance(error.__cause__, TypeError)


def test_an_attribute_of_another_kind_where_the_node_is_folded(build) -> None:
    error = refusal(build([N("Softmax", ["k"], ["y"], axis="abc")], X, ["y"], {"k": np.ones(3, np.float32)}))
    assert error.code == "E609"


def test_tensors_of_no_kind(build) -> None:
    model = build([N("Add", ["x", "w"], ["y"])], X, ["y"], {"w": np.ones(6, np.float32)})
    model.graph.initializer[0].data_type = 99
    assert "'w' has the unknown element type 99" in str(refusal(model))
    model.graph.initializer[0].data_type = TensorProto.FLOAT
    model.graph.initializer[0].dims[:] = [-6]
    assert refusal(model).code == "E607"
    assert "[-6]" in str(refusal(model))


def test_external_data_that_claims_to_be_huge(build, tmp_path: Path) -> None:
    model = build([N("Add", ["x", "w"], ["y"])], X, ["y"], {"w": np.ones(6, np.float32)})
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "length": str(10**12)}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    (tmp_path / "w.bin").write_bytes(bytes(24))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="24 are there") as caught:
        polytc.load_onnx(tmp_path / "m.onnx")
    assert caught.value.code == "E603"


@pytest.mark.parametrize("version", [None, 3, 99])
def test_versions_of_the_operator_set(build, version) -> None:
    model = build([N("Relu", ["x"], ["y"])], X, ["y"])
    if version is None:
        del model.opset_import[:]
    else:
        model.opset_import[0].version = version
    error = refusal(model)
    assert error.code == "E613"
    assert version is None or f"opset {version}" in str(error)


def test_calls_that_make_no_sense(build) -> None:
    graph = polytc.load_onnx(build([N("Relu", ["x"], ["y"])], X, ["y"]))
    model = graph.compile(target="evaluate")
    x = np.ones((4, 6), np.float32)
    for call, code in ((lambda: model.run(None, None), "E610"), (lambda: model.run("y", {"x": x}), "E610"),
                       (lambda: model.run(7, {"x": x}), "E610"),
                       (lambda: graph.compile(shapes={"x": "q"}), "E611"),
                       (lambda: graph.compile(shapes={"x": (-4, 6)}), "E611"),
                       (lambda: graph.compile(shapes={"x": 4}), "E611"), (lambda: graph.compile(shapes=3), "E611"),
                       (lambda: graph.compile(threads=0), "E410")):
        with pytest.raises(ArgumentError) as caught:
            call()
        assert caught.value.code == code


@pytest.mark.long
def test_check_of_a_model_that_onnx_runtime_refuses(build, tmp_path: Path) -> None:
    model = build([N("Swish", ["x"], ["y"])], X, ["y"], opset=24)
    model.ir_version = 999
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    done = subprocess.run([sys.executable, "-m", "polytc", "compile", str(path), "--check"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1, done.stderr
    assert "ONNX Runtime refuses this model" in done.stderr
    assert "Traceback" not in done.stderr


HUGE = 2**31 - 1


@pytest.mark.part(2)
@pytest.mark.parametrize(("node", "expected"), [
    (N("MaxPool", ["x"], ["y"], kernel_shape=[HUGE, 1], auto_pad="SAME_UPPER"), lambda x: x.max(2, keepdims=True) + 0 * x),
    (N("LpPool", ["x"], ["y"], kernel_shape=[HUGE, 1], pads=[HUGE // 2, 0, HUGE // 2, 0], p=1),
     lambda x: abs(x).sum(2, keepdims=True) + 0 * x),
    (N("AveragePool", ["x"], ["y"], kernel_shape=[HUGE, 1], pads=[HUGE // 2, 0, HUGE // 2, 0]),
     lambda x: x.mean(2, keepdims=True) + 0 * x),
    (N("AveragePool", ["x"], ["y"], kernel_shape=[3, 1], dilations=[HUGE, 1], pads=[HUGE, 0, HUGE, 0], count_include_pad=1),
     lambda x: x / 3),
    (N("AveragePool", ["x"], ["y"], kernel_shape=[2, 1], dilations=[8, 1], pads=[4, 0, 4, 0]), lambda x: np.nan * x),
    (N("LRN", ["x"], ["y"], size=HUGE, alpha=float(HUGE), beta=1.0), lambda x: x / (1 + (x * x).sum(1, keepdims=True)))])
@pytest.mark.parametrize("target", ["cpu", "evaluate"])
def test_windows_far_larger_than_their_input(build, target: str, node: onnx.NodeProto, expected) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 4, 2)).astype(np.float32)
    model = polytc.load_onnx(build([node], {"x": (np.float32, x.shape)}, ["y"])).compile(target=target, threads=1)
    np.testing.assert_allclose(model(x), expected(x), rtol=1e-5)
