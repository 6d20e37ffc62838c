"""Kernels for GPUs without a GPU: what clang and ptxas say that they use, and what is counted in them.

    python benchmarks/gpu_static.py [--cuda] [MODEL.onnx ...]

A row a kernel and device, of programs of every family, or of the models, whose kernels stand once each, with how often the
model launches them. The columns are those of `polytc explain --target nvidia-sm90`, see docs/opencl.md; the last two are a
model's, not measured. Devices whose compiler is missing are left out. `--cuda` asks NVRTC and ptxas about CUDA C for sm_80 and
sm_90 instead (`pip install cuda-bindings nvidia-cuda-nvrtc-cu12 nvidia-cuda-nvcc-cu12`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias, cast

import polytc
from polytc import compiler, stages
from polytc.codegen.target import Source, Target
from polytc.export import bundle
from polytc.graph import ahead
from polytc.machine import DEVICES
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.opencl import kernel_table, static
from polytc.targets.opencl.target import OpenCLTarget

Check: TypeAlias = Callable[[Source], dict[str, static.Resources]]

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
SCAN = """def scan(inout f32[N,M] x) -> (x) {
    for j in 1:M { x[i,j] += x[i,j-1]    where i in 0:N }
}"""
CONJUGATE = """def conjugate(f32[N,N] A, f32[T] w, inout f32[N] x, inout f32[N] r) -> (x, r) {
    p[i] = r[i]
    rr += r[i] * r[i]
    for t in 0:T {
        q[i] +=! A[i,j] * p[j]
        pq +=! p[i] * q[i]
        a = w[t] * rr / pq
        x[i] += a * p[i]
        r[i] -= a * q[i]
        new +=! r[i] * r[i]
        p[i] = r[i] + new / rr * p[i]
        rr = new
    }
}"""
PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "matmul 1024": ("C[i,j] += A[i,k]*B[k,j]", {"A": (1024, 1024), "B": (1024, 1024)}),
    "matmul 4096": ("C[i,j] += A[i,k]*B[k,j]", {"A": (4096, 4096), "B": (4096, 4096)}),
    "matmul 1001x333x777": ("C[i,j] += A[i,k]*B[k,j]", {"A": (1001, 333), "B": (333, 777)}),
    "matmul 128x768x768": ("C[i,j] += A[i,k]*B[k,j]", {"A": (128, 768), "B": (768, 768)}),
    "A^T B 1024": ("C[i,j] += A[k,i]*B[k,j]", {"A": (1024, 1024), "B": (1024, 1024)}),
    "A B^T 1024": ("C[i,j] += A[i,k]*B[j,k]", {"A": (1024, 1024), "B": (1024, 1024)}),
    "batched 64 x 256": ("C[b,i,j] += A[b,i,k]*B[b,k,j]", {"A": (64, 256, 256), "B": (64, 256, 256)}),
    "matrix-vector 4096": ("y[i] += A[i,j]*x[j]", {"A": (4096, 4096), "x": (4096,)}),
    "vector-matrix 4096": ("y[j] += A[i,j]*x[i]", {"A": (4096, 4096), "x": (4096,)}),
    "conv 1x1 64->256 56x56": ("O[n,c,h,w] += W[c,d]*X[n,d,h,w]", {"W": (256, 64), "X": (8, 64, 56, 56)}),
    "conv 1x1 strided": ("O[n,c,h,w] += W[c,d]*X[n,d,2*h,2*w] where h in 0:28, w in 0:28",
                         {"W": (256, 128), "X": (8, 128, 56, 56)}),
    "conv 3x3 512->512 7x7": ("O[n,c,h,w] += W[c,d,r,s]*X[n,d,h+r,w+s]", {"W": (512, 512, 3, 3), "X": (1, 512, 9, 9)}),
    "conv 7x7 strided": ("O[n,c,h,w] += W[c,d,r,s]*X[n,d,2*h+r,2*w+s] where h in 0:112, w in 0:112",
                         {"W": (64, 3, 7, 7), "X": (8, 3, 229, 229)}),
    "conv depthwise 3x3": ("O[n,c,h,w] += W[c,r,s]*X[n,c,h+r,w+s]", {"W": (144, 3, 3), "X": (8, 144, 58, 58)}),
    "attention 16x12x128x64": ("P[b,i,j] += Q[b,i,k]*K[b,j,k]; M[b,i] max= P[b,i,j]; E[b,i,j] = exp(P[b,i,j]-M[b,i]); "
                               "S[b,i] += E[b,i,j]; R[b,i,j] = E[b,i,j]/S[b,i]; O[b,i,k] += R[b,i,j]*V[b,j,k] -> (O)",
                               dict.fromkeys("QKV", (192, 128, 64))),
    **{f"attention 64x1024x{d}{name}": (
        f"P[b,i,j] += Q[b,i,k]*K[b,j,k]; M[b,i] max= P[b,i,j]{where}; E[b,i,j] = exp(P[b,i,j]-M[b,i]){where}; "
        f"S[b,i] += E[b,i,j]{where}; O[b,i,k] += E[b,i,j]*V[b,j,k]{where}; Y[b,i,k] = O[b,i,k]/S[b,i] -> (Y)",
        dict.fromkeys("QKV", (64, 1024, d)))
       for d in (32, 64, 80, 128) for name, where in (("", ""), (" causal", " where j <= i"))},
    "conv 3x3 64->64 56x56": ("O[n,c,h,w] += W[c,d,r,s]*X[n,d,h+r,w+s]", {"W": (64, 64, 3, 3), "X": (1, 64, 58, 58)}),
    "row sum 4096x512": ("y[i] += x[i,j]", {"x": (4096, 512)}),
    "column sum 4096x512": ("y[j] += x[i,j]", {"x": (4096, 512)}),
    "sum 2^24": ("s += x[i]", {"x": (1 << 24,)}),
    "softmax 4096x1000": ("M[i] max= X[i,j]; E[i,j] = exp(X[i,j]-M[i]); S[i] += E[i,j]; Y[i,j] = E[i,j]/S[i] -> (Y)",
                          {"X": (4096, 1000)}),
    "layernorm 4096x768": ("m[i] += X[i,j]/768; D[i,j] = X[i,j]-m[i]; v[i] += D[i,j]*D[i,j]/768; "
                           "Y[i,j] = D[i,j]/sqrt(v[i]+0.00001) -> (Y)", {"X": (4096, 768)}),
    "prefix sums 4096x512": (SCAN, {"x": (4096, 512)}),
    "stencil 4096": ("B[i,j] = 0.25*(A[i,j+1]+A[i+1,j]+A[i+1,j+2]+A[i+2,j+1]) where i in 0:4094, j in 0:4094",
                     {"A": (4096, 4096)}),
    "transpose 2048": ("B[i,j] = A[j,i]", {"A": (2048, 2048)}),
    "sum of two 2^24": ("C[i] = A[i]+B[i]", {"A": (1 << 24,), "B": (1 << 24,)}),
    "SiLU 4096x768": ("Y[i,j] = (X[i,j]+b[j])/(1+exp(0-X[i,j]-b[j]))", {"X": (4096, 768), "b": (768,)}),
    "scale, shift, ReLU 56x56": ("Y[n,c,h,w] = max(X[n,c,h,w]*s[c]+b[c], 0)", {"X": (8, 64, 56, 56), "s": (64,), "b": (64,)}),
    "scale, shift, ReLU 55x57": ("Y[n,c,h,w] = max(X[n,c,h,w]*s[c]+b[c], 0)", {"X": (8, 64, 55, 57), "s": (64,), "b": (64,)}),
    "NCHW to NHWC": ("O[n,h,w,c] = X[n,c,h,w]", {"X": (8, 64, 56, 56)}),
    "heat 2000x2000, 100 steps": (HEAT, {"A": (2000, 2000), "w": (100,)}),
    "LU 2000": (LU, {"A": (2000, 2000)}),
    "Gauss-Seidel 4000x4000": (SWEEP, {"A": (4000, 4000)}),
    "syrk 1024": ("C[i,j] += A[i,k]*A[j,k] where j <= i", {"A": (1024, 1024)}),
    "conjugate gradients 2000": (CONJUGATE, {"A": (2000, 2000), "w": (50,), "x": (2000,), "r": (2000,)}),
}


COMPILED = ("nvidia-sm90", "amd-gfx90a")
"""Devices whose OpenCL C compilers are asked about."""
CUDA = {"nvidia-sm80": "sm_80", "nvidia-sm90": "sm_90"}
"""Devices and their architectures."""


def main(arguments: list[str]) -> None:
    """Print the table. arguments: see above."""
    models = [a for a in arguments if a != "--cuda"]
    print(f"{'program':26}{'device':14}{kernel_table.HEAD}")
    for device, target, check in _cuda() if "--cuda" in arguments else _opencl():
        for name, source in _models(models, target) if models else _programs(target):
            for line in kernel_table.table(source, device, check):
                print(f"{name:26}{device:14}{line}", flush=True)


def _opencl() -> Iterator[tuple[str, Target, Check | None]]:
    """Devices, what writes texts for them, and what tells the resources of these texts."""
    for device in COMPILED:
        if not static.missing(device):
            yield device, OpenCLTarget(DEVICES[device]), None


def _cuda() -> Iterator[tuple[str, Target, Check | None]]:
    for device, architecture in CUDA.items():
        target = CudaTarget(DEVICES[device])
        yield device, cast(Target, target), partial(_assembled, target, architecture)


def _assembled(target: CudaTarget, architecture: str, source: Source) -> dict[str, static.Resources]:
    return static.of_ptx(target.assembly(source), source.launches, architecture)


def _programs(target: Target) -> Iterator[tuple[str, Source]]:
    for name, (text, shapes) in PROGRAMS.items():
        program = stages.build(text, shapes, dict.fromkeys(shapes, "f32"))
        yield name, compiler.lower_program(program, target).source


def _models(paths: list[str], target: Target) -> Iterator[tuple[str, Source]]:
    """The kernels of models, with how often a run launches them; axes without an extent have one element."""
    for path in paths:
        graph = polytc.load_onnx(path)
        shapes = {v.name: tuple(n if isinstance(n, int) else 1 for n in v.shape or ()) for v in graph.inputs}
        made = bundle.of_plan(ahead.plan_of(graph, shapes, guards=False), target)
        times = Counter(s.unit for s in made.steps)
        for n, unit in enumerate(made.units):
            yield f"{Path(path).parent.name[:20]} x{times[n]}", unit.lowered.source


if __name__ == "__main__":
    main(sys.argv[1:])
