"""Matrix products in other types than f32: f64, i32, and i8 accumulated in i32.

Sums of the i32 products are beyond what f32 holds exactly, so that nobody gets through by computing in floats. numpy stands for
f64 only: its integer products are hundreds of times slower than anybody's.
"""

from __future__ import annotations

from typing import Any

from versus.case import Case, Goal, Node, Set, Tensor

SIZES = [(256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (128, 768, 768)]
"""(M, N, K)."""

RANGES = {"int32": (-1000, 1000), "int8": (-128, 128)}
"""Of integer operands' values."""


def _case(m: int, n: int, k: int, name: str, operand: str, result: str, **how: Any) -> Case:
    loops = f"""
        for (long i = 0; i < {m}; i++) {{
            for (long j = 0; j < {n}; j++) C[i*{n} + j] = 0;
            for (long k = 0; k < {k}; k++)
                for (long j = 0; j < {n}; j++) C[i*{n} + j] += A[i*{k} + k] * B[k*{n} + j];
        }}"""
    within = RANGES.get(operand, (0, 1))
    return Case(f"{name} {m}x{n}x{k}",
                inputs={"A": Tensor((m, k), operand, within=within), "B": Tensor((k, n), operand, within=within)},
                outputs={"C": Tensor((m, n), result)}, numba="matmul", c=loops, flops=2.0 * m * n * k, **how)


def f64(m: int, n: int, k: int) -> Case:
    return _case(m, n, k, "f64", "float64", "float64", text="C[i,j] += A[i,k] * B[k,j]", onnx=(Node("MatMul", "A B", "C"),),
                 torch=lambda torch, A, B, out: torch.matmul(A, B, out=out), jax=lambda jax, A, B: A @ B,
                 numpy=lambda np, A, B, out: np.matmul(A, B, out=out), tolerance=1e-10)


def i32(m: int, n: int, k: int) -> Case:
    return _case(m, n, k, "i32", "int32", "int32", text="C[i,j] += A[i,k] * B[k,j]", onnx=(Node("MatMul", "A B", "C"),),
                 torch=lambda torch, A, B, out: torch.matmul(A, B, out=out), jax=lambda jax, A, B: A @ B, tolerance=0.0)


def i8(m: int, n: int, k: int) -> Case:
    return _case(m, n, k, "i8 to i32", "int8", "int32", text="C[i,j] += i32(A[i,k]) * i32(B[k,j])",
                 onnx=(Node("MatMulInteger", "A B", "C"),), torch=lambda torch, A, B: torch._int_mm(A, B),
                 jax=lambda jax, A, B: jax.numpy.matmul(A, B, preferred_element_type="int32"), tolerance=0.0)


DTYPES = Set("dtypes", "matrix product in f64, i32 and i8", tuple(make(*size) for make in (f64, i32, i8) for size in SIZES),
             {"": Goal(1.0, 1.0, ("onnxruntime", "openvino", "torch", "jax", "numpy", "numba", "c"))})
