"""Products of f32 on a matrix unit, each f32 in three parts: as exact as those of f32, whatever the numbers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

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
from polytc.program.calls import words
from polytc.rewrite.cpu import split_floats
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from tests.rewrite.equal import same_results
from tests.targets.llvm.emulated_tiles import Unit

VNNI = replace(AVX512, features="+avx512vnni,+avx512bf16,+avx512vl,+avx512bw")
AMX = replace(VNNI, features=VNNI.features + ",+amx-tile,+amx-int8,+amx-bf16")
FREE = {"copies.split": 0.0, "copies.split_start": 0.0, "copies.heated": 1.0, "traffic.tiles": 0.0}
EAGER = AMX.costing(FREE)
"""Has operands of any size in parts where the products alone pay."""
TARGETS: dict[str, Target] = {"cpu": LLVMTarget(LLVMTarget().machine.costing(FREE)), "AMX": InterpTarget(EAGER)}
KINDS = {"i8": np.int8, "u8": np.uint8, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
MATMUL = "C[i,j] += A[i,k] * B[k,j]"
FINEST = 2.0 ** -24
LEAST, LARGE = 2.0 ** -103, 2.0 ** 60
"""From where on numbers have parts that are no subnormal numbers; from where on they are kept as they are."""
LOST = 2.0 ** -133
"""Below the digits of any part."""


def program_of(m: int, n: int, k: int, kind: str, text: str = MATMUL) -> pr.Program:
    return replace(build(text, {"A": (m, k), "B": (k, n)}, {"A": "f32", "B": kind}), constants=("B",))


def run(program: pr.Program, target: Target, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.full(program.tensor("C").shape, 77, np.float32)
    compile_program(program, target).run([a, b, out])
    return out


def in_numpy(program: pr.Program, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The result where numpy is the matrix unit, with constants that are not. What stands around its products needs AVX-512:
    LLVM ends the process where that is not there."""
    if lacks := LLVMTarget(VNNI).lacks():
        pytest.skip(f"this processor has no {lacks}")
    out, unit, here = np.full(program.tensor("C").shape, 77, np.float32), Unit(), LLVMTarget()
    made = lower_program(replace(program, constants=()), LLVMTarget(EAGER)).source
    here.load(here.build(unit.source(made)), 1).run([a, b, out])
    assert unit.used
    assert unit.wrong == []
    return out


def is_split(program: pr.Program, machine: Machine) -> bool:
    return "A_part0" in str(lower_program(program, InterpTarget(machine)).rewritten)


def numbers(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind in ("bf16", "f32"):
        return rng.standard_normal(shape).astype(KINDS[kind])
    limits = np.iinfo(KINDS[kind])
    return rng.integers(limits.min, limits.max, shape, limits.dtype, endpoint=True)


# ---- the parts of a number

@settings(max_examples=300, deadline=None)
@given(st.floats(width=32), st.floats(width=32))
@example(0.0, -0.0)
@example(LEAST, float(np.nextafter(np.float32(LEAST), np.float32(0))))
@example(1e-45, float("nan"))
@example(float(np.nextafter(np.float32(LARGE), np.float32(0))), LARGE)
def test_parts_are_all_of_a_number(x: float, y: float) -> None:
    """By exact fractions, or the bits where one of the two has no parts; but for what is below the least bf16."""
    pair = words.parts(np.float32(x), np.float32(y))
    for n, value in enumerate(np.array([x, y], np.float32)):
        first, second, third = (np.uint16(part[n]) for part in pair)
        back = np.float32(words.whole((first, second, third)))
        assert back.tobytes() == value.tobytes() or back == value or abs(back - value) < LOST
        assert (third == words.ODD) == (not (abs(x) < LARGE and abs(y) < LARGE))
        if third != words.ODD:
            halves = [(np.uint32(part) << np.uint32(16)).view(np.float32) for part in (first, second, third)]
            error = abs(sum(map(Fraction, map(float, halves)), Fraction(0)) - Fraction(float(value)))
            assert error == 0 or abs(value) < 2.0 ** -110 and error < LOST
            assert abs(value) < LEAST or all(half == 0 or abs(half) >= 2.0 ** -126 for half in halves)


# ---- sums of products

@settings(max_examples=5, deadline=None)
@given(st.integers(1, 40), st.integers(16, 99), st.integers(32, 200), st.sampled_from(list(KINDS)),
       st.sampled_from(list(TARGETS)), st.integers(0, 99))
@example(32, 32, 64, "i8", "AMX", 0)
@example(32, 64, 384, "u8", "cpu", 0)
@example(33, 49, 131, "bf16", "cpu", 0)
@example(64, 96, 256, "i8", "cpu", 0)
@example(97, 160, 333, "f32", "cpu", 0)
@example(300, 300, 1200, "f32", "cpu", 0)
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


@pytest.mark.part(5)
@pytest.mark.parametrize("kind", ["f32", "i8", "bf16"])
@pytest.mark.parametrize(("m", "n", "k"), [(37, 96, 96), (16, 100, 64), (13, 130, 128)])
def test_products_with_numpy_as_the_matrix_unit(m: int, n: int, k: int, kind: str) -> None:
    """Against f64, with rows, columns and steps that fill no tiles."""
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((m, k)).astype(np.float32), numbers(rng, kind, (k, n))
    exact, most = a.astype(np.float64) @ b.astype(np.float64), abs(a.astype(np.float64)) @ abs(b.astype(np.float64))
    program = program_of(m, n, k, kind)
    assert (abs(in_numpy(program, a, b) - exact) <= k * FINEST * most).all()


SPECIAL = [np.inf, -np.inf, np.nan, 3.4028235e38, -3.4e38, 1e30, LARGE, 1e18, 1e-31, -1e-38, 1e-39, 0.0, -0.0, LEAST, 1.0]


@pytest.mark.part(6)
@pytest.mark.parametrize("way", ["cpu", "AMX", "numpy"])
@pytest.mark.parametrize("kind", ["f32", "i8"])
def test_numbers_without_parts(way: str, kind: str) -> None:
    """Infinities, NaN, the largest and the smallest numbers, beside any others: the results are those of f32, but for what the
    parts lose of the smallest. The sums of a row are one product each, so that they are exact."""
    rng = np.random.default_rng(3)
    m, n, k = 3 * len(SPECIAL), 96, 64
    a, b = np.zeros((m, k), np.float32), numbers(rng, kind, (k, n))
    if kind == "f32":
        b[:len(SPECIAL), :] = np.array(SPECIAL, np.float32)[:, None]
        b[len(SPECIAL):2 * len(SPECIAL), ::2] = 1e37
    for row in range(m):
        a[row, row % k] = SPECIAL[row % len(SPECIAL)] if row < 2 * len(SPECIAL) else 1.0
    with np.errstate(all="ignore"):
        expected = sum(a[:, [i]] * b[i].astype(np.float32) for i in range(k))
    program = program_of(m, n, k, kind)
    got = in_numpy(program, a, b) if way == "numpy" else run(program, TARGETS[way], a, b)
    assert is_split(program, EAGER)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(expected))
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[~finite], expected[~finite])
    with np.errstate(all="ignore"):
        most = [np.where(np.isfinite(v), abs(v), 0).astype(np.float64) for v in (a, b)]
    lost = 2.0 ** -65 + LOST * (most[0].max(1)[:, None] + most[1].max(0)[None])
    assert (abs(got[finite].astype(np.float64) - expected[finite]) <= lost[finite]).all()


def test_a_number_without_parts_changes_no_other_row_or_column() -> None:
    """Results beside it stay within the bound of f32."""
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((96, 128)).astype(np.float32), rng.standard_normal((128, 160)).astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    most = abs(a).astype(np.float64) @ abs(b).astype(np.float64)
    a[7, 5], b[9, 40] = np.nan, np.inf
    got = run(program_of(96, 160, 128, "f32"), TARGETS["cpu"], a, b)
    assert np.isnan(got[7]).all()
    others = np.delete(np.delete(np.arange(96 * 160).reshape(96, 160), 7, 0), 40, 1)
    assert (abs(got.ravel()[others] - exact.ravel()[others]) <= 128 * FINEST * most.ravel()[others]).all()
    assert np.array_equal(np.delete(got[:, 40], 7), np.sign(np.delete(a[:, 9], 7)) * np.inf)


def in_order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply-adds of f32 one after another: a product of two f32 is exact in f64, and the sum is rounded once, but for double
    rounding."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i in range(a.shape[1]):
        total = (total.astype(np.float64) + a[:, [i]].astype(np.float64) * b[i].astype(np.float64)).astype(np.float32)
    return total


@pytest.mark.part(12)
@pytest.mark.parametrize("data", ["normal", "positive", "cancelling", "wide", "alike", "last bits"])
def test_errors_beside_those_of_multiply_adds_in_order(data: str) -> None:
    """The largest error relative to the sum of magnitudes is no larger, where the sums have 32 terms and more."""
    rng = np.random.default_rng(5)
    for k in (32, 64, 300, 1000):
        a, b = rng.standard_normal((64, k)), rng.standard_normal((k, 256))
        if data in ("positive", "alike"):
            a, b = abs(a) + (data == "alike") * 100, abs(b) + (data == "alike") * 100
        if data == "wide":
            a, b = a * 2.0 ** rng.integers(-20, 20, a.shape), b * 2.0 ** rng.integers(-20, 20, b.shape)
        if data == "last bits":
            a, b = 1 + 2.0 ** -9 + abs(a) * 2.0 ** -18, 1 + 2.0 ** -9 + abs(b) * 2.0 ** -18
        a, b = a.astype(np.float32), b.astype(np.float32)
        if data == "cancelling":
            a[:, k // 2:], b[k // 2:] = a[:, :k - k // 2], -b[:k - k // 2]
            a[:, -1] += np.float32(1e-4)
        exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
        most = abs(a).astype(np.float64) @ abs(b).astype(np.float64)
        found = run(program_of(64, 256, k, "f32"), TARGETS["cpu"], a, b), in_order(a, b)
        errors = [float((abs(x - exact) / most).max()) for x in found]
        assert errors[0] <= max(errors[1], FINEST)


# ---- when, and how

def test_the_matrix_unit_multiplies_the_parts() -> None:
    """Two by two tiles, through all parts of both: 32 rows, strips of 32 columns, one nest, and all products that count."""
    text = lower_program(program_of(32, 64, 128, "f32"), LLVMTarget(EAGER)).source.text
    assert text.count("call void @llvm.x86.tdpbf16ps(") == 6 * 4
    assert text.count("call void @llvm.x86.tileloadd64(") == (4 + 3) * 2, "those that two products share are loaded once"
    assert text.count("call void @llvm.x86.tilestored64(") == 4
    text = lower_program(program_of(32, 64, 128, "i8"), LLVMTarget(EAGER)).source.text
    assert text.count("call void @llvm.x86.tdpbf16ps(") == 3 * 4


def test_where_it_does_not_pay() -> None:
    """Small products, but for free; no matrix unit, one row, few columns, short sums, `precise`."""
    program = program_of(32, 64, 128, "f32")
    assert is_split(program, EAGER)
    assert not is_split(program, AMX)
    for other, machine in ((program, VNNI), (program_of(1, 64, 128, "f32"), EAGER), (program_of(32, 8, 128, "f32"), EAGER),
                           (program_of(32, 64, 16, "f32"), EAGER), (replace(program, precise=True), EAGER),
                           (replace(program, direct=True), EAGER)):
        assert not is_split(other, machine)


def test_what_is_decided_is_done() -> None:
    for kind, names in (("i8", ("A_part0", "A_part1", "A_part2", "B_words")), ("f32", ("A_part2", "B_part0", "B_part2"))):
        before = program_of(64, 64, 128, kind)
        decision = split_floats.decide(before, EAGER)
        assert decision.choices == (split_floats.Parts("S1"),)
        after = split_floats.split(before, decision)
        assert all(after.tensor(name).shape in ((64, 64),) for name in names)
        same_results(before, after)
        assert not split_floats.decide(before, VNNI).choices, "no matrix unit"
