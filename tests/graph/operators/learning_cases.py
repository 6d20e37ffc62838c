"""Uses of operators of language models, of quantised networks and of training; types other than f32."""

from __future__ import annotations

import numpy as np

from tests.graph.operators.operator_case import R, case, f, flags, ints, numbers, positive


def half(*shape: int) -> np.ndarray:
    return f(*shape).astype(np.float16)


def scale(*shape: int) -> np.ndarray:
    return (R.random(shape) / 50 + 0.01).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    return ints(*shape, low=0, high=256, dtype=np.uint8)


def i8(*shape: int) -> np.ndarray:
    return ints(*shape, low=-128, high=128, dtype=np.int8)


def drawn(x: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Class numbers by the logarithms x of their weights and numpy's uniform numbers."""
    weights = np.exp(x.astype(np.float64))
    ends = np.cumsum(weights, 1) / weights.sum(1, keepdims=True)
    numbers = np.random.RandomState(seed).random_sample((len(x), count))
    return np.array([np.searchsorted(e, u, side="right") for e, u in zip(ends, numbers)], np.int32)


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
    case("LinearAttention", f(2, 3, 8), f(2, 3, 4), f(2, 3, 6), opset=27, outputs=2, q_num_heads=4, kv_num_heads=2,
         update_rule="linear"),
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

RANDOM = [
    case("RandomNormal", shape=[2, 3], seed=5.0, mean=1.0, scale=0.5, opset=22),
    case("RandomUniform", shape=[2, 3], seed=5.0, low=-1.0, dtype=11, opset=22),
    case("RandomNormalLike", half(2, 3), seed=5.0, opset=22), case("RandomUniformLike", f(2, 3), seed=5.0, high=9.0, opset=22),
    case("Bernoulli", positive(4, 5).clip(0, 1), seed=2.0, dtype=7, opset=22),
    case("Multinomial", f(3, 4), sample_size=5, seed=3.0, opset=22),
    case("Dropout", f(4, 5), np.float32(0.3), np.array(True), constant=(2,), seed=4, outputs=2, opset=22),
    case("Dropout", f(4, 5), np.float32([0.6]), np.array([True]), constant=(2,), seed=4, opset=13)]

BITS = [case("BitCast", f(3, 2), to=6, opset=26), case("BitCast", ints(3, dtype=np.int16), to=4, opset=26),
        case("BitCast", flags(4), to=2, opset=26), case("BitCast", ints(3), to=11, opset=26)]

PREVIEW = "ai.onnx.preview.training::"
TRAINING = [
    case("BatchNormalization", f(2, 3, 4), f(3), f(3), f(3), positive(3), training_mode=1, momentum=0.7, outputs=3),
    case(f"{PREVIEW}Adagrad", np.float32(0.1), np.int64(2), f(2), f(3), f(2), f(3), positive(2), positive(3), outputs=4,
         decay_factor=0.1, epsilon=1e-5, norm_coefficient=0.01),
    case(f"{PREVIEW}Adam", np.float32(0.1), np.int64(3), f(4), f(2), f(4), f(2), f(4), f(2), positive(4), positive(2),
         outputs=6, alpha=0.8, beta=0.9,
         epsilon=1e-5, norm_coefficient=0.01, norm_coefficient_post=0.02),
    case(f"{PREVIEW}Adam", np.float32([0.1]), np.int64([0]), f(4), f(2), f(4), f(2), f(4), f(2), positive(4), positive(2),
         outputs=6, alpha=0.8, beta=0.9,
         epsilon=1e-5, norm_coefficient=0.01, norm_coefficient_post=0.02),
    *(case(f"{PREVIEW}Momentum", np.float32(0.1), np.int64(t), f(4), f(4), f(4), outputs=2, alpha=0.8, beta=0.9,
           norm_coefficient=0.01, mode=mode) for t in (0, 3) for mode in ("standard", "nesterov"))]

CONTRACTIONS = [
    case("Einsum", f(2, 3, 3), equation="...ii->...i"), case("Einsum", f(2, 3, 4), f(1, 4, 5), equation="...ij,...jk->...ik"),
    case("Einsum", f(3, 4), f(2, 4), equation="aj,bj->ab"),
    case("Einsum", f(2, 3), f(3, 4), f(4, 5), f(5), equation="ij,jk,kl,l->i"),
    case("Einsum", f(3, 2, 4), f(4), equation="...j,j"), case("Einsum", f(3, 4), equation="Aa->"),
    case("Einsum", f(3, 4), f(1, 4), equation="ij,ij->ij"), case("Einsum", ints(3, 3), ints(3), equation="ii,i->i"),
    case("Gemm", ints(3, 4), ints(4, 5), ints(5), alpha=0.5, beta=2.0), case("ReduceMean", ints(3, 4)),
    case("ReduceL2", ints(3, 4, dtype=np.int32)), case("Shrink", ints(9), lambd=1.5, bias=1.0),
    case("RMSNormalization", half(2, 4), f(4), opset=23)]

CASES = BITS + CONTRACTIONS + RANDOM + TRAINING + LOSSES + ATTENTION + STATE + QUANTISATION
