"""Long sums of floats: no accumulator adds up more than 4,096 terms one after another; against sums in f64, or exact ones.

The terms of `absorbed` make the bound sharp: behind ones they are so small that an accumulator at one or more swallows each of
them, so that n terms of an accumulator cost up to n/2 roundings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import pytest

import polytc
from polytc import compiler, stages
from polytc.codegen.target import Target
from polytc.machine import AVX512, DEVICES, GENERIC_GPU, NEON, Machine
from polytc.options import Licence
from polytc.program import program as pr
from polytc.rewrite import long_sums
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.generator.judge import SHORT_SUMS

Arrays = dict[str, np.ndarray]
Exact = Callable[..., np.ndarray]
U = 2.0 ** -24


def bound(terms: int) -> float:
    """The documented bound of the error, in units of u times the sum of the magnitudes."""
    return 4200 + np.log2(terms)


@dataclass(frozen=True)
class Case:
    """along: the axis of each array along which its terms are summed; exact: the results for arrays of f64."""

    text: str
    shapes: dict[str, tuple[int, ...]]
    along: dict[str, int]
    exact: Exact
    terms: int


CASES = {
    "everything": Case("s += A[i]", {"A": (1_000_017,)}, {"A": 0}, np.sum, 1_000_017),
    "rows": Case("S[i] += A[i,k]", {"A": (2, 600_001)}, {"A": 1}, lambda A: A.sum(1), 600_001),
    "columns": Case("S[j] += A[i,j]", {"A": (40_009, 24)}, {"A": 0}, lambda A: A.sum(0), 40_009),
    "few columns": Case("S[j] += A[i,j]", {"A": (60_000, 3)}, {"A": 0}, lambda A: A.sum(0), 60_000),
    "the middle": Case("S[i,k] += A[i,j,k]", {"A": (2, 30_011, 5)}, {"A": 1}, lambda A: A.sum(1), 30_011),
    "all of three": Case("s += A[i,j,k]", {"A": (301, 40, 70)}, {"A": 0}, np.sum, 301 * 40 * 70),
    "two of three": Case("S[j] += A[i,j,k]", {"A": (500, 2, 500)}, {"A": 2}, lambda A: A.sum((0, 2)), 250_000),
    "a dot product": Case("s += A[i]*B[i]", {"A": (600_011,), "B": (600_011,)}, {"A": 0}, np.dot, 600_011),
    "a matrix by a vector": Case("S[i] += A[i,k]*B[k]", {"A": (3, 300_000), "B": (300_000,)}, {"A": 1}, np.dot, 300_000),
    "a vector by a matrix": Case("S[i] += B[k]*A[k,i]", {"A": (30_000, 24), "B": (30_000,)}, {"A": 0},
                                 lambda A, B: B @ A, 30_000),
    "a product": Case("C[i,j] += A[i,k]*B[k,j]", {"A": (13, 20_011), "B": (20_011, 33)}, {"A": 1}, np.dot, 20_011),
    "a product, transposed": Case("C[i,j] += A[k,i]*B[j,k]", {"A": (20_011, 13), "B": (9, 20_011)}, {"A": 0},
                                  lambda A, B: A.T @ B.T, 20_011),
    "a window": Case("O[m,x] += I[c,x+r]*W[m,c,r]", {"I": (6000, 12), "W": (4, 6000, 3)}, {"I": 0},
                     lambda I, W: sum(np.einsum("cx,mc->mx", I[:, r:r + 10], W[:, :, r]) for r in range(3)), 18_000),
    "every third": Case("s += A[i] where i % 3 == 0", {"A": (90_000,)}, {"A": 0}, lambda A: A[::3].sum(), 30_000),
    "a trapezoid": Case("S[i] += A[i,j] where j <= i + 9000", {"A": (99, 9100)}, {"A": 1}, lambda A: np.tril(A, 9000).sum(1),
                        9100),
    "every second place": Case("O[2*i] += A[i,k]", {"A": (2, 300_000)}, {"A": 1},
                               lambda A: np.stack([A.sum(1), 0*A[:, 0]], 1).reshape(-1)[:-1], 300_000),
    "backwards": Case("O[1-i] += A[i,k]", {"A": (2, 300_000)}, {"A": 1}, lambda A: A.sum(1)[::-1], 300_000),
    "places that two share": Case("O[i//2] += A[i,k]", {"A": (4, 200_000)}, {"A": 1},
                                  lambda A: A.sum(1).reshape(2, 2).sum(1), 400_000),
    "a transposed convolution": Case("O[i+k] += I[c,i]*W[c,k]", {"I": (40_000, 3), "W": (40_000, 2)}, {"I": 0},
                                     lambda I, W: sum(np.pad((I * W[:, k:k + 1]).sum(0), (k, 1 - k)) for k in (0, 1)), 80_000),
    "in a loop": Case("for t in 0:3 { S[t] += A[t,k] + (S[t-1] else 0) * 0 }", {"A": (3, 50_000)}, {"A": 1},
                      lambda A: A.sum(1), 50_000),
}


ON_DEVICES = ("everything", "rows", "few columns", "a vector by a matrix")


def absorbed(case: Case) -> Arrays:
    """Ones in the first places along the axis of the sum, then terms of half a unit in their last place; 1 elsewhere."""
    arrays = {n: np.ones(shape, np.float32) for n, shape in case.shapes.items()}
    for name, axis in case.along.items():
        behind = np.arange(arrays[name].shape[axis]) >= 64
        shape = [-1 if d == axis else 1 for d in range(arrays[name].ndim)]
        arrays[name] = np.where(behind.reshape(shape), np.float32(U), arrays[name])
    return arrays


def mixed(case: Case) -> Arrays:
    """Normally distributed terms."""
    rng = np.random.default_rng(5)
    return {n: rng.standard_normal(shape, np.float32) for n, shape in case.shapes.items()}


def errors(found: np.ndarray, case: Case, arrays: Arrays) -> float:
    """The largest error in units of u times the sum of the magnitudes of the terms. f64 is exact in comparison."""
    wide = {n: a.astype(np.float64) for n, a in arrays.items()}
    scale = case.exact(*map(abs, wide.values()))
    return float(np.max(abs(found - case.exact(*wide.values())) / np.maximum(scale, 1e-300)) / U)


@pytest.mark.part(12)
@pytest.mark.parametrize("name", CASES)
def test_error(name: str, targets: tuple[str, ...]) -> None:
    case = CASES[name]
    for target in ("cpu", "opencl") if "opencl" in targets and name in ON_DEVICES else ("cpu",):
        op = polytc.compile(case.text, target=target)
        for arrays in (absorbed(case), mixed(case)):
            assert errors(op(**arrays), case, arrays) <= bound(case.terms), target


@pytest.mark.parametrize("count", [10_000_000, pytest.param(50_000_000, marks=pytest.mark.long)])
def test_a_constant(count: int) -> None:
    """It is as bad as data can be: its roundings go the same way for a long time."""
    found = float(polytc.compile("s += A[i]")(np.full(count, 0.1, np.float32)))
    assert abs(found / (count * float(np.float32(0.1))) - 1) < 4e-6


def test_squares_of_a_constant() -> None:
    A = np.full(4_000_000, 0.1, np.float32)
    assert abs(float(polytc.compile("s += A[i]*A[i]")(A)) / (4e6 * float(np.float32(0.1)) ** 2) - 1) < 4e-6


def test_halves_are_summed_in_f32() -> None:
    A = np.full((30_000, 17), 0.1, np.float16)
    for text, exact in (("S[j] += f32(A[i,j])", A.astype("f8").sum(0)), ("S[j] += A[i,j]", A.astype("f8").sum(0))):
        found = polytc.compile(text)(A)
        np.testing.assert_allclose(found, exact, rtol=bound(30_000) * U if found.dtype == np.float32 else 2.0 ** -11)


def test_precise_sums_keep_the_order_of_the_text() -> None:
    A = np.random.default_rng(3).random(100_000, np.float32)
    found = polytc.compile("precise def f(f32[100000] A) -> (s) { s += A[i] }")(A)
    assert float(found) == np.cumsum(A, dtype=np.float32)[-1]


def test_open_sizes() -> None:
    """A kernel that was made for short sums is none for long ones; the next serves both."""
    for text, shapes, axis in (("s += A[i]", {"A": ("N",)}, 0), ("S[j] += A[i,j]", {"A": ("N", "M")}, 0)):
        op = polytc.compile(text, shapes=shapes)
        for n in (100, 700_000, 5, 300_007, 1):
            A = np.full((n, 7)[:len(shapes["A"])], U, np.float32)
            A[:64] = 1
            exact = A.astype("f8").sum(axis)
            assert np.max(abs(op(A) - exact) / exact) <= bound(n) * U


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ["everything", "columns", "a product"])
def test_any_number_of_threads(name: str) -> None:
    arrays = mixed(CASES[name])
    found = [polytc.compile(CASES[name].text, threads=n)(**arrays) for n in (1, 2, 3)]
    assert len({f.tobytes() for f in found}) == 1


# ---- what the rewrite makes, without looking at how

MACHINES: dict[str, Machine] = {"AVX512": AVX512, "NEON": NEON, "a GPU": GENERIC_GPU, **DEVICES}


def target(machine: Machine) -> Target:
    return LLVMTarget(machine) if machine.kind == "cpu" and not machine.max_work_group else OpenCLTarget(machine)


def terms(program: pr.Program) -> int:
    """The most instances of a sum of floats for one element of its target: the values of the indices in no subscript."""
    found = [1]
    for s in program.statements:
        placed = {e.name for sub in s.subscripts for e in pr.walk(sub) if isinstance(e, pr.Index)}
        if s.op == "+" and program.tensor(s.target).dtype.is_float:
            found.append(prod(r.extent for r in s.ranges[s.depth:] if r.index not in placed))
    return max(found)


@pytest.mark.part(16)
@pytest.mark.parametrize(("name", "machine"), [
    pytest.param(n, m, marks=() if m in ("AVX512", "a GPU") or (n, m) == ("columns", "NEON") else pytest.mark.long)
    for n in ("columns", "all of three", "a product", "a window") for m in MACHINES])
def test_terms(name: str, machine: str) -> None:
    case = CASES[name]
    program = stages.build(case.text, case.shapes, dict.fromkeys(case.shapes, "f32"))
    found = compiler.lower_program(program, target(MACHINES[machine]))
    assert "refused" not in found.schedule.how
    assert terms(program) > 4096 >= terms(found.rewritten)


@pytest.mark.parametrize("name", [n for n in CASES if n != "in a loop"])
def test_a_statement_puts_few_partial_sums_together(name: str) -> None:
    case = CASES[name]
    found = long_sums.split_sums(stages.build(case.text, case.shapes, dict.fromkeys(case.shapes, "f32")))
    assert len(found.statements) > 2
    assert max(len(pr.reads(s)) for s in found.statements) <= 16


def test_dot_products_of_words_add_two_terms_at_once() -> None:
    machine = dataclasses.replace(AVX512, features="+avx512vnni,+avx512bf16,+avx512vl,+avx512bw")
    for k, parts in ((4096, False), (4128, True)):
        program = stages.build("C[i,j] += f32(A[i,k])*f32(B[k,j])", {"A": (32, k), "B": (k, 32)}, {"A": "bf16", "B": "bf16"})
        made = compiler.lower_program(program, LLVMTarget(machine)).rewritten
        assert "dot_bf16" in str(made)
        assert ("sums" in str(made)) == parts


SHORT = {
    "a row": ("S[i] += A[i,k]", {"A": (100, 4096)}),
    "a row in lanes": ("S[i] += A[i,k]", {"A": (10, 4096 * 16)}),
    "columns": ("S[j] += A[i,j]", {"A": (4096, 16)}),
    "a product": ("C[i,j] += A[i,k]*B[k,j]", {"A": (32, 4096), "B": (4096, 32)}),
    "bytes": ("s += i32(A[i])", {"A": (300_000,)}),
    "a maximum": ("s max= A[i]", {"A": (300_000,)}),
    "a product of numbers": ("s *= A[i]", {"A": (300_000,)}),
    "in order": ("precise def f(f32[300000] A) -> (s) { s += A[i] }", {"A": (300_000,)}),
}


@pytest.mark.parametrize("name", SHORT)
def test_short_sums_stay_as_they_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code is what it is without the rewrite."""
    text, shapes = SHORT[name]
    dtype = "u8" if name == "bytes" else "f32"
    program = stages.build(text, shapes, dict.fromkeys(shapes, dtype))
    found = compiler.lower_program(program, LLVMTarget(AVX512))
    monkeypatch.setattr(long_sums, "split_sums", lambda program: program)
    without = compiler.lower_program(program, LLVMTarget(AVX512))
    assert str(found.rewritten) == str(without.rewritten)
    assert str(found.source) == str(without.source)


# ---- what becomes of indices: small blocks of small sums, of integers, whose sums are exact in any order

SMALL = {
    "rows": ("S[i] += A[i,k]", {"A": (3, 71)}, lambda A: A.sum(1)),
    "columns": ("S[j] += A[i,j]", {"A": (67, 5)}, lambda A: A.sum(0)),
    "one": ("s += A[i,j,k]", {"A": (11, 5, 23)}, lambda A: A.sum()),
    "one of four": ("s += A[i,j,k,l]", {"A": (5, 3, 2, 7)}, lambda A: A.sum()),
    "two of three": ("S[j] += A[i,j,k]", {"A": (13, 4, 9)}, lambda A: A.sum((0, 2))),
    "a part": ("S[i] += A[i,k] where k in 7:60, i in 1:3", {"A": (3, 71)},
               lambda A: np.array([0, *A[1:, 7:60].sum(1)])[1:]),
    "shifted": ("S[i] += A[i,k-2] where k in 5:60", {"A": (3, 71)}, lambda A: A[:, 3:58].sum(1)),
    "a triangle": ("S[i] += A[i,k] where k <= i", {"A": (40, 40)}, lambda A: np.tril(A).sum(1)),
    "a band": ("s += A[i,k] where k <= i + 3, k > i - 9", {"A": (40, 40)},
               lambda A: (np.tril(A, 3) - np.tril(A, -9)).sum()),
    "every third": ("s += A[k] where k % 3 == 1", {"A": (100,)}, lambda A: A[1::3].sum()),
    "guarded": ("S[i] += A[i,k-3] else 2 where k in 0:60, i in 0:4", {"A": (4, 50)}, lambda A: A.sum(1) + 20),
    "a product": ("C[i,j] += A[i,k]*B[k,j]", {"A": (3, 61), "B": (61, 17)}, np.dot),
    "a product with what follows": ("T[i,j] += A[i,k]*B[k,j]; C[i,j] = T[i,j]*2 - 1 -> (C)",
                                    {"A": (3, 61), "B": (61, 17)}, lambda A, B: 2 * (A @ B) - 1),
    "a window": ("O[m,y,x] += (I[c,y+r-1,x+s-1] else 0)*W[m,c,r,s] where y in 0:5, x in 0:6",
                 {"I": (7, 5, 6), "W": (2, 7, 3, 3)},
                 lambda I, W: np.einsum("cyxrs,mcrs->myx", np.lib.stride_tricks.sliding_window_view(
                     np.pad(I, ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2)), W)),
    "continued": ("S[i] = B[i]; S[i] += A[i,k]", {"A": (3, 71), "B": (3,)}, lambda A, B: A.sum(1) + B),
    "twice": ("S[i] += A[i,k]; S[i] += B[i,k]", {"A": (3, 71), "B": (3, 40)}, lambda A, B: A.sum(1) + B.sum(1)),
    "in a loop": ("for t in 0:4 { S[t] += A[t,k] + 2*(S[t-1] else 0) where k in 0:40 }", {"A": (4, 40)},
                  lambda A: [A[0].sum(), A[1].sum() + 80 * A[0].sum(),
                             A[2].sum() + 80 * (A[1].sum() + 80 * A[0].sum()),
                             A[3].sum() + 80 * (A[2].sum() + 80 * (A[1].sum() + 80 * A[0].sum()))]),
    "across a loop": ("s = 0.0; for t in 0:4 { s += A[t,k]; s = s + s }", {"A": (4, 40)},
                      lambda A: (A.sum(1) * [16, 8, 4, 2]).sum()),
    "where memory says": ("H[B[i]] += A[i]", {"A": (90,), "B": (90,)}, lambda A, B: np.bincount(B.astype(int), A)[:3]),
    "rows that memory bounds": ("S[i] += A[p] where p in B[i]:B[i+1]", {"A": (90,), "B": (3,)},
                                lambda A, B: [A[:1].sum(), A[1:2].sum()]),
    "every second place": ("S[2*i] += A[i,k]", {"A": (3, 71)},
                           lambda A: np.stack([A.sum(1), 0*A[:, 0]], 1).reshape(-1)[:-1]),
    "places that some share": ("S[i//3] += A[i,k]", {"A": (7, 41)}, lambda A: np.add.reduceat(A.sum(1), [0, 3, 6])),
    "a transposed convolution": ("S[m,i+k] += A[c,i]*B[m,c,k]", {"A": (37, 9), "B": (3, 37, 2)},
                                 lambda A, B: [sum(np.convolve(a, b) for a, b in zip(A, w, strict=True)) for w in B]),
    "a shared triangle": ("S[i//2] += A[i,k] where k <= i", {"A": (40, 40)},
                          lambda A: np.tril(A).sum(1).reshape(20, 2).sum(1)),
    "where indices meet": ("S[i+k] += A[i]*B[k]", {"A": (60,), "B": (20,)}, np.convolve),
}


def integers(shapes: dict[str, tuple[int, ...]], name: str) -> Arrays:
    rng = np.random.default_rng(8)
    arrays = {n: rng.integers(-3, 4, shape).astype(np.float32) for n, shape in shapes.items()}
    if "memory" in name:
        arrays["B"] = np.arange(shapes["B"][0]) % 3
    return arrays


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of more than six terms are long."""
    for name, value in SHORT_SUMS.items():
        monkeypatch.setattr(long_sums, name, value)


CHECKED = ("one", "a band", "every third", "guarded", "a window", "rows that memory bounds", "a transposed convolution")
"""Whose loops for CPUs run in the interpreter, too: it sees each access outside."""


@pytest.mark.part(12)
@pytest.mark.parametrize(("name", "target"), [
    pytest.param(n, t, marks=() if kind != "interp" or n in CHECKED else pytest.mark.long, id=f"{n}-{kind}")
    for n in SMALL if n != "where memory says"
    for kind, t in (("cpu", LLVMTarget().here()), ("interp", InterpTarget()), ("gpu", InterpTarget(GENERIC_GPU)))])
def test_results(name: str, target: Target, small_blocks: None) -> None:
    text, shapes, exact = SMALL[name]
    arrays = integers(shapes, name)
    program = stages.build(text, shapes, {n: a.dtype for n, a in arrays.items()}).licensed(Licence(direct=True))
    out = {n: np.full(program.tensor(n).shape, 77, program.tensor(n).dtype.numpy) for n in program.outputs}
    compiler.compile_program(program, target).run([{**out, **arrays}[n] for n in program.arrays])
    np.testing.assert_array_equal(out[program.outputs[-1]], exact(*arrays.values()))


@pytest.mark.part(12)
@pytest.mark.parametrize(("text", "shapes"), [
    ("S[i] += A[i,k]", {"A": ("M", "N")}), ("S[j] += A[i,j]", {"A": ("N", "M")}), ("s += A[i,j,k]", {"A": ("N", "M", "K")}),
    ("S[i] += A[i,k] where k <= i", {"A": ("M", "M")}), ("s += A[i,k] where k <= i + 3", {"A": ("M", "M")}),
    ("C[i,j] += A[i,k]*A[j,k] where j <= i", {"A": ("M", "N")}), ("S[i//2] += A[i,k]", {"A": ("M", "N")}),
    ("S[2*i] += A[i,k]", {"A": ("N", "M")})])
def test_results_of_open_sizes(text: str, shapes: dict[str, tuple[str, ...]], small_blocks: None) -> None:
    op = polytc.compile(text, shapes=shapes, typical={n: 40 for s in shapes.values() for n in s})
    for n in (40, 1, 2, 7, 53):
        A = np.random.default_rng(n).integers(-3, 4, (n, n + 1, 5)[:len(shapes["A"])]).astype("f4")
        A = A[:, :n] if shapes["A"] == ("M", "M") else A
        np.testing.assert_array_equal(op(A), polytc.evaluate(text, A))
