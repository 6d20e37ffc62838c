"""Operators that memory bounds, in sizes from first cache to main memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from versus.case import Case, Goal, Node, Set, Tensor

SIZES = {"16 KB": 1 << 14, "256 KB": 1 << 18, "4 MB": 1 << 22, "32 MB": 1 << 25, "256 MB": 1 << 28}
"""Bytes of the largest array."""

ROWS = (128, 512, 2048, 8192, 32768)
"""Lengths of softmax's rows."""


def square(elements: int) -> tuple[int, int]:
    """About as many rows as columns, powers of two."""
    rows = 1 << (elements.bit_length() - 1) // 2
    return rows, elements // rows


def muladd(elements: int) -> Case:
    t = Tensor((elements,))
    return Case("a+b*c", "Y[i] = A[i] + B[i]*C[i]", {"A": t, "B": t, "C": t}, {"Y": t},
                onnx=(Node("Mul", "B C", "P"), Node("Add", "A P", "Y")),
                torch=lambda torch, A, B, C, out: torch.addcmul(A, B, C, out=out), jax=lambda jax, A, B, C: A + B * C,
                numpy=_numpy_muladd, numba="muladd", c=f"for (long i = 0; i < {elements}; i++) Y[i] = A[i] + B[i]*C[i];")


def _numpy_muladd(np: Any, A: Any, B: Any, C: Any, out: Any) -> Any:
    np.multiply(B, C, out=out)
    return np.add(A, out, out=out)


def gelu(elements: int) -> Case:
    t = Tensor((elements,))
    return Case("gelu", f"Y[i] = 0.5 * X[i] * (1 + erf(X[i] * {math.sqrt(0.5)}))", {"X": t}, {"Y": t},
                onnx=(Node("Gelu", "X", "Y"),), torch=lambda torch, X: torch.nn.functional.gelu(X),
                jax=lambda jax, X: jax.nn.gelu(X, approximate=False))


def softmax(rows: int, columns: int) -> Case:
    t = Tensor((rows, columns))
    text = "M[i] max= X[i,j]\nE[i,j] = exp(X[i,j] - M[i])\nS[i] += E[i,j]\nY[i,j] = E[i,j] / S[i]"
    return Case("softmax", text, {"X": t}, {"Y": t}, onnx=(Node("Softmax", "X", "Y", {"axis": -1}),),
                torch=lambda torch, X, out: torch.softmax(X, -1, out=out), jax=lambda jax, X: jax.nn.softmax(X, axis=-1),
                numba="softmax")


def layernorm(rows: int, columns: int) -> Case:
    t, v = Tensor((rows, columns)), Tensor((columns,))
    text = (f"T[i] += X[i,j]\nM[i] = T[i] / {columns}\nD[i,j] = X[i,j] - M[i]\nV[i] += D[i,j]*D[i,j]\n"
            f"R[i] = rsqrt(V[i] / {columns} + 1e-5)\nY[i,j] = D[i,j] * R[i] * W[j] + B[j]")
    return Case("layernorm", text, {"X": t, "W": v, "B": v}, {"Y": t},
                onnx=(Node("LayerNormalization", "X W B", "Y", {"axis": -1, "epsilon": 1e-5}),),
                torch=lambda torch, X, W, B: torch.nn.functional.layer_norm(X, (columns,), W, B, 1e-5), jax=_jax_layernorm)


def _jax_layernorm(jax: Any, X: Any, W: Any, B: Any) -> Any:
    centred = X - X.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * W + B


def total(axis: int, rows: int, columns: int) -> Case:
    """Sums of the rows (axis 1) or of the columns (axis 0)."""
    kept = "i" if axis else "j"
    loops = (f"for (long i = 0; i < {rows}; i++) {{ float s = 0; for (long j = 0; j < {columns}; j++) s += X[i*{columns} + j]; "
             f"Y[i] = s; }}") if axis else (
             f"for (long j = 0; j < {columns}; j++) Y[j] = 0; "
             f"for (long i = 0; i < {rows}; i++) for (long j = 0; j < {columns}; j++) Y[j] += X[i*{columns} + j];")
    return Case("row sums" if axis else "column sums", f"Y[{kept}] += X[i,j]", {"X": Tensor((rows, columns))},
                {"Y": Tensor((rows if axis else columns,))},
                onnx=(Node("ReduceSum", "X axes", "Y", {"keepdims": 0}),), onnx_constants={"axes": np.array([axis])},
                torch=lambda torch, X, out: torch.sum(X, axis, out=out), jax=lambda jax, X: X.sum(axis),
                numpy=lambda np, X, out: np.sum(X, axis, out=out), numba="row_sums" if axis else "column_sums", c=loops,
                tolerance=1e-3)


def transpose(rows: int, columns: int) -> Case:
    return Case("transpose", "Y[j,i] = X[i,j]", {"X": Tensor((rows, columns))}, {"Y": Tensor((columns, rows))},
                onnx=(Node("Transpose", "X", "Y", {"perm": [1, 0]}),), torch=lambda torch, X, out: out.copy_(X.T),
                jax=lambda jax, X: X.T, numpy=lambda np, X, out: np.copyto(out, X.T), numba="transpose",
                c=f"for (long i = 0; i < {columns}; i++) for (long j = 0; j < {rows}; j++) "
                  f"Y[i*{rows} + j] = X[j*{columns} + i];")


def permute(elements: int) -> Case:
    channels = 64
    h, w = square(elements // channels)
    return Case("NCHW->NHWC", "Y[n,h,w,c] = X[n,c,h,w]", {"X": Tensor((1, channels, h, w))},
                {"Y": Tensor((1, h, w, channels))}, onnx=(Node("Transpose", "X", "Y", {"perm": [0, 2, 3, 1]}),),
                torch=lambda torch, X, out: out.copy_(X.permute(0, 2, 3, 1)), jax=lambda jax, X: X.transpose(0, 2, 3, 1),
                numpy=lambda np, X, out: np.copyto(out, X.transpose(0, 2, 3, 1)))


def gather(elements: int) -> Case:
    """Rows of 512 from a table of 30522, as many as fill the size."""
    width, vocabulary = 512, 30522
    count = elements // width
    return Case("embedding gather", "Y[i,d] = T[I[i],d]",
                {"T": Tensor((vocabulary, width)), "I": Tensor((count,), "int64", within=(0, vocabulary))},
                {"Y": Tensor((count, width))}, onnx=(Node("Gather", "T I", "Y", {"axis": 0}),),
                torch=lambda torch, T, I, out: torch.index_select(T, 0, I, out=out), jax=lambda jax, T, I: T[I],
                numpy=lambda np, T, I, out: np.take(T, I, 0, out=out, mode="clip"), numba="gather",
                bytes=count * (8 * width + 8))


def cumsum(rows: int, columns: int) -> Case:
    t = Tensor((rows, columns))
    return Case("cumsum", "Y[i,j] += X[i,k] where k <= j, j in 0:X.shape[1]", {"X": t}, {"Y": t},
                onnx=(Node("CumSum", "X axis", "Y"),), onnx_constants={"axis": np.array(1)},
                torch=lambda torch, X, out: torch.cumsum(X, 1, out=out), jax=lambda jax, X: jax.numpy.cumsum(X, 1),
                numpy=lambda np, X, out: np.cumsum(X, 1, out=out), numba="cumsum",
                c=f"for (long i = 0; i < {rows}; i++) {{ float s = 0; for (long j = 0; j < {columns}; j++) "
                  f"Y[i*{columns} + j] = s += X[i*{columns} + j]; }}", tolerance=1e-3)


def matrix(make: Callable[[int, int], Case]) -> Callable[[int], Case]:
    return lambda elements: make(*square(elements))


OPERATORS: tuple[Callable[[int], Case], ...] = (
    muladd, gelu, matrix(softmax), matrix(layernorm), matrix(lambda r, c: total(1, r, c)), matrix(lambda r, c: total(0, r, c)),
    matrix(transpose), permute, gather, matrix(cumsum))


def cases() -> Iterator[Case]:
    for size, count in SIZES.items():
        for make in OPERATORS:
            case = make(count // 4)
            yield replace(case, name=f"{case.name} {size}", least=("copy", 0.85) if size == "256 MB" else None)
    for columns in ROWS:
        case = softmax(SIZES["4 MB"] // 4 // columns, columns)
        yield replace(case, name=f"softmax rows of {columns}")


MEMORY = Set("memory", "operators bound by memory, f32", tuple(cases()),
             {"": Goal(0.9, None, ("onnxruntime", "openvino", "torch", "jax", "numpy", "numba", "c"))})
