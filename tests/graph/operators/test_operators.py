"""Every binding row against onnx's reference evaluator on small arrays, through the language's own evaluator."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.graph.operators.table import TABLE
from tests.graph.operators import learning_cases, moving_cases
from tests.graph.operators.operator_case import Case, case, f, flags, ints, numbers, positive

UNARY = [case(op, f(2, 3)) for op in (
    "Abs", "Atan", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "IsNaN",
    "IsInf", "LeakyRelu", "Mish", "Neg", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin",
    "Sinh", "Softplus", "Softsign", "Tan", "Tanh", "ThresholdedRelu", "Identity", "Asinh")] + [
    case("Acos", positive(4) / 2), case("Acosh", 1 + positive(4)), case("Asin", positive(4) / 2),
    case("Atanh", positive(4) / 2),
    case("Log", positive(3, 2)), case("Sqrt", positive(3, 2)), case("Reciprocal", positive(3)), case("Not", flags(5)),
    case("BitwiseNot", ints(5)), case("Celu", f(4), alpha=2.0), case("Elu", f(4), alpha=0.5),
    case("HardSigmoid", f(4), alpha=0.3, beta=0.4),
    case("LeakyRelu", f(4), alpha=0.2), case("Selu", f(4), alpha=2.0, gamma=3.0), case("Shrink", f(9), lambd=0.4, bias=0.2),
    case("ThresholdedRelu", f(9), alpha=0.3), case("Gelu", f(9), approximate="tanh"), case("Swish", f(9), alpha=0.7, opset=24),
    case("IsInf", np.array([1, np.inf, -np.inf, np.nan], np.float32), detect_negative=0),
    case("IsInf", np.array([1, np.inf, -np.inf, np.nan], np.float32), detect_positive=0),
    case("Abs", ints(6)), case("Neg", ints(6, dtype=np.int32)), case("Sign", ints(6)), case("Relu", ints(6, dtype=np.int32)),
    case("Round", np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)), case("Cast", f(5), to=7), case("Cast", ints(5), to=1),
    case("Cast", f(5), to=9), case("Cast", flags(5), to=1), case("Cast", f(5), to=1), case("CastLike", f(5), ints(2)),
    case("Dropout", f(5), outputs=2), case("Dropout", f(2, 3), opset=7)]

BINARY = [case(op, f(2, 3), f(3)) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")] + [
    case(op, f(2, 3), f(2, 1)) for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")] + [
    case(op, flags(2, 3), flags(1, 3)) for op in ("And", "Or", "Xor")] + [
    case(op, ints(2, 3), ints(3)) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Add", "Mul", "Equal", "Max")] + [
    case("BitShift", ints(4, low=1, high=9, dtype=np.uint32), ints(4, low=0, high=4, dtype=np.uint32), direction="LEFT"),
    case("BitShift", ints(4, low=1, high=99, dtype=np.uint8), ints(4, low=0, high=4, dtype=np.uint8), direction="RIGHT"),
    case("Div", numbers(7, -7, 7, -7), numbers(2, 2, -2, -2)),
    case("Div", np.int8([-128, -128, 127, -127, -1]), np.int8([1, 127, -128, -128, 2])),
    case("Div", ints(4, low=0, dtype=np.uint8), np.uint8([1, 2, 3, 4])),
    case("Mod", numbers(7, -7, 7, -7), numbers(3, 3, -3, -3)),
    case("Mod", numbers(7, -7, 7, -7), numbers(3, 3, -3, -3), fmod=1),
    case("Mod", f(4), positive(4), fmod=1), case("Mod", f(4), positive(4)),
    case("Pow", positive(2, 3), f(3)), case("Pow", f(4), np.float32(2), constant=(1,)),
    case("Pow", f(4), np.array([3], np.int64), constant=(1,)),
    case("Pow", positive(4), np.float32(0.5), constant=(1,)), case("Pow", positive(4), np.float32(-1), constant=(1,)),
    case("Pow", positive(4), np.float32(1.7), constant=(1,)), case("Pow", ints(4, low=1), positive(4)),
    case("PRelu", f(2, 3, 4), f(3, 1)),
    case("Add", f(1), f(4, 1)), case("Add", f(2, 3, 4), f(3), axis=1, broadcast=1, opset=6),
    case("Mul", f(4), np.float32(3), constant=(1,)),
    case("Max", f(3), f(2, 3), f(1)), case("Min", f(3)), case("Sum", f(3), f(2, 3), f(1)), case("Mean", f(3), f(2, 3), f(1)),
    case("Where", flags(2, 1), f(3), f(2, 3)), case("Where", flags(3), ints(3), ints(1)),
    case("Clip", f(9), np.float32(-0.5), np.float32(0.5)),
    case("Clip", f(9), np.float32(-0.5), np.float32(0.5), constant=(1, 2)),
    case("Clip", f(9), None, np.float32(0.5)), case("Clip", f(9), np.float32(-0.5)),
    case("Clip", f(9), min=-0.2, max=0.7, opset=6),
    case("Clip", f(9), opset=6), case("Clip", ints(9), np.int64(-2), np.int64(2))]

CONVOLUTION = [
    case("Conv", f(1, 3, 5, 6), f(4, 3, 3, 2), f(4)),
    case("Conv", f(2, 3, 5, 6), f(4, 3, 3, 3), pads=[1, 0, 2, 1], strides=[2, 1], dilations=[1, 2]),
    case("Conv", f(1, 4, 6, 6), f(6, 2, 3, 3), f(6), group=2, pads=[1, 1, 1, 1]),
    case("Conv", f(1, 4, 6, 6), f(4, 1, 3, 3), f(4), group=4),
    case("Conv", f(1, 4, 6, 6), f(8, 1, 3, 3), group=4),
    case("Conv", f(2, 2, 9), f(3, 2, 3), auto_pad="SAME_UPPER", strides=[2]),
    case("Conv", f(2, 2, 9), f(3, 2, 2), auto_pad="SAME_LOWER"), case("Conv", f(1, 2, 9), f(3, 2, 2), auto_pad="VALID"),
    case("Conv", f(1, 2, 3, 4, 5), f(3, 2, 2, 2, 2), f(3), pads=[0, 1, 0, 0, 0, 1]),
    case("Conv", f(1, 3, 4, 4), f(5, 3, 1, 1), f(5)),
    case("ConvTranspose", f(1, 2, 3, 3), f(2, 4, 2, 2), f(4), strides=[2, 2]),
    case("ConvTranspose", f(1, 2, 3, 3), f(2, 4, 3, 3)),
    case("ConvTranspose", f(2, 5, 1, 1), f(5, 4, 4, 3), f(4), strides=[1, 1]),
    case("ConvTranspose", f(1, 5, 1, 1), f(5, 4, 4, 4), strides=[2, 2]),
    case("ConvTranspose", f(1, 5, 1, 1), f(5, 4, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1]),
    case("ConvTranspose", f(1, 5, 1, 1), f(5, 4, 2, 2), strides=[2, 2], output_padding=[1, 1]),
    case("ConvTranspose", f(1, 2, 4, 3), f(2, 4, 4, 4), f(4), strides=[2, 2], pads=[1, 1, 1, 1]),
    case("ConvTranspose", f(1, 2, 4, 3), f(2, 4, 3, 3), strides=[3, 2], pads=[1, 0, 0, 1]),
    case("ConvTranspose", f(1, 2, 4, 3), f(2, 4, 3, 3), strides=[3, 2], output_padding=[1, 1]),
    case("ConvTranspose", f(1, 2, 3, 3), f(2, 1, 2, 2), dilations=[2, 2]),
    case("ConvTranspose", f(1, 4, 5), f(4, 3, 3), group=2, strides=[2]),
    case("ConvTranspose", f(1, 4, 3, 3), f(4, 2, 2, 2), group=2, dilations=[2, 2], strides=[3, 3], pads=[1, 0, 0, 1]),
    case("ConvTranspose", f(1, 1, 3, 3), f(1, 2, 3, 3), strides=[3, 2], output_shape=[10, 8]),
    case("ConvTranspose", f(1, 1, 3, 3), f(1, 2, 3, 3), strides=[2, 2], auto_pad="SAME_LOWER"),
    case("ConvTranspose", f(1, 1, 3, 3), f(1, 2, 2, 3), strides=[3, 3]),
    case("ConvTranspose", f(1, 2, 4, 3), f(2, 4, 4, 4), f(4), strides=[2, 2], pads=[1, 1, 1, 1], constant=(1, 2)),
    case("ConvTranspose", f(2, 4, 4, 3), f(4, 3, 3, 3), f(6), strides=[3, 2], pads=[1, 0, 2, 1], group=2, constant=(1, 2)),
    case("ConvTranspose", f(1, 2, 4), f(2, 4, 5), strides=[2], pads=[3, 2], output_padding=[1], constant=(1,)),
    case("ConvTranspose", f(1, 3, 4, 4), f(3, 2, 2, 2), f(2), strides=[2, 2], constant=(1, 2))]

POOLING = [
    case("MaxPool", f(1, 2, 7, 6), kernel_shape=[3, 2], strides=[2, 2]),
    case("MaxPool", f(1, 2, 7, 6), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("MaxPool", f(1, 2, 7, 6), kernel_shape=[2, 2], dilations=[2, 2], pads=[1, 1, 1, 1]),
    case("MaxPool", f(1, 2, 9), kernel_shape=[3], auto_pad="SAME_UPPER"),
    case("MaxPool", ints(1, 2, 7, 7, dtype=np.int8), kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    case("MaxPool", f(1, 2, 5, 5, 5), kernel_shape=[2, 2, 2]),
    case("MaxPool", f(1, 2, 9, 8), kernel_shape=[5, 4], pads=[2, 1, 1, 2]),
    case("MaxPool", f(1, 2, 11, 10), kernel_shape=[5, 5], pads=[2, 0, 2, 1], strides=[1, 2], ceil_mode=1),
    case("MaxPool", f(1, 1, 12, 11), kernel_shape=[5, 5], dilations=[2, 1], pads=[1, 2, 3, 0]),
    case("MaxPool", f(1, 2, 6, 5, 7), kernel_shape=[3, 3, 4], pads=[1, 0, 1, 1, 1, 2]),
    case("AveragePool", f(1, 2, 9, 8), kernel_shape=[5, 4], pads=[2, 1, 1, 2]),
    case("AveragePool", f(1, 2, 9, 9), kernel_shape=[5, 5], pads=[2, 2, 2, 2], count_include_pad=1),
    case("AveragePool", f(1, 1, 6, 6, 6), kernel_shape=[4, 3, 3], pads=[1, 1, 1, 2, 1, 1]),
    case("AveragePool", f(1, 1, 9, 9).astype(np.float16), kernel_shape=[5, 5]),
    case("AveragePool", f(1, 2, 7, 6), kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    case("AveragePool", f(1, 2, 7, 6), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    case("AveragePool", f(1, 2, 7, 7), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("AveragePool", f(1, 2, 7, 6), kernel_shape=[3, 2], strides=[3, 2]),
    case("AveragePool", f(1, 2, 7), kernel_shape=[3], auto_pad="SAME_LOWER", strides=[2]),
    case("LpPool", f(1, 2, 7, 6), kernel_shape=[3, 2], p=3),
    case("GlobalAveragePool", f(2, 3, 4, 5)), case("GlobalMaxPool", f(2, 3, 4)), case("GlobalAveragePool", f(2, 3, 4, 2, 2))]

LINEAR = [
    case("MatMul", f(3, 4), f(4, 5)), case("MatMul", f(2, 3, 4), f(4, 5)), case("MatMul", f(2, 1, 3, 4), f(6, 4, 5)),
    case("MatMul", f(4), f(4)),
    case("MatMul", f(2, 3, 4), f(4)), case("MatMul", f(4), f(2, 4, 5)), case("MatMul", f(1, 3, 4), f(1, 4, 5)),
    case("MatMul", ints(3, 4), ints(4, 2)),
    case("Gemm", f(3, 4), f(4, 5)), case("Gemm", f(4, 3), f(5, 4), f(5), transA=1, transB=1),
    case("Gemm", f(3, 4), f(5, 4), f(3, 1), transB=1, alpha=0.5, beta=2.0),
    case("Gemm", f(3, 4), f(5, 4), f(5), transB=1, alpha=2.0, constant=(1, 2)),
    case("Gemm", f(4, 3), f(4, 5), np.float32(1.5), transA=1),
    case("Einsum", f(2, 3, 4), f(2, 4, 5), equation="bij,bjk->bik"), case("Einsum", f(3, 3), equation="ii->i"),
    case("Einsum", f(3, 4), equation="ij->ji"),
    case("Einsum", f(3), f(4), f(5), equation="i,j,k->ijk"), case("Einsum", f(3, 4), f(4, 5), equation="ij,jk")]

REDUCTION = [case(f"Reduce{kind}", positive(2, 3, 4), numbers(1), constant=(1,), keepdims=keep)
             for keep, kinds in ((1, ("Sum", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "Mean", "LogSum", "LogSumExp")),
                                 (0, ("Sum", "Mean", "LogSumExp")))
             for kind in kinds] + [
    case("ReduceMean", f(2, 3, 4, 5), axes=[2, 3], opset=13), case("ReduceSum", f(2, 3, 4), numbers(0, -1), constant=(1,)),
    case("ReduceSum", f(2, 3)),
    case("ReduceMax", f(2, 3, 4), axes=[0, 2], keepdims=0, opset=12), case("ReduceSum", f(2, 3), None, noop_with_empty_axes=1),
    case("ReduceMax", flags(2, 3), numbers(1), constant=(1,)), case("ReduceMin", flags(2, 3), numbers(1), constant=(1,)),
    case("ReduceSum", ints(2, 3)),
    case("ArgMax", f(3, 4), axis=1), case("ArgMin", f(3, 4), axis=0, keepdims=0),
    case("ArgMax", ints(3, 9, high=-3), axis=-1, select_last_index=1),
    case("ArgMin", ints(3, 9, high=-3), axis=-1, select_last_index=1), case("ArgMax", ints(3, 9, high=-3), axis=1),
    case("Softmax", f(2, 3, 4)), case("Softmax", f(2, 3, 4), axis=1), case("Softmax", f(2, 3, 4), axis=1, opset=11),
    case("LogSoftmax", f(2, 3, 4), axis=0),
    case("LogSoftmax", f(2, 3), opset=11), case("Hardmax", f(2, 3, 4), axis=1), case("LpNormalization", f(2, 3), p=1),
    case("LpNormalization", f(2, 3), axis=0),
    case("CumSum", f(2, 4), np.int64(1), constant=(1,)), case("CumSum", f(2, 4), np.int64(-1), constant=(1,), reverse=1),
    case("CumSum", f(2, 4), np.int64(0), constant=(1,), exclusive=1),
    case("CumSum", f(2, 4), np.int64(1), constant=(1,), exclusive=1, reverse=1)]

NORMALISATION = [
    case("BatchNormalization", f(2, 3, 4, 4), f(3), f(3), f(3), positive(3)),
    case("BatchNormalization", f(2, 3, 4), f(3), f(3), f(3), positive(3), constant=(1, 2, 3, 4), epsilon=0.01),
    case("LayerNormalization", f(2, 3, 4), f(4), f(4)), case("LayerNormalization", f(2, 3, 4), f(3, 4), axis=1),
    case("LayerNormalization", f(2, 4), f(4), f(4), outputs=3),
    case("InstanceNormalization", f(2, 3, 4, 4), f(3), f(3)),
    case("GroupNormalization", f(2, 6, 3, 3), f(6), f(6), num_groups=2),
    case("LRN", f(1, 5, 3, 3), size=3), case("LRN", f(1, 6, 2, 2), size=5, alpha=0.1, beta=0.5, bias=2.0),
    case("MeanVarianceNormalization", f(2, 3, 4, 4)),
    case("RMSNormalization", f(2, 3, 4), f(4), opset=23)]

MOVEMENT = [
    case("Transpose", f(2, 3, 4)), case("Transpose", f(2, 3, 4), perm=[0, 2, 1]), case("Transpose", f(1, 3, 1), perm=[2, 1, 0]),
    case("Concat", f(2, 3), f(2, 1), f(2, 4), axis=1), case("Concat", f(2, 3), f(1, 3), axis=-2),
    case("Concat", ints(2), axis=0),
    case("Split", f(2, 6), numbers(1, 2, 3), constant=(1,), axis=1, outputs=3),
    case("Split", f(7, 2), num_outputs=3, outputs=3), case("Split", f(2, 6), axis=1, split=[2, 4], outputs=2, opset=11),
    case("Slice", f(6, 7), numbers(1, 0), numbers(5, 7), numbers(0, 1), numbers(2, 3), constant=(1, 2, 3, 4)),
    case("Slice", f(6, 7), numbers(-1), numbers(-2**62), numbers(1), numbers(-2), constant=(1, 2, 3, 4)),
    case("Slice", f(6, 7), numbers(2), numbers(2**62), constant=(1, 2)),
    case("Slice", f(6, 7), starts=[1, 2], ends=[3, -1], opset=9), case("Expand", f(3, 1), numbers(2, 1, 4), constant=(1,)),
    case("Expand", f(3, 1), numbers(3, 1), constant=(1,)),
    case("Tile", f(2, 3), numbers(2, 1), constant=(1,)), case("Tile", f(2, 1), numbers(1, 3), constant=(1,)),
    case("Flatten", f(2, 3, 4), axis=2), case("Flatten", f(2, 3, 4), axis=0),
    case("Pad", f(2, 3), numbers(0, 1, 2, 1), np.float32(1.5), constant=(1, 2)),
    case("Pad", f(4, 5), numbers(0, -1, 1, -1), constant=(1,)),
    case("Pad", ints(4), numbers(1, 2), np.int64(7), constant=(1, 2)),
    case("Pad", f(4, 5), numbers(1, 2, 3, 2), constant=(1,), mode="reflect"),
    case("Pad", f(3, 4), numbers(1, 0, 2, 2), constant=(1,), mode="edge"),
    case("Pad", f(3, 4), numbers(1, 2, 2, 0), constant=(1,), mode="wrap"),
    case("Pad", f(3, 4), numbers(2, 1), None, numbers(1), constant=(1, 3)), case("DepthToSpace", f(1, 8, 2, 3), blocksize=2),
    case("DepthToSpace", f(1, 8, 2, 3), blocksize=2, mode="CRD"),
    case("SpaceToDepth", f(1, 2, 4, 6), blocksize=2), case("Reshape", f(2, 3, 4), numbers(0, -1), constant=(1,)),
    case("Reshape", f(2, 3), numbers(3, 2), constant=(1,), allowzero=1),
    case("Squeeze", f(1, 3, 1)), case("Squeeze", f(1, 3, 1), numbers(-1), constant=(1,)),
    case("Squeeze", f(1, 3, 1), axes=[0], opset=11),
    case("Unsqueeze", f(3), numbers(0, 2), constant=(1,)), case("Unsqueeze", f(3, 2), axes=[1], opset=11),
    case("Trilu", f(2, 4, 4)), case("Trilu", f(4, 5), np.int64(-1), constant=(1,), upper=0), case("Trilu", flags(4, 4)),
    case("EyeLike", f(3, 4), k=1)]

INDEXING = [
    case("ConstantOfShape", numbers(2, 3)), case("Range", np.int64(1), np.int64(10), np.int64(3)),
    case("Gather", f(5, 3), ints(2, 2, high=5)), case("Gather", f(3, 5), ints(4, high=5), axis=1),
    case("Gather", f(3, 5), np.int64(-2), constant=(1,), axis=1), case("Gather", f(5, 3), numbers(1, -1), constant=(1,)),
    case("Gather", f(2, 3, 4), ints(2, low=-3, high=3, dtype=np.int32), axis=1),
    case("GatherElements", f(3, 4), ints(3, 4, low=-3, high=3)),
    case("GatherElements", f(3, 4), ints(3, 2, low=0, high=4), axis=1),
    case("GatherND", f(3, 4, 5), ints(2, 2, low=0, high=3)),
    case("GatherND", f(2, 3, 4), ints(2, 1, low=0, high=3), batch_dims=1),
    case("OneHot", ints(2, 3, low=-4, high=6), np.int64(4), np.float32([0.5, 2]), constant=(1,)),
    case("OneHot", ints(3, low=0, high=4), np.int64(4), numbers(0, 1), constant=(1, 2), axis=0)]

RESIZE = [case("Resize", f(1, 2, 3, 4), None, np.float32([1, 1, 2, 3]), constant=(2,), mode="nearest",
               coordinate_transformation_mode="asymmetric", nearest_mode="floor")] + [
    case("Resize", f(1, 1, 4, 5), None, None, numbers(1, 1, h, w), constant=(3,), mode=mode,
         coordinate_transformation_mode=transform)
    for mode in ("nearest", "linear", "cubic") for h, w in ((7, 3),)
    for transform in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")] + [
    case("Resize", f(1, 1, 4, 4), None, np.float32([1, 1, 0.5, 0.5]), constant=(2,), mode="nearest"),
    case("Resize", f(2, 3), np.float32([2, 2]), constant=(1,), opset=10),
    case("Resize", f(1, 1, 4, 4), None, None, numbers(8, 9), constant=(3,), axes=[2, 3], mode="linear",
         keep_aspect_ratio_policy="not_larger"),
    case("Resize", f(1, 1, 4, 4), None, np.float32([1, 1, 0.8, 0.8]), constant=(2,), mode="cubic", cubic_coeff_a=-0.5,
         exclude_outside=1),
    case("Resize", f(1, 1, 2, 4), None, np.float32([1, 1, 1.6, 1.6]), constant=(2,), mode="nearest", nearest_mode="ceil"),
    case("Upsample", f(1, 1, 2, 3), np.float32([1, 1, 2, 2]), constant=(1,), opset=9)]

BOXES = np.float32([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [1, 11.1, 0, 10.1], [0, 100, 1, 101]]])

SELECTION = [
    case("TopK", f(3, 9), numbers(4), outputs=2), case("TopK", ints(4, 9, low=-2, high=3), numbers(5), outputs=2, largest=0),
    case("TopK", ints(5, 7, low=0, high=3, dtype=np.uint8), numbers(3), outputs=2, axis=0),
    case("TopK", f(6), k=2, outputs=2, opset=9),
    case("TopK", ints(3, 100, low=0, high=9), numbers(7), outputs=2),
    case("TopK", f(2, 300, 2), numbers(60), outputs=2, axis=1),
    case("TopK", f(3, 2, 300), numbers(9), outputs=2), case("TopK", f(2, 301, 2), numbers(5), outputs=2, axis=1, largest=0),
    case("TopK", ints(3, 200, low=0, high=255, dtype=np.uint8), numbers(4), outputs=2),
    case("TopK", ints(3, 150, low=-2**63, high=2**63 - 1), numbers(3), outputs=2, largest=0),
    case("TopK", f(2, 100), numbers(0), outputs=2),
    case("TopK", ints(3, 100, low=0, high=9, dtype=np.int32), numbers(7), outputs=2, largest=0),
    case("NonZero", ints(3, 4, low=0, high=2)), case("NonZero", flags(7)), case("NonZero", f(0, 2)),
    case("Compress", f(3, 4), flags(3), axis=0), case("Compress", f(3, 4), np.array([True, False, True]), axis=-1),
    case("Compress", f(2, 3), np.array([False, True, True, False, True])),
    case("Unique", ints(9), outputs=4), case("Unique", ints(9), outputs=4, sorted=0),
    case("Unique", ints(5, 2, low=0, high=2), outputs=4, axis=0),
    case("Unique", ints(6, 2, low=0, high=2), outputs=4, axis=0, sorted=0),
    *(case("NonMaxSuppression", boxes, np.float32([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.8, 0.8, 0.2, 0.7, 0.7]]]),
           numbers(3), np.float32([0.5]), np.float32([0.4]), center_point_box=centred)
      for boxes, centred in ((BOXES, 0), (BOXES[..., [1, 0, 3, 2]], 1))),
    case("NonMaxSuppression", BOXES, np.float32([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]]), numbers(9))]

CASES = SELECTION + UNARY + BINARY + CONVOLUTION + POOLING + LINEAR + REDUCTION + NORMALISATION + MOVEMENT + INDEXING + RESIZE
CASES += learning_cases.CASES
CASES += moving_cases.CASES

BY_RUNTIME = {"Mean", "NonMaxSuppression", "ConvTranspose", "MaxPool", "GlobalMaxPool", "LpNormalization", "LRN", "Pad",
              "Softmax", "LSTM", "GRU", "RNN", "Scatter", "MaxRoiPool", "GlobalLpPool", "TfIdfVectorizer",
              "Slice"}
"""onnx's evaluator fails or differs from the operator's definition for some uses of these: ONNX Runtime is the judge."""

BY_NUMPY = {
    ("Add", 6): lambda a, b, **_: a + b[None, :, None],
    ("Upsample", 9): lambda x, s, **_: x.repeat(2, 2).repeat(2, 3),
    ("Resize", 10): lambda x, s, **_: x.repeat(2, 0).repeat(2, 1),
    ("Multinomial", 22): lambda x, **_: learning_cases.drawn(x, 5, seed=3),
}
"""What neither reference has: functions of the inputs, with the attributes by name."""


TOLERANCES = {"float16": (2e-3, 2e-3), "bfloat16": (2e-2, 2e-2)}
"""By type of the result; onnx's evaluator rounds halves between the steps of an operator."""


def node_of(c: Case):
    """The node of a case, arrays for all of its inputs, and for those that are not constants."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(c.inputs)]
    arrays = {n: np.asarray(a) for n, a in zip(names, c.inputs) if n}
    domain, _, op = c.op.rpartition("::")
    node = helper.make_node(op, names, [f"y{i}" for i in range(c.outputs)], domain=domain or None, **c.attributes)
    stored = {f"x{i}" for i in c.constant}
    return node, arrays, {n: a for n, a in arrays.items() if n not in stored}


def agree(found, expected) -> None:
    """The same types and shapes, and almost the same numbers."""
    for got, wanted in zip(found, expected, strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        rtol, atol = TOLERANCES.get(got.dtype.name, (2e-5, 2e-6))
        np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=atol)


@pytest.mark.part(8)
@pytest.mark.parametrize("c", CASES, ids=[f"{i:03d}-{c}" for i, c in enumerate(CASES)])
def test_operator(c: Case, build, reference, runtime) -> None:
    node, arrays, feeds = node_of(c)
    model = build([node], feeds, node.output, {n: a for n, a in arrays.items() if n not in feeds}, c.opset)
    if (c.op, c.opset) in BY_NUMPY:
        expected = [BY_NUMPY[c.op, c.opset](*arrays.values(), **c.attributes)]
    else:
        expected = (runtime if c.op in BY_RUNTIME else reference)(model, feeds)
    results = polytc.load_onnx(model).compile(target="evaluate").run(None, feeds)
    agree(results, expected)


def test_every_row_has_a_case() -> None:
    of_learning = {name for name in TABLE if name.startswith("ai.onnx.ml::")}  # in test_estimators.py
    assert {n for n in TABLE if "::" not in n or n.startswith("ai.onnx")} - of_learning == {c.op for c in CASES}
    text = (Path(__file__).parent / "test_estimators.py").read_text()
    assert all(f'"{name.rpartition("::")[2]}"' in text for name in of_learning)


def test_the_documentation_lists_every_row() -> None:
    text = (Path(__file__).parents[3] / "docs" / "onnx.md").read_text()
    assert {name.rpartition("::")[2] for name in TABLE} <= set(re.findall(r"\w+", text))


@pytest.mark.part(12)
@pytest.mark.parametrize("c", CASES, ids=[f"{i:03d}-{c}" for i, c in enumerate(CASES)])
def test_of_constants_alone(c: Case, build) -> None:
    """Where all inputs are constants, onnx's evaluator computes the result at import, unless it errs or is unable: it is the
    same as that of the row."""
    node, arrays, feeds = node_of(c)
    stored = {n: a for n, a in arrays.items() if n not in feeds}
    wanted = polytc.load_onnx(build([node], feeds, node.output, stored, c.opset)).compile(target="evaluate").run(None, feeds)
    found = polytc.load_onnx(build([node], {}, node.output, arrays, c.opset)).compile(target="evaluate").run(None, {})
    agree(found, wanted)
