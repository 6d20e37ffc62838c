"""Kernels as compilers for GPUs see them; skipped where clang (or NVIDIA's ptxas) is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import polytc
from polytc import compiler, stages
from polytc.codegen.target import Source
from polytc.errors import TargetError
from polytc.machine import ALIGNMENT, DEVICES
from polytc.targets.opencl import static
from polytc.targets.opencl.target import OpenCLTarget

PROGRAMS = {
    "matmul": ("C[i,j] += A[i,k]*B[k,j]", {"A": (1024, 1024), "B": (1024, 1024)}),
    "large matmul": ("C[i,j] += A[i,k]*B[k,j]", {"A": (4096, 4096), "B": (4096, 4096)}),
    "odd matmul": ("C[i,j] += A[i,k]*B[k,j]", {"A": (1001, 333), "B": (333, 777)}),
    "convolution": ("O[n,c,h,w] += W[c,d,r,s]*X[n,d,h+r,w+s]", {"W": (64, 64, 3, 3), "X": (1, 64, 58, 58)}),
    "few rows": ("C[i,j] += A[i,k]*B[k,j]", {"A": (128, 768), "B": (768, 768)}),
    "strided convolution": ("O[n,c,h,w] += W[c,d,r,s]*X[n,d,2*h+r,2*w+s] where h in 0:112, w in 0:112",
                            {"W": (64, 3, 7, 7), "X": (8, 3, 229, 229)}),
    "sum of rows": ("y[i] += x[i,j]", {"x": (4096, 512)}),
    "elementwise": ("Y[n,c,h,w] = max(X[n,c,h,w]*s[c] + b[c], 0)/(1 + exp(X[n,c,h,w]))",
                    {"X": (8, 64, 56, 56), "s": (64,), "b": (64,)}),
    "odd elementwise": ("Y[n,c,h,w] = X[n,c,h,w]*s[c]", {"X": (8, 64, 55, 57), "s": (64,)}),
}
WIDE = {"elementwise": (1, 1), "odd elementwise": (0, 0)}
"""Loads and stores of 16 bytes."""
HOT = {"large matmul": (1024, 64)}
"""16 unrolled steps of 8 x 8 elements an item, which 4 loads of 16 bytes of local memory feed: what is known to be good."""
FEWEST = {"matmul": 0.125, "large matmul": 0.125}
"""Of the items on an AMD GPU, those that clang 14 has registers for; newer ones need half as many."""

pytestmark = pytest.mark.skipif(static.clang() is None, reason="clang is not here")


def source(name: str, machine: str) -> Source:
    text, shapes = PROGRAMS[name]
    program = stages.build(text, shapes, dict.fromkeys(shapes, "f32"))
    return compiler.lower_program(program, OpenCLTarget(DEVICES[machine])).source


@pytest.mark.part(4)
@pytest.mark.skipif(static.ptxas() is None, reason="ptxas is not here")
@pytest.mark.parametrize("name", PROGRAMS)
def test_nvidia(name: str) -> None:
    made = source(name, "nvidia-sm90")
    used, *rest = static.nvidia(made).values()
    assert used.spilled == sum(r.spilled for r in rest) == 0
    assert used.registers <= 128
    assert 0 <= used.local_bytes - int(made.options["local_bytes"]) < ALIGNMENT
    assert used.occupancy >= 0.25
    assert used.vector_accesses == WIDE.get(name, used.vector_accesses)
    assert used.hot == HOT.get(name, used.hot)


@pytest.mark.part(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_amd(name: str) -> None:
    made = source(name, "amd-gfx90a")
    used, *rest = static.amd(made).values()
    assert used.spilled == sum(r.spilled for r in rest) == 0
    assert 0 <= used.local_bytes - int(made.options["local_bytes"]) < ALIGNMENT
    assert used.occupancy >= FEWEST.get(name, 0.25)
    assert used.vector_accesses == WIDE.get(name, used.vector_accesses)


def test_a_kernel_that_does_not_compile_is_told() -> None:
    broken = source("sum of rows", "amd-gfx90a")
    with pytest.raises(ValueError, match="error"):
        static.amd(Source(broken.target, broken.text.replace("const int", "const nothing"), broken.launches, broken.module,
                          broken.options))


@pytest.mark.parametrize("machine", static.CHECKS)
def test_a_function_that_is_not_here_is_told(machine: str) -> None:
    if static.missing(machine):
        pytest.skip("a compiler is not here")
    program = stages.build("Y[i] = cosh(X[i])", {"X": (1000,)}, {"X": "f32"})
    with pytest.raises(TargetError, match="cosh"):
        static.table(compiler.lower_program(program, OpenCLTarget(DEVICES[machine])).source, machine)


@pytest.mark.parametrize("machine", static.CHECKS)
def test_open_sizes(machine: str) -> None:
    """Bytes are formulas then, and no number."""
    if static.missing(machine):
        pytest.skip("a compiler is not here")
    program = polytc.build("C[i,j] += A[i,k]*B[k,j]", shapes={"A": ("M", "K"), "B": ("K", "N")})
    (line,) = static.table(compiler.lower_program(program, OpenCLTarget(DEVICES[machine])).source, machine)
    assert line.split()[1:3] == ["?x?", "x"]
    assert line.split()[-1] == "-"


@pytest.mark.long
def test_the_command_prints_the_table() -> None:
    if static.missing("amd-gfx90a"):
        pytest.skip("clang is not here")
    done = subprocess.run([sys.executable, "-m", "polytc", "explain", "C[i,j] += A[i,k]*B[k,j]", "--shape", "A=2048,2048",
                           "--shape", "B=2048,2048", "--target", "amd-gfx90a"], capture_output=True, text=True, check=True)
    head, line = done.stdout.splitlines()
    assert "registers" in head
    assert line[:head.index("bytes") + len("bytes")].split()[-1] == "1.00"
    assert line[head.index("bound"):] in ("arithmetic", "local memory", "cache", "memory", "waiting")


def test_a_missing_compiler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "clang", lambda: None)
    with pytest.raises(TargetError, match="clang is not here") as info:
        static.table(source("sum of rows", "amd-gfx90a"), "amd-gfx90a")
    assert info.value.code == "E515"
