"""Parallel loops inside sequential ones: threads run the sequential loops together."""

from __future__ import annotations

import numpy as np
import pytest

from polytc.codegen import loops as L
from polytc.codegen import passes, verify
from polytc.program.scalars import F64, I64
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from tests.codegen import loop_programs as P

T, I = L.Var("t"), L.Var("i")
ONE = L.Const(1.0, F64)


def run(m: L.Module, threads: int, arrays: list[np.ndarray], target: str = "cpu") -> str:
    to = LLVMTarget() if target == "cpu" else InterpTarget()
    source = to.emit(verify.verify(passes.run(m, to.machine)))
    to.load(to.build(source), threads).run(arrays)
    return source.text


def stencil(steps: int, n: int) -> L.Module:
    """Two regions in a time loop, and what one thread does between them."""
    a, b, count = L.Buffer("A", F64, (n,)), L.Buffer("B", F64, (n,)), L.Buffer("count", I64, ())

    def inner(x: L.Buffer, y: L.Buffer) -> L.For:
        both = P.add(P.load(x, P.add(I, L.const(-1))), P.load(x, P.add(I, L.const(1))))
        return P.loop("i", n - 1, L.Store(y, (I,), P.mul(L.Const(0.5, F64), both)), "parallel", lower=1)

    between = L.block(L.Store(b, (L.const(0),), P.add(P.load(b, L.const(0)), ONE)),
                      L.Store(count, (), P.add(P.load(count), L.Const(1, I64))))
    body = L.block(inner(a, b), between, inner(b, a))
    return P.module("stencil", (a, b, count), ("A", "B", "count"), P.loop("t", steps, body))


def stencil_reference(steps: int, a: np.ndarray, b: np.ndarray) -> None:
    for _ in range(steps):
        b[1:-1] = 0.5 * (a[:-2] + a[2:])
        b[0] += 1
        a[1:-1] = 0.5 * (b[:-2] + b[2:])


@pytest.mark.part(4)
@pytest.mark.parametrize("target", ["cpu", "interp"])
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize(("steps", "n"), [(1, 3), (40, 5), (25, 300), (0, 10)])
def test_time_loop(steps: int, n: int, threads: int, target: str) -> None:
    rng = np.random.default_rng(0)
    a, b, count = rng.standard_normal(n), rng.standard_normal(n), np.zeros((), np.int64)
    expected = a.copy(), b.copy()
    stencil_reference(steps, *expected)
    run(stencil(steps, n), threads, [a, b, count], target)
    np.testing.assert_allclose(a, expected[0], rtol=1e-12)
    np.testing.assert_allclose(b, expected[1], rtol=1e-12)
    assert count == steps


def test_many_calls() -> None:
    """Workers that come late or not at all, regions that are hardly worth it."""
    m, to = stencil(200, 40), LLVMTarget()
    code = to.load(to.build(to.emit(passes.run(m, to.machine))), 4)
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b, count = rng.standard_normal(40), rng.standard_normal(40), np.zeros((), np.int64)
        expected = a.copy(), b.copy()
        stencil_reference(200, *expected)
        code.run([a, b, count])
        np.testing.assert_allclose(a, expected[0], rtol=1e-12)
        assert count == 200


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_wavefront(threads: int) -> None:
    """Bounds of the region depend on the sequential loops; regions without iterations; a condition around one."""
    n = 23
    x = L.Buffer("X", F64, (n, n))
    w, i = L.Var("w"), L.Var("i")
    j = L.binary("-", w, i)
    value = P.add(P.add(P.load(x, P.add(i, L.const(-1)), j), P.load(x, i, P.add(j, L.const(-1)))), ONE)
    lower = L.Call("max", (L.const(1), L.binary("-", w, L.const(n - 1))), I64)
    upper = L.Call("min", (L.const(n), w), I64)
    front = P.loop("w", 2 * n - 1, L.For("i", lower, upper, 1, L.Store(x, (i, j), P.mul(value, L.Const(0.5, F64))), "parallel"))
    last = P.loop("p", n, L.Store(x, (L.Var("p"), L.const(0)), ONE), "parallel")
    body = L.block(front, L.If(L.binary("==", T, L.const(2)), last))
    a = np.random.default_rng(0).standard_normal((n, n))
    expected = a.copy()
    for t in range(3):
        for r in range(1, n):
            for c in range(1, n):
                expected[r, c] = 0.5 * (expected[r - 1, c] + expected[r, c - 1] + 1)
        if t == 2:
            expected[:, 0] = 1
    text = run(P.module("m", (x,), ("X",), P.loop("t", 3, body)), threads, [a])
    np.testing.assert_allclose(a, expected, rtol=1e-12)
    assert text.count("call void %launch(") == 1


def test_bounds_from_memory_are_left_to_one_thread() -> None:
    """A team's threads would read what others are writing."""
    n = 9
    x, limit = L.Buffer("X", F64, (n,)), L.Buffer("limit", I64, ())
    body = L.block(P.loop("i", n, L.Store(x, (I,), P.add(P.load(x, I), ONE)), "parallel"),
                   L.For("s", L.const(0), P.load(limit), 1, P.loop("i", n, L.Store(x, (I,), ONE), "parallel")),
                   L.Store(limit, (), L.Const(0, I64)))
    a, count = np.zeros(n), np.array(1)
    text = run(P.module("m", (x, limit), ("X", "limit"), P.loop("t", 4, body)), 2, [a, count])
    np.testing.assert_array_equal(a, 4.0)
    assert "team.take" not in text


def test_a_buffer_between_regions_is_left_to_one_thread() -> None:
    n = 9
    x, y = L.Buffer("X", F64, (n,)), L.Buffer("Y", F64, (n,), "local")
    body = L.Alloc(y, L.block(P.loop("i", n, L.Store(y, (I,), P.add(P.load(x, I), ONE)), "parallel"),
                              P.loop("i", n, L.Store(x, (I,), P.load(y, L.binary("-", L.const(n - 1), I))), "parallel")))
    a = np.arange(n, dtype=np.float64)
    text = run(P.module("m", (x,), ("X",), P.loop("t", 3, body)), 2, [a])
    np.testing.assert_array_equal(a, np.arange(n)[::-1] + 3)
    assert "team.take" not in text
