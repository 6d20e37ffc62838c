"""Loop fusion inside regions: which loops run together, which must not, and that results stay."""

from __future__ import annotations

import numpy as np
import pytest

from polytc import compiler
from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes.loop_fusion import fuse_kernel
from polytc.codegen.verify import verify
from polytc.lang import build
from polytc.machine import AVX512
from polytc.program.scalars import F32, I64
from polytc.targets.interp import InterpTarget
from tests.codegen import loop_programs as P
from tests.test_programs import SOFTMAX, check

N = 24
I = L.Var("i")
X, T, Y, S = (L.Buffer(n, F32, (k,)) for n, k in (("X", 4 * N), ("T", 4 * N), ("Y", 4 * N), ("S", 1)))
ZERO = L.const(0)


def after(*stmts: L.Stmt) -> int:
    """Loops that are left; checks that the results stay what they were."""
    before = P.module("m", (X, Y, S), ("Y", "S"), L.block(L.Store(S, (ZERO,), L.Const(1.0, F32)), *stmts), scratch=(T,))
    fused = verify(L.Module(before.name, before.args, before.outputs, before.scratch, tuple(map(fuse_kernel, before.kernels))))
    inputs = {"X": np.random.default_rng(0).standard_normal(4 * N).astype(np.float32)}
    target = InterpTarget()
    want, got = (P.run(target.load(target.build(target.emit(m))), m, inputs) for m in (before, fused))
    for name in ("Y", "S"):
        np.testing.assert_array_equal(got[name], want[name])
    return sum(isinstance(s, L.For) for k in fused.kernels for s in traverse.walk_stmt(k.body))


def over(body: L.Stmt, count: int = N) -> L.For:
    return P.loop("i", count, body)


def copy(to: L.Buffer, at: L.Expr, source: L.Buffer, place: L.Expr) -> L.Store:
    return L.Store(to, (at,), P.load(source, place))


MAKE = over(copy(T, I, X, I))
SUM = over(L.Store(S, (ZERO,), P.add(P.load(S, ZERO), P.load(T, I))))


def test_a_consumer_joins_its_producer() -> None:
    assert after(MAKE, over(copy(Y, I, T, I))) == 1


def test_what_the_consumer_needs_goes_before() -> None:
    assert after(MAKE, L.Store(S, (ZERO,), L.Const(0.0, F32)), SUM) == 1


def test_what_follows_the_producer_stays_behind() -> None:
    tail = copy(T, L.const(N), X, L.const(N))
    assert after(MAKE, tail, SUM, copy(Y, ZERO, T, L.const(N))) == 1


def test_a_consumer_of_what_lies_between_stays() -> None:
    between = L.Store(S, (ZERO,), P.load(T, L.const(3)))
    assert after(MAKE, between, SUM) == 2


@pytest.mark.parametrize("shift", [1, -1])
def test_other_iterations_values_keep_loops_apart(shift: int) -> None:
    make = over(copy(T, P.add(I, L.const(1)), X, I))
    use = over(copy(Y, I, T, P.add(I, L.const(1 + shift))), N - 1)
    start = [copy(T, ZERO, X, ZERO)]
    assert after(*start, make, use) == 2
    assert after(*start, over(copy(T, P.add(I, L.const(1)), X, I), N - 1), use) == 2


def test_whole_sums_keep_loops_apart() -> None:
    assert after(MAKE, SUM, over(L.Store(Y, (I,), P.add(P.load(T, I), P.load(S, ZERO))))) == 2


@pytest.mark.parametrize(("width", "loops"), [(4, 1), (5, 2)])
def test_vectors_that_reach_into_the_next_iteration(width: int, loops: int) -> None:
    def vector(b: L.Buffer, lanes: int) -> L.Load:
        return L.Load(b, (L.Ramp(P.scaled("i", 4), 1, lanes),), F32, lanes)
    make = over(L.Store(T, vector(T, width).indices, vector(X, width)), N - 1)
    use = over(L.Store(Y, vector(Y, 4).indices, vector(T, 4)), N - 1)
    assert after(make, use) == loops


def test_softmax_walks_its_rows_three_times() -> None:
    program = build(SOFTMAX, {"X": (40, 128)})
    target = InterpTarget(AVX512)
    kernel, = compiler.lower_program(program, target).loops.kernels
    rows = [s for s in traverse.walk_stmt(kernel.body) if isinstance(s, L.For) and s.kind == "sequential"]
    branches = sum(isinstance(s, L.If) for s in traverse.walk_stmt(kernel.body))
    assert len(rows) - branches == 3  # in the parallel loop over the rows
    check(program, target)


def test_long_rows_on_threads() -> None:
    """Slices that are too large for the stack lie in the arena of each thread."""
    check(build(SOFTMAX, {"X": (40, 5001)}), "cpu", threads=2)


@pytest.mark.parametrize("place", ["gather", "backwards", "lanes"])
def test_places_that_are_no_step_from_iteration_to_iteration(place: str) -> None:
    """Through memory, or against it: what the loops touch in common is not known."""
    at = {"gather": L.Binary("+", L.Broadcast(P.scaled("i", 4), 4, I64), L.Ramp(L.const(0), 1, 4), I64, 4),
          "backwards": L.Ramp(P.scaled("i", 4, L.const(3)), -1, 4), "lanes": L.Ramp(P.scaled("i", 4), 1, 4)}[place]
    forward = L.Ramp(P.scaled("i", 4), 1, 4)
    make = over(L.Store(T, (at,), L.Load(X, (forward,), F32, 4)), N - 1)
    use = over(L.Store(Y, (forward,), L.Load(T, (at,), F32, 4)), N - 1)
    assert after(make, use) == (1 if place == "lanes" else 2)
