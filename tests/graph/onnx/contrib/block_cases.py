"""Weights of a few bits, one scale for each block."""

from __future__ import annotations

import math

import numpy as np

from tests.graph.onnx.contrib.cases import Case, R, f, q


def matmul(bits: int = 4, rows: int = 6, depth: int = 40, block: int = 16, zeros: str = "", bias: bool = False,
        leading: tuple[int, ...] = (3,),
           stored: bool = True) -> Case:
    """A MatMulNBits. zeros: 'bytes', 'floats', or none."""
    blocks = math.ceil(depth / block)
    weights, scales = q(rows, blocks, block * bits // 8), (np.abs(f(rows, blocks)) / 2**bits
        + np.float32(.01)).astype(np.float32)
    zero = {"bytes": q(rows, math.ceil(blocks * bits / 8)), "floats": np.abs(f(rows, blocks)) * 2**(bits - 1), "": ""}[zeros]
    given = [f(*leading, depth), weights, scales, zero, "", f(rows) if bias else ""]
    while isinstance(given[-1], str):
        del given[-1]
    return Case("MatMulNBits", given, {"K": depth, "N": rows, "bits": bits, "block_size": block}, error=1e-4,
                stored=len(given) - 1 if stored else 0, reference=with_real_zeros if bits == 8 and zeros == "floats" else None)


def with_real_zeros(x: np.ndarray, w: np.ndarray, scales: np.ndarray, zeros: np.ndarray, indices: None = None,
                    bias: np.ndarray | None = None, *, K: int, N: int, bits: int, block_size: int) -> list[np.ndarray]:
    """What ONNX Runtime has no kernel for: bytes whose zero points are real numbers."""
    real = (w.astype(np.float32) - zeros[:, :, None]) * scales[:, :, None]
    return [x @ real.reshape(N, -1)[:, :K].T + (0 if bias is None else bias)]


def gather(bits: int, kind: str, zeros: bool, rows: int = 9, width: int = 48, block: int = 16) -> Case:
    scales = np.abs(f(rows, width // block)) + np.float32(.01)
    indices = R.integers(0, rows, (2, 3))
    if kind == "uint8":
        given = [q(rows, width * bits // 8), indices, scales,
            *([q(rows, math.ceil(width // block * bits / 8))] if zeros else [])]
        return Case("GatherBlockQuantized", given, {"bits": bits, "block_size": block, "quantize_axis": 1}, reference=gathered)
    low, high = (-8, 8) if kind == "int4" else (0, 16)
    given = [R.integers(low, high, (rows, width)).astype(np.int8), indices, scales,
             *([R.integers(low, high, (rows, width // block)).astype(np.int8)] if zeros else [])]
    return Case("GatherBlockQuantized", given, {"block_size": block, "quantize_axis": 1},
                kinds={0: kind, **({3: kind} if zeros else {})}, stored=4 if zeros else 3)


def numbers(packed: np.ndarray, bits: int) -> np.ndarray:
    """What lies in bytes, the lowest bits first."""
    parts = [(packed >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*packed.shape[:-1], -1).astype(np.float32)


def gathered(data: np.ndarray, indices: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None = None, bits: int = 4,
             block_size: int = 16, quantize_axis: int = 1) -> list[np.ndarray]:
    z = np.full(scales.shape, 2**(bits - 1), np.float32) if zeros is None else numbers(zeros, bits)[:, :scales.shape[1]]
    table = (numbers(data, bits) - z.repeat(block_size, 1)) * scales.repeat(block_size, 1)
    return [table[indices].astype(np.float32)]


def experts(bits: int, block: int = 0) -> Case:
    """A QMoE of 4 experts."""
    def weights(rows: int, columns: int) -> list[np.ndarray]:
        scales = np.abs(f(4, rows, *([columns // block] if block else []))) / 2**bits + np.float32(.01)
        return [q(4, rows, columns * bits // 8), scales.astype(np.float32), f(4, rows)]
    given = [f(6, 32), f(6, 4), *weights(64, 32), *weights(32, 64)]
    return Case("QMoE", given, {"k": 2, "activation_type": "silu", "expert_weight_bits": bits,
                                **({"block_size": block} if block else {})}, error=3e-2, stored=6)


def bnb4(kind: int, transposed: int = 1) -> Case:
    rows, depth, block = 6, 40, 16
    count = rows * depth
    return Case("MatMulBnb4", [f(3, depth if transposed else rows), q(count // 2), np.abs(f(math.ceil(count / block)))],
                {"K": depth, "N": rows, "block_size": block, "quant_type": kind,
                    **({} if transposed else {"transB": 0})}, error=1e-4,
                stored=2)


def dequantised(kind: str) -> Case:
    low, high = (-8, 8) if kind == "int4" else (0, 16)
    numbers = [R.integers(low, high, n).astype(np.int8) for n in ((3, 4), 4)]
    return Case("DequantizeLinear", [numbers[0], np.abs(f(4)), numbers[1]], {"axis": 1}, kinds={0: kind, 2: kind}, stored=3)


CASES = [
    dequantised("int4"), dequantised("uint4"),
    matmul(), matmul(bits=8), matmul(bits=2), matmul(zeros="bytes"), matmul(zeros="floats"), matmul(bits=8, zeros="bytes"),
    matmul(bits=8, zeros="floats"), matmul(depth=48, zeros="bytes", bias=True), matmul(leading=(2, 3), bias=True),
    matmul(depth=128, block=128, rows=5), matmul(depth=64, block=32, zeros="bytes", stored=False), matmul(bits=2,
        zeros="bytes"),
    gather(4, "uint8", False), gather(4, "uint8", True), gather(8, "uint8", True), gather(2, "uint8", True), gather(8,
        "uint8", False),
    gather(4, "int4", True), gather(4, "uint4", True), gather(4, "int4", False),
    experts(4), experts(8), experts(4, block=16), bnb4(0), bnb4(1)]
