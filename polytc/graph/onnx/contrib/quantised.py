"""Operators of ONNX Runtime's own on integers that stand for real numbers.

Where the operator says so itself, they are what it says: the inputs as real numbers, the operator of onnx, the result as
integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from polytc.graph.onnx.contrib.products import CONV, turned
from polytc.graph.onnx.contrib.sites import NoText, Site, ints, written

POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def linear(op: str) -> Callable[[Site], str]:
    """QuantizeLinear or DequantizeLinear: their own have one more way to say the same."""
    scale, zero, x = ("y_scale", "y_zero_point", "x") if op == "QuantizeLinear" else ("x_scale", "x_zero_point", "x")
    return lambda s: f"y = {op}{written(s.attributes, ('axis', 'block_size'))} ({x}, {scale}{s.optional(zero)})"


def _scaled_integers(s: Site) -> str:
    bias = "Y = Add(P, bias)" if s.has("bias") else "Y = Identity(P)"
    return f"F = Cast <to: int = 1> (I)\nC = Mul(a_scale, b_scale)\nP = Mul(F, C)\n{bias}"


def integers_to_float(s: Site) -> str:
    """Halves are rounded once, at the end."""
    product = f"I = MatMulInteger(A, B{s.optional('a_zero_point', 'b_zero_point')})\n"
    known = next((n for n in ("b_scale", "a_scale", "bias") if n in s.types), "a_scale")
    if s.dtype(known) != np.float16:
        return product + _scaled_integers(s)
    bias = "b = Cast <to: int = 1> (bias)\nR = Add(P, b)\n" if s.has("bias") else "R = Identity(P)\n"
    return (f"{product}F = Cast <to: int = 1> (I)\nsa = Cast <to: int = 1> (a_scale)\nsb = Cast <to: int = 1> (b_scale)\n"
            f"C = Mul(sa, sb)\nP = Mul(F, C)\n{bias}Y = Cast <to: int = 10> (R)")


def dynamic_matmul(s: Site) -> str:
    return ("Q, a_scale, z = DynamicQuantizeLinear(A)\n"
            f"I = MatMulInteger(Q, B, z{s.optional('b_zero_point')})\n{_scaled_integers(s)}")


def matmul_integer16(s: Site) -> str:
    return "a = Cast <to: int = 6> (A)\nb = Cast <to: int = 6> (B)\nY = MatMul(a, b)"


def mul_integer(s: Site) -> str:
    lines = ""
    for n in ("A", "B"):
        lines += f"{n}_i = Cast <to: int = 6> ({n})\n"
        zero = f"{n}_zero_point"
        lines += f"{n}_z = Cast <to: int = 6> ({zero})\n{n}_c = Sub({n}_i, {n}_z)\n" if s.has(zero) else \
            f"{n}_c = Identity({n}_i)\n"
    return f"{lines}C = Mul(A_c, B_c)"


def reduce_sum_integer(s: Site) -> str:
    axes = s.attributes.get("axes") or []
    kept = int(s.number("keepdims", 1))
    return (f"x = Cast <to: int = 6> (data)\n{ints('axes', *axes)}" if axes else "x = Cast <to: int = 6> (data)\n") + \
        f"reduced = ReduceSum <keepdims: int = {kept}> (x{', axes' if axes else ''})"


def reduce_mean(s: Site) -> str:
    axes, kept = s.attributes.get("axes") or [], int(s.number("keepdims", 1))
    given = (ints("axes", *axes), ", axes") if axes else ("", "")
    return (dequantised(s, "data", "data_scale", "data_zero_point", "x") + given[0]
            + f"y = ReduceMean <keepdims: int = {kept}> (x{given[1]})\n"
            + requantised(s, "y", "reduced_scale", "reduced_zero_point", "reduced", "data"))


def dequantised(s: Site, name: str, scale: str, zero: str, result: str) -> str:
    return f"{result} = DequantizeLinear({name}, {scale}{s.optional(zero)})\n"


def requantised(s: Site, value: str, scale: str, zero: str, result: str, like: str) -> str:
    """A result without a zero point is of the type of the first input, where onnx's QuantizeLinear makes u8."""
    if s.has(zero) or s.dtype(like) == np.uint8:
        return f"{result} = QuantizeLinear({value}, {scale}{s.optional(zero)})"
    return (f"{result}_z0 = Constant <value_int: int = 0> ()\n{result}_z = Cast <to: int = {s.element(like)}> ({result}_z0)\n"
            f"{result} = QuantizeLinear({value}, {scale}, {result}_z)")


def elementwise(op: str) -> Callable[[Site], str]:
    return lambda s: (dequantised(s, "A", "A_scale", "A_zero_point", "a")
                      + dequantised(s, "B", "B_scale", "B_zero_point", "b")
                      + f"c = {op}(a, b)\n" + requantised(s, "c", "C_scale", "C_zero_point", "C", "A"))


def unary(op: str, *attributes: str) -> Callable[[Site], str]:
    return lambda s: (dequantised(s, "X", "X_scale", "X_zero_point", "x")
                      + f"y = {op}{written(s.attributes, attributes)} (x)\n"
                      + requantised(s, "y", "Y_scale", "Y_zero_point", "Y", "X"))


def softmax(s: Site) -> str:
    """Before opset 13 all axes from `axis` on count as one."""
    if s.number("opset", 13) >= 13:
        return unary("Softmax", "axis")(s)
    axis = int(s.number("axis", 1))
    return (dequantised(s, "X", "X_scale", "X_zero_point", "x") + f"whole = Shape(x)\nflat = Flatten <axis: int = {axis}> (x)\n"
            "soft = Softmax <axis: int = -1> (flat)\ny = Reshape <allowzero: int = 1> (soft, whole)\n"
            + requantised(s, "y", "Y_scale", "Y_zero_point", "Y", "X"))


def average_pool(s: Site) -> str:
    """With count_include_pad ONNX Runtime divides by all elements of a window, those of a last partial one that ceil_mode adds
    too, which onnx's operator leaves out: with padding for all of that window the two are one."""
    pool = s.attributes
    if s.number("ceil_mode", 0) and s.number("count_include_pad", 0) and s.word("auto_pad", "NOTSET") in ("NOTSET", "VALID"):
        pool = {k: v for k, v in pool.items() if k not in ("auto_pad", "ceil_mode")} | {"pads": _whole_windows(s)}
    if not s.number("channels_last", 0):
        return unary("AveragePool", *POOL)(replace(s, attributes=pool))
    return _channels_last(s, len(pool["kernel_shape"]) + 2, f"AveragePool{written(pool, POOL)}")


def _whole_windows(s: Site) -> list[int]:
    """Padding with which no window of a pool with ceil_mode is partial; a last one that starts behind the input is none."""
    kernel, shape = s.attributes["kernel_shape"], s.shape("X")
    extents = shape[1:-1] if s.number("channels_last", 0) else shape[2:]
    n = len(kernel)
    stride, pads = s.attributes.get("strides") or [1] * n, s.attributes.get("pads")
    if not pads or s.word("auto_pad", "NOTSET") == "VALID":
        pads = [0] * 2 * n
    after = list(pads[n:])
    for axis, (x, k, step, before) in enumerate(zip(extents, kernel, stride, pads[:n], strict=True)):
        last = -(-(x + before + after[axis] - k) // step) * step
        last -= step if last >= x + before else 0
        after[axis] = max(after[axis], last + k - x - before)
    return [*pads[:n], *after]


def global_average_pool(s: Site) -> str:
    if not s.number("channels_last", 0):
        return unary("GlobalAveragePool")(s)
    return _channels_last(s, s.rank("X"), "GlobalAveragePool")


def _channels_last(s: Site, rank: int, op: str) -> str:
    return (f"{turned(rank, 'X')}x = DequantizeLinear(XT, X_scale{s.optional('X_zero_point')})\ny = {op} (x)\n"
            + requantised(s, "y", "Y_scale", "Y_zero_point", "YT", "X") + f"\n{turned(rank, 'Y', back=True)}")


def conv(s: Site) -> str:
    """onnx's operator, or, with channels last, between transpositions; weights are the same for both."""
    own, rest = written(s.attributes, CONV), s.optional("B")
    given = "x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point"
    if not s.number("channels_last", 0):
        return f"y = QLinearConv{own} (x, {given}{rest})"
    rank = s.rank("w")
    return f"{turned(rank, 'x')}yT = QLinearConv{own} (xT, {given}{rest})\n{turned(rank, 'y', back=True)}"


def concat(s: Site) -> str:
    count = sum(n.startswith("X_tensor") for n in s.given)
    if not all(f"{kind}{k}" in s.given for k in range(count) for kind in ("X_tensor", "X_scale", "X_zero_point")):
        raise NoText("inputs without a scale or zero point")
    parts = "".join(f"x{k} = DequantizeLinear(X_tensor{k}, X_scale{k}, X_zero_point{k})\n" for k in range(count))
    return f"{parts}y = Concat <axis: int = {s.number('axis', 0)}> ({', '.join(f'x{k}' for k in range(count))})\n" \
           "Y = QuantizeLinear(y, Y_scale, Y_zero_point)"


def where(s: Site) -> str:
    return ("x = DequantizeLinear(X, x_scale, x_zero_point)\ny = DequantizeLinear(Y, y_scale, y_zero_point)\n"
            "z = Where(condition, x, y)\nZ = QuantizeLinear(z, z_scale, z_zero_point)")


def qgemm(s: Site) -> str:
    """The bias, integers in the scale of the product, is multiplied by alpha as that is."""
    axis = 0 if s.number("transB", 0) else 1
    bias = "c = Cast <to: int = 1> (C)\nab = Mul(a_scale, b_scale)\nbias = Mul(c, ab)\n" if s.has("C") else ""
    end = f"Y = QuantizeLinear(G, y_scale{s.optional('y_zero_point')})" if s.has("y_scale") else "Y = Identity(G)"
    own = {**s.attributes, "beta": float(s.number("alpha", 1.0))}
    return (f"a = DequantizeLinear(A, a_scale{s.optional('a_zero_point')})\n"
            f"b = DequantizeLinear <axis: int = {axis}> (B, b_scale{s.optional('b_zero_point')})\n{bias}"
            f"G = Gemm{written(own, ('alpha', 'beta', 'transA', 'transB'))} (a, b{', bias' if bias else ''})\n{end}")


def dynamic_lstm(s: Site) -> str:
    """Weights are dequantised, and inputs are not quantised: the sums have less noise than ONNX Runtime's."""
    lines = []
    for w in ("W", "R"):
        axes = (1, 2) if s.rank(f"{w}_scale") == 1 else (1,)
        lines += [f"{ints(f'{w}_axes', *axes)}{w}_s = Unsqueeze({w}_scale, {w}_axes)",
                  f"{w}_zr = Unsqueeze({w}_zero_point, {w}_axes)", f"{w}_zf = Cast <to: int = 1> ({w}_zr)",
                  f"{w}_q = Cast <to: int = 1> ({w})", f"{w}_c = Sub({w}_q, {w}_zf)", f"{w}_f = Mul({w}_c, {w}_s)",
                  f"{w}_t = Transpose <perm: ints = [0, 2, 1]> ({w}_f)"]
    activations = s.attributes.get("activations")
    own = written(s.attributes, ("direction", "hidden_size", "input_forget", "clip"))
    if activations is not None:
        kinds = ", ".join(f'"{a if isinstance(a, str) else a.decode()}"' for a in activations)
        own = f"{own[:-1]}, activations: strings = [{kinds}]>" if own else f" <activations: strings = [{kinds}]>"
    outputs = ", ".join(n if n in s.wanted else "" for n in ("Y", "Y_h", "Y_c")).rstrip(", ")
    lines.append(f"{outputs} = LSTM{own} (X, W_t, R_t{s.optional('B', 'sequence_lens', 'initial_h', 'initial_c', 'P')})")
    return "\n".join(lines)
