"""Products of f32 matrices, with a constant and with a variable right operand."""

from __future__ import annotations

from versus.case import Case, Goal, Node, Set, Tensor

SIZES = [(256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (128, 768, 768), (128, 3072, 768),
         (128, 768, 3072), (3136, 64, 576), (1, 4096, 4096), (49, 512, 2048)]
"""(M, N, K): C[M,N] = A[M,K] B[K,N]."""


def case(m: int, n: int, k: int, constant: bool) -> Case:
    large = min(m, n, k) >= 512
    return Case(
        name=f"{m}x{n}x{k} {'constant' if constant else 'variable'}",
        text="C[i,j] += A[i,k] * B[k,j]",
        inputs={"A": Tensor((m, k)), "B": Tensor((k, n), constant=constant)},
        outputs={"C": Tensor((m, n))},
        onnx=(Node("MatMul", "A B", "C"),),
        torch=lambda torch, A, B, out: torch.matmul(A, B, out=out),
        jax=lambda jax, A, B: A @ B,
        numpy=lambda np, A, B, out: np.matmul(A, B, out=out),
        c=f"""
        for (long i = 0; i < {m}; i++) {{
            for (long j = 0; j < {n}; j++) C[i*{n} + j] = 0;
            for (long k = 0; k < {k}; k++)
                for (long j = 0; j < {n}; j++) C[i*{n} + j] += A[i*{k} + k] * B[k*{n} + j];
        }}""",
        flops=2.0 * m * n * k,
        least=("fma", 0.93) if large else None)


GEMM = Set("gemm", "matrix product, f32",
           tuple(case(*size, constant) for size in SIZES for constant in (False, True)),
           {"": Goal(1.0, 1.15, ("onnxruntime", "openvino"))})
