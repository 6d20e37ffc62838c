"""Activations, and products and convolutions with what ONNX Runtime fused behind them."""

from __future__ import annotations

from polytc.graph.onnx.contrib.sites import NoText, Site, constant, ints, real, written

CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def activation(s: Site, x: str, y: str) -> str:
    """`y` as the activation of `x` that the attribute `activation` names. Raises NoText."""
    name, parameters = s.word("activation", ""), s.attributes.get("activation_params", ())
    if not name:
        return f"{y} = Identity({x})"
    if name in ("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "HardSwish"):
        return f"{y} = {name}({x})"
    if name in ("LeakyRelu", "Elu", "ThresholdedRelu"):
        alpha = parameters[0] if len(parameters) else s.number("activation_alpha", 0.01 if name == "LeakyRelu" else 1.0)
        return f"{y} = {name} <alpha: float = {real(alpha)}> ({x})"
    if name == "HardSigmoid":
        own = s.number("activation_alpha", 0.2), s.number("activation_beta", 0.5)
        alpha, beta = parameters if len(parameters) == 2 else own
        return f"{y} = HardSigmoid <alpha: float = {real(alpha)}, beta: float = {real(beta)}> ({x})"
    if name == "Clip" and len(parameters) == 2:
        return constant("low", parameters[0], x) + constant("high", parameters[1], x) + f"{y} = Clip({x}, low, high)"
    raise NoText(f"the activation {name!r}")


def gelu(s: Site) -> str:
    return "Y = Gelu(X)"


def bias_gelu(s: Site) -> str:
    return "S = Add(A, B)\nC = Gelu(S)"


def fast_gelu(s: Site) -> str:
    x = "S = Add(X, bias)\n" if s.has("bias") else "S = Identity(X)\n"
    return x + 'Y = Gelu <approximate: string = "tanh"> (S)'


def gemm_fast_gelu(s: Site) -> str:
    x = "S = Add(P, bias)\n" if s.has("bias") else "S = Identity(P)\n"
    return f'P = MatMul(X, W)\n{x}Y = Gelu <approximate: string = "tanh"> (S)'


def quick_gelu(s: Site) -> str:
    alpha = float(s.number("alpha", 1.702))
    scaled = "P = Identity(X)\n" if alpha == 1 else constant("a", alpha, "X") + "P = Mul(X, a)\n"
    return f"{scaled}G = Sigmoid(P)\nY = Mul(X, G)"


def scaled_silu(s: Site) -> str:
    factor = "a = CastLike(scale, X)\n" if s.has("scale") else constant("a", s.number("alpha", 1.0), "X")
    return f"{factor}Z = Mul(X, a)\nG = Sigmoid(Z)\nY = Mul(Z, G)"


def bias_split_gelu(s: Site) -> str:
    return "S = Add(X, bias)\nL, R = Split <axis: int = -1, num_outputs: int = 2> (S)\nG = Gelu(R)\nY = Mul(L, G)"


def bias_add(s: Site) -> str:
    return "S = Add(X, bias)\nY = Add(S, skip)"


def bias_dropout(s: Site) -> str:
    """As in inference, where nothing is dropped."""
    s.refuse("mask", "training_mode")
    return "S = Add(data, bias)\n" + ("output = Add(S, residual)" if s.has("residual") else "output = Identity(S)")


def bias_softmax(s: Site) -> str:
    """With a bias that broadcasts to the data from the right, and a softmax over the last axis."""
    rank, axis = s.rank("data"), int(s.number("axis", 1))
    if (axis + rank if axis < 0 else axis) != rank - 1:
        raise NoText("a softmax over more than the last axis")
    return "S = Add(data, bias)\noutput = Softmax <axis: int = -1> (S)"


def gated_add(s: Site) -> str:
    s.refuse("gate_weight")
    return "P = Mul(Y, gate)\noutput = Add(X, P)"


def swiglu(s: Site) -> str:
    """The gate times its sigmoid times the other half, both clamped where `limit` says so."""
    s.only("round_activation", 0)
    halves = "" if s.has("up") else "G0, U0 = Split <axis: int = -1, num_outputs: int = 2> (gate)\n"
    gate, up = ("gate", "up") if s.has("up") else ("G0", "U0")
    limit = float(s.number("limit", 0.0))
    clamped = f"G = Identity({gate})\nU = Identity({up})\n" if limit <= 0 else (
        constant("high", limit, "gate") + constant("low", -limit, "gate")
        + f"G = Min({gate}, high)\nU1 = Min({up}, high)\nU = Max(U1, low)\n")
    beta = float(s.number("activation_beta", 0.0))
    linear = constant("beta", beta, "gate") + "L = Add(U, beta)\n" if beta else "L = Identity(U)\n"
    return (halves + clamped + constant("alpha", s.number("activation_alpha", 1.0), "gate") + linear
            + "A = Mul(G, alpha)\nT = Sigmoid(A)\nM = Mul(G, T)\noutput = Mul(M, L)")


def _matmul(s: Site) -> str:
    """P, the product of A and B as their attributes turn them, times alpha."""
    lines, names = "", ["A", "B"]
    for k, name in enumerate(names):
        if s.number(f"transBatch{name}", 0):
            rank = s.rank(name)
            perm = [*range(1, rank - 1), 0, rank - 1]
            lines += f"{name}_b = Transpose <perm: ints = [{', '.join(map(str, perm))}]> ({name})\n"
            names[k] = f"{name}_b"
    a, b = ("...ji" if s.number("transA", 0) else "...ij"), ("...kj" if s.number("transB", 0) else "...jk")
    operands = ", ".join(names)
    alpha = s.number("alpha", 1.0)
    product = f"MatMul({operands})" if (a, b) == ("...ij", "...jk") else \
        f'Einsum <equation: string = "{a},{b}->...ik"> ({operands})'
    return f"{lines}P = {product}\n" if alpha == 1 else f"{lines}P0 = {product}\n{constant('c', alpha, 'P0')}P = Mul(P0, c)\n"


def fused_matmul(s: Site) -> str:
    return _matmul(s) + "Y = Identity(P)"


def fused_matmul_activation(s: Site) -> str:
    if s.word("activation", "") == "Softmax":
        return _matmul(s) + f"Y = Softmax <axis: int = {int(s.number('activation_axis', -1))}> (P)"
    return _matmul(s) + activation(s, "P", "Y")


def fused_gemm(s: Site) -> str:
    own = written(s.attributes, ("alpha", "beta", "transA", "transB"))
    return f"G = Gemm{own} (A, B{s.optional('C')})\n{activation(s, 'G', 'Y')}"


def fused_conv(s: Site) -> str:
    added = "S = Add(C, Z)\n" if s.has("Z") else "S = Identity(C)\n"
    return f"C = Conv{written(s.attributes, CONV)} (X, W{s.optional('B')})\n{added}{activation(s, 'S', 'Y')}"


def turned(rank: int, *names: str, back: bool = False) -> str:
    """`nT`, the tensor n with its channels first, for each name; or, where `back`, n of nT, with its channels last."""
    perm = [0, *range(2, rank), 1] if back else [0, rank - 1, *range(1, rank - 1)]
    order = ", ".join(map(str, perm))
    return "".join(f"{n} = Transpose <perm: ints = [{order}]> ({n}T)\n" if back else
                   f"{n}T = Transpose <perm: ints = [{order}]> ({n})\n" for n in names)


def nhwc_conv(s: Site) -> str:
    """Channels last; weights as Conv has them."""
    rank = s.rank("W")
    added = turned(rank, "Z") + "S = Add(C, ZT)\n" if s.has("Z") else "S = Identity(C)\n"
    return (f"{turned(rank, 'X')}C = Conv{written(s.attributes, CONV)} (XT, W{s.optional('B')})\n{added}"
            f"{activation(s, 'S', 'YT')}\n{turned(rank, 'Y', back=True)}")


def nhwc_max_pool(s: Site) -> str:
    own = written(s.attributes, ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"))
    rank = len(s.attributes["kernel_shape"]) + 2
    return f"{turned(rank, 'x')}yT = MaxPool{own} (xT)\n{turned(rank, 'y', back=True)}"


def conv_transpose(s: Site) -> str:
    """What ConvTranspose makes without pads, and then cut by `Pads`, which only a run may know."""
    own = written(s.attributes, ("dilations", "group", "kernel_shape", "output_padding", "strides"))
    s.only("auto_pad", "NOTSET", "VALID")
    if not s.has("Pads"):
        return f"Y = ConvTranspose{own} (X, W{s.optional('B')})"
    axes = s.rank("W") - 2
    return (f"C = ConvTranspose{own} (X, W{s.optional('B')})\n{ints('first', 0)}{ints('half', axes)}{ints('all', 2 * axes)}"
            f"{ints('spatial', *range(2, axes + 2))}starts = Slice(Pads, first, half)\nback = Slice(Pads, half, all)\n"
            "extents = Shape <start: int = 2> (C)\nends = Sub(extents, back)\nY = Slice(C, starts, ends, spatial)")
