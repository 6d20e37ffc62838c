"""Kernels for GPUs without a GPU: what clang and ptxas say that they use.

    python benchmarks/gpu_static.py

A row a kernel and device: groups and items, registers of an item, bytes spilled, local bytes of a group, occupancy; and the
bytes of the arrays that the program's kernels are given, in those of its inputs and outputs: 1 where each is read or written by
one kernel and nothing lies between. Says nothing of time. Devices whose compiler is missing are left out.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

from polytc import api, compiler
from polytc.codegen.opencl import static
from polytc.codegen.opencl.target import OpenCLTarget
from polytc.codegen.target import Source
from polytc.machine import DEVICES

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
    "NCHW to NHWC": ("O[n,h,w,c] = X[n,c,h,w]", {"X": (8, 64, 56, 56)}),
}
COMPILERS: dict[str, Callable[[Source], dict[str, static.Resources]]] = {"nvidia-sm90": static.nvidia, "amd-gfx90a": static.amd}


def main() -> None:
    """Print the table."""
    print(f"{'kernel':26}{'device':14}{'groups x items':>22}{'registers':>11}{'spilled':>9}{'local':>8}{'occupancy':>11}"
          f"{'bytes':>7}")
    for name, (text, shapes) in PROGRAMS.items():
        for device, check in COMPILERS.items():
            if static.clang() is None or (device.startswith("nvidia") and shutil.which("ptxas") is None):
                continue
            program = api.build(text, shapes, dict.fromkeys(shapes, "f32"))
            source = compiler.lower_program(program, OpenCLTarget(DEVICES[device])).source
            moved = bytes_moved(source)
            for launch, used in zip(source.launches, check(source).values(), strict=True):
                sizes = zip(launch.global_size, launch.local_size, strict=True)
                groups = "x".join(str(g // n) for g, n in sizes if isinstance(g, int))
                items = "x".join(map(str, launch.local_size))
                print(f"{name:26}{device:14}{f'{groups} x {items}':>22}{used.registers:>11}{used.spilled:>9}"
                      f"{used.local_bytes:>8}{used.occupancy:>11.2f}{moved:>7.2f}")


def bytes_moved(source: Source) -> float:
    """The bytes of all kernels' arrays, in those of the program's inputs and outputs."""
    least = sum(b.size * b.dtype.bytes for b in source.module.args)
    return sum(b.size * b.dtype.bytes for k in source.module.kernels for b in k.args) / least


if __name__ == "__main__":
    main()
