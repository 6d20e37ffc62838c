"""Prefetches: the next panel of a large packed operand is fetched while tiles of rows use this one."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from polytc.codegen.llvm.target import LLVMTarget
from polytc.compiler import Lowered, compile_program, lower_program
from polytc.lang import build
from polytc.lang.program import Program
from polytc.machine import AVX2, AVX512, Machine

PRODUCT = "C[i,j] += A[i,k]*B[k,j]"
CALL = "call void @llvm.prefetch"


def product(rows: int, columns: int, depth: int) -> Program:
    shapes = {"A": (rows, depth), "B": (depth, columns)}
    return replace(build(PRODUCT, shapes, dict.fromkeys(shapes, "f32")), constants=("B",))


def lowered(program: Program, machine: Machine = AVX512) -> Lowered:
    return lower_program(program, LLVMTarget(machine))


@pytest.mark.parametrize("machine", [AVX2, AVX512])
def test_a_large_packed_operand_is_fetched_ahead(machine: Machine) -> None:
    text = lowered(product(128, 768, 768), machine).source.text
    assert CALL in text
    distances = {int(n) for n in re.findall(r"add i64 %\S+, (\d+)\n\s+%\S+ = getelementptr i8", text)}
    assert distances
    assert all(n % 64 == 0 and n >= 8 << 10 for n in distances)


@pytest.mark.parametrize("program", [
    product(128, 64, 64),                                                      # stays in the cache
    product(8, 768, 768),                                                      # one tile of rows: nothing is used again
    build("C[i] = A[i]*2", {"A": (1 << 20,)}, {"A": "f32"}),                   # nothing is reused
])
def test_others_are_not(program: Program) -> None:
    assert CALL not in lowered(program).source.text


@pytest.mark.parametrize(("rows", "columns", "depth"), [(128, 768, 768), (37, 1000, 515)])
def test_results(rows: int, columns: int, depth: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((rows, depth), (depth, columns)))
    c = np.empty((rows, columns), np.float32)
    compile_program(product(rows, columns, depth), "cpu", 2).run([a, b, c])
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-3)
