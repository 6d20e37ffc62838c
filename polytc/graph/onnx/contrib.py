"""Operators of ONNX Runtime's own (com.microsoft) by operators of onnx: what its optimisers, quantisers and exporters write.

Each has a text in onnx's notation, in which its inputs and outputs have the names of its schema; what is left out of a node is
left out of the text. The passes and the fusion of polytc do the rest. (ONNX Runtime, ContribOperators.md.)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import onnx.parser

from polytc.graph.ir import Graph, Node
from polytc.graph.onnx import contrib_attention as attention
from polytc.graph.onnx import contrib_texts as texts
from polytc.graph.onnx.contrib_texts import Site
from polytc.graph.onnx.importer import nodes_of

DOMAIN = "com.microsoft"
OPSET = 23
"""Of the operators in the texts."""


@dataclass(frozen=True)
class Contrib:
    """inputs, outputs: formal names; the last input ends with `*` if it may be repeated. text: None where polytc has no way for
    such a node."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    text: Callable[[Site], str | None]


def expand(graph: Graph) -> Graph:
    """The graph with onnx's operators in place of ONNX Runtime's, in bodies too, as far as there is a text for them."""
    taken = {n for node in graph.nodes for n in (*node.inputs, *node.outputs)} | set(graph.constants)
    fresh = (name for k in itertools.count() if (name := f"contrib{k}") not in taken)
    ranks = {n: a.ndim for n, a in graph.constants.items()} | {
        n: len(v.shape) for n, v in graph.values.items() if v.shape is not None}
    return replace(graph, nodes=tuple(made for node in graph.nodes for made in _made(node, ranks, fresh)))


def _made(node: Node, ranks: Mapping[str, int], fresh: Iterator[str]) -> tuple[Node, ...]:
    inner = {n: expand(v) for n, v in node.attributes.items() if isinstance(v, Graph)}
    node = replace(node, attributes={**node.attributes, **inner}) if inner else node
    domain, _, op = node.op.rpartition("::")
    known = CONTRIB.get(op) if domain == DOMAIN or op == "SimplifiedLayerNormalization" else None
    if known is None:
        return (node,)
    formal = _formal(known, len(node.inputs))
    actual = {f: a for f, a in zip(formal, node.inputs, strict=False) if a}
    results = {f: a for f, a in zip(known.outputs, node.outputs, strict=False) if a}
    site = Site(node.attributes, frozenset(actual), {f: ranks[a] for f, a in actual.items() if a in ranks}, frozenset(results))
    text = known.text(site)
    if text is None:
        return (node,)
    header = f'<opset_import: ["" : {OPSET}], domain: "{DOMAIN}"> F ({", ".join(actual)}) => ({", ".join(results)}) {{\n'
    body = onnx.parser.parse_function(f"{header}{text}\n}}")
    names = actual | results
    for name in (n for p in body.node for n in p.output if n and n not in names):
        names[name] = next(fresh)
    return tuple(replace(n, name=node.name, inputs=tuple(names.get(i, i) for i in n.inputs),
                         outputs=tuple(names.get(o, o) for o in n.outputs)) for n in nodes_of(body.node, {"": OPSET}))


def _formal(known: Contrib, count: int) -> tuple[str, ...]:
    fixed = [n for n in known.inputs if not n.endswith("*")]
    repeated = [n.removesuffix("*") for n in known.inputs if n.endswith("*")]
    for k in itertools.count() if repeated else ():
        if len(fixed) >= count:
            break
        fixed += [f"{n}{k}" for n in repeated]
    return tuple(fixed)


Q_UNARY = ("X", "X_scale", "X_zero_point", "Y_scale", "Y_zero_point")
Q_BINARY = ("A", "A_scale", "A_zero_point", "B", "B_scale", "B_zero_point", "C_scale", "C_zero_point")
POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
NORM = ("output", "mean", "inv_std_var", "input_skip_bias_sum")

CONTRIB: Mapping[str, Contrib] = {
    "Gelu": Contrib(("X",), ("Y",), texts.gelu),
    "BiasGelu": Contrib(("A", "B"), ("C",), lambda s: "S = Add(A, B)\nC = Gelu(S)"),
    "FastGelu": Contrib(("X", "bias"), ("Y",), texts.fast_gelu),
    "QuickGelu": Contrib(("X",), ("Y",), texts.quick_gelu),
    "BiasSplitGelu": Contrib(("X", "bias"), ("Y",), lambda s: "S = Add(X, bias)\n"
                             "L, R = Split <axis: int = -1, num_outputs: int = 2> (S)\nG = Gelu(R)\nY = Mul(L, G)"),
    "FusedMatMul": Contrib(("A", "B"), ("Y",), texts.fused_matmul),
    "FusedGemm": Contrib(("A", "B", "C"), ("Y",), texts.fused_gemm),
    "FusedConv": Contrib(("X", "W", "B", "Z"), ("Y",), texts.fused_conv),
    "SkipLayerNormalization": Contrib(("input", "skip", "gamma", "beta", "bias"), NORM,
                                      texts.skip_norm("LayerNormalization", "beta")),
    "SimplifiedLayerNormalization": Contrib(("X", "scale"), ("Y", "inv_std_var"), texts.rms_norm),
    "SkipSimplifiedLayerNormalization": Contrib(("input", "skip", "gamma", "bias"), NORM,
                                                texts.skip_norm("RMSNormalization")),
    "EmbedLayerNormalization": Contrib(
        ("input_ids", "segment_ids", "word_embedding", "position_embedding", "segment_embedding", "gamma", "beta", "mask",
         "position_ids"), ("output", "mask_index", "embedding_sum"), texts.embed_layer_norm),
    "MatMulIntegerToFloat": Contrib(("A", "B", "a_scale", "b_scale", "a_zero_point", "b_zero_point", "bias"), ("Y",),
                                    texts.integers_to_float),
    "DynamicQuantizeMatMul": Contrib(("A", "B", "b_scale", "b_zero_point", "bias"), ("Y",), texts.dynamic_matmul),
    "DynamicQuantizeLSTM": Contrib(
        ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P", "W_scale", "W_zero_point", "R_scale",
         "R_zero_point"), ("Y", "Y_h", "Y_c"), texts.dynamic_lstm),
    "QuantizeLinear": Contrib(("x", "y_scale", "y_zero_point"), ("y",), lambda s: f"y = QuantizeLinear"
                              f"{texts.written(s.attributes, ('axis',))} (x, y_scale{s.optional('y_zero_point')})"),
    "DequantizeLinear": Contrib(("x", "x_scale", "x_zero_point"), ("y",), lambda s: f"y = DequantizeLinear"
                                f"{texts.written(s.attributes, ('axis',))} (x, x_scale{s.optional('x_zero_point')})"),
    "QLinearAdd": Contrib(Q_BINARY, ("C",), texts.elementwise("Add")),
    "QLinearMul": Contrib(Q_BINARY, ("C",), texts.elementwise("Mul")),
    "QLinearSigmoid": Contrib(Q_UNARY, ("Y",), texts.unary("Sigmoid")),
    "QLinearLeakyRelu": Contrib(Q_UNARY, ("Y",), texts.unary("LeakyRelu", "alpha")),
    "QLinearSoftmax": Contrib(Q_UNARY, ("Y",), lambda s: texts.unary("Softmax", "axis")(s)
                              if s.number("opset", 13) >= 13 else None),
    "QLinearAveragePool": Contrib(Q_UNARY, ("Y",), texts.pool("AveragePool", *POOL)),
    "QLinearGlobalAveragePool": Contrib(Q_UNARY, ("Y",), texts.pool("GlobalAveragePool")),
    "QLinearConcat": Contrib(("Y_scale", "Y_zero_point", "X_tensor*", "X_scale*", "X_zero_point*"), ("Y",), texts.concat),
    "QLinearWhere": Contrib(("condition", "X", "x_scale", "x_zero_point", "Y", "y_scale", "y_zero_point", "z_scale",
                             "z_zero_point"), ("Z",), texts.where),
    "QGemm": Contrib(("A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point", "C", "y_scale", "y_zero_point"), ("Y",),
                     texts.qgemm),
    "Attention": Contrib(("input", "weights", "bias", "mask_index", "past", "attention_bias", "past_sequence_length"),
                         ("output", "present"), attention.attention),
    "MultiHeadAttention": Contrib(
        ("query", "key", "value", "bias", "key_padding_mask", "attention_bias", "past_key", "past_value",
         "past_sequence_length", "cache_indirection"), ("output", "present_key", "present_value", "qk"),
        attention.multi_head_attention),
    "RotaryEmbedding": Contrib(("input", "position_ids", "cos_cache", "sin_cache"), ("output",), attention.rotary),
    "Trilu": Contrib(("X", "k"), ("Y",), lambda s: f"Y = Trilu{texts.written(s.attributes, ('upper',))} (X{s.optional('k')})"),
}
"""Operator -> what it is made of."""
