"""The values that an attribute may have where its operator knows only some: onnx's schemas say them in prose alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import onnx

Choices: TypeAlias = "tuple[str | int, ...]"

_TYPES: Choices = tuple(sorted(set(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}))
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_BRANCHES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "LEAF")

_ROWS: tuple[tuple[str, str, Choices], ...] = (
    ("activation", "CausalConvWithState", ("none", "silu", "swish")),
    ("aggregate_function", "TreeEnsembleRegressor", ("AVERAGE", "SUM", "MIN", "MAX")),
    ("approximate", "Gelu", ("none", "tanh")),
    ("auto_pad", "AveragePool Conv ConvInteger ConvTranspose LpPool MaxPool QLinearConv",
     ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")),
    ("case_change_action", "StringNormalizer", ("LOWER", "UPPER", "NONE")),
    ("cast_to", "CastMap", ("TO_FLOAT", "TO_STRING", "TO_INT64")),
    ("center_point_box", "NonMaxSuppression", (0, 1)),
    ("coordinate_transformation_mode", "Resize", (
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
        "tf_crop_and_resize")),
    ("coordinate_transformation_mode", "RoiAlign", ("half_pixel", "output_half_pixel")),
    ("direction", "BitShift", ("LEFT", "RIGHT")),
    ("direction", "GRU LSTM RNN", ("forward", "reverse", "bidirectional")),
    ("dtype", "Bernoulli EyeLike Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike", _TYPES),
    ("exclusive", "CumSum CumProd", (0, 1)),
    ("fmod", "Mod", (0, 1)),
    ("keep_aspect_ratio_policy", "Resize", ("stretch", "not_larger", "not_smaller")),
    ("kernel_type", "SVMClassifier SVMRegressor", ("LINEAR", "POLY", "RBF", "SIGMOID")),
    ("layout", "GRU LSTM RNN", (0, 1)),
    ("map_form", "CastMap", ("DENSE", "SPARSE")),
    ("mode", "DepthToSpace SpaceToDepth", ("DCR", "CRD")),
    ("mode", "GridSample-16", ("bilinear", "nearest", "bicubic")),
    ("mode", "GridSample", ("linear", "nearest", "cubic")),
    ("mode", "Momentum", ("nesterov", "standard")),
    ("mode", "Pad", ("constant", "reflect", "edge", "wrap")),
    ("mode", "Resize", ("nearest", "linear", "cubic")),
    ("mode", "RoiAlign", ("avg", "max")),
    ("mode", "TensorScatter", ("linear", "circular")),
    ("mode", "TfIdfVectorizer", ("TF", "IDF", "TFIDF")),
    ("mode", "Upsample", ("nearest", "linear", "bilinear")),
    ("nearest_mode", "Resize", ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
    ("nodes_modes", "TreeEnsembleClassifier TreeEnsembleRegressor", _BRANCHES),
    ("norm", "Normalizer", ("MAX", "L1", "L2")),
    ("output_datatype", "BlackmanWindow HammingWindow HannWindow MelWeightMatrix", _TYPES),
    ("output_dtype", "DequantizeLinear QuantizeLinear", (0, *_TYPES)),
    ("p", "LpNormalization", (1, 2)),
    ("padding_mode", "GridSample", ("zeros", "border", "reflection")),
    ("pixel_format", "ImageDecoder", ("RGB", "BGR", "Grayscale")),
    ("post_transform", "LinearClassifier LinearRegressor SVMClassifier SVMRegressor TreeEnsembleClassifier "
     "TreeEnsembleRegressor", _TRANSFORMS),
    ("qk_matmul_output_mode", "Attention", (0, 1, 2, 3)),
    ("reduction", "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", ("none", "sum", "mean")),
    ("reduction", "ScatterElements ScatterND", ("none", "add", "mul", "max", "min")),
    ("reverse", "CumSum CumProd", (0, 1)),
    ("round_mode", "Cast CastLike", ("up", "down", "nearest")),
    ("storage_order", "MaxPool", (0, 1)),
    ("to", "BitCast Cast", _TYPES),
    ("update_rule", "LinearAttention", ("linear", "gated", "delta", "gated_delta")))
"""Attribute, operators (with -V: only by their version V), values. Those of all versions, where these mean the same."""

CHOICES: Mapping[tuple[str, str], Choices] = {(op, name): values for name, ops, values in _ROWS for op in ops.split()}
"""(operator, attribute) -> what the attribute may be; one of a list of texts, each of them."""


def choices(op: str, since: int, attribute: str) -> Choices | None:
    """What an attribute may be in the version `since` of an operator; None for anything."""
    return CHOICES.get((f"{op}-{since}", attribute)) or CHOICES.get((op, attribute))


def unknown_choice(op: str, since: int, attribute: onnx.AttributeProto) -> tuple[str, tuple[str, ...]] | None:
    """Why an attribute is none that the operator knows, and a note with those that it knows; None if it is one."""
    known = choices(op, since, attribute.name)
    if known is None:
        return None
    value = onnx.helper.get_attribute_value(attribute)
    values = value if isinstance(value, list) else [value]
    given = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values]
    wrong = next((v for v in given if v not in known), None)
    if wrong is None:
        return None
    return f"the attribute {attribute.name!r} is {wrong!r}", (f"it may be {', '.join(map(str, known))}",)
