"""Uses of operators of language models, of quantised networks and of training."""

from __future__ import annotations

import numpy as np

from tests.graph.operator_case import R, case, f, flags, ints, numbers, positive


def half(*shape: int) -> np.ndarray:
    return f(*shape).astype(np.float16)


def scale(*shape: int) -> np.ndarray:
    return (R.random(shape) / 50 + 0.01).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    return ints(*shape, low=0, high=256, dtype=np.uint8)


def i8(*shape: int) -> np.ndarray:
    return ints(*shape, low=-128, high=128, dtype=np.int8)


LOSSES = [
    case("NegativeLogLikelihoodLoss", f(3, 5), ints(3, low=0, high=5), reduction="none"),
    case("NegativeLogLikelihoodLoss", f(3, 5, 2), ints(3, 2, low=0, high=5), positive(5), reduction="mean", ignore_index=1),
    case("NegativeLogLikelihoodLoss", f(3, 5, 2), ints(3, 2, low=0, high=5, dtype=np.int32), reduction="mean", ignore_index=1),
    case("NegativeLogLikelihoodLoss", f(3, 5, 2), ints(3, 2, low=0, high=5), positive(5), reduction="sum"),
    case("NegativeLogLikelihoodLoss", f(4, 5), numbers(1, -3, 3, 2), positive(5), reduction="none", ignore_index=-3),
    case("SoftmaxCrossEntropyLoss", f(3, 5), ints(3, low=0, high=5), outputs=2),
    case("SoftmaxCrossEntropyLoss", f(3, 5, 2), ints(3, 2, low=0, high=5), positive(5), reduction="none", ignore_index=2)]

ATTENTION = [
    case("Attention", f(2, 3, 4, 8), f(2, 3, 6, 8), f(2, 3, 6, 5), opset=23),
    case("Attention", f(2, 4, 24), f(2, 6, 12), f(2, 6, 8), opset=23, q_num_heads=4, kv_num_heads=2),
    case("Attention", f(2, 4, 3, 8), f(2, 2, 6, 8), f(2, 2, 6, 8), opset=23, is_causal=1, softcap=1.5, scale=0.2),
    case("Attention", f(2, 3, 4, 8), f(2, 3, 6, 8), f(2, 3, 6, 8), flags(4, 6), opset=23),
    case("Attention", f(2, 3, 4, 8), f(2, 3, 6, 8), f(2, 3, 6, 8), np.zeros((2, 1, 4, 6), bool), opset=23),
    case("Attention", f(2, 3, 4, 8), f(2, 3, 6, 8), f(2, 3, 6, 8), f(3, 4, 6), opset=23),
    case("Attention", f(2, 3, 4, 8), f(2, 3, 6, 8), f(2, 3, 6, 8), f(1, 4), opset=24),
    case("Attention", f(2, 3, 4, 8), f(2, 3, 2, 8), f(2, 3, 2, 8), f(4, 7), f(2, 3, 5, 8), f(2, 3, 5, 8), opset=23, outputs=4,
         is_causal=1, qk_matmul_output_mode=2),
    case("Attention", f(2, 4, 24), f(2, 6, 24), f(2, 6, 24), None, f(2, 3, 5, 8), f(2, 3, 5, 8), opset=23, outputs=3,
         q_num_heads=3, kv_num_heads=3),
    case("Attention", f(2, 4, 24), f(2, 6, 24), f(2, 6, 24), opset=23, outputs=3, q_num_heads=3, kv_num_heads=3),
    *(case("Attention", f(1, 4, 3, 8), f(1, 2, 6, 8), f(1, 2, 6, 8), flags(3, 6), opset=23, outputs=4, softcap=2.0 * (mode > 0),
           qk_matmul_output_mode=mode) for mode in range(4)),  # onnx's evaluator caps the raw product, too
    case("Attention", f(2, 3, 4, 8), f(2, 3, 6, 8), f(2, 3, 6, 8), None, None, None, numbers(3, 6), opset=24, is_causal=1),
    case("Attention", f(2, 3, 4, 8), f(2, 3, 6, 8), f(2, 3, 6, 8), None, None, None, numbers(5, 6), opset=25,
         left_window_size=1, right_window_size=2),
    case("Attention", half(2, 3, 4, 8), half(2, 3, 6, 8), half(2, 3, 6, 8), half(4, 6), opset=23, outputs=4,
         qk_matmul_output_mode=3),
    case("Attention", half(2, 3, 4, 8), half(2, 3, 6, 8), half(2, 3, 6, 8), opset=23, softmax_precision=11),
    case("RotaryEmbedding", f(2, 3, 4, 8), f(9, 4), f(9, 4), ints(2, 4, low=0, high=9), opset=23),
    case("RotaryEmbedding", f(2, 4, 24), f(2, 4, 4), f(2, 4, 4), opset=23, num_heads=3, interleaved=1),
    case("RotaryEmbedding", f(2, 3, 4, 8), f(9, 2), f(9, 2), ints(2, 4, low=0, high=9), opset=23, rotary_embedding_dim=4)]

STATE = [
    case("LinearAttention", f(2, 3, 8), f(2, 3, 4), f(2, 3, 6), opset=27, q_num_heads=4, kv_num_heads=2, update_rule="linear"),
    case("LinearAttention", f(2, 3, 4), f(2, 3, 4), f(2, 3, 6), f(2, 2, 2, 3), -positive(2, 3, 4), opset=27, outputs=2,
         q_num_heads=2, kv_num_heads=2, update_rule="gated", scale=0.3),
    case("LinearAttention", f(1, 3, 4), f(1, 3, 4), f(1, 3, 6), None, None, positive(1, 3, 1), opset=27, outputs=2,
         q_num_heads=2, kv_num_heads=2, update_rule="delta"),
    case("LinearAttention", half(1, 3, 4), half(1, 3, 4), half(1, 3, 6), None, half(1, 3, 2), half(1, 3, 2), opset=27,
         outputs=2, q_num_heads=2, kv_num_heads=2),
    case("CausalConvWithState", f(2, 3, 5), f(3, 1, 4), opset=27, outputs=2),
    case("CausalConvWithState", f(2, 3, 5), f(3, 1, 4), f(3), f(2, 3, 3), opset=27, outputs=2, activation="silu"),
    case("CausalConvWithState", f(2, 3, 2), f(3, 1, 4), None, f(2, 3, 3), opset=27, outputs=2),
    case("TensorScatter", f(2, 3, 6, 2), f(2, 3, 2, 2), numbers(1, 4), opset=24),
    case("TensorScatter", f(2, 3, 6, 2), f(2, 3, 3, 2), numbers(5, 2), opset=24, mode="circular"),
    case("TensorScatter", f(2, 6), f(2, 3), opset=24, axis=1),
    case("SwiGLU", f(3, 4), f(3, 4), opset=28, alpha=0.7),
    case("CumProd", f(2, 4), np.int64(1), constant=(1,), opset=26),
    case("CumProd", f(2, 4), np.int64(-1), constant=(1,), opset=26, reverse=1, exclusive=1)]

QUANTISATION = [
    case("QuantizeLinear", 3 * f(4, 5), scale(), np.uint8(7)), case("QuantizeLinear", 9 * f(4, 5), scale(5), i8(5)),
    case("QuantizeLinear", np.float32([0.5, 1.5, 2.5, -0.5, 300, -300]), np.float32(1), np.int8(0)),
    case("QuantizeLinear", 9 * f(4, 6), scale(4, 2), axis=1, block_size=3, output_dtype=5),
    case("QuantizeLinear", f(4, 5), scale(), output_dtype=4),
    case("QuantizeLinear", 3 * half(4, 5), np.float16(0.0625), np.uint8(3)),
    case("DequantizeLinear", u8(4, 5), scale(), np.uint8(7)), case("DequantizeLinear", i8(4, 5), scale(4), axis=0),
    case("DequantizeLinear", ints(4, 5, low=-9999, high=9999, dtype=np.int32), scale()),
    case("DequantizeLinear", u8(4, 6), scale(4, 2), u8(4, 2), axis=1, block_size=3),
    case("DequantizeLinear", u8(4, 6), np.float16(0.05), np.uint8(3)),
    case("DynamicQuantizeLinear", f(4, 6), outputs=3), case("DynamicQuantizeLinear", positive(4, 6), outputs=3),
    case("MatMulInteger", u8(3, 9), i8(9, 4)), case("MatMulInteger", u8(3, 9), u8(9, 4), u8(), u8()),
    case("MatMulInteger", u8(2, 3, 9), i8(9, 4), np.uint8(5), i8(4), constant=(1, 2, 3)),
    case("MatMulInteger", u8(3, 9), i8(9, 4), np.uint8(5), constant=(1, 2)),
    case("MatMulInteger", i8(2, 3, 9), i8(2, 9, 4), i8(2, 3, 1), i8(2, 1, 4)),
    case("QLinearMatMul", u8(3, 9), scale(), np.uint8(5), i8(9, 4), scale(4), np.int8([1, 2, 3, 4]), np.float32(0.1),
         np.uint8(8)),
    case("QLinearMatMul", u8(2, 3, 9), scale(), np.uint8(5), i8(9, 4), scale(), np.int8(0), np.float32(0.05), np.int8(-8),
         constant=(1, 2, 3, 4, 5, 6, 7)),
    case("ConvInteger", u8(1, 2, 5, 5), i8(3, 2, 3, 3), pads=[1, 1, 1, 1]),
    case("ConvInteger", u8(1, 2, 5, 5), u8(3, 2, 3, 3), np.uint8(7), u8(3), pads=[1, 1, 1, 1]),
    case("ConvInteger", u8(1, 4, 5, 5), u8(4, 1, 3, 3), np.uint8(7), np.uint8(3), group=4, strides=[2, 2], constant=(1, 2, 3)),
    case("QLinearConv", u8(1, 2, 5, 5), scale(), np.uint8(7), i8(3, 2, 3, 3), scale(3), np.zeros(3, np.int8), np.float32(0.2),
         np.uint8(9), ints(3, low=-99, high=99, dtype=np.int32), constant=(1, 2, 3, 4, 5, 6, 7, 8), pads=[1, 1, 1, 1]),
    case("QLinearConv", i8(1, 2, 5), scale(), np.int8(7), i8(3, 2, 3), scale(), np.int8(2), np.float32(0.2), np.int8(9))]

CASES = LOSSES + ATTENTION + STATE + QUANTISATION
