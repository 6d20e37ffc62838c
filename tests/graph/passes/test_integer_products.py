"""The pass that lets quantised products work on integers: the same numbers up to one step of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import polytc

R = np.random.default_rng(5)
N = helper.make_node


def model(build: Any, nodes: Sequence[onnx.NodeProto], constants: dict[str, np.ndarray], shape: tuple[int, ...]
          ) -> onnx.ModelProto:
    """q = Quantize(..) of the product of x and w, dequantised; the result is q."""
    common = {"xs": np.float32(0.02), "xz": np.uint8(120), "ys": np.float32(0.4), "bias_zero": np.int32(0)}
    before = [N("DequantizeLinear", ["x", "xs", "xz"], ["xf"])]
    constants = {k: np.asarray(a) for k, a in (common | constants).items()}
    used = {i for n in (*before, *nodes) for i in n.input}
    return build([*before, *nodes], {"x": (np.uint8, shape)}, [nodes[-1].output[0]],
                 {k: a for k, a in constants.items() if k in used}, 13)


def check(runtime: Any, m: onnx.ModelProto, shape: tuple[int, ...], op: str | None) -> None:
    """Does the pass put `op` there (None: nothing), and is the result that of the graph without it, and of ONNX Runtime?"""
    graph, plain = polytc.load_onnx(m), polytc.load_onnx(m, without=["integers"])
    assert not any(n.op.startswith("QLinear") for n in plain.nodes)
    assert [n.op for n in graph.nodes if n.op.startswith("QLinear")] == [op] * (op is not None)
    x = R.integers(0, 256, shape, np.uint8)
    got, wanted = (g.compile(target="evaluate").run(None, {"x": x})[0] for g in (graph, plain))
    for other in (wanted, runtime(m, {"x": x})[0]):
        assert got.dtype == other.dtype
        assert np.abs(got.astype(np.int64) - other.astype(np.int64)).max() <= 1
    assert len(np.unique(got)) > 2


def weights(*shape: int) -> np.ndarray:
    return R.integers(-127, 128, shape).astype(np.int8)


CHANNELS = {"ws": (0.01 + R.random(3) / 50).astype(np.float32), "wz": np.zeros(3, np.int8)}
WHOLE = {"ws": np.float32(0.02), "wz": np.int8(3)}


@pytest.mark.parametrize("parameters", [CHANNELS, WHOLE], ids=["channels", "whole"])
@pytest.mark.parametrize("bias", ["none", "float", "quantised"])
@pytest.mark.parametrize("relu", [False, True])
def test_convolutions(build, runtime, parameters: dict[str, np.ndarray], bias: str, relu: bool) -> None:
    nodes = [N("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0)]
    if bias == "quantised":
        nodes.append(N("DequantizeLinear", ["whole_bias", "bias_scale", "bias_zero"], ["b"]))
    nodes.append(N("Conv", ["xf", "wf", "b"][:2 + (bias != "none")], ["y"], pads=[1, 1, 1, 1], strides=[2, 1]))
    nodes += [N("Relu", ["y"], ["r"])] * relu
    nodes.append(N("QuantizeLinear", ["r" if relu else "y", "ys", "yz"], ["q"]))
    m = model(build, nodes, parameters | {
        "w": weights(3, 4, 3, 3), "yz": np.uint8(0 if relu else 128), "b": R.standard_normal(3).astype(np.float32) * 5,
        "whole_bias": R.integers(-9999, 9999, 3).astype(np.int32), "bias_scale": np.float32(0.0004)}, (2, 4, 6, 7))
    if bias == "quantised":
        m.graph.initializer.remove(next(i for i in m.graph.initializer if i.name == "b"))
    check(runtime, m, (2, 4, 6, 7), "QLinearConv")


@pytest.mark.parametrize("parameters", [CHANNELS, WHOLE], ids=["columns", "whole"])
def test_products(build, runtime, parameters: dict[str, np.ndarray]) -> None:
    nodes = [N("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=1), N("MatMul", ["xf", "wf"], ["y"]),
             N("QuantizeLinear", ["y", "ys", "yz"], ["q"])]
    m = model(build, nodes, parameters | {"w": weights(16, 3), "yz": np.int8(7)}, (2, 5, 16))
    check(runtime, m, (2, 5, 16), "QLinearMatMul")


@pytest.mark.part(2)
@pytest.mark.parametrize("parameters", [CHANNELS, WHOLE], ids=["columns", "whole"])
@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("biased", [False, True])
def test_sums_that_are_not_quantised(build, runtime, parameters: dict[str, np.ndarray], turned: int, biased: bool) -> None:
    """A Gemm of bytes sums integers, and adds its bias in real numbers."""
    nodes = [N("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=1 - turned),
             N("Gemm", ["xf", "wf", "b"][:2 + biased], ["y"], transB=turned), N("QuantizeLinear", ["y", "ys", "yz"], ["q"])]
    m = model(build, nodes, parameters | {"w": weights(3, 16) if turned else weights(16, 3), "yz": np.uint8(128),
                                          "b": R.standard_normal(3).astype(np.float32)}, (5, 16))
    check(runtime, m, (5, 16), None)
    assert "MatMulInteger" in [n.op for n in polytc.load_onnx(m).nodes]
    real = model(build, nodes[:2], parameters | {"w": weights(3, 16) if turned else weights(16, 3),
                                                 "b": R.standard_normal(3).astype(np.float32)}, (5, 16))
    x = R.integers(0, 256, (5, 16), np.uint8)
    got, = polytc.load_onnx(real).compile().run(None, {"x": x})
    np.testing.assert_allclose(got, runtime(real, {"x": x})[0], rtol=1e-5, atol=1e-5)


def test_what_stays(build, runtime) -> None:
    """A Relu that the zero point does not replace, weights scaled along the reduced axis, a product that is read twice."""
    shape, w = (5, 16), {"w": weights(16, 3), "yz": np.uint8(9)}
    dequantise = N("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=1)
    product, last = N("MatMul", ["xf", "wf"], ["y"]), N("QuantizeLinear", ["y", "ys", "yz"], ["q"])
    check(runtime, model(build, [dequantise, product, N("Relu", ["y"], ["r"]), N("QuantizeLinear", ["r", "ys", "yz"], ["q"])],
                WHOLE | w, shape), shape, None)
    rows = {"ws": (0.01 + R.random(16) / 50).astype(np.float32), "wz": np.zeros(16, np.int8)}
    along = N("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0)
    check(runtime, model(build, [along, product, last], rows | w, shape), shape, None)
    again = [N("DequantizeLinear", ["q", "ys", "yz"], ["d"]), N("Sub", ["y", "d"], ["e"])]
    both = model(build, [dequantise, product, last, *again], WHOLE | w, shape)
    assert "MatMulInteger" in [n.op for n in polytc.load_onnx(both).nodes]
