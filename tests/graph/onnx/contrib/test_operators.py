"""Operators of ONNX Runtime's own, beside ONNX Runtime."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import onnx
import pytest
from onnx import helper

import polytc
from tests.graph.onnx.contrib.cases import Case, I, R, S, U, check, f, q


def as_i8(x: np.ndarray) -> np.ndarray:
    """Without a zero point."""
    return np.clip(np.rint(x), -128, 127).astype(np.int8)


def tanh_gelu(x: np.ndarray) -> list[np.ndarray]:
    """By 40 digits: ONNX Runtime computes it in f64 no better than in f32."""
    def of(number: float) -> float:
        z = Decimal(number)
        e = (2 * (2 / PI).sqrt() * (z + Decimal("0.044715") * z ** 3)).exp()
        return float(z * (1 - 1 / (e + 1)))
    with localcontext(prec=40):
        return [np.vectorize(of)(x)]


PI = Decimal("3.1415926535897932384626433832795028841971")

CASES = [
    Case("Gelu", [f(3, 8)]), Case("BiasGelu", [f(3, 8), f(8)]), Case("FastGelu", [f(3, 8)], error=1e-4),
    Case("FastGelu", [f(3, 8), f(8)], error=1e-4), Case("QuickGelu", [f(3, 8)]), Case("QuickGelu", [f(3, 8)], {"alpha": 1.5}),
    Case("FastGelu", [f(3, 8).astype(np.float64)], reference=tanh_gelu, error=1e-15),
    Case("FusedMatMul", [f(2, 3, 4), f(2, 4, 5)]), Case("FusedMatMul", [f(2, 4, 3), f(2, 5, 4)], {"transA": 1, "transB": 1,
         "alpha": .5}),
    Case("FusedMatMul", [f(2, 4, 3), f(4, 5)], {"transA": 1}), Case("FusedMatMul", [f(3, 4), f(5, 4)], {"transB": 1,
         "alpha": 2.0}),
    Case("FusedGemm", [f(3, 4), f(4, 5), f(5)], {"activation": "Relu"}),
    Case("FusedGemm", [f(3, 4), f(5, 4), f(5)], {"activation": "LeakyRelu", "activation_alpha": .2, "transB": 1, "alpha": .5}),
    Case("FusedConv", [f(1, 3, 8, 8), f(4, 3, 3, 3), f(4)], {"activation": "Relu", "pads": [1] * 4}),
    Case("FusedConv", [f(1, 3, 8, 8), f(4, 3, 3, 3), f(4), f(1, 4, 6, 6)], {"activation": "Relu"}),
    Case("FusedConv", [f(1, 3, 8, 8), f(4, 3, 3, 3)], {"activation": "Clip", "activation_params": [-.5, .5], "strides": [2,
         2]}),
    Case("FusedConv", [f(1, 3, 8, 8), f(4, 3, 1, 1)], {"activation": "HardSigmoid", "activation_params": [.2, .4]}),
    Case("SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)], {"epsilon": 1e-5}),
    Case("SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8)]),
    Case("SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8)], outputs=["o0", "", "", "o3"]),
    Case("SimplifiedLayerNormalization", [f(2, 3, 8), f(8)], {"epsilon": 1e-5, "axis": -1}, domain=""),
    Case("SkipSimplifiedLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8)]),
    Case("SkipSimplifiedLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8)], outputs=["o0", "", "", "o3"]),
    Case("EmbedLayerNormalization", [R.integers(0, 9, (2, 5)).astype(np.int32), R.integers(0, 2, (2, 5)).astype(np.int32),
         f(9, 8),
                                     f(6, 8), f(2, 8), f(8), f(8), np.int32([[1, 1, 1, 0, 0], [1] * 5])], outputs=3),
    Case("EmbedLayerNormalization", [R.integers(0, 9, (2, 5)).astype(np.int32), "", f(9, 8), f(6, 8), "", f(8), f(8)],
         outputs=2),
    Case("MatMulIntegerToFloat", [q(3, 4), q(4, 5, dtype=np.int8), S, f(5)**2, U, np.int8([3, 2, 1, 0, -1]), f(5)]),
    Case("MatMulIntegerToFloat", [q(3, 4), q(4, 5), S, S]),
    Case("DynamicQuantizeMatMul", [f(3, 4), q(4, 5, dtype=np.int8), S, I, f(5)], stored=4),
    Case("DynamicQuantizeMatMul", [f(2, 3, 4), q(4, 5), f(5)**2], stored=2),
    Case("DynamicQuantizeMatMul", [f(0, 3, 4), q(4, 5), f(5)**2], stored=2),
    Case("DynamicQuantizeLinear", [f(0, 3)], outputs=3, domain=""),
    Case("DynamicQuantizeLinear", [f(0)], outputs=3, domain="", stored=1),
    *(Case(op, given, reference=lambda *given, bias=bias: [np.tile(bias, (2, 1)).astype(np.float32)])
      for bias in [np.float32([1, 2, 3])] for op, given in [
          ("MatMulIntegerToFloat", [q(2, 0), q(0, 3), S, S, "", "", bias]),
          ("DynamicQuantizeMatMul", [f(2, 0), q(0, 3), S, U, bias])]),
    Case("QGemm", [q(2, 0), S, U, q(0, 3), S, U, np.int32([1, 2, 3])],
         reference=lambda *given: [np.tile(np.float32([1, 2, 3]) * S * S, (2, 1))]),
    Case("DynamicQuantizeLSTM", [f(6, 2, 3), q(1, 3, 16, dtype=np.int8), q(1, 4, 16, dtype=np.int8), f(1, 32), "", f(1, 2, 4),
         f(1, 2, 4), "",
                                 np.float32([.01]), np.int8([2]), np.float32([.01]), np.int8([1])],
         {"hidden_size": 4}, 3, error=3e-2, stored=4),
    Case("DynamicQuantizeLSTM", [f(6, 2, 3), q(2, 3, 16), q(2, 4, 16), f(2, 32), "", "", "", "", f(2, 16)**2 / 100,
                                 np.full((2, 16), 100, np.uint8), f(2, 16)**2 / 100, np.full((2, 16), 90, np.uint8)],
         {"hidden_size": 4, "direction": "bidirectional"}, 2, error=3e-2, stored=11),
    Case("QuantizeLinear", [f(3, 8), S, U]), Case("DequantizeLinear", [q(3, 8), S, U]),
    Case("DequantizeLinear", [q(3, 4), f(4)**2, q(4)], {"axis": 1}),
    Case("QLinearAdd", [q(3, 8), S, U, q(3, 8), np.float32(.03), np.uint8(7), np.float32(.04), U], stored=2),
    Case("QLinearAdd", [q(3, 8, dtype=np.int8), S, I, q(8, dtype=np.int8), np.float32(.03), np.int8(7), np.float32(.04), I],
         stored=2),
    Case("QLinearMul", [q(3, 8), S, U, q(3, 8), np.float32(.03), np.uint8(7), np.float32(.04), U], stored=2),
    Case("QLinearSigmoid", [q(3, 8), np.float32(.05), U, np.float32(1 / 256), np.uint8(0)], stored=4),
    Case("QLinearLeakyRelu", [q(3, 8), np.float32(.05), U, np.float32(.05), U], {"alpha": .1}, stored=4),
    Case("QLinearSoftmax", [q(3, 8), np.float32(.05), U, np.float32(1 / 256), np.uint8(0)], {"axis": -1, "opset": 13},
         stored=4),
    Case("QLinearAveragePool", [q(1, 3, 8, 8), S, U, S, U], {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 0},
         stored=4),
    Case("QLinearGlobalAveragePool", [q(1, 3, 8, 8), S, U, S, U], {"channels_last": 0}, stored=4),
    *(Case("QLinearAveragePool", [q(1, *s, dtype=np.int8), S, I, S, I], {"kernel_shape": [3] * n, "strides": [3, 2][:n],
           "ceil_mode": 1, "count_include_pad": 1, "channels_last": last, "pads": pads}, stored=4)
      for n, s, last, pads in [(1, (3, 5), 0, [0, 0]), (1, (3, 5), 0, [2, 1]), (1, (3, 6), 0, [1, 2]),
           (2, (5, 8, 3), 1, [0, 1, 0, 2])]),
    Case("QLinearConcat", [S, U, q(3, 4), np.float32(.03), np.uint8(7), q(3, 5), np.float32(.04), np.uint8(9)], {"axis": 1}),
    Case("QLinearWhere", [R.random((3, 4)) < .5, q(3, 4), S, U, q(3, 4), np.float32(.03), np.uint8(7), np.float32(.04), U]),
    Case("QGemm", [q(3, 4), S, U, q(4, 5, dtype=np.int8), np.float32(.01), I, R.integers(-900, 900, 5).astype(np.int32), S,
         U], stored=6),
    Case("QGemm", [q(3, 4), S, U, q(5, 4, dtype=np.int8), f(5)**2 / 50, np.zeros(5, np.int8)], {"transB": 1}, stored=5),
    Case("QGemm", [q(3, 4), S, U, q(4, 5, dtype=np.int8), np.float32(.01), I, R.integers(-900, 900, 5).astype(np.int32)],
         {"alpha": .5}, stored=6),
    Case("QLinearSoftmax", [q(0, 8), np.float32(.05), U, np.float32(1 / 256), np.uint8(0)], {"axis": -1, "opset": 1}, stored=4),
    Case("QLinearSoftmax", [q(2, 0, 3), np.float32(.05), U, np.float32(1 / 256), np.uint8(0)], {"axis": 2, "opset": 1},
         stored=4),
    Case("Trilu", [f(4, 5)], {"upper": 0}), Case("Trilu", [f(4, 5), np.int64(1)]),
    Case("QLinearMul", [q(3, 8, dtype=np.int8), S, I, q(3, 8, dtype=np.int8), S, I, np.float32(.04)],
         reference=lambda a, sa, za, b, sb, zb,
                  sc: [as_i8((a.astype(np.float32) - za) * sa * (b.astype(np.float32) - zb) * sb / sc)]),
    Case("QLinearAdd", [q(3, 8, dtype=np.int8), S, I, q(3, 8, dtype=np.int8), S, I, np.float32(.04)],
         reference=lambda a, sa, za, b, sb, zb,
                  sc: [as_i8(((a.astype(np.float32) - za) * sa + (b.astype(np.float32) - zb) * sb) / sc)]),
    Case("QLinearLeakyRelu", [q(3, 8, dtype=np.int8), S, I, S, ""], {"alpha": .1}),
    Case("QLinearGlobalAveragePool", [q(1, 7, 7, 3, dtype=np.int8), S, I, S], {"channels_last": 1},
         reference=lambda x, sx, zx, sy, **_: [as_i8((x.astype(np.float32) - zx).mean((1, 2), keepdims=True) * sx / sy)]),
    Case("GatherBlockQuantized", [q(4, 32), np.int32(2), f(4, 2), q(4, 2)], {"bits": 8, "block_size": 16, "quantize_axis": 1})]

@pytest.mark.part(10)
@pytest.mark.parametrize("case", CASES, ids=[f"{c.op}{n}" for n, c in enumerate(CASES)])
def test_beside_onnx_runtime(case: Case) -> None:
    check(case)


def test_in_a_branch() -> None:
    info = helper.make_tensor_value_info
    then = helper.make_graph([helper.make_node("QuickGelu", ["x"], ["t"], domain="com.microsoft")], "t", [], [info("t", 1,
         [4])])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "e", [], [info("e", 1, [4])])
    graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)], "g",
                              [info("c", onnx.TensorProto.BOOL, []), info("x", 1, [4])], [info("y", 1, [4])])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
         ir_version=8)
    x = f(4)
    model = polytc.load_onnx(made).compile()
    np.testing.assert_allclose(model(np.array(True), x), x / (1 + np.exp(-1.702 * x)), rtol=1e-5)
    np.testing.assert_array_equal(model(np.array(False), x), -x)
