"""Weights of a few bits with a scale for each block, and products with them."""

from __future__ import annotations

import math

from polytc.graph.onnx.contrib.sites import NoText, Site, constant, ints, real

_BITS = (2, 4, 8)


def unpacked(name: str, result: str, bits: int, tag: str) -> str:
    """`result`, the numbers that lie in the bytes of `name` along its last axis, the lowest bits first, as bytes."""
    if bits == 8:
        return f"{result} = Identity({name})\n"
    lines, parts = ints(f"{tag}_axis", -1) + f"{tag}_mask0 = Constant <value_int: int = {2 ** bits - 1}> ()\n" \
        f"{tag}_mask = Cast <to: int = 2> ({tag}_mask0)\n", []
    for k in range(8 // bits):
        lines += f"{tag}_n{k} = Constant <value_int: int = {k * bits}> ()\n{tag}_s{k} = Cast <to: int = 2> ({tag}_n{k})\n" \
                 f'{tag}_r{k} = BitShift <direction: string = "RIGHT"> ({name}, {tag}_s{k})\n' \
                 f"{tag}_b{k} = BitwiseAnd({tag}_r{k}, {tag}_mask)\n{tag}_u{k} = Unsqueeze({tag}_b{k}, {tag}_axis)\n"
        parts.append(f"{tag}_u{k}")
    lines += f"{tag}_parts = Concat <axis: int = -1> ({', '.join(parts)})\n"
    return f"{lines}{tag}_outer = Shape <end: int = -1> ({name})\n{ints(f'{tag}_some', -1)}" \
           f"{tag}_shape = Concat <axis: int = 0> ({tag}_outer, {tag}_some)\n{result} = Reshape({tag}_parts, {tag}_shape)\n"


def matmul(s: Site) -> str:
    """The weights are made real numbers: once where they are constants. accuracy_level, which allows to round the other operand
    to integers, changes nothing."""
    bits, block = int(s.number("bits", 4)), int(s.number("block_size", 32))
    rows, depth = int(s.attributes["N"]), int(s.attributes["K"])
    blocks = math.ceil(depth / block)
    s.only("weight_prepacked", 0)
    s.refuse("g_idx")
    if bits not in _BITS:
        raise NoText(f"weights of {bits} bits")
    if 0 in (s.shapes.get("B") or ()):
        raise NoText("weights that are left out")
    lines = f"{ints('stored', rows, blocks, block * bits // 8)}B3 = Reshape(B, stored)\n{unpacked('B3', 'q', bits, 'w')}"
    lines += f"q_f = CastLike(q, scales)\n{ints('one_a_block', rows, blocks, 1)}s3 = Reshape(scales, one_a_block)\n"
    lines += _zeros(s, rows, blocks, bits) + "centred = Sub(q_f, zero)\nscaled = Mul(centred, s3)\n"
    lines += f"{ints('matrix', rows, blocks * block)}padded = Reshape(scaled, matrix)\n"
    if blocks * block != depth:
        lines += f"{ints('first', 0)}{ints('depth', depth)}{ints('along', 1)}weights = Slice(padded, first, depth, along)\n"
    else:
        lines += "weights = Identity(padded)\n"
    lines += "turned = Transpose <perm: ints = [1, 0]> (weights)\nP = MatMul(A, turned)\n"
    return lines + ("Y = Add(P, bias)\n" if s.has("bias") else "Y = Identity(P)\n")


def _zeros(s: Site, rows: int, blocks: int, bits: int) -> str:
    """`zero` [rows, blocks, 1] or a number, in the type of the scales."""
    if not s.has("zero_points"):
        return constant("zero", 2 ** (bits - 1), "scales")
    if s.dtype("zero_points").kind != "u":
        return "z3 = Reshape(zero_points, one_a_block)\nzero = CastLike(z3, scales)\n"
    width = math.ceil(blocks * bits / 8)
    lines = f"{ints('zeros_stored', rows, width)}z2 = Reshape(zero_points, zeros_stored)\n{unpacked('z2', 'z_all', bits, 'z')}"
    if width * 8 // bits != blocks:
        lines += f"{ints('z_first', 0)}{ints('z_count', blocks)}{ints('z_along', 1)}z = Slice(z_all, z_first, z_count, " \
            "z_along)\n"
    else:
        lines += "z = Identity(z_all)\n"
    return f"{lines}z3 = Reshape(z, one_a_block)\nzero = CastLike(z3, scales)\n"


def gather(s: Site) -> str:
    """Rows first, then the bits: only what is asked for is made real numbers."""
    bits, block, rank = int(s.number("bits", 4)), int(s.number("block_size", 128)), s.rank("data")
    axis, along = (int(s.number(n, d)) % rank for n, d in (("gather_axis", 0), ("quantize_axis", 1)))
    kind = s.dtype("data")
    if kind.name not in ("uint8", "int4", "uint4"):
        raise NoText(f"data of {kind}")
    packed = kind.name == "uint8"
    if axis == along:
        raise NoText("rows of blocks across them")
    if packed and (bits not in _BITS or along != rank - 1 and bits != 8):
        raise NoText(f"{bits} bits along axis {along}")
    byte = 3 if kind.name == "int4" else 2
    new = along + (s.rank("indices") - 1 if axis < along else 0)
    lines, names = "", {}
    for n in ("data", "zero_points"):
        if s.has(n):
            lines += f"{n}_i = Identity({n})\n" if packed else f"{n}_i = Cast <to: int = {byte}> ({n})\n"
            lines += f"{n}_g = Gather <axis: int = {axis}> ({n}_i, indices)\n"
            lines += unpacked(f"{n}_g", f"{n}_u", bits, n) if packed else f"{n}_u = Identity({n}_g)\n"
            names[n] = f"{n}_u"
    lines += f"s_g = Gather <axis: int = {axis}> (scales, indices)\n"
    if "zero_points" in names:
        count = s.shape("scales")[along]
        lines += f"{ints('z_first', 0)}{ints('z_count', count)}{ints('z_along', new)}" \
                 "zero = Slice(zero_points_u, z_first, z_count, z_along)\n"
    else:
        lines += f"z0 = Constant <value_int: int = {2 ** (bits - 1) if packed else 0}> ()\n" \
            f"z1 = Cast <to: int = {byte}> (z0)\n" \
                 "z_shape = Shape(s_g)\nzero = Expand(z1, z_shape)\n"
    return f"{lines}output = DequantizeLinear <axis: int = {new}, block_size: int = {block}> (data_u, s_g, zero)\n"


def matmul_bnb4(s: Site) -> str:
    """Weights are indices into a table of 16 numbers, the higher half of each byte first, and blocks go on from row to row."""
    rows, depth, block = int(s.attributes["N"]), int(s.attributes["K"]), int(s.attributes["block_size"])
    table = _TABLES.get(int(s.attributes["quant_type"]))
    count = rows * depth
    if table is None or count % 2:
        raise NoText("an odd number of weights, or a table that is neither FP4 nor NF4")
    blocks = math.ceil(count / block)
    lines = (f"four0 = Constant <value_int: int = 4> ()\nfour = Cast <to: int = 2> (four0)\n"
             "low0 = Constant <value_int: int = 15> ()\n"
             f"low = Cast <to: int = 2> (low0)\n{ints('last', -1)}" 'high = BitShift <direction: string = "RIGHT"> (B, four)\n'
             "rest = BitwiseAnd(B, low)\nh = Unsqueeze(high, last)\nr = Unsqueeze(rest, last)\n"
             "pairs = Concat <axis: int = -1> (h, r)\nq8 = Reshape(pairs, last)\nq = Cast <to: int = 7> (q8)\n"
             f"table0 = Constant <value_floats: floats = [{', '.join(map(real, table))}]> ()\n"
             "table = CastLike(table0, absmax)\n"
             "numbers = Gather(table, q)\n")
    if blocks * block != count:
        lines += f"{ints('pads', 0, blocks * block - count)}whole = Pad(numbers, pads)\n"
    else:
        lines += "whole = Identity(numbers)\n"
    lines += (f"{ints('in_blocks', blocks, block)}{ints('a_block', blocks, 1)}w2 = Reshape(whole, in_blocks)\n"
              "m2 = Reshape(absmax, a_block)\nscaled = Mul(w2, m2)\nflat = Reshape(scaled, last)\n"
              f"{ints('first', 0)}{ints('count', count)}cut = Slice(flat, first, count)\n{ints('matrix', rows, depth)}"
              "weights = Reshape(cut, matrix)\n")
    if s.number("transB", 1):
        return lines + "turned = Transpose <perm: ints = [1, 0]> (weights)\nY = MatMul(A, turned)\n"
    return lines + "Y = MatMul(A, weights)\n"


_TABLES = {
    0: (0.0, 5.208333333e-03, 0.6666666667, 1.0, 0.3333333333, 0.5, 0.1666666667, 0.25, -0.0, -5.208333333e-03, -0.6666666667,
        -1.0, -0.3333333333, -0.5, -0.1666666667, -0.25),
    1: (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
        -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0)}
"""FP4 and NF4 (Dettmers et al., QLoRA: Efficient Finetuning of Quantized LLMs, 2023): the numbers that four bits stand for."""
