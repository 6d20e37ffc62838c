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
from polytc.targets.opencl import kernel_table, static
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
REGISTERS = {"strided convolution": 168}
"""Of an item on an AMD GPU at most; else 128, so that half of the items that there could be are in flight. (A compiler keeps
the addresses of 7 x 7 elements of a tile.)"""

pytestmark = pytest.mark.skipif(static.clang() is None, reason="clang is not here")


def source(name: str, machine: str) -> Source:
    text, shapes = PROGRAMS[name]
    program = stages.build(text, shapes, dict.fromkeys(shapes, "f32"))
    return compiler.lower_program(program, OpenCLTarget(DEVICES[machine])).source


@pytest.mark.part(5)
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


@pytest.mark.part(5)
@pytest.mark.parametrize("name", PROGRAMS)
def test_amd(name: str) -> None:
    made = source(name, "amd-gfx90a")
    used, *rest = static.amd(made).values()
    assert used.spilled == sum(r.spilled for r in rest) == 0
    assert 0 <= used.local_bytes - int(made.options["local_bytes"]) < ALIGNMENT
    assert used.registers <= REGISTERS.get(name, 128)
    assert used.accumulators == 0
    assert used.occupancy >= (0.5 if name not in REGISTERS else 0.375)
    assert used.vector_accesses == WIDE.get(name, used.vector_accesses)


def test_a_kernel_that_does_not_compile_is_told() -> None:
    broken = source("sum of rows", "amd-gfx90a")
    with pytest.raises(ValueError, match="error"):
        static.amd(Source(broken.target, broken.text.replace("const int", "const nothing"), broken.launches, broken.module,
                          broken.options))


@pytest.mark.parametrize("machine", ["nvidia-sm90", "amd-gfx90a"])
def test_a_function_that_is_not_here_is_told(machine: str) -> None:
    if static.missing(machine):
        pytest.skip("a compiler is not here")
    program = stages.build("Y[i] = cosh(X[i])", {"X": (1000,)}, {"X": "f32"})
    with pytest.raises(TargetError, match="cosh"):
        kernel_table.table(compiler.lower_program(program, OpenCLTarget(DEVICES[machine])).source, machine)


@pytest.mark.part(2)
@pytest.mark.parametrize("machine", ["nvidia-sm90", "amd-gfx90a"])
def test_open_sizes(machine: str) -> None:
    """Bytes are formulas then, and no number."""
    if static.missing(machine):
        pytest.skip("a compiler is not here")
    program = polytc.build("C[i,j] += A[i,k]*B[k,j]", shapes={"A": ("M", "K"), "B": ("K", "N")})
    (line,) = kernel_table.table(compiler.lower_program(program, OpenCLTarget(DEVICES[machine])).source, machine)
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
        kernel_table.table(source("sum of rows", "amd-gfx90a"), "amd-gfx90a")
    assert info.value.code == "E515"


@pytest.mark.part(3)
@pytest.mark.parametrize("name", ["matmul", "large matmul", "odd matmul"])
def test_nothing_spills_on_rdna(name: str) -> None:
    assert {r.spilled for r in static.amd(source(name, "amd-gfx1030"), "gfx1030").values()} == {0}


TYPES = {
    "f16": ("C[i,j] += A[i,k]*B[k,j]", {"A": (256, 256), "B": (256, 256)}, "f16"),
    "bf16": ("C[i,j] += A[i,k]*B[k,j]", {"A": (256, 256), "B": (256, 256)}, "bf16"),
    "bytes": ("C[i,j] += i32(A[i,k])*i32(B[k,j])", {"A": (256, 256), "B": (256, 256)}, "i8"),
    "f16, elementwise": ("Y[i] = X[i]*X[i] + exp(X[i])", {"X": (1 << 16,)}, "f16"),
    "rounded to f16": ("Y[i] = f16(X[i])", {"X": (1 << 16,)}, "f32"),
    "quantised": ("Y[i] = u8(clamp(round(X[i]/0.1) + 128, 0, 255))", {"X": (1 << 16,)}, "f32"),
    "histogram": ("H[b] = 0 where b in 0:256; H[x[i]] += 1", {"x": (1 << 16,)}, "i32"),
}


@pytest.mark.part(5)
@pytest.mark.parametrize("machine", ["nvidia-sm90", "amd-gfx90a"])
@pytest.mark.parametrize("name", TYPES)
def test_narrow_types_have_an_account(name: str, machine: str) -> None:
    if static.missing(machine):
        pytest.skip(f"{static.missing(machine)} is not here")
    text, shapes, dtype = TYPES[name]
    program = stages.build(text, shapes, dict.fromkeys(shapes, dtype))
    lines = kernel_table.table(compiler.lower_program(program, OpenCLTarget(DEVICES[machine])).source, machine)
    assert all(0 < int(line[48:59]) < 256 for line in lines)  # groups are fewer than units, so that more than 128 cost nothing


def test_open_sizes_are_counted_at_their_typical_values() -> None:
    """As the program of these sizes is, of which this is the text, too."""
    machine = "mali"  # without a compiler
    program = stages.build("Y[i] = 2*X[i]", {"X": ("N",)}, typical={"N": 5000})
    low = compiler.lower_program(program, OpenCLTarget(DEVICES[machine]))
    (line,) = kernel_table.table(low.source, machine, tensors=low.rewritten.tensors)
    groups, items = line.split()[1], int(line.split()[3])
    assert (int(groups) - 1) * items < 5000 <= int(groups) * items
    assert line.split()[4:6] == ["-", "-"]
    assert float(line.split()[-2]) > 5000 * 8 / 0.051e12 * 1e6 * 0.99                    # its memory moves 51 GB/s


@pytest.mark.part(2)
@pytest.mark.parametrize("machine", [n for n in DEVICES if n not in static.CHECKS and n != "pocl-cpu"])
def test_every_record_has_a_table(machine: str) -> None:
    low = compiler.lower_program(stages.build("C[i,j] += A[i,k]*B[k,j]", {"A": (256, 256), "B": (256, 256)}),
                                 OpenCLTarget(DEVICES[machine]))
    for line in kernel_table.table(low.source, machine):
        assert line.split()[-1] in ("arithmetic", "local", "memory", "cache", "waiting")
