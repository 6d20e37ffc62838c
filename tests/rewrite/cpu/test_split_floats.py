"""Products of f32 and narrow constants on a matrix unit: as exact as those of f32, at both ends of the range, too."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polytc.codegen.target import Target
from polytc.compiler import compile_program, lower_program
from polytc.lang import build
from polytc.machine import AVX512, Machine
from polytc.program import program as pr
from polytc.program.scalars import named
from polytc.rewrite.cpu import split_floats
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from tests.rewrite.equal import same_results

VNNI = replace(AVX512, features="+avx512vnni,+avx512bf16,+avx512vl,+avx512bw")
AMX = replace(VNNI, features=VNNI.features + ",+amx-tile,+amx-int8,+amx-bf16")
TARGETS: dict[str, Target | str] = {"cpu": "cpu", "AMX": InterpTarget(AMX)}
KINDS = {"i8": np.int8, "u8": np.uint8, "bf16": ml_dtypes.bfloat16}
MATMUL = "C[i,j] += A[i,k] * B[k,j]"
FINEST = 2.0 ** -24


def program_of(m: int, n: int, k: int, kind: str, text: str = MATMUL) -> pr.Program:
    return replace(build(text, {"A": (m, k), "B": (k, n)}, {"A": "f32", "B": kind}), constants=("B",))


def run(program: pr.Program, target: Target | str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.full(program.tensor("C").shape, 77, np.float32)
    compile_program(program, target).run([a, b, out])
    return out


def is_split(program: pr.Program, machine: Machine) -> bool:
    return "A_parts" in str(lower_program(program, InterpTarget(machine)).rewritten)


def numbers(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "bf16":
        return rng.standard_normal(shape).astype(KINDS[kind])
    limits = np.iinfo(KINDS[kind])
    return rng.integers(limits.min, limits.max, shape, limits.dtype, endpoint=True)


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 40), st.integers(16, 99), st.integers(32, 200), st.sampled_from(list(KINDS)),
       st.sampled_from(list(TARGETS)), st.integers(0, 99))
@example(32, 32, 64, "i8", "AMX", 0)
@example(32, 64, 384, "u8", "cpu", 0)
@example(33, 49, 131, "bf16", "cpu", 0)
@example(64, 96, 256, "i8", "cpu", 0)
def test_sums_are_as_exact_as_those_of_f32(m: int, n: int, k: int, kind: str, target: str, seed: int) -> None:
    """One rounding for each addition, at most: of three parts for each product."""
    rng = np.random.default_rng(seed)
    a = (rng.standard_normal((m, k)) * 10.0 ** rng.uniform(-3, 3, (m, k))).astype(np.float32)
    b = numbers(rng, kind, (k, n))
    wide = a.astype(np.float64), b.astype(np.float64)
    exact, most = wide[0] @ wide[1], abs(wide[0]) @ abs(wide[1])
    got = run(program_of(m, n, k, kind), TARGETS[target], a, b)
    assert (abs(got - exact) <= 3 * k * FINEST * most).all()
    assert abs(got - exact).max() <= 8 * FINEST * np.sqrt(k) * most.max(), "errors of additions have either sign"


@pytest.mark.parametrize("target", TARGETS)
def test_the_parts_are_all_of_a_number(target: str) -> None:
    """Each sum is one number: the largest, those with 24 bits, infinities, in the rows of a matrix of one 1 a column."""
    rng = np.random.default_rng(1)
    a = rng.standard_normal((32, 64)).astype(np.float32)
    a[0, :8] = [np.finfo(np.float32).max, -np.finfo(np.float32).max, 3.39e38, 16777215, 1 + 2.0 ** -23, -1e-30, 65537, 0.1]
    program = program_of(32, 64, 64, "i8")
    assert is_split(program, AMX)
    assert np.array_equal(run(program, TARGETS[target], a, np.eye(64, dtype=np.int8)), a)


@pytest.mark.parametrize("target", TARGETS)
def test_infinities_and_nan(target: str) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((32, 64)).astype(np.float32), numbers(rng, "i8", (64, 48))
    a[1, 5], a[2, 7], a[3, 3], a[3, 9], a[4, 11] = np.inf, -np.inf, np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = (a[..., None] * b.astype(np.float32)).sum(1)
    got = run(program_of(32, 48, 64, "i8"), TARGETS[target], a, b)
    assert np.array_equal(np.isnan(got), np.isnan(expected))
    infinite = np.isinf(expected)
    assert infinite.any()
    assert np.array_equal(got[infinite], expected[infinite])
    np.testing.assert_allclose(got[np.isfinite(expected)], expected[np.isfinite(expected)], rtol=1e-4, atol=1e-3)


def test_the_matrix_unit_multiplies_the_parts() -> None:
    """Two by two tiles, through all parts: 32 rows, strips of 32 columns, one nest."""
    program = program_of(32, 64, 128, "i8")
    text = lower_program(program, LLVMTarget(AMX)).source.text
    assert text.count("= call x86_amx @llvm.x86.tdpbf16ps.internal(") == 4
    assert text.count("phi x86_amx") == 4 * 2
    assert "call void @llvm.x86.tilestored64" in text


def test_where_it_does_not_pay() -> None:
    """No matrix unit, one row, few columns, short sums, factors that are not constant or not narrow, `precise`."""
    program = program_of(32, 64, 128, "i8")
    assert is_split(program, AMX)
    for other, machine in ((program, VNNI), (program_of(1, 64, 128, "i8"), AMX), (program_of(32, 8, 128, "i8"), AMX),
                           (program_of(32, 64, 16, "i8"), AMX), (replace(program, constants=()), AMX),
                           (program_of(32, 64, 128, "f32"), AMX), (replace(program, precise=True), AMX)):
        assert not is_split(other, machine)


def test_what_is_decided_is_done() -> None:
    before = program_of(64, 64, 64, "i8")
    decision = split_floats.decide(before, AMX)
    assert decision.choices == (split_floats.Parts("S1"),)
    after = split_floats.split(before, decision)
    assert after.tensor("A_parts").shape == (3, 64, 64)
    assert after.tensor("A_parts").dtype == after.tensor("B_half").dtype == named("bf16")
    same_results(before, after)
    assert not split_floats.decide(before, VNNI).choices, "no matrix unit"
    assert not split_floats.decide(replace(before, constants=()), AMX).choices
