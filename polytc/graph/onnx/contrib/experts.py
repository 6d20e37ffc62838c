"""Mixtures of experts: all experts work on all tokens, and each token adds up those that it chose."""

from __future__ import annotations

from polytc.graph.onnx.contrib.block_quantised import unpacked
from polytc.graph.onnx.contrib.sites import NoText, Site, constant, ints


def _routes(s: Site, normalised: bool) -> str:
    """`route` [tokens, experts]: the probabilities of the experts that a token chose, zeros for the others. normalised:
    their sum is 1."""
    s.only("use_sparse_mixer", 0)
    lines = f"probability = Softmax <axis: int = -1> (router_probs)\n{ints('most', int(s.number('k', 1)))}"
    lines += "chosen, experts = TopK <axis: int = -1> (probability, most)\n"
    if s.has("router_weights"):
        lines += "chosen1 = GatherElements <axis: int = -1> (router_weights, experts)\n"
    else:
        lines += "chosen1 = Identity(chosen)\n"
    if normalised:
        lines += f"{ints('last', -1)}total = ReduceSum <keepdims: int = 1> (chosen1, last)\nweights = Div(chosen1, total)\n"
    else:
        lines += "weights = Identity(chosen1)\n"
    return lines + "none = Sub(router_probs, router_probs)\n" \
                   "route = ScatterElements <axis: int = -1> (none, experts, weights)\n"


def _activated(s: Site) -> str:
    """`A` [experts, tokens, inner] of `H`."""
    kind = s.word("activation_type", "relu")
    if kind == "swiglu":
        return _swiglu(s)
    texts = {"relu": "A = Relu(H)\n", "gelu": 'A = Gelu(H)\n', "silu": "Z = Sigmoid(H)\nA = Mul(H, Z)\n", "identity":
             "A = Identity(H)\n", "relu2": "R = Relu(H)\nA = Mul(R, R)\n"}
    if kind not in texts:
        raise NoText(f"the activation {kind!r}")
    if s.has("fc3_experts_weights"):
        raise NoText(f"a third product with the activation {kind!r}")
    return texts[kind]


def _swiglu(s: Site) -> str:
    """Gates and the other halves: of two products, in pairs, or behind each other."""
    s.only("swiglu_limit_after_activation", 0)
    fusion = int(s.number("swiglu_fusion", 0))
    if fusion == 0:
        if not s.has("fc3_experts_weights"):
            raise NoText("swiglu without a third product and without swiglu_fusion")
        lines = "G0 = Identity(H)\nU0 = Identity(H3)\n"
    elif fusion == 1:
        lines = f"{ints('pairs', 0, 0, -1, 2)}{ints('pair_axis', 3)}HP = Reshape(H, pairs)\n" \
                "G4, U4 = Split <axis: int = 3, num_outputs: int = 2> (HP)\nG0 = Squeeze(G4, pair_axis)\n" \
                "U0 = Squeeze(U4, pair_axis)\n"
    else:
        lines = "G0, U0 = Split <axis: int = -1, num_outputs: int = 2> (H)\n"
    limit = s.attributes.get("swiglu_limit")
    if limit is not None:
        lines += constant("top", limit, "H") + constant("bottom", -float(limit), "H")
        lines += "G = Min(G0, top)\nU1 = Min(U0, top)\nU = Max(U1, bottom)\n"
    else:
        lines += "G = Identity(G0)\nU = Identity(U0)\n"
    numbers = constant("alpha", s.number("activation_alpha", 1.0), "H")
    numbers += constant("beta", s.number("activation_beta", 0.0), "H")
    return f"{lines}{numbers}GA = Mul(G, alpha)\nZ = Sigmoid(GA)\nM = Mul(G, Z)\nL = Add(U, beta)\nA = Mul(M, L)\n"


def _layer(s: Site, x: str, weights: str, bias: str, result: str) -> str:
    """Products with the weights [experts, out, in] of all experts."""
    x_term = "eti" if x == "A" else "ti"
    product = f'{result}_p = Einsum <equation: string = "{x_term},eoi->eto"> ({x}, {weights})\n'
    if not s.has(bias):
        return f"{product}{result} = Identity({result}_p)\n"
    return f"{product}{result}_axis = Constant <value_ints: ints = [1]> ()\n{result}_b = Unsqueeze({bias}, {result}_axis)\n" \
           f"{result} = Add({result}_p, {result}_b)\n"


def _mixture(s: Site, first: str, second: str, third: str, normalised: bool) -> str:
    lines = f"{_routes(s, normalised)}tokens = Shape <end: int = 1> (router_probs)\n{ints('some', -1)}" \
            "rows = Concat <axis: int = 0> (tokens, some)\nx = Reshape(input, rows)\n"
    lines += _layer(s, "x", first, "fc1_experts_bias", "H")
    if s.has("fc3_experts_weights"):
        lines += _layer(s, "x", third, "fc3_experts_bias", "H3")
    lines += _activated(s) + _layer(s, "A", second, "fc2_experts_bias", "O")
    return lines + 'mixed = Einsum <equation: string = "te,eto->to"> (route, O)\nwhole = Shape(input)\n' \
        'output = Reshape <allowzero: int = 1> (mixed, whole)\n'


def experts(s: Site) -> str:
    return _mixture(s, "fc1_experts_weights", "fc2_experts_weights", "fc3_experts_weights",
                    bool(s.number("normalize_routing_weights", 0)))


def quantised_experts(s: Site) -> str:
    """Weights of 2, 4 or 8 bits along their inputs, with a scale a row or a block. As ONNX Runtime does on processors, what the
    attribute says or not, the probabilities of the chosen experts are divided by their sum, but for `router_weights`."""
    s.only("quant_type", "int")
    lines, names = "", []
    for k in (1, 2, 3):
        name = f"fc{k}_experts_weights"
        if not s.has(name):
            names.append(name)
            continue
        if not s.has(f"fc{k}_scales"):
            raise NoText("weights without scales")
        bits = int(s.number(f"fc{k}_expert_weight_bits", s.number("expert_weight_bits", 4)))
        if bits not in (2, 4, 8):
            raise NoText(f"weights of {bits} bits")
        lines += _weights(s, k, bits)
        names.append(f"w{k}")
    first, second, third = names
    normalised = bool(s.number("normalize_routing_weights", 0)) or not s.has("router_weights")
    return lines + _mixture(s, first, second, third, normalised)


def _weights(s: Site, k: int, bits: int) -> str:
    """w{k}, the weights as numbers in the type of the input."""
    lines = unpacked(f"fc{k}_experts_weights", f"q{k}", bits, f"e{k}") + f"f{k} = CastLike(q{k}, fc{k}_scales)\n"
    experts, rows, *rest = s.shape(f"fc{k}_scales")
    blocks = rest[0] if rest else 1
    lines += ints(f"blocks{k}", experts, rows, blocks, -1) + ints(f"one{k}", experts, rows, blocks, 1)
    lines += f"g{k} = Reshape(f{k}, blocks{k})\ns{k} = Reshape(fc{k}_scales, one{k})\n"
    if s.has(f"fc{k}_zero_points"):
        if not rest:
            raise NoText("zero points of rows")
        lines += unpacked(f"fc{k}_zero_points", f"zq{k}", bits, f"ez{k}")
        lines += (ints(f"zf{k}", 0) + ints(f"zc{k}", blocks) + ints(f"za{k}", 2)
                  + f"zs{k} = Slice(zq{k}, zf{k}, zc{k}, za{k})\nzr{k} = Reshape(zs{k}, one{k})\n"
                  f"z{k} = CastLike(zr{k}, fc{k}_scales)\n")
    else:
        lines += constant(f"z{k}", 2 ** (bits - 1), f"fc{k}_scales")
    return lines + f"c{k} = Sub(g{k}, z{k})\nm{k} = Mul(c{k}, s{k})\n{ints(f'joined{k}', experts, rows, -1)}" \
                   f"wr{k} = Reshape(m{k}, joined{k})\nw{k} = CastLike(wr{k}, input)\n"
