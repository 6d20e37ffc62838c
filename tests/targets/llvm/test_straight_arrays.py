"""Arrays in straight code are no memory: their text has no alloca, and results are those of the oracle that walks the loops."""

from __future__ import annotations

import re

import numpy as np
import pytest

from polytc import compiler
from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.lang import build
from polytc.machine import AVX2, AVX512
from polytc.program.scalars import F32
from polytc.targets.llvm import straight_arrays
from polytc.targets.llvm.target import LLVMTarget
from tests.codegen.loop_steps import arrays_of, results
from tests.codegen.loop_text import statements
from tests.targets.llvm.llvm_modules import TARGET, module, run

X, Y = L.Buffer("X", F32, (64,)), L.Buffer("Y", F32, (64,))


def straight(text: str) -> set[str]:
    """The arrays of a text that are no memory; whose results are as they should be."""
    m = module(statements(text, {"X": X, "Y": Y}), X, Y)
    found = straight_arrays.found(m.kernels[0])
    made = [s.buffer.name for s in traverse.walk_stmt(m.kernels[0].body) if isinstance(s, L.Alloc)]
    assert TARGET.emit(m).text.count("alloca") == sum(name not in found for name in made)
    arrays = arrays_of(X, Y)
    np.testing.assert_array_equal(run(m, arrays["X"].astype("f4")), results(m.kernels[0].body, arrays)["Y"].astype("f4"))
    return set(found)


FILL = "unroll for y in 0:64:8 { Y[ramp(y, 1, 8)] = x8(0.0) }; "


@pytest.mark.parametrize("text", [
    "alloc private f32 T[2,8]; T[0, ramp(0, 1, 8)] = X[ramp(8, 1, 8)]; "
    "T[1, ramp(0, 1, 8)] = T[0, ramp(0, 1, 8)] + X[ramp(0, 1, 8)]; Y[ramp(0, 1, 8)] = T[1, ramp(0, 1, 8)]; "
    "T[1, ramp(0, 1, 8)] = T[0, ramp(0, 1, 8)]; Y[ramp(8, 1, 8)] = T[1, ramp(0, 1, 8)]",
    "alloc private f32 T[4,8]; unroll for r in 0:4 { T[r, ramp(0, 1, 8)] = X[ramp(8*r, 1, 8)] }; "
    "unroll for r in 0:4 { Y[ramp(8*r, 1, 8)] = T[3 - r, ramp(0, 1, 8)] }",
    "alloc private f32 T[32]; unroll for c in 0:32:8 { T[ramp(c, 1, 8)] = X[ramp(c, 1, 8)] }; "
    "unroll for c in 0:32:8 { Y[ramp(c, 1, 8)] = T[ramp(24 - c, 1, 8)] }",
    "alloc private f32 T[3]; unroll for r in 0:3 { T[r] = X[5*r] }; Y[1] = T[0] + T[1] * T[2]",
    "for i in 0:3 { alloc private f32 T[2]; T[0] = X[i]; T[1] = X[i + 9]; Y[i] = T[0] * T[1] }",
    "for i in 0:3 { if X[i] > 3.0 { alloc private f32 T[2]; T[0] = X[i]; Y[i] = T[0] } else { Y[i] = 2.0 } }",
    "for i in 0:2 { alloc private f32 T[1]; T[0] = X[i]; Y[i] = T[0] }; for i in 2:4 { alloc private f32 T[1,8]; "
    "T[0, ramp(0, 1, 8)] = X[ramp(8*i, 1, 8)]; Y[ramp(8*i, 1, 8)] = T[0, ramp(0, 1, 8)] }"])
def test_arrays_in_straight_code_are_values(text: str) -> None:
    assert straight(FILL + text) == {"T"}


@pytest.mark.parametrize("text", [
    "alloc private f32 T[1]; T[0] = 1.0; for i in 0:3 { T[0] = T[0] * X[i] }; Y[0] = T[0]",               # a loop changes it
    "alloc private f32 T[4]; unroll for r in 0:4 { T[r] = X[r] }; for i in 0:4 { Y[i] = T[i] }",          # a loop chooses
    "alloc private f32 T[1]; T[0] = X[0]; if X[1] > 0.0 { T[0] = 4.0 }; Y[0] = T[0]",                     # a branch changes it
    "alloc private f32 T[8]; T[ramp(0, 1, 8)] = X[ramp(0, 1, 8)]; Y[0] = T[3]",                           # parts of a row
    "alloc private f32 T[16]; T[ramp(0, 1, 8)] = X[ramp(0, 1, 8)]; T[ramp(4, 1, 8)] = X[ramp(0, 1, 8)]; "
    "Y[ramp(0, 1, 8)] = T[ramp(0, 1, 8)]",                                                               # rows that overlap
    "alloc private f32 T[8]; T[ramp(0, 1, 8)] = X[ramp(0, 1, 8)]; T[ramp(0, 1, 8, active 3)] = X[ramp(8, 1, 8, active 3)]; "
    "Y[ramp(0, 1, 8)] = T[ramp(0, 1, 8)]",                                                               # parts of a row
    "alloc private f32 T[8,2]; T[ramp(0, 1, 8), 0] = X[ramp(0, 1, 8)]; Y[ramp(0, 1, 8)] = T[ramp(0, 1, 8), 0]",  # no rows
    "for i in 0:3 { alloc private f32 T[8]; T[i] = X[i]; Y[i] = T[i] }"])                                # an unknown place
def test_other_arrays_are_memory(text: str) -> None:
    assert straight(FILL + text) == set()


def test_one_memory_of_a_name_makes_all_memory() -> None:
    assert straight(FILL + "for i in 0:2 { alloc private f32 T[1]; T[0] = X[i]; Y[i] = T[0] }; for i in 2:4 { "
                    "alloc private f32 T[1]; T[0] = 0.0; for k in 0:3 { T[0] = T[0] + X[k] }; Y[i] = T[0] }") == set()


def test_values_that_are_not_stored_count_as_instructions() -> None:
    """So that a loop is left to LLVM to unroll, or not, as if its arrays were memory."""
    rows = "; ".join(f"T[{r}, ramp(0, 1, 8)] = X[ramp({r}, 1, 8)] * X[ramp(i, 1, 8)]" for r in range(8))
    text = f"for i in 0:9 {{ alloc private f32 T[8,8]; {rows}; Y[ramp(0, 1, 8)] = T[0, ramp(0, 1, 8)] }}"
    m = module(statements(text, {"X": X, "Y": Y}), X, Y)
    assert straight_arrays.found(m.kernels[0]) == {"T"}
    assert "llvm.loop.unroll.disable" in TARGET.emit(m).text


@pytest.mark.parametrize("machine", [AVX2, AVX512])
@pytest.mark.parametrize("text", ["Y[j,i] = X[i,j] * 2", "Y[j,i] = exp(X[i,j])"])
def test_transposed_blocks_are_no_memory(machine: object, text: str) -> None:
    program = build(text, {"X": (61, 58)})
    assert not re.search(r"alloca \[\d+ x float\]", compiler.lower_program(program, LLVMTarget(machine)).source.text)
