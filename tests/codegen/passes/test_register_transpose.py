"""Transposition in registers: only whole rows are read, and results are those of the evaluator, for every size and type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polytc import compiler
from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes.register_transpose import transpose_kernel
from polytc.lang import build
from polytc.machine import AVX2, AVX512, GENERIC_CPU, Machine
from polytc.program.scalars import F32
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.codegen.loop_steps import arrays_of, results
from tests.opencl_here import NEEDS_OPENCL
from tests.test_programs import check


def lowered(text: str, shape: tuple[int, ...], machine: Machine) -> L.Module:
    return compiler.lower_program(build(text, {"X": shape}), LLVMTarget(machine)).loops


def columns(m: L.Module) -> int:
    """Loads and stores that walk across memory."""
    accesses = [e.indices for k in m.kernels for s in traverse.walk_stmt(k.body) for top in traverse.expressions(s)
                for e in traverse.walk_expr(top) if isinstance(e, L.Load)]
    accesses += [s.indices for k in m.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, L.Store)]
    return sum(any(i.lanes > 1 for i in indices[:-1]) for indices in accesses)


@pytest.mark.parametrize("machine", [GENERIC_CPU, AVX2, AVX512])
def test_both_sides_use_whole_lines(machine: Machine) -> None:
    assert columns(lowered("Y[j,i] = X[i,j] + X[i,j]*X[i,j]", (96, 160), machine)) == 0


def test_partial_rows_and_columns_are_masked() -> None:
    assert columns(lowered("Y[j,i] = X[i,j]", (41, 76), AVX512)) == 0


def test_blocks_that_end_anywhere_have_constant_bounds() -> None:
    """Even where the last block has all its tiles, the last of them partial."""
    m = lowered("Y[j,i] = X[i,j]", (2040, 4100), AVX512)
    bounds = [b for k in m.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, L.For) for b in (s.lower, s.upper)
              if s.kind == "sequential" and not any("//" in str(x) or "%" in str(x) for x in traverse.walk_expr(b))]
    assert columns(m) == 0
    assert all(isinstance(b, L.Const) for b in bounds)


@pytest.mark.part(4)
@pytest.mark.parametrize(("dtype", "target"), [
    *((t, "cpu") for t in ("f64", "f32", "f16", "i8", "bool", "i64")), ("f64", "interp"), ("f32", "interp"), ("bool", "interp"),
    *(pytest.param(t, "interp", marks=pytest.mark.long) for t in ("f16", "i8", "i64"))])
def test_every_type(dtype: str, target: str) -> None:
    program = build("Y[j,i] = X[i,j]", {"X": (37, 70)}, {"X": dtype})
    x = (np.random.default_rng(0).standard_normal((37, 70)) * 3).astype(program.tensor("X").dtype.numpy)
    y = np.zeros((70, 37), x.dtype)
    compiler.compile_program(program, target, 1).run([x, y])
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("dtype", ["f32", "f64", "u8"])
def test_opencl_has_a_function_for_each_half_of_a_round(dtype: str) -> None:
    program = build("Y[j,i] = X[i,j] * 2", {"X": (32, 48)}, {"X": dtype})
    text = compiler.lower_program(program, OpenCLTarget(AVX512)).source.text
    assert text.count("__builtin_shufflevector") == {"f32": 8, "f64": 6, "u8": 8}[dtype]
    assert ".s0" not in text


class TestOnADevice:
    pytestmark = NEEDS_OPENCL

    @pytest.mark.part(2)
    @pytest.mark.parametrize(("dtype", "builtin"), [  # each width of a number, with both
        ("f64", True), ("f32", True), ("f16", True), ("i8", True),
        ("i64", False), ("f32", False), ("u16", False), ("i8", False),
        *(pytest.param(t, b, marks=pytest.mark.long)
          for t, b in (("f64", False), ("f16", False), ("i64", True), ("u16", True)))])
    def test_every_type(self, dtype: str, builtin: bool) -> None:
        """builtin: the compiler's shuffles; else what other compilers see, OpenCL's own."""
        program = build("Y[j,i] = X[i,j]", {"X": (70, 37)}, {"X": dtype})
        target = OpenCLTarget(AVX512)
        source = compiler.lower_program(program, target).source
        assert "#ifdef __clang__" in source.text
        if not builtin:
            source = replace(source, text=source.text.replace("#ifdef __clang__", "#if 0"))
        x = (np.random.default_rng(0).standard_normal((70, 37)) * 30).astype(program.tensor("X").dtype.numpy)
        y = np.zeros((37, 70), x.dtype)
        target.load(target.build(source)).run([x, y])
        np.testing.assert_array_equal(y, x.T)


PERMUTED = given(
       st.sampled_from(["Y[j,i] = X[i,j]", "Y[i,k,j] = X[i,j,k] * 2 + 1", "Y[k,j,i] = X[i,j,k]", "Y[k,i,j] = X[i,j,k]*i",
                        "T[j,i] = X[i,j]; Y[j,i] = T[j,i] * T[j,i] + 1", "Y[j,i] = X[i,j] + X[i+1,j+2]",
                        "Y[j,i] = X[2*i,j]", "Y[j,i] = X[i,j] * (X[i-1,j] else 0)"]),
       st.integers(1, 70), st.integers(1, 70), st.integers(1, 20),
       st.sampled_from([InterpTarget(AVX512), InterpTarget(), "cpu"]))
SETTINGS = settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@PERMUTED
@SETTINGS
def test_permutations_agree_with_the_evaluator(text: str, a: int, b: int, c: int, target: str | InterpTarget) -> None:
    permutation(text, a, b, c, target)


@pytest.mark.long
@PERMUTED
@settings(SETTINGS, max_examples=200)
def test_many_permutations_agree_with_the_evaluator(text: str, a: int, b: int, c: int, target: str | InterpTarget) -> None:
    permutation(text, a, b, c, target)


def permutation(text: str, a: int, b: int, c: int, target: str | InterpTarget) -> None:
    shape = (a + 1, b + 2, c) if "i,j,k" in text else (a + 1, b + 2)
    check(build(text, {"X": shape}), target)


def test_packing_transposes_too() -> None:
    """Operands that are copied into panels are read along memory."""
    program = build("C[i,j] += A[i,k]*B[j,k]", {"A": (64, 64), "B": (96, 64)})
    m = compiler.lower_program(program, InterpTarget(AVX512)).loops
    assert any(isinstance(e, L.Shuffle) for k in m.kernels for s in traverse.walk_stmt(k.body)
               for top in traverse.expressions(s) for e in traverse.walk_expr(top))
    assert columns(m) == 0
    check(program, InterpTarget(AVX512))


def test_accumulators_that_are_columns_stay_in_registers() -> None:
    """Weights in panels make the output's channels the vector loop: what the epilogue reads never was in memory."""
    program = replace(build("T[m,i] += X[c,i]*W[m,c]; O[m,i] = max(T[m,i] + b[m], 0)",
                            {"X": (320, 49), "W": (1280, 320), "b": (1280,)}), constants=("W", "b"))
    lowered = compiler.lower_program(program, LLVMTarget(AVX512))
    assert not lowered.loops.scratch
    assert "shuffle" not in str(lowered.loops)


def test_what_is_stored_before_is_not_read_ahead() -> None:
    """Rows are read before all stores of a block: they must hold then what the columns load later."""
    x, t, y = (L.Buffer(n, F32, (8, 8)) for n in "XTY")
    lanes = L.Ramp(L.const(0), 1, 4)
    for source, kept in ((x, False), (t, True)):
        fill = [L.Store(t, (L.const(k), lanes), L.Load(x, (L.const(k + 4), lanes), F32, 4)) for k in range(4)]
        read = [L.Store(y, (L.const(c), lanes), L.Load(source, (lanes, L.const(c)), F32, 4)) for c in range(4)]
        kernel = L.Kernel("k", (x, t, y), ("T", "Y"), L.block(*fill, *read))
        made = transpose_kernel(kernel, AVX512)
        assert (made == kernel) == kept
        arrays = arrays_of(x, t, y)
        np.testing.assert_array_equal(results(made.body, arrays)["Y"], results(kernel.body, arrays)["Y"])


def test_what_is_stored_in_columns_is_loaded_in_columns() -> None:
    x, t = L.Buffer("X", F32, (8, 8)), L.Buffer("T", F32, (8, 8))
    lanes = L.Ramp(L.const(0), 1, 4)
    fill = L.block(*(L.Store(t, (lanes, L.const(c)), L.Load(x, (L.const(c), lanes), F32, 4)) for c in range(4)))
    read = L.block(*(L.Store(x, (L.const(c), lanes), L.Load(t, (lanes, L.const(c)), F32, 4)) for c in range(4)))
    nest = L.block(L.For("i", L.const(0), L.const(2), 1, fill), L.For("i", L.const(0), L.const(2), 1, read))
    kernel = L.Kernel("k", (x, t), ("X", "T"), nest)
    assert transpose_kernel(kernel, AVX512) == kernel
