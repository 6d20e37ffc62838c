"""How iterations are numbered for threads: nested parallel loops as one, and loops that never meet as one region."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polytc.codegen import loops as L
from polytc.codegen import passes, verify
from polytc.codegen.passes.analyses import alias_analysis, work_estimate
from polytc.codegen.passes.collapse import collapse_kernel
from polytc.machine import AVX512
from polytc.program.scalars import F32, I64
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from tests.codegen import loop_programs as P

I, J, K = L.Var("i"), L.Var("j"), L.Var("k")


def product(filters: int, places: int, depth: int) -> L.Module:
    """Y[j, i] = sum of X[j, k] * W[k, i], with the filters i outside of the places j."""
    x, w, y = (L.Buffer(n, F32, s) for n, s in (("X", (places, depth)), ("W", (depth, filters)), ("Y", (places, filters))))
    term = P.mul(P.load(x, J, K), P.load(w, K, I))
    inner = L.block(L.Store(y, (J, I), L.Const(0.0, F32)),
                    P.loop("k", depth, L.Store(y, (J, I), P.add(P.load(y, J, I), term))))
    return P.module("product", (x, w, y), ("Y",), P.loop("i", filters, P.loop("j", places, inner, "parallel"), "parallel"))


def visited(module: L.Module) -> list[tuple[int, int]]:
    """The filters and places in the order of the numbers that threads get."""
    kernel = collapse_kernel(module.kernels[0], AVX512)
    outer = kernel.body
    assert isinstance(outer, L.For)
    assert outer.kind == "parallel"
    first, second = outer.body, outer.body.body
    return [(value(first.lower, n), value(second.lower, n)) for n in range(outer.upper.value)]


def value(e: L.Expr, n: int) -> int:
    match e:
        case L.Const():
            return int(e.value)
        case L.Var():
            return n
        case L.Call(fn="min"):
            return min(value(a, n) for a in e.args)
        case L.Binary():
            a, b = value(e.a, n), value(e.b, n)
            return {"+": a + b, "*": a * b}[e.op] if e.op in "+*" else a // b if e.op == "//" else a % b
    raise AssertionError(e)


@pytest.mark.part(2)
@pytest.mark.parametrize(("rows", "columns"), [(1, 4096), (3, 4099), (63, 30720), (2, 10007)])
def test_pieces_of_a_long_loop_are_loops(rows: int, columns: int) -> None:
    x, y = (L.Buffer(n, F32, (rows, columns)) for n in "XY")
    copy = P.loop("j", columns, L.Store(y, (I, J), P.load(x, I, J)), "parallel")
    outer = collapse_kernel(P.module("copy", (x, y), ("Y",), P.loop("i", rows, copy, "parallel")).kernels[0], AVX512).body
    assert isinstance(outer, L.For)
    assert outer.upper.value <= 64 * rows
    row, piece = outer.body, outer.body.body
    places = [(value(row.lower, n), j) for n in range(outer.upper.value)
              for j in range(value(piece.lower, n), value(piece.upper, n))]
    assert places == [(i, j) for i in range(rows) for j in range(columns)]


@pytest.mark.parametrize(("filters", "places"), [(3, 192), (4, 28), (5, 7), (2, 97), (6, 64)])
def test_blocks_of_places_come_first_where_weights_are_small(filters: int, places: int) -> None:
    order = visited(product(filters, places, 2400))
    assert sorted(order) == [(i, j) for i in range(filters) for j in range(places)]
    half = order[:len(order) // 2]
    assert max(j for _, j in half) <= places // 2 + places // 32


def test_an_outer_loop_of_one_iteration_leaves_the_inner_one() -> None:
    x, y = (L.Buffer(n, F32, (8, 30)) for n in "XY")
    inner = P.loop("j", 30, L.Store(y, (I, J), P.load(x, I, J)), "parallel")
    outer = L.For("i", L.const(5), L.const(6), 1, inner, "parallel")
    kernel = collapse_kernel(P.module("row", (x, y), ("Y",), outer).kernels[0], AVX512)
    row = L.Store(y, (L.const(5), J), P.load(x, L.const(5), J))
    assert kernel.body == L.For("j", L.const(0), L.const(30), 1, row, "parallel")


def test_filters_come_first_where_places_are_few() -> None:
    order = visited(product(60, 4, 4000))
    assert order == [(i, j) for i in range(60) for j in range(4)]


@pytest.mark.part(4)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("filters", "places", "depth"), [(3, 192, 60), (2, 97, 100), (60, 4, 9), (5, 1, 4)])
def test_results_stay(filters: int, places: int, depth: int, threads: int) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((places, depth)).astype("f4"), rng.standard_normal((depth, filters)).astype("f4")
    y = np.empty((places, filters), np.float32)
    for to, count in ((LLVMTarget(), threads), (InterpTarget(), 1)):
        y[...] = 0
        source = to.emit(verify.verify(passes.run(product(filters, places, depth), to.machine)))
        to.load(to.build(source), count).run([x, w, y])
        np.testing.assert_allclose(y, x @ w, rtol=1e-4, atol=1e-4)


# ---- regions of several loops

A, B, C = (L.Buffer(n, F32, (64,)) for n in "ABC")


def rows(to: L.Buffer, source: L.Buffer, lower: int, upper: int, shift: int = 0) -> L.For:
    body = L.Store(to, (I,), P.add(P.load(source, P.add(I, L.const(shift))), L.Const(1.0, F32)))
    return P.loop("i", upper, body, "parallel", lower=lower)


def runs(*stmts: L.Stmt) -> list[int]:
    return [len(run) for run in alias_analysis.independent_runs(stmts)]


def test_loops_that_never_meet_run_together() -> None:
    assert runs(rows(B, A, 0, 40), rows(B, A, 40, 64)) == [2]
    assert runs(rows(B, A, 0, 40), rows(C, A, 0, 64), rows(B, A, 40, 64)) == [3]
    assert runs(rows(B, A, 0, 40), rows(B, A, 39, 64)) == [1, 1]
    assert runs(rows(B, A, 0, 40), rows(C, B, 0, 64), rows(A, C, 0, 8)) == [1, 1, 1]
    assert runs(rows(B, A, 0, 40), rows(C, B, 40, 64)) == [2]
    assert runs(rows(B, A, 0, 40), replace(rows(B, A, 40, 64), kind="sequential"), rows(C, A, 0, 3)) == [1, 1, 1]
    assert runs() == []


def test_iterations_weigh_what_their_loops_do() -> None:
    """Of 12 heavy iterations and 64 light ones in a row, one of two threads got all that is heavy."""
    light = rows(C, A, 0, 64)
    heavy = P.loop("j", 12, rows(B, A, 0, 40), "parallel")
    assert runs(heavy, light, rows(B, A, 40, 64)) == [3]
    assert [n for _, n in work_estimate.heaviest_first([heavy, light, light])] == [40, 1, 1]
    tile = L.For("i", P.mul(J, L.const(16)), L.Call("min", (P.add(P.mul(J, L.const(16)), L.const(16)), L.Var("n")), I64), 4,
                 light.body)
    tiles = P.loop("j", 12, tile, "parallel")
    assert work_estimate.heaviest_first([light, tiles]) == [(tiles, 4), (light, 1)]
    unknown = P.loop("j", 12, L.For("i", L.const(0), L.Var("n"), 1, light.body), "parallel")
    assert work_estimate.heaviest_first([light, unknown]) == [(unknown, work_estimate.UNKNOWN), (light, 1)]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_region_of_unequal_loops_runs_each_iteration_once(threads: int) -> None:
    def counted(to: L.Buffer, at: L.Expr) -> L.Store:
        return L.Store(to, (at,), P.add(P.load(to, at), L.Const(1.0, F32)))
    heavy = P.loop("i", 3, P.loop("j", 7, counted(B, P.add(P.mul(I, L.const(7)), J))), "parallel")
    heavier = P.loop("i", 4, P.loop("j", 16, counted(C, P.add(P.mul(I, L.const(16)), J))), "parallel")
    light = P.loop("i", 64, counted(B, I), "parallel", lower=21)
    b, c = np.zeros(64, "f4"), np.zeros(64, "f4")
    to = LLVMTarget()
    source = to.emit(verify.verify(P.module("parts", (B, C), ("B", "C"), L.block(heavy, light, heavier))))
    assert source.text.count("call void %launch") == 1
    to.load(to.build(source), threads).run([b, c])
    np.testing.assert_array_equal(b, 1)
    np.testing.assert_array_equal(c, 1)


def test_arrays_of_their_own_keep_no_loops_apart() -> None:
    t = L.Buffer("t", F32, (4,), "private")

    def part(lower: int, upper: int) -> L.For:
        body = L.Alloc(t, L.block(L.Store(t, (L.const(0),), P.load(A, I)), L.Store(B, (I,), P.load(t, L.const(0)))))
        return P.loop("i", upper, body, "parallel", lower=lower)
    assert runs(part(0, 10), part(10, 64)) == [2]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_region_of_several_loops(threads: int) -> None:
    m = P.module("parts", (A, B, C), ("B", "C"), L.block(rows(B, A, 1, 40), rows(B, A, 40, 63), rows(C, A, 0, 5),
                                                        rows(C, B, 5, 62, shift=1)))
    a, b, c = np.arange(64, dtype="f4"), np.zeros(64, "f4"), np.zeros(64, "f4")
    to = LLVMTarget()
    source = to.emit(verify.verify(passes.run(m, to.machine)))
    assert source.text.count("call void %launch") == 2
    to.load(to.build(source), threads).run([a, b, c])
    np.testing.assert_array_equal(b, [0, *range(2, 64), 0])
    np.testing.assert_array_equal(c, [*range(1, 6), *(b[6:63] + 1), 0, 0])


def test_loops_inside_count() -> None:
    inner = P.loop("j", 4, L.Store(B, (P.add(P.mul(I, L.const(4)), J),), P.load(A, I)))
    assert runs(*(P.loop("i", high, inner, "parallel", lower=low) for low, high in ((0, 8), (8, 16), (7, 9)))) == [2, 1]
