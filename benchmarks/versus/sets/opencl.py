"""Kernels that an OpenCL driver for CPUs should run as fast as compiled code (benchmarks/opencl.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from versus.case import Case, Goal, Node, Set, Tensor
from versus.sets.memory import softmax

AGAINST = ("numpy", "clblast", "loopy")


def matmul(size: int) -> Case:
    t = Tensor((size, size))
    return Case(f"matmul {size}", "C[i,j] += A[i,k]*B[k,j]", {"A": t, "B": t}, {"C": t}, group="matmul", clblast="matmul",
                loopy="matmul", onnx=(Node("MatMul", "A B", "C"),), numpy=lambda np, A, B, out: np.matmul(A, B, out=out),
                flops=2.0 * size**3)


def convolution(channels: int, size: int) -> Case:
    return Case(f"conv 3x3 {channels}->{channels} {size}x{size}", "O[n,c,h,w] += W[c,d,r,s]*X[n,d,h+r,w+s]",
                {"W": Tensor((channels, channels, 3, 3)), "X": Tensor((1, channels, size + 2, size + 2))},
                {"O": Tensor((1, channels, size, size))}, group="conv", clblast="convolution", loopy="convolution",
                onnx=(Node("Conv", "X W", "O"),), flops=2.0 * 9 * channels**2 * size**2)


def row_sum(rows: int, columns: int) -> Case:
    return Case("row sum", "Y[i] += X[i,j]", {"X": Tensor((rows, columns))}, {"Y": Tensor((rows,))}, group="memory",
                clblast="row_sum", loopy="row_sum", numpy=lambda np, X, out: np.sum(X, axis=1, out=out))


def transpose(size: int) -> Case:
    t = Tensor((size, size))
    return Case("transpose", "Y[i,j] = X[j,i]", {"X": t}, {"Y": t}, group="memory", clblast="transpose", loopy="transpose",
                numpy=_numpy_transpose)


def _numpy_transpose(np: Any, X: Any, out: Any) -> Any:
    np.copyto(out, X.T)
    return out


OPENCL = Set("opencl", "OpenCL on CPUs", (matmul(1000), matmul(1024), convolution(64, 56),
                                          replace(softmax(4096, 1024), group="memory", loopy="softmax"),
                                          row_sum(4096, 2048), transpose(2048)),
             {"matmul": Goal(0.67, None, AGAINST), "conv": Goal(1.0, None, AGAINST), "memory": Goal(1.0, None, AGAINST)})
