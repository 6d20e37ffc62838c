"""Transposition in registers: only whole rows are read, and results are those of the evaluator, for every size and type."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polytc import compiler
from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes.register_transpose import transpose_kernel
from polytc.codegen.verify import verify_kernel
from polytc.lang import build
from polytc.machine import AVX2, AVX512, GENERIC_CPU, Machine
from polytc.program.scalars import F32
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.codegen.loop_steps import arrays_of, results
from tests.codegen.loop_text import statements
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


def parsed(text: str, **shapes: tuple[int, ...]) -> L.Kernel:
    """A kernel of a text over buffers of f32."""
    known = {n: L.Buffer(n, F32, shape) for n, shape in shapes.items()}
    body = statements(text, known)
    written = dict.fromkeys(s.buffer.name for s in traverse.walk_stmt(body) if isinstance(s, L.Store))
    return L.Kernel("k", tuple(known.values()), tuple(written), body)


def transposed(kernel: L.Kernel, machine: Machine = AVX512) -> L.Kernel:
    """The kernel behind the pass, which computes the same and keeps the invariant."""
    made = verify_kernel(transpose_kernel(kernel, machine))
    arrays = arrays_of(*kernel.args)
    np.testing.assert_array_equal(results(made.body, arrays)["Y"], results(kernel.body, arrays)["Y"])
    return made


def count(kernel: L.Kernel) -> int:
    """The stores of a kernel's text."""
    return sum(isinstance(s, L.Store) for s in traverse.walk_stmt(kernel.body))


def read_in_columns(kernel: L.Kernel) -> int:
    """Loads of a kernel's text that walk across memory."""
    return sum(any(i.lanes > 1 for i in e.indices[:-1]) for s in traverse.walk_stmt(kernel.body)
               for top in traverse.expressions(s) for e in traverse.walk_expr(top) if isinstance(e, L.Load))


def block_loads(kernel: L.Kernel) -> list[str]:
    return [line.strip() for line in L.format_stmt(kernel.body) if re.search(r"X_rows\d* ?\[[^=]*= X\[", line)]


def test_copies_stay_copies() -> None:
    """Rows, two halves of each of four rounds, and what is stored: ten statements for 16 x 16 elements."""
    text = "for i in 0:3 { unroll for r in 0:16 { Y[r, ramp(i*16, 1, 16)] = X[ramp(i*16, 1, 16), r] * x16(2.0) } }"
    made = transposed(parsed(text, X=(48, 16), Y=(16, 48)))
    assert (count(made), read_in_columns(made)) == (10, 0)


@pytest.mark.parametrize(("rows", "columns"), [(16, 12), (11, 16), (5, 4), (16, 4), (9, 13)])
def test_partial_blocks_of_copies(rows: int, columns: int) -> None:
    """rows of X, as many as lanes count; the last lanes of each are left out where there are fewer columns."""
    lanes = f"ramp(0, 1, 16{f', active {rows}' if rows < 16 else ''})"
    made = transposed(parsed(f"unroll for r in 0:{columns} {{ Y[r, {lanes}] = X[{lanes}, r] }}",
                             X=(rows, columns), Y=(columns, rows)))
    assert read_in_columns(made) == 0
    assert count(made) < 20
    masked = f", active {columns}" if columns < 16 else ""
    assert block_loads(made) == [f"X_rows[row, ramp(0, 1, 16)] = X[row, ramp(0, 1, 16{masked})]"]


@pytest.mark.parametrize("machine", [AVX2, AVX512])
def test_columns_with_other_offsets_share_blocks(machine: Machine) -> None:
    """18 columns: a block of 16, and the last two as they are."""
    made = transposed(parsed("""unroll for r in 0:16 {
        Y[r, ramp(0, 1, 16)] = X[ramp(0, 1, 16), r] + X[ramp(0, 1, 16), r + 1] * X[ramp(0, 1, 16), r + 2] }""",
                             X=(16, 18), Y=(16, 16)), machine)
    assert block_loads(made) == ["X_rows[row, ramp(0, 1, 16)] = X[row, ramp(0, 1, 16)]",
                                 "X_rows5[16, ramp(0, 1, 16)] = X[ramp(0, 1, 16), 16]",
                                 "X_rows5[17, ramp(0, 1, 16)] = X[ramp(0, 1, 16), 17]"]


def test_a_part_that_no_block_has_is_read_in_columns_beside_blocks() -> None:
    """Without masks."""
    made = transposed(parsed("unroll for r in 0:11 { Y[r, ramp(0, 1, 8)] = X[ramp(0, 1, 8), r] }", X=(8, 11), Y=(11, 8)), AVX2)
    assert read_in_columns(made) == 3
    nests = [replace(made, body=s) for s in traverse.walk_stmt(made.body) if isinstance(s, L.For)]
    assert not any(map(read_in_columns, nests))


def test_two_blocks_one_behind_the_other() -> None:
    made = transposed(parsed("unroll for r in 0:16 { Y[r, ramp(0, 1, 8)] = X[ramp(0, 1, 8), r + 4] }", X=(8, 20), Y=(16, 8)))
    assert block_loads(made) == ["X_rows[row, ramp(0, 1, 8)] = X[row, ramp((block + 4), 1, 8)]"]
    assert read_in_columns(made) == 0


@pytest.mark.parametrize("text", [
    "unroll for r in 0:16 { unroll for c in 0:32:16 { Y[r, ramp(c, 1, 16)] = X[ramp(c, 1, 16), r] } }",
    "unroll for c in 0:32:16 { unroll for r in 0:16 { Y[r, ramp(c, 1, 16)] = X[ramp(c, 1, 16), r] } }",
    "unroll for c in 16:48:16 { unroll for r in 0:12 { Y[r, ramp(c, 1, 16)] = X[ramp(c, 1, 16), r + 1] } }",
    """unroll for r in 0:8 { unroll for c in 0:32:16 { unroll for q in 0:16:8 {
        Y[q + r, ramp(c, 1, 16)] = X[ramp(c, 1, 16), q + r] } } }""",
    """unroll for r in 0:5 { unroll for c in 0:48:16 {
        Y[2*r, ramp(c, 1, 16)] = X[ramp(c, 1, 16), r] + X[ramp(c, 1, 16), r + 5] } }""",
    """unroll for c in 0:32:16 { unroll for r in 0:16 { Y[r, ramp(c, 1, 16)] = X[ramp(c, 1, 16), r] }
                                 unroll for r in 16:20 { Y[r, ramp(c, 1, 16)] = X[ramp(c, 1, 16), r] } }"""])
def test_copies_of_blocks(text: str) -> None:
    """Other loops of copies choose among blocks, in any order."""
    made = transposed(parsed(text, X=(48, 20), Y=(20, 48)))
    assert read_in_columns(made) == 0
    assert count(made) < 40


@pytest.mark.parametrize("text", [
    "unroll for r in 0:8 { unroll for p in 0:3 { Y[p, r, ramp(0, 1, 8)] = X[p, ramp(0, 1, 8), r] } }",
    "unroll for p in 0:3 { unroll for r in 0:8 { Y[p, r, ramp(0, 1, 8)] = X[p, ramp(0, 1, 8), r + 2*p] } }",
    """unroll for p in 0:4:2 { unroll for r in 0:8 {
        Y[p, r, ramp(0, 1, 8)] = X[p, ramp(2*p, 1, 8), r] * X[0, ramp(p, 1, 8), r] } }""",
    """unroll for p in 0:3 { unroll for r in 0:8 { Y[p, r, ramp(0, 1, 8)] = X[p, ramp(0, 1, 8), r]
                                                  Y[p, r, ramp(8, 1, 8)] = X[p, ramp(8, 1, 8), r] } }"""])
def test_copies_of_blocks_in_another_dimension(text: str) -> None:
    made = transposed(parsed(text, X=(4, 16, 16), Y=(4, 16, 16)), AVX2)
    assert read_in_columns(made) == 0


def test_columns_far_from_each_other_are_written_out() -> None:
    text = "unroll for q in 0:128:64 { unroll for r in 0:8 { Y[q + r, ramp(0, 1, 8)] = X[ramp(0, 1, 8), q + r] } }"
    made = transposed(parsed(text, X=(8, 72), Y=(72, 8)))
    assert read_in_columns(made) == 0
    assert sum(s.buffer.name == "Y" for s in traverse.walk_stmt(made.body) if isinstance(s, L.Store)) == 16


@pytest.mark.parametrize("text", [
    "unroll for r in 0:16 { Y[r, ramp(0, 1, 16)] = X[ramp(0, 1, 16), 2*r] }",
    "unroll for r in 0:16 { Y[r, ramp(0, 1, 16)] = select(r < 20, X[ramp(0, 1, 16), r], x16(1.0)) }",
    "unroll for r in 0:16 { Y[r, ramp(0, 1, 16)] = X[ramp(0, 1, 16), r] + Y[r, ramp(0, 1, 16)]\nX[r, 0] = 1.0 }"])
def test_columns_of_which_no_block_is_made_stay(text: str) -> None:
    """Where memory has others between them, where they are chosen by a condition, and where what they read is stored."""
    kernel = parsed(text, X=(16, 32), Y=(16, 16))
    assert transposed(kernel) == kernel


def test_names_of_copies_are_new() -> None:
    kernel = parsed("for row in 0:2 { unroll for pair in 0:8 { Y[pair, ramp(row*8, 1, 8)] = X[ramp(row*8, 1, 8), pair] } }",
                    X=(16, 8), Y=(8, 16))
    made = transposed(kernel, AVX2)
    assert {s.var for s in traverse.walk_stmt(made.body) if isinstance(s, L.For)} == {"row", "pair", "row2", "pair2"}


@pytest.mark.part(6)
@pytest.mark.parametrize("seed", range(24))
def test_random_permutations_beside_numpy(seed: int) -> None:
    r = np.random.default_rng(seed)
    rank = int(r.integers(2, 5))
    shape = tuple(int(n) for n in r.integers(1, (90, 40, 14)[rank - 2], rank))
    order = r.permutation(rank)
    dtype = ("f32", "f64", "i8", "i16", "u32", "i64")[int(r.integers(6))]
    names = "ijkl"[:rank]
    text = f"Y[{','.join(names[n] for n in order)}] = A[{','.join(names)}] * B[{','.join(names)}] + A[{','.join(names)}]"
    program = build(text, {"A": shape, "B": shape}, {"A": dtype, "B": dtype})
    a, b = (r.integers(0, 5, shape).astype(program.tensor("A").dtype.numpy) for _ in range(2))
    y = np.zeros(tuple(shape[n] for n in order), a.dtype)
    for target in ("cpu", InterpTarget(AVX512)) if a.size < 3000 else ("cpu",):
        y[...] = 0
        compiler.compile_program(program, target, 1).run([a, b, y])
        np.testing.assert_array_equal(y, (a * b + a).transpose(order))


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
