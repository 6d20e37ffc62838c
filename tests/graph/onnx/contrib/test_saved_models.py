"""Models that ONNX Runtime saved at its optimisation levels compute what the plain ones do, from plain operators."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import polytc
from polytc.graph.onnx.contrib import blocked_channels
from tests.graph.onnx.contrib.cases import by_onnx_runtime
from tests.graph.saturation import largest

LEVELS = onnxruntime.GraphOptimizationLevel


class Net:
    """Nodes with seeded weights, one after the other."""

    def __init__(self, *shape: int, seed: int = 3) -> None:
        self.random = np.random.default_rng(seed)
        self.shape = shape
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def stored(self, *shape: int, scale: float = .3) -> str:
        name = f"w{len(self.weights)}"
        array = (self.random.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def given(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def conv(self, x: str, made: int, read: int, size: int = 1, groups: int = 1, bias: bool = True, **own: Any) -> str:
        weights = [self.stored(made, read // groups, size, size)] + [self.stored(made)] * bias
        return self.add("Conv", x, *weights, kernel_shape=[size] * 2, pads=[size // 2] * 4, group=groups, **own)

    def model(self, *outputs: str) -> onnx.ModelProto:
        info = helper.make_tensor_value_info
        graph = helper.make_graph(self.nodes, "net", [info("x", 1, self.shape)], [info(o, 1, None) for o in outputs],
            self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def saved(model: onnx.ModelProto, level: Any, folder: Path) -> tuple[onnx.ModelProto, collections.Counter[str]]:
    """The model as ONNX Runtime optimises it, and its operators that are ONNX Runtime's own."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 4
    options.optimized_model_filepath = str(folder / "saved.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = onnx.load(folder / "saved.onnx")
    return found, collections.Counter(n.op_type for n in found.graph.node if n.domain)


def mobile() -> onnx.ModelProto:
    """Channels that fill no block, convolutions of single channels, residuals, activations."""
    net = Net(2, 3, 18, 18)
    a = net.add("Clip", net.conv("x", 24, 3, 3, strides=[2, 2]), net.given(np.float32(0)), net.given(np.float32(6)))
    b = net.add("Relu", net.conv(a, 24, 24, 3, groups=24))
    c = net.add("Add", net.conv(b, 24, 24), a)
    d = net.add("HardSigmoid", net.conv(c, 40, 24, bias=False))
    e = net.add("Sigmoid", net.conv(d, 20, 40, 3))
    g = net.add("GlobalAveragePool", net.conv(e, 36, 20))
    return net.model(c, e, g)


def joined() -> onnx.ModelProto:
    """Blocks that are put one behind the other, groups, pools."""
    net = Net(1, 3, 16, 16)
    a = net.add("MaxPool", net.add("Relu", net.conv("x", 32, 3, 3)), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    b, c = net.add("Relu", net.conv(a, 16, 32)), net.add("Tanh", net.conv(a, 48, 32, 3))
    d = net.add("Concat", b, c, axis=1)
    e = net.add("AveragePool", net.conv(d, 64, 64, 3, groups=2), kernel_shape=[2, 2], strides=[2, 2])
    f = net.add("Concat", net.conv(e, 12, 64), net.conv(e, 20, 64), axis=1)
    return net.model(net.add("GlobalMaxPool", e), net.conv(f, 8, 32))


def grown(mode: str) -> onnx.ModelProto:
    net = Net(1, 3, 9, 7)
    a = net.add("Relu", net.conv("x", 20, 3, 3))
    own = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor"} if mode == "nearest" else {
        "mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    b = net.add("Resize", a, "", net.given(np.float32([1, 1, 2, 2])), **own)
    return net.model(net.conv(b, 24, 20, 3))


def last(rows: int, channels: int) -> onnx.ModelProto:
    """Transpositions around convolutions, which ONNX Runtime makes part of the change of blocks."""
    net = Net(1, rows, 12, channels)
    a = net.add("Relu", net.conv(net.add("Transpose", "x", perm=[0, 3, 1, 2]), 20, channels, 3))
    b = net.add("Transpose", net.conv(a, 24, 20, 3), perm=[0, 2, 3, 1])
    return net.model(net.add("Mul", b, net.stored(24)))


def pruned() -> onnx.ModelProto:
    """The last channels are zeros, and are read, and are an output."""
    net = Net(1, 16, 8, 8)
    a = net.conv("x", 24, 16, 3)
    for name in (net.nodes[-1].input[1], net.nodes[-1].input[2]):
        tensor = next(t for t in net.weights if t.name == name)
        array = numpy_helper.to_array(tensor).copy()
        array[18:] = 0
        tensor.CopyFrom(numpy_helper.from_array(array, name))
    b = net.add("Sigmoid", a)
    c = net.conv(b, 24, 24)
    return net.model(b, c)


CONVOLUTIONS = {
    "mobile": mobile(), "joined": joined(), "nearest": grown("nearest"), "linear": grown("linear"), "last": last(10, 16),
    "odd_last": last(40, 20), "pruned": pruned()}


@pytest.mark.part(14)
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("level", [LEVELS.ORT_ENABLE_EXTENDED, LEVELS.ORT_ENABLE_ALL], ids=["extended", "all"])
def test_convolutions(name: str, level: Any, tmp_path: Path) -> None:
    plain = CONVOLUTIONS[name]
    optimised, own = saved(plain, level, tmp_path)
    assert level == LEVELS.ORT_ENABLE_EXTENDED or own["Conv"]
    graph = polytc.load_onnx(optimised)
    assert not any("::" in n.op for n in graph.nodes)
    shape = [d.dim_value for d in plain.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    for a, b in zip(graph.compile(threads=1).run(None, {"x": x}), by_onnx_runtime(plain, {"x": x}), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-5 * max(1, np.abs(b).max()))


def test_channels_that_fill_blocks_with_zeros_are_gone(tmp_path: Path) -> None:
    optimised, _ = saved(CONVOLUTIONS["mobile"], LEVELS.ORT_ENABLE_ALL, tmp_path)
    graph = polytc.load_onnx(optimised)
    made = [graph.constants[n.inputs[1]].shape for n in graph.nodes if n.op == "Conv"]
    assert made == [(24, 3, 3, 3), (24, 1, 3, 3), (24, 24, 1, 1), (40, 24, 1, 1), (20, 40, 3, 3), (36, 20, 1, 1)]
    assert not any(n.op in ("Slice", "Pad") for n in graph.nodes)


def blocked(weights: np.ndarray, block: int, reads_blocks: bool) -> np.ndarray:
    """Weights as ONNX Runtime stores them, written element by element."""
    made, read, rows, columns = weights.shape
    out, at = np.zeros(weights.size, np.float32), 0
    for o in range(0, made, block):
        for i in range(0, read, block if reads_blocks else 1):
            for r in range(rows):
                for c in range(columns):
                    for k in range(block if reads_blocks else 1):
                        out[at:at + block] = weights[o:o + block, i + k, r, c]
                        at += block
    return out.reshape(weights.shape)


@pytest.mark.part(4)
@pytest.mark.parametrize("block", [8, 16])
@pytest.mark.parametrize("wide", [False, True], ids=["8", "16"])
def test_size_of_blocks(block: int, wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the weights where they tell; that of the processor where both are possible."""
    monkeypatch.setattr(blocked_channels.processors, "has_flag", lambda flag: wide)
    monkeypatch.setattr(blocked_channels.platform, "machine", lambda: "x86_64")
    size = 8 if block == 8 and not wide else 16
    random = np.random.default_rng(2)
    # 24 channels are three blocks of 8; 32 say nothing
    first, second = ((24, 3, 3, 3), (24, 24, 1, 1)) if block == 8 else ((32, 3, 3, 3), (32, 32, 1, 1))
    size = 8 if block == 8 else 16 if wide else 8
    w1, w2 = (random.standard_normal(s).astype(np.float32) for s in (first, second))
    own = "com.microsoft.nchwc"
    nodes = [helper.make_node("Conv", ["x", "w1"], ["a"], domain=own, kernel_shape=[3, 3], pads=[1] * 4, activation="Relu"),
             helper.make_node("Conv", ["a", "w2"], ["b"], domain=own, kernel_shape=[1, 1]),
             helper.make_node("ReorderOutput", ["b"], ["y"], domain=own, channels=first[0])]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [info("x", 1, [1, 3, 6, 6])], [info("y", 1, None)], [
        numpy_helper.from_array(blocked(w1, size, False), "w1"), numpy_helper.from_array(blocked(w2, size, True), "w2")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(own, 1)], ir_version=8)
    x = random.standard_normal((1, 3, 6, 6)).astype(np.float32)
    plain = Net(1, 3, 6, 6)
    y = plain.add("Conv", plain.add("Relu", plain.add("Conv", "x", plain.given(w1), pads=[1] * 4)), plain.given(w2))
    np.testing.assert_allclose(polytc.load_onnx(made).compile(threads=1)(x), by_onnx_runtime(plain.model(y), {"x": x})[0],
                               rtol=1e-4, atol=1e-4)


def quantised() -> onnx.ModelProto:
    """As onnxruntime's static quantisation writes it: QuantizeLinear and DequantizeLinear around everything."""
    net = Net(1, 3, 12, 12)

    def scaled(x: str, scale: float, zero: int = 128) -> str:
        s, z = net.given(np.float32(scale)), net.given(np.uint8(zero))
        return net.add("DequantizeLinear", net.add("QuantizeLinear", x, s, z), s, z)

    def conv(x: str, made: int, read: int, scale: float, **own: Any) -> str:
        w = net.given(net.random.integers(-largest(), largest() + 1, (made, read, 3, 3)).astype(np.int8))
        s, z = net.given(np.float32(.002)), net.given(np.int8(0))
        b = net.given(net.random.integers(-900, 900, made).astype(np.int32))
        bs, bz = net.given(np.float32(scale * .002)), net.given(np.int32(0))
        return net.add("Conv", x, net.add("DequantizeLinear", w, s, z), net.add("DequantizeLinear", b, bs, bz),
            kernel_shape=[3, 3],
                       pads=[1] * 4, **own)
    a = scaled(net.add("Relu", conv(scaled("x", .03), 8, 3, .03)), .02, 0)
    b = scaled(net.add("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2]), .02, 0)
    c = scaled(conv(b, 8, 8, .02), .04)
    d = scaled(net.add("Add", c, b), .05)
    e = scaled(net.add("GlobalAveragePool", d), .05)
    return net.model(d, e)


def test_quantised(tmp_path: Path) -> None:
    plain = quantised()
    optimised, own = saved(plain, LEVELS.ORT_ENABLE_ALL, tmp_path)
    assert own, "ONNX Runtime writes operators of its own"
    graph = polytc.load_onnx(optimised)
    assert not any("::" in n.op for n in graph.nodes)
    x = np.random.default_rng(5).standard_normal((1, 3, 12, 12)).astype(np.float32)
    for a, b in zip(graph.compile(threads=1).run(None, {"x": x}), by_onnx_runtime(plain, {"x": x}), strict=True):
        assert np.abs(a - b).max() <= .0501  # one step


def transformer(batch: Any = 2, length: Any = 6) -> onnx.ModelProto:
    """One layer with attention as exporters write it."""
    net = Net(batch, length, 16)
    heads, size = 2, 8

    def split(x: str, perm: list[int]) -> str:
        return net.add("Transpose", net.add("Reshape", x, net.given(np.int64([0, 0, heads, size]))), perm=perm)

    def dense(x: str, rows: int, columns: int) -> str:
        return net.add("Add", net.add("MatMul", x, net.stored(rows, columns)), net.stored(columns))
    q, k, v = (dense("x", 16, 16) for _ in range(3))
    scores = net.add("Div", net.add("MatMul", split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1])), net.given(np.float32(size**.5)))
    mixed = net.add("MatMul", net.add("Softmax", scores, axis=-1), split(v, [0, 2, 1, 3]))
    joined_heads = net.add("Reshape", net.add("Transpose", mixed, perm=[0, 2, 1, 3]), net.given(np.int64([0, 0, 16])))
    a = net.add("LayerNormalization", net.add("Add", dense(joined_heads, 16, 16), "x"), net.stored(16), net.stored(16), axis=-1)
    h = dense(a, 16, 32)
    gate = net.add("Add", net.add("Erf", net.add("Div", h, net.given(np.float32(2**.5)))), net.given(np.float32(1)))
    g = net.add("Mul", net.add("Mul", h, gate), net.given(np.float32(.5)))
    b = net.add("LayerNormalization", net.add("Add", dense(g, 32, 16), a), net.stored(16), net.stored(16), axis=-1)
    return net.model(b)


@pytest.mark.part(6)
@pytest.mark.parametrize("level", [LEVELS.ORT_ENABLE_BASIC, LEVELS.ORT_ENABLE_EXTENDED, LEVELS.ORT_ENABLE_ALL])
@pytest.mark.parametrize("sizes", [(2, 6), ("batch", "length")], ids=["given", "open"])
def test_transformers(level: Any, sizes: tuple[Any, Any], tmp_path: Path) -> None:
    plain = transformer(*sizes)
    optimised, own = saved(plain, level, tmp_path)
    assert level == LEVELS.ORT_ENABLE_BASIC or own["SkipLayerNormalization"]
    model = polytc.load_onnx(optimised).compile(threads=1)
    x = np.random.default_rng(5).standard_normal((2, 6, 16)).astype(np.float32)
    np.testing.assert_allclose(model(x), by_onnx_runtime(plain, {"x": x})[0], rtol=0, atol=1e-5)
    assert model.fallbacks() == []


def test_weights_from_around_a_body(tmp_path: Path) -> None:
    """The convolutions of a branch may have their weights outside of it, in blocks."""
    net = Net(1, 16, 6, 6)
    a = net.conv("x", 24, 16, 3)
    nodes, net.nodes = net.nodes, []
    optimised, own = saved(net_of(nodes, net, a), LEVELS.ORT_ENABLE_ALL, tmp_path)
    assert own["Conv"]
    info = helper.make_tensor_value_info
    branch = helper.make_graph(optimised.graph.node, "then", [], [info(a, 1, None)])
    other = helper.make_graph([helper.make_node("Conv", ["x", "plain"], ["other"], pads=[1] * 4)], "else", [],
                              [info("other", 1, None)])
    plain = next(t for t in net.weights if t.name == "w0")
    kept = onnx.TensorProto()
    kept.CopyFrom(plain)
    kept.name = "plain"
    graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other)], "g",
                              [info("c", onnx.TensorProto.BOOL, []), info("x", 1, [1, 16, 6, 6])], [info("y", 1, None)],
                              [*optimised.graph.initializer, kept])
    made = helper.make_model(graph, opset_imports=optimised.opset_import, ir_version=8)
    x = np.random.default_rng(5).standard_normal((1, 16, 6, 6)).astype(np.float32)
    model = polytc.load_onnx(made).compile(threads=1)
    np.testing.assert_allclose(model(np.array(True), x), by_onnx_runtime(net_of(nodes, net, a), {"x": x})[0], rtol=0, atol=1e-4)


def net_of(nodes: list[onnx.NodeProto], net: Net, output: str) -> onnx.ModelProto:
    net.nodes = nodes
    return net.model(output)
