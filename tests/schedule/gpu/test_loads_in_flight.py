"""Elementwise kernels for GPUs whose items have several elements; against numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc import compiler, stages
from polytc.codegen import loops, traverse
from polytc.codegen.target import Target
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.program.program import Program
from polytc.schedule.facts.fusion_groups import partition
from polytc.schedule.gpu import loads_in_flight, strategy
from polytc.targets.ctext import unroll_hints
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests import cuda_here

COSTS = GENERIC_GPU.costs
SMALL = replace(GENERIC_GPU, cores=1, costs=replace(COSTS, launches=replace(COSTS.launches, items=256)))
"""A GPU that has enough items with a few thousand elements."""
HEAT = """def heat(f32[90,75] X) -> (A) {
    A[i,j] = X[i,j]
    for t in 0:3 {
        B[i,j] = A[i-1,j] + A[i+1,j] + A[i,j-1] + A[i,j+1]    where i in 1:89, j in 1:74
        A[i,j] = B[i,j] * 0.25                                where i in 1:89, j in 1:74
    }
}"""


def heat(X: np.ndarray) -> np.ndarray:
    A = X.copy()
    for _ in range(3):
        A[1:-1, 1:-1] = (A[:-2, 1:-1] + A[2:, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:]) * np.float32(0.25)
    return A


Case = tuple[str, tuple[tuple[int, ...], str], Callable[[np.ndarray], np.ndarray]]
CASES: dict[str, Case] = {
    "a stencil": ("Y[i,j] = X[i-1,j] + X[i+1,j] + X[i,j+1] where i in 1:90", ((91, 71), "f4"),
                  lambda X: X[:-2, :-1] + X[2:, :-1] + X[1:-1, 1:]),
    "its middle": ("Y[i,j] = X[i-1,j] - X[i+1,j] where i in 3:77, j in 5:66", ((91, 71), "f4"),
                   lambda X: X[2:76, 5:66] - X[4:78, 5:66]),
    "one dimension": ("Y[i] = X[i-1]*3 + X[i+1] where i in 1:5000", ((5001,), "f4"), lambda X: X[:-2] * 3 + X[2:]),
    "an odd number": ("Y[i] = X[i]*3", ((5001,), "f4"), lambda X: X * 3),
    "doubles": ("Y[i,j] = X[i,j] - X[i,j+1]", ((90, 67), "f8"), lambda X: X[:, :-1] - X[:, 1:]),
    "bytes": ("Y[i,j] = X[i,j] & X[i,j+1]", ((90, 67), "u1"), lambda X: X[:, :-1] & X[:, 1:]),
    "three dimensions": ("Y[a,i,j] = X[a,i,j] - X[a,i,j+1]", ((3, 45, 66), "f4"), lambda X: X[..., :-1] - X[..., 1:]),
    "a triangle": ("Y[i,j] = i >= j ? X[i,j] + X[j,i] : 0", ((75, 75), "f4"), lambda X: np.tril(X + X.T)),
    "beyond the ends": ("Y[i,j] = (X[i-1,j+1] else 1) where i in 0:90, j in 0:71", ((90, 71), "f4"),
                        lambda X: np.pad(X, ((1, 0), (0, 1)), constant_values=1)[:-1, 1:]),
    "in a loop": (HEAT, ((90, 75), "f4"), heat),
}


def program(case: Case) -> Program:
    text, (shape, dtype), _ = case
    return stages.build(text, {"X": shape}, {"X": np.dtype(dtype)})


@pytest.mark.part(5)
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, targets: tuple[str, ...]) -> None:
    case, rng = CASES[name], np.random.default_rng(3)
    p, x = program(case), rng.integers(0, 9, case[1][0]).astype(case[1][1])
    where: list[Target] = [InterpTarget(SMALL)] if name in ("its middle", "one dimension") else []
    where += [OpenCLTarget(SMALL)] if "opencl" in targets else []
    where += [cuda_here.CompiledCuda(SMALL)] if cuda_here.COMPILER else []
    for target in where:
        result = np.full(p.tensor(p.outputs[0]).shape, 77, p.tensor(p.outputs[0]).dtype.numpy)
        compiler.compile_program(p, target).run([x, result])
        np.testing.assert_allclose(result, case[2](x), rtol=1e-6, err_msg=target.name)


@pytest.mark.parametrize(("text", "shape", "dtype", "each"), [
    ("Y[i,j] = X[i,j] - X[i,j+1]", (4096, 4097), "f4", 4), ("Y[i,j] = X[i,j] - X[i,j+1]", (4096, 4097), "f8", 2),
    ("Y[i,j] = X[i,j] - X[i,j+1]", (4096, 4097), "u1", 4), ("Y[i,j] = X[i,j] - X[i,j+1]", (256, 257), "f4", 1),
    ("Y[i,j] = X[i,j] - X[i,j+1]", (512, 1025), "f4", 1),
    ("Y[i,j] = X[i,j] - X[i,j+1]", (512, 1537), "f4", 2),
    ("Y[i,j] = X[i,j]*2", (4096, 4096), "f4", 1), ("Y[i,j] = X[i,j] - X[i,j+1]", (2, 1 << 22), "f4", 2),
    ("Y[i] += X[i,j]", (4096, 4097), "f4", 1)])
def test_items_ask_for_sixteen_bytes_where_there_are_many(text: str, shape: tuple[int, ...], dtype: str, each: int) -> None:
    p = stages.build(text, {"X": shape}, {"X": np.dtype(dtype)})
    group = partition(p, "smart")[-1]
    found = strategy.mapping(p, group, DEVICES["nvidia-sm90"], vectors=True)
    assert found.each == each


@pytest.mark.parametrize(("instances", "extent", "each"), [(1e9, 99, 4), (1e9, 3, 2), (1e9, 1, 1), (2.9 * 132 * 2048, 99, 2),
                                                           (132 * 2048, 99, 1)])
def test_all_items_that_a_device_has_at_once_are_kept_busy(instances: float, extent: int, each: int) -> None:
    p = stages.build("Y[i] = X[i]*2", {"X": (4096,)})
    assert loads_in_flight.iterations(p, p.statements, instances, extent, DEVICES["nvidia-sm90"]) == each


def test_rows_are_loaded_once() -> None:
    """Four rows of a stencil of three read six rows, not twelve."""
    text = "Y[i,j] = X[i-1,j] + X[i,j] + X[i+1,j] where i in 1:4095, j in 1:4095"
    source = compiler.lower_program(stages.build(text, {"X": (4096, 4096)}), CudaTarget(DEVICES["nvidia-sm90"])).source.text
    whole = source[source.index("/* S1 */"):source.index("else {")]
    assert whole.count("Y[") == 4
    assert whole.count("X[") == 6


def record(each: int) -> str:
    return f"polytc decisions 1\nitems S1: rows=j,i sizes=16,4 vector=1 each={each}\n"


@pytest.mark.part(2)
@pytest.mark.parametrize("each", [1, 2, 3, 5])
def test_a_record_says_how_many(each: int, targets: tuple[str, ...]) -> None:
    case = CASES["a stencil"]
    p, x = program(case), np.random.default_rng(5).standard_normal(case[1][0], np.float32)
    where: list[Target] = [InterpTarget(SMALL), *([OpenCLTarget(SMALL)] if "opencl" in targets else [])]
    for target in where:
        result = np.full(p.tensor("Y").shape, 77, np.float32)
        compiler.compile_program(p, target, schedule=record(each)).run([x, result])
        np.testing.assert_allclose(result, case[2](x), rtol=1e-6, err_msg=target.name)
    text = compiler.lower_program(p, OpenCLTarget(SMALL), schedule=record(each)).source.text
    assert text.count("Y[") == (1 if each == 1 else each + 1), "as many copies, and the loop for the last rows"


@pytest.mark.parametrize("each", [0, 17])
def test_a_record_with_more_is_refused(each: int) -> None:
    with pytest.raises(polytc.CompileError, match="E710"):
        compiler.lower_program(program(CASES["a stencil"]), OpenCLTarget(SMALL), schedule=record(each))


@pytest.mark.parametrize("text", ["C[i,j] += A[i,k]*B[k,j] where j <= i", "C[i,j] += A[i,k]*B[k,j] where j >= 2*i - 30",
                                  "C[i,j] += A[i,k]*B[k,j] where i + j < 300, j > i - 40"])
def test_triangles_keep_their_sums_in_registers(text: str) -> None:
    """A variable that chooses among registers belongs to a loop of known bounds that is unrolled."""
    p = stages.build(text, {"A": (256, 64), "B": (64, 256)})
    module = compiler.lower_program(p, CudaTarget(DEVICES["nvidia-sm90"])).loops
    found = 0
    for k in (unroll_hints.mark_short_loops(k, DEVICES["nvidia-sm90"]) for k in module.kernels):
        for x in traverse.walk_stmt(k.body):
            if not isinstance(x, loops.For) or x.kind in ("thread", "block"):
                continue
            stored = [e for s in traverse.walk_stmt(x.body) if isinstance(s, loops.Store) for e, _ in traverse.loads(s.value)]
            if any(e.buffer.space == "private" and x.var in traverse.variables(i) for e in stored for i in e.indices):
                found += 1
                assert x.kind == "unroll", x.var
    assert found or "300" in text, "there are such loops"


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "kept"), [
    ("C[i,j] += A[i,k]*B[k,j] where j <= i", lambda i, j: j <= i),
    ("C[i,j] += A[i,k]*B[k,j] where i + j < 150, j > i - 40", lambda i, j: (i + j < 150) & (j > i - 40))])
def test_products_over_triangles(text: str, kept: Callable[[np.ndarray, np.ndarray], np.ndarray], targets: tuple[str, ...]
                                 ) -> None:
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((130, 35), (35, 140)))
    p = stages.build(text, {"A": a.shape, "B": b.shape})
    machine = DEVICES["nvidia-sm90"]
    where: list[Target] = [cuda_here.CompiledCuda(machine)] if cuda_here.COMPILER else []
    where += [OpenCLTarget(replace(machine, cores=1))] if "opencl" in targets else []
    i, j = np.indices((130, 140))
    for target in where:
        result = np.zeros(p.tensor("C").shape, np.float32)
        compiler.compile_program(p, target).run([a, b, result])
        expected = np.where(kept(i, j), a @ b, 0)[:result.shape[0], :result.shape[1]]
        np.testing.assert_array_equal(result, expected)
