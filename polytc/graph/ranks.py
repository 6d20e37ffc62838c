"""How many axes each value has, as far as the operators alone tell."""

from __future__ import annotations

from collections.abc import Mapping

from polytc.graph.ir import Graph, Node

SAME = frozenset(
    "Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization Cast Ceil Celu Clip Cos Cosh CumSum Dropout Elu Erf Exp "
    "Floor Gelu HardSigmoid HardSwish Hardmax Identity InstanceNormalization LRN LayerNormalization LeakyRelu Log "
    "LogSoftmax Mish Neg Not Pad PRelu Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Slice Softmax Softplus Softsign "
    "Sqrt Swish Tan Tanh ThresholdedRelu Tile Transpose Conv ConvTranspose MaxPool AveragePool LpPool GlobalAveragePool "
    "GlobalMaxPool Resize Upsample Trilu DepthToSpace SpaceToDepth IsNaN IsInf BitwiseNot CastLike Shrink "
    "GroupNormalization RMSNormalization Split Concat".split())
"""Operators whose results have as many axes as their first input."""

BROADCAST = frozenset("Add Sub Mul Div Pow Max Min Sum Mean Mod And Or Xor Equal Less LessOrEqual Greater GreaterOrEqual Where "
                      "BitShift BitwiseAnd BitwiseOr BitwiseXor".split())


def ranks(graph: Graph) -> dict[str, int]:
    """value -> number of axes, of those that are known."""
    found = {name: a.ndim for name, a in graph.constants.items()}
    found |= {v.name: len(v.shape) for v in graph.inputs if v.shape is not None}
    for node in graph.nodes:
        axes = rank(node, found)
        if axes is not None:
            found |= dict.fromkeys((n for n in node.outputs if n), axes)
        for name in node.outputs:
            declared = graph.values.get(name)
            if name not in found and declared is not None and declared.shape:
                found[name] = len(declared.shape)
    return found


def rank(node: Node, known: Mapping[str, int]) -> int | None:
    """Axes of the results of a node by those of its inputs, None where these do not tell."""
    inputs = [known.get(n) for n in node.inputs]
    if node.op in SAME:
        return inputs[0] if inputs else None
    if node.op in BROADCAST and inputs and None not in inputs:
        return max(r for r in inputs if r is not None)
    match node.op:
        case "Gemm" | "Flatten":
            return 2
        case "MatMul" if None not in inputs[:2] and min(r for r in inputs[:2] if r is not None) >= 2:
            return max(r for r in inputs[:2] if r is not None)
        case op if op.startswith("Reduce") and node.attributes.get("keepdims", 1) and inputs:
            return inputs[0]
    return None
