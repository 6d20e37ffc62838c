"""Whether ONNX Runtime is wrong here: without VNNI it adds two products of u8 and i8 in 16 bits, and the sum stops at 32,767.

MatMulInteger and all that is made of it do so (QLinearConv, QGemm, DynamicQuantizeLSTM, ...); see "Quantize ONNX models" in its
documentation. With numbers of i8 from -64 to 63 no sum is that large. And what DynamicQuantizeMatMul, MatMulIntegerToFloat
and QGemm (1.32) make of sums without terms is whatever was in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

PRODUCTS = frozenset(("MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv", "MatMulIntegerToFloat",
                      "DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "QGemm", "QAttention"))
"""Operators that ONNX Runtime computes so."""


UNWRITTEN = frozenset(("DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QGemm"))


@cache
def saturates() -> bool:
    """Asked of ONNX Runtime itself."""
    a, b = np.full((1, 4), 255, np.uint8), np.full((4, 1), 127, np.int8)
    values = [helper.make_tensor_value_info(n, t, None) for n, t in (("a", TensorProto.UINT8), ("b", TensorProto.INT8))]
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["a", "b"], ["y"])], "g", values,
                              [helper.make_tensor_value_info("y", TensorProto.INT32, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return bool(session.run(None, {"a": a, "b": b})[0][0, 0] != 4 * 255 * 127)


def largest() -> int:
    """The largest number of i8 that a sum of products with u8 may have for ONNX Runtime to be right."""
    return 63 if saturates() else 127


def may_saturate(model: onnx.ModelProto) -> bool:
    """Are there operators on whose numbers ONNX Runtime may be wrong here?"""
    return saturates() and any(n.op_type in PRODUCTS for n in model.graph.node)


def may_be_unwritten(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> bool:
    """Are there operators which may have sums without terms, that ONNX Runtime does not write?"""
    empty = any(a.size == 0 for a in feeds.values()) or any(0 in t.dims for t in model.graph.initializer)
    return empty and any(n.op_type in UNWRITTEN for n in model.graph.node)
