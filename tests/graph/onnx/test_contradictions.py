"""Nodes that contradict their operands, and declarations that contradict what is computed, end in a diagnostic. ONNX Runtime,
which refuses all of these, is the oracle."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import polytc
from polytc.errors import ModelError
from tests.graph.operators.operator_case import Case, case, f, numbers, positive

IMAGE, WEIGHTS = f(1, 4, 6, 6), f(8, 4, 3, 3)
POOLS = [case(op, IMAGE, **a) for op in ("MaxPool", "AveragePool", "LpPool") for a in (
    {"kernel_shape": [2]}, {"kernel_shape": [2, 2, 2]}, {"kernel_shape": [2, 2], "strides": [1]},
    {"kernel_shape": [2, 2], "pads": [1, 1]}, {"kernel_shape": [0, 2]}, {"kernel_shape": [-1, 2]},
    {"kernel_shape": [2, 2], "strides": [0, 1]}, {"kernel_shape": [2, 2], "pads": [0, -1, 0, 0]},
    {"kernel_shape": [2, 2], "pads": [0, 0, 3, 0]})]
CONVOLUTIONS = [case("Conv", IMAGE, WEIGHTS, **a) for a in (
    {"kernel_shape": [2, 2]}, {"kernel_shape": [3]}, {"kernel_shape": [3, 3, 3]}, {"kernel_shape": [0, 0]}, {"group": 2},
    {"group": 3}, {"group": -1}, {"dilations": [1]}, {"dilations": [0, 1]}, {"strides": [1, 1, 1]}, {"pads": [1, 1]},
    {"pads": [0, 0, -1, 0]}, {"auto_pad": "WRONG"}, {"auto_pad": "VALID", "pads": [1, 1, 1, 1]})] + [
    case("Conv", IMAGE, WEIGHTS, f(7)), case("Conv", f(1, 5, 6, 6), WEIGHTS),
    case("ConvTranspose", IMAGE, f(4, 8, 3, 3), kernel_shape=[2, 2]),
    case("ConvTranspose", IMAGE, f(4, 8, 3, 3), output_padding=[5, 5]), case("ConvTranspose", IMAGE, f(4, 8, 3, 3), f(7))]
PRODUCTS = [case("Gemm", f(2, 3), f(4, 5)), case("Gemm", f(2, 3), f(3, 5), transA=1), case("Gemm", f(2, 3), f(3, 5), f(4)),
            case("Gemm", f(1, 3), f(3, 1), f(4, 5)), case("MatMul", f(2, 3), f(4, 5)),
            case("Einsum", f(2, 3), f(4, 5), equation="ij,jk->ik"), case("Einsum", f(2, 2), equation="ij->ii")]
STATISTICS = [f(4), f(4), f(4), positive(4)]
NORMS = [case("BatchNormalization", IMAGE, *(s[:n] if i == k else s for i, s in enumerate(STATISTICS)))
         for k in range(4) for n in (1, 3)] + [
    case("LayerNormalization", IMAGE, f(5)), case("LayerNormalization", IMAGE, f(6), f(3)),
    case("InstanceNormalization", IMAGE, f(3), f(4)), case("GroupNormalization", IMAGE, f(4), f(4), num_groups=3),
    case("LpNormalization", IMAGE, p=3), case("LRN", IMAGE, size=0),
    case("GroupNormalization", IMAGE, f(4), f(4), num_groups=0)]
MOVEMENT = [case("Transpose", IMAGE, perm=p) for p in ([0, 0, 2, 3], [0, 1, 2, 4], [0, 1])] + [
    case("Slice", IMAGE, *map(np.array, a), constant=(1, 2, 3, 4)) for a in (
        ([0], [2], [0], [0]), ([0], [2], [4], [1]), ([0, 0], [2, 2], [1, 1], [1, 1]), ([0, 1], [2], [0], [1]),
        ([0], [2], [0, 1], [1]), ([0], [2], [1], [1, 1]))] + [
    case("Split", IMAGE, numbers(2, 3), constant=(1,), outputs=2, axis=1), case("Flatten", IMAGE, axis=5),
    case("Flatten", IMAGE, axis=-5), case("Tile", IMAGE, numbers(2, 2, 2, 2, 2), constant=(1,)),
    case("Pad", IMAGE, numbers(*[1] * 10), constant=(1,)), case("Expand", IMAGE, numbers(3, 3), constant=(1,)),
    case("Reshape", IMAGE, numbers(-1, 7), constant=(1,)), case("Squeeze", IMAGE, numbers(1), constant=(1,)),
    case("Unsqueeze", IMAGE, numbers(0, 0), constant=(1,)), case("Concat", IMAGE, f(1, 4, 5, 6), axis=1),
    case("DepthToSpace", IMAGE, blocksize=3), case("DepthToSpace", IMAGE, blocksize=2, mode="X"),
    case("SpaceToDepth", IMAGE, blocksize=4), case("OneHot", numbers(1, 2), np.array([3]), f(3), constant=(1,))]

NONE = np.zeros(0, np.float32)
LAYER = {g: [f(4, 2, 3), f(1, g * 5, 3), f(1, g * 5, 5), None, None] for g in (1, 3, 4)}
RECURRENT = [case(op, *LAYER[g], f(*s), hidden_size=5) for op, g in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
             for s in ((1, 3, 5), (2, 2, 5), (1, 2, 6))] + [
    case("LSTM", *LAYER[4], f(1, 2, 5), f(1, 3, 5), hidden_size=5),
    case("LSTM", *LAYER[4], None, None, f(1, 10), hidden_size=5),
    case("LSTM", *LAYER[4], hidden_size=5, activations=["Sigmoid", "Tanh", "Unknown"]),
    case("LSTM", *LAYER[4], hidden_size=5, activations=["Sigmoid", "Tanh"])]
BYTES, ZERO, SIGNED, ONE = np.ones((1, 1, 3, 3), np.uint8), np.uint8(3), np.int8(3), np.float32(1)
RESIZES = [case("Resize", IMAGE, NONE, np.array(s, np.float32), constant=(1, 2)) for s in (
    [2, 2], [1, 1, -2, 2], [1, 1, 1, 2, 2])] + [
    case("Resize", IMAGE, None, np.array([1, 1, 0, 2], np.float32), constant=(1, 2)),
    case("Resize", IMAGE, NONE, np.array([1, 1, 2, 2], np.float32), numbers(1, 4, 12, 12), constant=(1, 2, 3)),
    case("Resize", IMAGE, NONE, NONE, numbers(12, 12), constant=(1, 2, 3)),
    case("Resize", IMAGE, NONE, np.array([1, 1, 2, 2], np.float32), constant=(1, 2), coordinate_transformation_mode="x")]
OTHERS = [
    case("Range", numbers(0), np.array(5), np.array(0)), case("Range", np.array(0), np.array(5), np.array(0)),
    case("Range", np.array(0.0), np.array(5.0), np.array(0.0), constant=(1, 2)),
    case("NonMaxSuppression", f(1, 6, 4), f(2, 1, 6), numbers(3), constant=(1, 2)),
    case("NonMaxSuppression", f(1, 6, 4), f(1, 1, 5), numbers(3), constant=(1, 2)),
    case("Split", IMAGE, outputs=2, num_outputs=3, axis=1),
    case("MaxPool", IMAGE, kernel_shape=[2, 2], pads=[2, 0, 0, 0]),
    case("AveragePool", IMAGE, kernel_shape=[2, 3], pads=[0, 0, 0, 3]),
    case("DequantizeLinear", BYTES, ONE, SIGNED, constant=(1, 2)),
    case("QLinearConv", BYTES, ONE, SIGNED, BYTES, ONE, ZERO, ONE, ZERO, constant=(1, 2, 3, 4, 5, 6, 7))]


def refused(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> ModelError:
    """By ONNX Runtime, and by polytc with a diagnostic of its own."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    with pytest.raises(Exception, match=r"."):
        onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"]).run(None, feeds)
    with pytest.raises(ModelError) as caught:
        polytc.load_onnx(model).compile(target="evaluate").run(None, feeds)
    assert caught.value.code in ("E606", "E609")
    return caught.value


EMPTY = [
    case("MaxPool", f(1, 2, 0, 6), kernel_shape=[3, 2]), case("AveragePool", f(1, 2, 9, 0), kernel_shape=[5, 4]),
    case("Split", f(2, 0), numbers(1, 2), constant=(1,), outputs=2, axis=1), case("Conv", f(1, 4, 0, 6), f(2, 3, 1, 1)),
    case("Transpose", f(0, 3), perm=[0, 2]), case("Concat", f(0, 3), f(0, 4), axis=0),
    case("Squeeze", f(0, 3), numbers(1), constant=(1,)),
    case("BatchNormalization", f(0, 4, 3, 3), *(positive(3) for _ in range(4)))]
"""Code that computes nothing has nothing to trip over."""


@pytest.mark.parametrize("c", EMPTY + POOLS + CONVOLUTIONS + PRODUCTS + NORMS + MOVEMENT + RECURRENT + RESIZES + OTHERS,
                         ids=str)
def test_nodes_that_contradict_their_operands(build, c: Case) -> None:
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(c.inputs)]
    given = {n: a for n, a in zip(names, c.inputs, strict=True) if a is not None}
    feeds = {n: a for n, a in given.items() if n == names[0] or c.op == "Gemm" and names.index(n) not in c.constant}
    model = build([helper.make_node(c.op, names, [f"y{i}" for i in range(c.outputs)], **c.attributes)], feeds,
                  [f"y{i}" for i in range(c.outputs)], {n: a for n, a in given.items() if n not in feeds})
    refused(model, feeds)


def model_with(outputs, inputs=None) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", inputs or [x], outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(("kind", "shape"), [(TensorProto.INT64, [2, 3]), (TensorProto.FLOAT, [2, 4]),
                                             (TensorProto.FLOAT, [2, 3, 1]), (TensorProto.DOUBLE, None)])
def test_outputs_that_are_declared_otherwise(kind: int, shape) -> None:
    with pytest.raises(ModelError, match="is declared as") as caught:
        polytc.load_onnx(model_with([helper.make_tensor_value_info("y", kind, shape)])).compile(target="evaluate")
    assert caught.value.code == "E606"


@pytest.mark.parametrize("shape", [None, [], [0, -1], ["a", "b"], [2, 3]])
def test_outputs_that_are_declared_in_part(shape) -> None:
    model = model_with([helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)])
    assert polytc.load_onnx(model).compile(target="evaluate")(np.ones((2, 3), np.float32)).shape == (2, 3)


def test_names_given_twice() -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy")
    with pytest.raises(ModelError, match="2 inputs named 'x'"):
        polytc.load_onnx(model_with([y], [x, x]))
    with pytest.raises(ModelError, match="2 outputs named 'y'"):
        polytc.load_onnx(model_with([y, y]))


def info(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


@pytest.mark.parametrize("steps", [4, 400])
@pytest.mark.parametrize("attributes", [
    {"num_scan_inputs": 3}, {"num_scan_inputs": 0}, {"scan_input_axes": [0, 0]}, {"scan_input_axes": [2]},
    {"scan_input_axes": [-3]}, {"scan_input_directions": [0, 1]}, {"scan_input_directions": [2]},
    {"scan_output_directions": [0, 0]}, {"scan_output_axes": [2]}, {"scan_output_axes": [-3]}], ids=str)
def test_scans_that_contradict_their_bodies(build, attributes: dict[str, object], steps: int) -> None:
    body = helper.make_graph([helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Identity", ["t"], ["o"])], "body",
                             [info("s", 3), info("e", 3)], [info("t", 3), info("o", 3)])
    node = helper.make_node("Scan", ["a", "b"], ["y", "z"], body=body, **{"num_scan_inputs": 1, **attributes})
    feeds = {"a": f(3), "b": f(steps, 3)}
    refused(build([node], feeds, ["y", "z"]), feeds)


def test_constants_that_are_declared_otherwise() -> None:
    model = model_with([info("y", 2, 3)], [info("x", 2, 3)])
    model.graph.initializer.append(numpy_helper.from_array(f(2, 4), "x"))
    refused(model, {})


def test_names_given_twice_in_a_branch(build) -> None:
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["r"])], "branch", [], [info("r", 2)])
    twice = helper.make_graph([helper.make_node("Add", ["x", "w"], ["q"])], "twice", [], [info("q", 2)],
                              [numpy_helper.from_array(f(2), "w")] * 2)
    feeds = {"c": np.array(True), "x": f(2)}
    model = build([helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=twice)], feeds, ["y"])
    with pytest.raises(ModelError, match="the graph 'twice' has 2 constants named 'w'"):
        polytc.load_onnx(model)
