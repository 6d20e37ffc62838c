"""Normalisations of ONNX Runtime's own, and the embeddings in front of a transformer."""

from __future__ import annotations

from collections.abc import Callable

from polytc.graph.onnx.contrib.products import turned
from polytc.graph.onnx.contrib.sites import NoText, Site, constant, ints, real


def skip_norm(norm: str, *more: str) -> Callable[[Site], str]:
    """The normalisation of a sum. more: its inputs behind `gamma`."""
    def text(s: Site) -> str:
        s.refuse("mean", "inv_std_var")
        bias = "T = Add(S, bias)\n" if s.has("bias") else "T = Identity(S)\n"
        total = "input_skip_bias_sum = Identity(T)\n" if "input_skip_bias_sum" in s.wanted else ""
        epsilon = real(s.number("epsilon", 1e-12))
        return f"S = Add(input, skip)\n{bias}{total}output = {norm} <axis: int = -1, epsilon: float = {epsilon}> " \
               f"(T, gamma{s.optional(*more)})"
    return text


def rms_norm(s: Site) -> str:
    s.refuse("inv_std_var")
    axis, epsilon = int(s.number("axis", -1)), real(s.number("epsilon", 1e-5))
    return f"Y = RMSNormalization <axis: int = {axis}, epsilon: float = {epsilon}> (X, scale)"


def gated_rms_norm(s: Site) -> str:
    """Over groups as long as `scale`, all in f32."""
    kind = s.word("activation", "silu")
    if kind not in ("silu", "swish", "sigmoid"):
        raise NoText(f"the activation {kind!r}")
    gate = "A = Sigmoid(g)\n" if kind == "sigmoid" else "Z = Sigmoid(g)\nA = Mul(g, Z)\n"
    return ("x = Cast <to: int = 1> (X)\nw = Cast <to: int = 1> (scale)\ng = Cast <to: int = 1> (gate)\n"
            f"width = Shape(scale)\nouter = Shape <end: int = -1> (X)\n{ints('some', -1)}whole = Shape(X)\n"
            "groups = Concat <axis: int = 0> (outer, some, width)\nG = Reshape(x, groups)\n"
            f"N = RMSNormalization <axis: int = -1, epsilon: float = {real(s.number('epsilon', 1e-5))}> (G, w)\n"
            f"F = Reshape <allowzero: int = 1> (N, whole)\n{gate}P = Mul(F, A)\nY = CastLike(P, X)")


def branchwise_rms_norm(s: Site) -> str:
    """Over each of so many branches, all in f32."""
    branches, whole = int(s.number("num_branches", 0)), "whole = Shape(X)\n"
    if branches:
        whole += f"outer = Shape <end: int = -1> (X)\n{ints('split', branches, -1)}"
        whole += "parts = Concat <axis: int = 0> (outer, split)\n"
    split = "G = Reshape(x, parts)\n" if branches else "G = Identity(x)\n"
    lines = f"x = Cast <to: int = 1> (X)\n{whole}{split}"
    lines += constant("one", 1.0, "x") + f"{ints('width', 1)}unit = Expand(one, width)\n"
    lines += f"N = RMSNormalization <axis: int = -1, epsilon: float = {real(s.number('epsilon', 1e-5))}> (G, unit)\n"
    if s.has("scale"):
        lines += "w0 = Cast <to: int = 1> (scale)\n"
        if s.rank("scale") == 1:
            lines += f"inner = Shape <start: int = -2> (G)\n{ints('some', -1)}last = Shape <start: int = -1> (G)\n" \
                     "rows = Concat <axis: int = 0> (some, last)\nw = Reshape(w0, rows)\n"
        else:
            lines += "w = Identity(w0)\n"
        lines += "M = Mul(N, w)\n"
    else:
        lines += "M = Identity(N)\n"
    return lines + "F = Reshape <allowzero: int = 1> (M, whole)\nY = CastLike(F, X)"


def _group_norm(s: Site, x: str) -> str:
    """Y of the tensor `x`, whose channels are last unless an attribute says otherwise; by the schema images of rank 4."""
    last, groups = s.number("channels_last", 1), int(s.number("groups", 1))
    lines = turned(4, x) if last else f"{x}T = Identity({x})\n"
    lines += f"scale = CastLike(gamma, {x})\nshift = CastLike(beta, {x})\n"
    lines += f"N = GroupNormalization <num_groups: int = {groups}, epsilon: float = {real(s.number('epsilon', 1e-5))}> " \
             f"({x}T, scale, shift)\n"
    lines += "Z = Sigmoid(N)\nYT = Mul(N, Z)\n" if s.number("activation", 0) else "YT = Identity(N)\n"
    return lines + (turned(4, "Y", back=True) if last else "Y = Identity(YT)")


def group_norm(s: Site) -> str:
    return _group_norm(s, "X")


def skip_group_norm(s: Site) -> str:
    lines = "skip4 = Identity(skip)\n"
    last = s.number("channels_last", 1)
    if s.rank("skip") == 2:
        lines = f"{ints('axes', *((1, 2) if last else (2, 3)))}skip4 = Unsqueeze(skip, axes)\n"
    lines += "T = Add(X, skip4)\n"
    if s.has("bias"):
        shape = "" if last else f"{ints('channel', -1, 1, 1)}"
        lines += f"{shape}b = {'Identity(bias)' if last else 'Reshape(bias, channel)'}\nU = Add(T, b)\n"
    else:
        lines += "U = Identity(T)\n"
    return lines + ("S = Identity(U)\n" if "S" in s.wanted else "") + _group_norm(s, "U")


def embed_layer_norm(s: Site) -> str:
    return _embedded(s, "word_embedding", "position_embedding", "segment_embedding", "gamma", "beta", "output", "mask_index")


def q_embed_layer_norm(s: Site) -> str:
    """All tables, and the factors of the normalisation, are scaled bytes."""
    tables = [("word_embedding", "word_embedding_quant"), ("position_embedding", "position_embedding_quant"),
              ("gamma", "gamma_quant"), ("beta", "beta_quant")]
    if s.has("segment_embedding"):
        tables.append(("segment_embedding", "segment_embedding"))
    lines = "".join(f"{n}_f = DequantizeLinear({source}, {n}_scale{s.optional(f'{n}_zero_point')})\n" for n, source in tables)
    return lines + _embedded(s, "word_embedding_f", "position_embedding_f", "segment_embedding_f", "gamma_f", "beta_f",
                             "layernorm_out", "mask_index_out")


def _embedded(s: Site, word: str, position: str, segment: str, gamma: str, beta: str, output: str, index: str) -> str:
    lines = [f"{ints('one', 1)}{ints('zero', 0)}W = Gather({word}, input_ids)"]
    if s.has("position_ids"):
        lines.append(f"P = Gather({position}, position_ids)")
    else:
        lines += ["length = Shape <start: int = 1, end: int = 2> (input_ids)", f"P = Slice({position}, zero, length, zero)"]
    lines.append("S0 = Add(W, P)")
    segments = s.has("segment_ids") and s.has("segment_embedding")
    lines += [f"G = Gather({segment}, segment_ids)", "S = Add(S0, G)"] if segments else ["S = Identity(S0)"]
    if "embedding_sum" in s.wanted:
        lines.append("embedding_sum = Identity(S)")
    if index in s.wanted and s.has("mask"):
        lines.append(f"{index} = ReduceSum <keepdims: int = 0> (mask, one)")
    elif index in s.wanted:
        lines += ["batch = Shape <start: int = 0, end: int = 1> (input_ids)",
                  "none = Constant <value_int: int = 0> ()", "none32 = Cast <to: int = 6> (none)",
                  f"{index} = Expand(none32, batch)"]
    epsilon = real(s.number("epsilon", 1e-12))
    lines.append(f"{output} = LayerNormalization <axis: int = -1, epsilon: float = {epsilon}> (S, {gamma}, {beta})")
    return "\n".join(lines)
