"""Operators of ONNX Runtime's own as texts of onnx: activations, products, normalisations, quantised operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Site:
    """What a text depends on. attributes: of the node; given: the formal names of the inputs that it has; ranks: of those that
    are stored; wanted: the formal names of the outputs that it names."""

    attributes: Mapping[str, Any]
    given: frozenset[str]
    ranks: Mapping[str, int]
    wanted: frozenset[str]

    def number(self, name: str, default: float) -> Any:
        """An attribute that is a number."""
        return self.attributes.get(name, default)

    def has(self, name: str) -> bool:
        """Is the input there?"""
        return name in self.given

    def optional(self, *names: str) -> str:
        """Names of inputs as further arguments, '' for those that are left out."""
        return "".join(f", {n if n in self.given else ''}" for n in names)


def constant(name: str, value: float, like: str) -> str:
    return f"{name}_f = Constant <value_float: float = {float(value)!r}> ()\n{name} = CastLike({name}_f, {like})\n"


def _activation(site: Site, x: str, y: str) -> str | None:
    """An activation by the attribute `activation`."""
    name, parameters = str(site.attributes.get("activation", "")), site.attributes.get("activation_params", ())
    if name in ("Relu", "Tanh", "Sigmoid"):
        return f"{y} = {name}({x})"
    if name == "LeakyRelu":
        alpha = parameters[0] if len(parameters) else site.number("activation_alpha", 0.01)
        return f"{y} = LeakyRelu <alpha: float = {float(alpha)!r}> ({x})"
    if name == "HardSigmoid" and len(parameters) == 2:
        return f"{y} = HardSigmoid <alpha: float = {float(parameters[0])!r}, beta: float = {float(parameters[1])!r}> ({x})"
    if name == "Clip" and len(parameters) == 2:
        return constant("low", parameters[0], x) + constant("high", parameters[1], x) + f"{y} = Clip({x}, low, high)"
    return f"{y} = Identity({x})" if not name else None


def written(attributes: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Attributes in onnx's notation."""
    parts = []
    for n in names:
        value = attributes.get(n)
        if isinstance(value, str | bytes):
            parts.append(f'{n}: string = "{value if isinstance(value, str) else value.decode()}"')
        elif isinstance(value, int):
            parts.append(f"{n}: int = {value}")
        elif isinstance(value, float):
            parts.append(f"{n}: float = {value!r}")
        elif value is not None:
            parts.append(f"{n}: ints = [{', '.join(map(str, value))}]")
    return f" <{', '.join(parts)}>" if parts else ""


def fast_gelu(s: Site) -> str:
    x = "S = Add(X, bias)\n" if s.has("bias") else "S = Identity(X)\n"
    return x + 'Y = Gelu <approximate: string = "tanh"> (S)'


def quick_gelu(s: Site) -> str:
    return constant("a", s.number("alpha", 1.702), "X") + "P = Mul(X, a)\nG = Sigmoid(P)\nY = Mul(X, G)"


def fused_matmul(s: Site) -> str | None:
    if s.number("transBatchA", 0) or s.number("transBatchB", 0):
        return None
    a, b = ("...ji" if s.number("transA", 0) else "...ij"), ("...kj" if s.number("transB", 0) else "...jk")
    plain = (a, b) == ("...ij", "...jk")
    product = "P = MatMul(A, B)\n" if plain else f'P = Einsum <equation: string = "{a},{b}->...ik"> (A, B)\n'
    alpha = s.number("alpha", 1.0)
    return product + ("Y = Identity(P)" if alpha == 1 else constant("c", alpha, "P") + "Y = Mul(P, c)")


def fused_gemm(s: Site) -> str | None:
    end = _activation(s, "G", "Y")
    return end and f"G = Gemm{written(s.attributes, ('alpha', 'beta', 'transA', 'transB'))} (A, B{s.optional('C')})\n{end}"


def fused_conv(s: Site) -> str | None:
    end, own = _activation(s, "S", "Y"), ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    added = "S = Add(C, Z)\n" if s.has("Z") else "S = Identity(C)\n"
    return end and f"C = Conv{written(s.attributes, own)} (X, W{s.optional('B')})\n{added}{end}"


def skip_norm(norm: str, *more: str) -> Callable[[Site], str | None]:
    """The normalisation of a sum. more: its inputs behind `gamma`."""
    def text(s: Site) -> str | None:
        if s.wanted & {"mean", "inv_std_var"}:
            return None
        bias = "T = Add(S, bias)\n" if s.has("bias") else "T = Identity(S)\n"
        total = "input_skip_bias_sum = Identity(T)\n" if "input_skip_bias_sum" in s.wanted else ""
        epsilon = float(s.number("epsilon", 1e-12))
        return f"S = Add(input, skip)\n{bias}{total}output = {norm} <axis: int = -1, epsilon: float = {epsilon!r}> " \
               f"(T, gamma{s.optional(*more)})"
    return text


def rms_norm(s: Site) -> str | None:
    if "inv_std_var" in s.wanted:
        return None
    axis, epsilon = int(s.number("axis", -1)), float(s.number("epsilon", 1e-5))
    return f"Y = RMSNormalization <axis: int = {axis}, epsilon: float = {epsilon!r}> (X, scale)"


def embed_layer_norm(s: Site) -> str:
    lines = ["one = Constant <value_ints: ints = [1]> ()", "zero = Constant <value_ints: ints = [0]> ()",
             "W = Gather(word_embedding, input_ids)"]
    if s.has("position_ids"):
        lines.append("P = Gather(position_embedding, position_ids)")
    else:
        lines += ["length = Shape <start: int = 1, end: int = 2> (input_ids)",
                  "P = Slice(position_embedding, zero, length, zero)"]
    lines.append("S0 = Add(W, P)")
    segment = s.has("segment_ids") and s.has("segment_embedding")
    lines += ["G = Gather(segment_embedding, segment_ids)", "S = Add(S0, G)"] if segment else ["S = Identity(S0)"]
    if "embedding_sum" in s.wanted:
        lines.append("embedding_sum = Identity(S)")
    if "mask_index" in s.wanted and s.has("mask"):
        lines.append("mask_index = ReduceSum <keepdims: int = 0> (mask, one)")
    elif "mask_index" in s.wanted:
        lines += ["batch = Shape <start: int = 0, end: int = 1> (input_ids)",
                  "none = Constant <value_int: int = 0> ()", "none32 = Cast <to: int = 6> (none)",
                  "mask_index = Expand(none32, batch)"]
    epsilon = float(s.number("epsilon", 1e-12))
    lines.append(f"output = LayerNormalization <axis: int = -1, epsilon: float = {epsilon!r}> (S, gamma, beta)")
    return "\n".join(lines)


def _scaled_integers(s: Site) -> str:
    bias = "Y = Add(P, bias)" if s.has("bias") else "Y = Identity(P)"
    return f"F = Cast <to: int = 1> (I)\nC = Mul(a_scale, b_scale)\nP = Mul(F, C)\n{bias}"


def integers_to_float(s: Site) -> str:
    return f"I = MatMulInteger(A, B{s.optional('a_zero_point', 'b_zero_point')})\n" + _scaled_integers(s)


def dynamic_matmul(s: Site) -> str:
    return ("Q, a_scale, z = DynamicQuantizeLinear(A)\n"
            f"I = MatMulInteger(Q, B, z{s.optional('b_zero_point')})\n{_scaled_integers(s)}")


def _dequantised(s: Site, name: str, scale: str, zero: str, result: str) -> str:
    return f"{result} = DequantizeLinear({name}, {scale}{s.optional(zero)})\n"


def elementwise(op: str) -> Callable[[Site], str]:
    return lambda s: (_dequantised(s, "A", "A_scale", "A_zero_point", "a")
                      + _dequantised(s, "B", "B_scale", "B_zero_point", "b")
                      + f"c = {op}(a, b)\nC = QuantizeLinear(c, C_scale{s.optional('C_zero_point')})")


def unary(op: str, *attributes: str) -> Callable[[Site], str]:
    return lambda s: (_dequantised(s, "X", "X_scale", "X_zero_point", "x")
                      + f"y = {op}{written(s.attributes, attributes)} (x)\n"
                      f"Y = QuantizeLinear(y, Y_scale{s.optional('Y_zero_point')})")


def pool(op: str, *attributes: str) -> Callable[[Site], str | None]:
    return lambda s: None if s.number("channels_last", 0) else unary(op, *attributes)(s)


def concat(s: Site) -> str | None:
    count = sum(n.startswith("X_tensor") for n in s.given)
    if not all(f"{kind}{k}" in s.given for k in range(count) for kind in ("X_tensor", "X_scale", "X_zero_point")):
        return None
    parts = "".join(f"x{k} = DequantizeLinear(X_tensor{k}, X_scale{k}, X_zero_point{k})\n" for k in range(count))
    return f"{parts}y = Concat <axis: int = {s.number('axis', 0)}> ({', '.join(f'x{k}' for k in range(count))})\n" \
           "Y = QuantizeLinear(y, Y_scale, Y_zero_point)"


def where(s: Site) -> str:
    return ("x = DequantizeLinear(X, x_scale, x_zero_point)\ny = DequantizeLinear(Y, y_scale, y_zero_point)\n"
            "z = Where(condition, x, y)\nZ = QuantizeLinear(z, z_scale, z_zero_point)")


def qgemm(s: Site) -> str:
    axis = 0 if s.number("transB", 0) else 1
    bias = "c = Cast <to: int = 1> (C)\nab = Mul(a_scale, b_scale)\nbias = Mul(c, ab)\n" if s.has("C") else ""
    end = f"Y = QuantizeLinear(G, y_scale{s.optional('y_zero_point')})" if s.has("y_scale") else "Y = Identity(G)"
    return (f"a = DequantizeLinear(A, a_scale{s.optional('a_zero_point')})\n"
            f"b = DequantizeLinear <axis: int = {axis}> (B, b_scale{s.optional('b_zero_point')})\n{bias}"
            f"G = Gemm{written(s.attributes, ('alpha', 'transA', 'transB'))} (a, b{', bias' if bias else ''})\n{end}")


def dynamic_lstm(s: Site) -> str | None:
    """Weights are dequantised, and inputs are not quantised: the sums have less noise than ONNX Runtime's."""
    lines = []
    for w in ("W", "R"):
        rank = s.ranks.get(f"{w}_scale")
        if rank not in (1, 2):
            return None
        axes = "1, 2" if rank == 1 else "1"
        lines += [f"{w}_axes = Constant <value_ints: ints = [{axes}]> ()", f"{w}_s = Unsqueeze({w}_scale, {w}_axes)",
                  f"{w}_zr = Unsqueeze({w}_zero_point, {w}_axes)", f"{w}_zf = Cast <to: int = 1> ({w}_zr)",
                  f"{w}_q = Cast <to: int = 1> ({w})", f"{w}_c = Sub({w}_q, {w}_zf)", f"{w}_f = Mul({w}_c, {w}_s)",
                  f"{w}_t = Transpose <perm: ints = [0, 2, 1]> ({w}_f)"]
    names = ("direction", "hidden_size", "input_forget", "clip")
    activations = s.attributes.get("activations")
    own = written(s.attributes, names)
    if activations is not None:
        kinds = ", ".join(f'"{a if isinstance(a, str) else a.decode()}"' for a in activations)
        own = f"{own[:-1]}, activations: strings = [{kinds}]>" if own else f" <activations: strings = [{kinds}]>"
    outputs = ", ".join(n if n in s.wanted else "" for n in ("Y", "Y_h", "Y_c")).rstrip(", ")
    lines.append(f"{outputs} = LSTM{own} (X, W_t, R_t{s.optional('B', 'sequence_lens', 'initial_h', 'initial_c', 'P')})")
    return "\n".join(lines)


def gelu(s: Site) -> str:
    return "Y = Gelu(X)"
