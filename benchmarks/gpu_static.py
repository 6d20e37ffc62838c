"""Kernels for GPUs without a GPU: what clang and ptxas say that they use.

    python benchmarks/gpu_static.py

A row a kernel and device: groups and items, registers of an item, bytes spilled, local bytes of a group, occupancy, loads and
stores of 16 bytes in its text; and the bytes of the arrays that the program's kernels are given, in those of its inputs and
outputs: 1 where each is read or written by one kernel and nothing lies between; in one iteration of the loops of the host, if
there are some. Says nothing of time. Devices whose compiler is
missing are left out.
"""

from __future__ import annotations

from polytc import api, compiler
from polytc.codegen.opencl import static
from polytc.codegen.opencl.target import OpenCLTarget
from polytc.machine import DEVICES

HEAT = """def heat(inout f32[N,N] A, f32[T] w) -> (A) {
    for t in 0:T {
        B[i,j] = w[t] * (A[i-1,j] + A[i,j-1] + A[i,j+1] + A[i+1,j])    where i in 1:N-1, j in 1:N-1
        A[i,j] = B[i,j]                                                where i in 1:N-1, j in 1:N-1
    }
}"""
LU = """def lu(inout f32[N,N] A) -> (A) {
    for k in 0:N-1 {
        A[i,k] = A[i,k] / A[k,k]     where i in k+1:N
        A[i,j] -= A[i,k] * A[k,j]    where i in k+1:N, j in k+1:N
    }
}"""
SWEEP = """def sweep(inout f32[N,N] A) -> (A) {
    for i in 1:N-1 {
        for j in 1:N-1 {
            A[i,j] = 0.25 * (A[i-1,j] + A[i,j-1] + A[i,j+1] + A[i+1,j])
        }
    }
}"""
PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "matmul 1024": ("C[i,j] += A[i,k]*B[k,j]", {"A": (1024, 1024), "B": (1024, 1024)}),
    "matmul 4096": ("C[i,j] += A[i,k]*B[k,j]", {"A": (4096, 4096), "B": (4096, 4096)}),
    "matmul 1001x333x777": ("C[i,j] += A[i,k]*B[k,j]", {"A": (1001, 333), "B": (333, 777)}),
    "conv 3x3 64->64 56x56": ("O[n,c,h,w] += W[c,d,r,s]*X[n,d,h+r,w+s]", {"W": (64, 64, 3, 3), "X": (1, 64, 58, 58)}),
    "row sum 4096x512": ("y[i] += x[i,j]", {"x": (4096, 512)}),
    "column sum 4096x512": ("y[j] += x[i,j]", {"x": (4096, 512)}),
    "sum 2^24": ("s += x[i]", {"x": (1 << 24,)}),
    "softmax 4096x1000": ("M[i] max= X[i,j]; E[i,j] = exp(X[i,j]-M[i]); S[i] += E[i,j]; Y[i,j] = E[i,j]/S[i] -> (Y)",
                          {"X": (4096, 1000)}),
    "layernorm 4096x768": ("m[i] += X[i,j]/768; D[i,j] = X[i,j]-m[i]; v[i] += D[i,j]*D[i,j]/768; "
                           "Y[i,j] = D[i,j]/sqrt(v[i]+0.00001) -> (Y)", {"X": (4096, 768)}),
    "transpose 2048": ("B[i,j] = A[j,i]", {"A": (2048, 2048)}),
    "sum of two 2^24": ("C[i] = A[i]+B[i]", {"A": (1 << 24,), "B": (1 << 24,)}),
    "SiLU 4096x768": ("Y[i,j] = (X[i,j]+b[j])/(1+exp(0-X[i,j]-b[j]))", {"X": (4096, 768), "b": (768,)}),
    "scale, shift, ReLU 56x56": ("Y[n,c,h,w] = max(X[n,c,h,w]*s[c]+b[c], 0)", {"X": (8, 64, 56, 56), "s": (64,), "b": (64,)}),
    "scale, shift, ReLU 55x57": ("Y[n,c,h,w] = max(X[n,c,h,w]*s[c]+b[c], 0)", {"X": (8, 64, 55, 57), "s": (64,), "b": (64,)}),
    "NCHW to NHWC": ("O[n,h,w,c] = X[n,c,h,w]", {"X": (8, 64, 56, 56)}),
    "heat 2000x2000, 100 steps": (HEAT, {"A": (2000, 2000), "w": (100,)}),
    "LU 2000": (LU, {"A": (2000, 2000)}),
    "Gauss-Seidel 4000x4000": (SWEEP, {"A": (4000, 4000)}),
}


def main() -> None:
    """Print the table."""
    print(f"{'program':26}{'device':14}{static.HEAD}")
    for name, (text, shapes) in PROGRAMS.items():
        for device in static.CHECKS:
            if not static.missing(device):
                program = api.build(text, shapes, dict.fromkeys(shapes, "f32"))
                source = compiler.lower_program(program, OpenCLTarget(DEVICES[device])).source
                for line in static.table(source, device):
                    print(f"{name:26}{device:14}{line}")


if __name__ == "__main__":
    main()
