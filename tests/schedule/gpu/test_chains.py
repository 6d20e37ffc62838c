"""Statements over a batch in one launch, a work-group a member: which programs, and results against numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from polytc import compiler, stages
from polytc.codegen import loops, traverse
from polytc.codegen.passes.analyses import local_memory_room
from polytc.codegen.target import Target
from polytc.errors import PolytcError
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.program.program import Program
from polytc.schedule.gpu import chains
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests import cuda_here

GPU = DEVICES["nvidia-sm90"]


def stages_of(levels: int, dtype: str, lines: Callable[[str, str, int, int], list[str]], head: str) -> str:
    """A transform of 2**levels numbers in stages; lines: the statements of one, of (target, source, numbers, distance)."""
    count, source, found = 1 << levels, "X", [head.format(n=1 << levels, half=1 << levels - 1, dtype=dtype)]
    for q in range(levels):
        target = "Y" if q == levels - 1 else f"T{q}"
        found += lines(target, source, count, 1 << q)
        source = target
    return "\n    ".join(found) + "\n}"


def butterfly(target: str, source: str, n: int, d: int) -> list[str]:
    """A stage of Stockham's transform (Van Loan, Computational Frameworks for the FFT, 1992, 1.7)."""
    where, half, to = f"where j in 0:{n // 2 // d}, k in 0:{d}", n // 2, f"{target}[b, {2 * d}*j + k"
    a, b = f"{source}[b, {d}*j + k]", f"{source}[b, {d}*j + k + {half}]"
    return [f"{to}] = {a} + {b} {where}", f"{to} + {d}] = ({a} - {b}) * w[{d}*j] {where}"]


def hadamard(target: str, source: str, n: int, d: int) -> list[str]:
    a, b = f"{source}[b, {2 * d}*j + k]", f"{source}[b, {2 * d}*j + k + {d}]"
    where = f"where j in 0:{n // 2 // d}, k in 0:{d}"
    return [f"{target}[b, {2 * d}*j + k] = {a} + {b} {where}", f"{target}[b, {2 * d}*j + k + {d}] = {a} - {b} {where}"]


FOURIER, HADAMARD = "def fourier({dtype}[B,{n}] X, {dtype}[{half}] w) -> (Y) {{", "def hadamard({dtype}[B,{n}] X) -> (Y) {{"
TURNS = """def turns(f32[B,40,30] X) -> (Y, Z) {
    A[b,i,j] = X[b,i,j] - X[b,39-i,j]
    C[b,i,j] = A[b,i,j] * A[b,i,29-j]
    Z[b,i,j] = C[b,i,j] + C[b,39-i,29-j]
    Y[b,i,j] = Z[b,39-i,j] * X[b,i,j]
}"""


def fourier(X: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    return [np.fft.fft(X)]


def walsh(X: np.ndarray) -> list[np.ndarray]:
    n, count = X.copy(), X.shape[1]
    for d in (1 << q for q in range(count.bit_length() - 1)):
        pairs = n.reshape(len(n), -1, 2, d)
        n = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), 2).reshape(X.shape)
    return [n]


def turns(X: np.ndarray) -> list[np.ndarray]:
    A = X - X[:, ::-1]
    C = A * A[:, :, ::-1]
    Z = C + C[:, ::-1, ::-1]
    return [Z[:, ::-1] * X, Z]


def roots(n: int) -> np.ndarray:
    return np.exp(-2j * np.pi * np.arange(n // 2) / n).astype(np.complex64)


def complex_(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


Case = tuple[str, Callable[[np.random.Generator], dict[str, np.ndarray]], Callable[..., list[np.ndarray]]]
CASES: dict[str, Case] = {
    "fourier 16": (stages_of(4, "c64", butterfly, FOURIER), lambda rng: {"X": complex_(rng, 50, 16), "w": roots(16)}, fourier),
    "fourier 256": (stages_of(8, "c64", butterfly, FOURIER), lambda rng: {"X": complex_(rng, 7, 256), "w": roots(256)},
                    fourier),
    "walsh 64": (stages_of(6, "f32", hadamard, HADAMARD), lambda rng: {"X": rng.standard_normal((33, 64), np.float32)}, walsh),
    "turns": (TURNS, lambda rng: {"X": rng.standard_normal((9, 40, 30), np.float32)}, turns)}


def program(case: Case) -> tuple[Program, dict[str, np.ndarray]]:
    given = case[1](np.random.default_rng(8))
    return stages.build(case[0], {n: a.shape for n, a in given.items()}, {n: a.dtype for n, a in given.items()}), given


@pytest.mark.part(4)
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, targets: tuple[str, ...]) -> None:
    p, given = program(CASES[name])
    where: list[Target] = [InterpTarget(GENERIC_GPU)] if name in ("fourier 16", "turns") else []
    where += [OpenCLTarget(GENERIC_GPU)] if "opencl" in targets else []
    where += [cuda_here.CompiledCuda(GPU)] if cuda_here.COMPILER else []
    first = compiler.lower_program(p, OpenCLTarget(GPU)).rewritten.statements[0].name
    record = f"polytc decisions 1\nchain {first}: by=group\n"
    for target in where:
        arrays = {n: np.full(p.tensor(n).shape, 77, p.tensor(n).dtype.numpy) for n in p.outputs} | given
        compiler.compile_program(p, target, schedule=record).run([arrays[n] for n in p.arrays])
        for n, e in zip(p.outputs, CASES[name][2](**given), strict=True):
            np.testing.assert_allclose(arrays[n], e, rtol=2e-5, atol=2e-5 * abs(e).max(), err_msg=target.name)


@pytest.mark.part(3)
@pytest.mark.parametrize(("levels", "count"), [(4, 5000), (6, 4096), (10, 300)])
def test_a_transform_is_one_launch(levels: int, count: int) -> None:
    n = 1 << levels
    p = stages.build(stages_of(levels, "c64", butterfly, FOURIER), {"X": (count, n), "w": (n // 2,)})
    low = compiler.lower_program(p, OpenCLTarget(GPU))
    (launch,) = low.source.launches
    assert launch.global_size[0] // launch.local_size[0] == count
    assert "one launch, estimated" in low.schedule.how
    local = [x.buffer for k in low.loops.kernels for x in traverse.walk_stmt(k.body)
             if isinstance(x, loops.Alloc) and x.buffer.space == "local"]
    assert 0 < sum(b.size * b.dtype.bytes for b in local) <= GPU.local_bytes
    assert [b.shape[0] for b in local] == [n, n], "the stages take two arrays in turn"
    assert local_memory_room.too_large(low.loops, GPU) == ()
    shared = [len(x.members) for k in low.loops.kernels for x in k.shares]
    assert shared == [n for n in (levels // 2, (levels - 1) // 2) if n > 1]


def test_what_has_no_room_beside_the_others_stays_in_memory() -> None:
    p = stages.build(stages_of(10, "c64", butterfly, FOURIER), {"X": (300, 1024), "w": (512,)})
    low = compiler.lower_program(p, OpenCLTarget(replace(GPU, local_bytes=12 << 10)), schedule="polytc decisions 1\n")
    left = local_memory_room.too_large(low.loops, replace(GPU, local_bytes=12 << 10))
    assert all(x.bytes > x.room for x in left)
    local = [x.buffer for k in low.loops.kernels for x in traverse.walk_stmt(k.body)
             if isinstance(x, loops.Alloc) and x.buffer.space == "local"]
    assert sum(b.size * b.dtype.bytes for b in local) <= 12 << 10


@pytest.mark.parametrize(("text", "shape"), [
    ("A[b,i] = X[b,i]*2; C[b,i] = A[b,i]+1; D[b,i] = C[b,i]*3", (500, 64)),                       # each item by itself
    ("A[b,i] = X[b,i] - X[b,63-i]; C[b,i] = A[b,i] - A[499-b,i]; D[b,i] = C[b,i]*C[b,63-i] where i in 0:64", (500, 64)),
    ("A[b,i] = X[b,i] - X[b,63-i]; C[b,i] = A[b,i] - A[b,63-i]", (500, 64))])
def test_what_is_no_chain(text: str, shape: tuple[int, ...]) -> None:
    how = compiler.lower_program(stages.build(text, {"X": shape}), OpenCLTarget(GPU)).schedule.how
    assert "one launch" not in how


def test_a_record_decides() -> None:
    p, _ = program(CASES["walsh 64"])
    head, target = "polytc decisions 1\n", OpenCLTarget(GPU)
    assert "chain S1: by=group" in "\n".join(map(str, compiler.lower_program(p, target).decisions.entries))
    apart = compiler.lower_program(p, target, schedule=f"{head}chain S1: by={chains.LAUNCHES}\n")
    assert "barrier(" not in apart.source.text
    with pytest.raises(PolytcError, match="E710"):
        compiler.lower_program(p, target, schedule=f"{head}chain S1: by=magic\n")


def test_without_local_memory_launches_are_compared_at_its_speed() -> None:
    p, _ = program(CASES["walsh 64"])
    slow = replace(GPU, fast_local_memory=False)
    quick, other = (compiler.lower_program(p, OpenCLTarget(m)).schedule.how for m in (GPU, slow))
    assert quick != other
