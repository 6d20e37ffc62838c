"""Copies of long statements as loops: the same results, in less code; the innermost loop leaves most unchanged."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes import rerolling, unrolling
from polytc.machine import AVX2, AVX512, GENERIC_GPU, NEON, Machine
from polytc.program.scalars import F32
from polytc.targets.llvm.target import LLVMTarget
from tests.codegen import loop_programs as P
from tests.codegen.loop_steps import arrays_of, results

SHAPES = {"A": (37, 24), "B": (24, 150)}
LONG = {
    "sigmoid": ("C[i,j] += A[i,k]*B[k,j]; Y[i,j] = 1/(1 + exp(-C[i,j]))", SHAPES),
    "bias and scales": ("C[i,j] += A[i,k]*B[k,j]\n"
                        "Y[i,j] = clamp(round(C[i,j]*(S[j]/0.37)/2 + D[i]), -7.0, 9.0)*0.25 + erf(C[i,j])",
                        {**SHAPES, "S": (150,), "D": (37,)}),
    "residual in place": ("def f(f32[M,K] A, f32[K,N] B, inout f32[M,N] R) -> (R) { C[i,j] += A[i,k]*B[k,j]\n"
                          "R[i,j] = tanh(R[i,j] + C[i,j]) }", {**SHAPES, "R": (37, 150)}),
    "two outputs": ("C[i,j] += A[i,k]*B[k,j]; Y[i,j] = exp(C[i,j]); Z[i,j] = exp(C[i,j])*tanh(C[i,j])", SHAPES),
}


ERF = np.vectorize(math.erf)
NUMPY = {
    "sigmoid": lambda c, g: (1 / (1 + np.exp(-c)),),
    "bias and scales": lambda c, g: (
        np.clip(np.rint(c * (g["S"] / 0.37) / 2 + g["D"][:, None]), -7, 9) * 0.25 + ERF(c),),
    "residual in place": lambda c, g: (np.tanh(g["R"] + c),),
    "two outputs": lambda c, g: (np.exp(c), np.exp(c) * np.tanh(c)),
}
"""What each gives for a product and the arrays, in f64."""


@pytest.mark.part(8)
@pytest.mark.parametrize("target", ["interp", "cpu"])
@pytest.mark.parametrize("name", LONG)
def test_results(name: str, target: str) -> None:
    """Numbers that are about to be rounded to integers are small multiples of a power of two, so that none lies between two."""
    text, shapes = LONG[name]
    rng = np.random.default_rng(0)
    given = {n: (rng.integers(-8, 9, s) / 8).astype(np.float32) for n, s in shapes.items()}
    wide = {n: a.astype(np.float64) for n, a in given.items()}
    expected = NUMPY[name](wide["A"] @ wide["B"], wide)
    got = polytc.run(text, target=target, **{n: a.copy() for n, a in given.items()})
    evaluated = polytc.evaluate(text, **{n: a.copy() for n, a in given.items()})
    for x, y, z in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, evaluated)), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(x, z, rtol=1e-4, atol=1e-5)


@pytest.mark.part(4)
@pytest.mark.parametrize("machine", [AVX2, AVX512, NEON])
@pytest.mark.parametrize("name", LONG)
def test_long_ends_of_tiles_are_loops(name: str, machine: Machine) -> None:
    text, shapes = LONG[name]
    found = str(polytc.lower(text, LLVMTarget(machine), shapes=shapes).loops)
    assert "rolled for" in found
    assert "_whole[" in found


def test_short_ends_stay_copies() -> None:
    found = str(polytc.lower("C[i,j] += A[i,k]*B[k,j]; Y[i,j] = max(C[i,j] + D[j], 0)", LLVMTarget(AVX512),
                             shapes={**SHAPES, "D": (150,)}).loops)
    assert "rolled for" not in found


def test_requantisation_is_a_fraction_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ("C[i,j] += i32(A[i,k])*i32(B[k,j]); "
            "Y[i,j] = u8(i32(round(clamp(f32(C[i,j] + D[j])*(0.0074*S[j]/0.0013), 0.0, 255.0))))")
    shapes, types = {"A": (60, 64), "B": (64, 320), "D": (320,), "S": (320,)}, {"A": "u8", "B": "i8", "D": "i32"}

    def lines() -> int:
        return str(polytc.lower(text, LLVMTarget(AVX512), shapes=shapes, dtypes=types).source).count("\n")
    rolled = lines()
    monkeypatch.setattr(rerolling, "MOST", 10**9)
    assert rolled < 0.6 * lines()


X, Y, T = L.Buffer("X", F32, (9,)), L.Buffer("Y", F32, (6, 64)), L.Buffer("T", F32, (6, 64), "private")
R, C = L.Var("r"), L.Var("c")
VECTOR = L.Ramp(C, 1, 16)


def copies(value: L.Expr, to: L.Buffer = Y) -> L.Kernel:
    """unroll for r in 0:6 { unroll for c in 0:64:16 { to[r, c + 0..15] = value } }"""
    store = L.Store(to, (R, VECTOR), value)
    inner = L.For("c", L.const(0), L.const(64), 16, store, "unroll")
    whole = L.For("r", L.const(0), L.const(6), 1, inner, "unroll")
    return L.Kernel("k", (X, Y), ("Y",), L.Alloc(T, whole))


def wide(e: L.Expr) -> L.Expr:
    return L.Broadcast(e, 16, F32)


def function(fn: str, e: L.Expr) -> L.Expr:
    return L.Call(fn, (e,), F32, 16)


TILE = L.Load(T, (R, VECTOR), F32, 16)


@pytest.mark.parametrize(("unchanged", "innermost"), [("c", "c"), ("r", "r")])
def test_the_innermost_loop_leaves_most_unchanged(unchanged: str, innermost: str) -> None:
    """exp of what depends on the other loop alone is computed outside of it."""
    of_row, of_column = wide(P.load(X, R)), L.Load(Y, (L.const(0), VECTOR), F32, 16)
    part = function("exp", of_row if unchanged == "c" else of_column)
    kernel = copies(L.binary("*", part, TILE), L.Buffer("Z", F32, (6, 64)))
    made = rerolling.reroll_kernel(kernel, AVX512)
    order = [s.var for s in traverse.walk_stmt(made.body) if isinstance(s, L.For) and s.kind == "rolled"]
    assert order[-1] == innermost


def test_stores_that_others_see_keep_their_order() -> None:
    before = L.Load(Y, (R, L.Ramp(L.const(0), 1, 16)), F32, 16)
    made = rerolling.reroll_kernel(copies(L.binary("+", function("exp", before), TILE)), AVX512)
    assert [s.var for s in traverse.walk_stmt(made.body) if isinstance(s, L.For) and s.kind == "rolled"] == ["r", "c"]


@pytest.mark.parametrize("kernel", [copies(function("exp", TILE), T), copies(TILE)], ids=["registers", "short"])
def test_what_stays(kernel: L.Kernel) -> None:
    """What is stored in registers, and what is short."""
    assert rerolling.reroll_kernel(kernel, AVX512) == kernel


@pytest.mark.parametrize(("rows", "columns", "together"), [
    (6, 4, 12), (14, 4, 8), (13, 4, 4), (3, 64, 16), (2, 7, 14), (1, 34, 2), (16, 1, 16), (40, 1, 10)])
def test_copies_that_read_no_registers_become_loops(rows: int, columns: int, together: int) -> None:
    """Each element is stored once, as before; so many stores stand in a row."""
    x, z = L.Buffer("X", F32, (rows, 4 * columns)), L.Buffer("Z", F32, (rows, 4 * columns))
    at = (R, L.Ramp(C, 1, 4))
    store = L.Store(z, at, L.binary("+", L.Load(x, at, F32, 4), L.Broadcast(L.Const(1.0, F32), 4, F32)))
    inner = L.For("c", L.const(0), L.const(4 * columns), 4, store, "unroll")
    kernel = L.Kernel("k", (x, z), ("Z",), L.For("r", L.const(0), L.const(rows), 1, inner, "unroll"))
    made = rerolling.reroll_kernel(kernel, AVX512).body
    found = [unrolling.stores(s) for s in traverse.walk_stmt(made) if isinstance(s, L.For) and s.kind == "unroll"]
    assert max(found, default=1) == together
    arrays = arrays_of(x, z)
    np.testing.assert_array_equal(results(made, arrays)["Z"], arrays["X"] + 1)


@pytest.mark.parametrize(("other", "rolled"), [
    (TILE, True), (L.Load(T, (L.binary("-", R, L.const(1)), VECTOR), F32, 16), False)])
def test_what_a_condition_leaves_out_is_not_copied(other: L.Expr, rolled: bool) -> None:
    """It may be outside of the tile."""
    cond = L.binary(">", TILE, wide(L.Const(0.0, F32)))
    kernel = copies(L.Select(cond, function("exp", other), wide(L.Const(1.0, F32)), F32, 16))
    assert (rerolling.reroll_kernel(kernel, AVX512) != kernel) == rolled


def test_opencl_has_no_functions_that_are_not_inlined() -> None:
    kernel = copies(function("exp", TILE))
    for machine in (GENERIC_GPU, replace(AVX512, max_work_group=256)):
        assert rerolling.reroll_kernel(kernel, machine) == kernel
    assert rerolling.reroll_kernel(kernel, AVX512) != kernel


def test_nans_and_infinities_pass() -> None:
    rng = np.random.default_rng(0)
    given = {n: rng.standard_normal(s).astype(np.float32) for n, s in SHAPES.items()}
    given["A"][3, 2], given["A"][5, 1] = np.inf, np.nan
    text = LONG["sigmoid"][0]
    np.testing.assert_allclose(polytc.run(text, **given), polytc.evaluate(text, **given), rtol=1e-5)


def test_the_loops_are_one_function() -> None:
    text = LONG["sigmoid"][0]
    low = polytc.lower(text, LLVMTarget(AVX512), shapes={"A": (60, 24), "B": (24, 160)})
    assert str(low.loops).count("rolled for") == 2
    assert sum(".apart(" in line and line.startswith("define") for line in str(low.source).splitlines()) == 1
