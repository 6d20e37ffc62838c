"""Point loops whose bounds are not constants: strips, masks and partial results give what single iterations give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polytc.codegen import loops as L
from polytc.codegen import passes, traverse, verify
from polytc.codegen.passes import simplify, strip_mining
from polytc.machine import AVX2, AVX512, NEON, SVE, Machine
from polytc.program.scalars import F64, I64, DType
from tests.codegen import loop_programs as P
from tests.processor_here import target_for

MACHINES = {"AVX2": AVX2, "AVX512": AVX512, "NEON": NEON, "SVE": SVE}
N = 37
I, J = L.Var("i"), L.Var("j")


EACH = pytest.mark.parametrize(("machine", "target"), [
    ("NEON", "interp"), ("SVE", "interp"), ("AVX2", "cpu"), ("AVX512", "cpu"),
    *(pytest.param(m, "interp", marks=pytest.mark.long) for m in ("AVX2", "AVX512"))])
"""Vectors of two, four and eight elements, with masks and without."""


def call(fn: str, a: L.Expr, b: L.Expr) -> L.Expr:
    return L.Call(fn, (a, b), a.dtype)


def sub(a: L.Expr, b: L.Expr) -> L.Expr:
    return L.binary("-", a, b)


BOUNDS: dict[str, tuple[L.Expr, L.Expr, Callable[[int], tuple[int, int]]]] = {
    "lower triangle": (L.const(0), P.add(I, L.const(1)), lambda i: (0, i + 1)),
    "upper triangle": (P.add(I, L.const(1)), L.const(N), lambda i: (i + 1, N)),
    "band": (call("max", L.const(0), sub(I, L.const(3))), call("min", L.const(N), P.add(I, L.const(18))),
             lambda i: (max(0, i - 3), min(N, i + 18))),
    "part of a tile": (L.const(0), call("min", L.const(12), sub(L.const(N), I)), lambda i: (0, min(12, N - i))),
    "often empty": (L.const(5), sub(P.scaled("i", 3), L.const(40)), lambda i: (5, min(3 * i - 40, N))),
}
BOUNDS["often empty"] = (L.const(5), call("min", BOUNDS["often empty"][1], L.const(N)), BOUNDS["often empty"][2])


def buffers(dtype: DType = F64) -> tuple[L.Buffer, L.Buffer, L.Buffer]:
    return L.Buffer("X", dtype, (N, N)), L.Buffer("Y", dtype, (N, N)), L.Buffer("Z", dtype, (N, N))


def run(m: L.Module, machine: Machine, target: str, arrays: list[np.ndarray]) -> L.Module:
    """Through the passes, checked, on a target; arrays are written in place."""
    done = verify.verify(passes.run(m, machine))
    to = target_for(machine, target)
    to.load(to.build(to.emit(done)), 1).run(arrays)
    return done


def vector_body(x: L.Buffer, y: L.Buffer, z: L.Buffer) -> L.Stmt:
    """Two stores, the second from what the first wrote; one under a condition on the lane; one in a loop inside."""
    twice = P.mul(P.load(x, I, J), L.Const(2.0, F64))
    first = L.Store(y, (I, J), twice)
    odd = L.binary("==", L.binary("%", J, L.const(2)), L.const(1))
    second = L.If(odd, L.Store(z, (J, I), P.load(y, I, J)), L.Store(z, (J, I), L.Const(7.0, F64)))
    third = P.loop("k", 3, L.Store(y, (I, J), P.add(P.load(y, I, J), P.load(x, L.Var("k"), J))))
    return L.block(first, second, third)


@pytest.mark.part(13)
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("bounds", BOUNDS)
@EACH
def test_vector_loops(bounds: str, step: int, machine: str, target: str) -> None:
    lower, upper, of = BOUNDS[bounds]
    x, y, z = buffers()
    nest = P.loop("i", N, L.For("j", lower, upper, step, vector_body(x, y, z), "vector"))
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((N, N)) for _ in range(3))
    expected_b, expected_c = b.copy(), c.copy()
    for i in range(N):
        for j in range(*of(i), step):
            expected_b[i, j] = 2 * a[i, j]
            expected_c[j, i] = expected_b[i, j] if j % 2 else 7.0
            expected_b[i, j] += a[0, j] + a[1, j] + a[2, j]
    done = run(P.module("m", (x, y, z), ("Y", "Z"), nest), MACHINES[machine], target, [a, b, c])
    np.testing.assert_allclose(b, expected_b, rtol=1e-12)
    np.testing.assert_allclose(c, expected_c, rtol=1e-12)
    if MACHINES[machine].masked:
        stores = [s for k in done.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, L.Store)]
        assert any(s.value.lanes == MACHINES[machine].lanes(8) for s in stores)


@pytest.mark.part(10)
@pytest.mark.parametrize("op", ["+", "max"])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("bounds", BOUNDS)
@EACH
def test_reductions(bounds: str, step: int, op: str, machine: str, target: str) -> None:
    lower, upper, of = BOUNDS[bounds]
    x, y, _ = buffers()
    s = L.Buffer("S", F64, (N,))
    term = P.mul(P.load(x, I, J), P.load(y, J, I))
    value = P.add(P.load(s, I), term) if op == "+" else L.Call("max", (P.load(s, I), term), F64)
    nest = P.loop("i", N, L.For("j", lower, upper, step, L.Store(s, (I,), value), "reduce"))
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((N, N)), rng.standard_normal((N, N)), rng.standard_normal(N)
    terms = [[a[i, j] * b[j, i] for j in range(*of(i), step)] for i in range(N)]
    expected = [v + sum(t) if op == "+" else max([v, *t]) for v, t in zip(c, terms, strict=True)]
    done = run(P.module("m", (x, y, s), ("S",), nest), MACHINES[machine], target, [a, b, c])
    np.testing.assert_allclose(c, expected, rtol=1e-10)
    horizontal = [e for k in done.kernels for x in traverse.walk_stmt(k.body) for top in traverse.expressions(x)
                  for e in traverse.walk_expr(top) if isinstance(e, L.Reduce)]
    assert horizontal


def test_a_condition_in_a_reduction_is_a_mask() -> None:
    x, _, _ = buffers()
    s = L.Buffer("S", F64, (N,))
    update = L.Store(s, (I,), P.add(P.load(s, I), P.load(x, I, J)))
    body = L.If(L.binary("!=", J, L.const(4)), update)
    nest = P.loop("i", N, L.For("j", L.const(0), P.add(I, L.const(1)), 1, body, "reduce"))
    a, c = np.random.default_rng(0).standard_normal((N, N)), np.zeros(N)
    run(P.module("m", (x, s), ("S",), nest), AVX512, "cpu", [a, c])
    np.testing.assert_allclose(c, [sum(a[i, j] for j in range(i + 1) if j != 4) for i in range(N)], rtol=1e-10)


def test_what_divides_integers_has_no_idle_lanes() -> None:
    """A division by the 0 of an idle lane would trap."""
    x, y, _ = buffers(I64)
    nest = P.loop("i", N, L.For("j", L.const(0), I, 1, L.Store(y, (I, J), L.binary("//", P.load(y, I, J), P.load(x, I, J))),
                                "vector"))
    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 9, (N, N)), rng.integers(0, 99, (N, N))
    a[np.triu_indices(N)] = 0
    expected = np.array([[b[i, j] // a[i, j] if j < i else b[i, j] for j in range(N)] for i in range(N)])
    run(P.module("m", (x, y), ("Y",), nest), AVX512, "cpu", [a, b])
    np.testing.assert_array_equal(b, expected)


def test_a_quotient_whose_parts_hold_the_same_quotient() -> None:
    """(i + 2*(i//2)) // 2 is i//2 + i//2: one term twice."""
    half = L.binary("//", I, L.const(2))
    e = L.binary("//", P.add(I, P.mul(half, L.const(2))), L.const(2))
    assert simplify.expr(e, {}) == simplify.expr(P.mul(half, L.const(2)), {})


@settings(max_examples=40, deadline=None)
@example(low=(0, 0), high=(1, 13), step=2, machine="AVX2")          # quotients in the bounds of the rest
@example(low=(0, 0), high=(-1, 1), step=1, machine="AVX512")        # at most one iteration: its variable is a number
@given(low=st.tuples(st.integers(-2, 2), st.integers(-9, 9)), high=st.tuples(st.integers(-2, 2), st.integers(-9, 40)),
       step=st.integers(1, 4), machine=st.sampled_from(sorted(MACHINES)))
def test_any_bounds(low: tuple[int, int], high: tuple[int, int], step: int, machine: str) -> None:
    x, y, _ = buffers()
    lower = call("max", P.scaled("i", low[0], L.const(low[1])), L.const(0))
    upper = call("min", P.scaled("i", high[0], L.const(high[1])), L.const(N))
    nest = P.loop("i", N, L.For("j", lower, upper, step, L.Store(y, (J, I), P.load(x, I, J)), "vector"))
    a, b = np.random.default_rng(0).standard_normal((N, N)), np.zeros((N, N))
    expected = np.zeros((N, N))
    for i in range(N):
        for j in range(max(low[0] * i + low[1], 0), min(high[0] * i + high[1], N), step):
            expected[j, i] = a[i, j]
    run(P.module("m", (x, y), ("Y",), nest), MACHINES[machine], "interp", [a, b])
    np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize("masks", [True, False])
def test_each_iteration_of_a_strip_is_once(masks: bool) -> None:
    """vector for j in i:i + n, in strips of 8 and a rest, before anything else is done to them."""
    x, y, _ = buffers()
    low, high = I, call("min", P.add(I, L.const(21)), L.const(N))
    loop = L.For("j", low, high, 1, L.Store(y, (I, J), P.load(x, I, J)), "vector")
    made = strip_mining.strip_mine(loop, 8, masks)
    module = P.module("strips", (x, y), ("Y",), P.loop("i", N, made))
    arrays = [np.random.default_rng(0).random((N, N)), np.zeros((N, N))]
    run(module, AVX512, "interp", arrays)
    i, j = np.arange(N)[:, None], np.arange(N)
    np.testing.assert_array_equal(arrays[1], np.where((j >= i) & (j < i + 21), arrays[0], 0))
    assert ("active" in str(module)) == masks


def test_what_accumulates() -> None:
    x, y, _ = buffers()
    old, term = P.load(y, I, I), P.load(x, I, J)
    for value, op in ((P.add(old, term), "+"), (call("max", old, term), "max")):
        store = L.Store(y, (I, I), value)
        assert strip_mining.is_accumulation(store, "j")
        assert strip_mining.update(store) == (old, term, op)
    assert not strip_mining.is_accumulation(L.Store(y, (I, J), P.add(P.load(y, I, J), term)), "j"), "its place depends on j"
    assert not strip_mining.is_accumulation(L.Store(y, (I, I), term), "j")
