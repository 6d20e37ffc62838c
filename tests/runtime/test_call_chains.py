"""Chains: several bound programs as one native call, in order, on shared scratch memory."""

from __future__ import annotations

import numpy as np
import pytest

from polytc import compiler, lang
from polytc.codegen.target import Bound, BoundRun
from polytc.runtime.call_chains import Chain, Skip, native

R = np.random.default_rng(11)


def step(text: str, arrays: dict[str, np.ndarray], out: np.ndarray, threads: int) -> Bound:
    program = lang.build(text, {n: a.shape for n, a in arrays.items()}, dict.fromkeys(arrays, "f32"))
    return compiler.compile_program(program, "cpu", threads).bind([*arrays.values(), out])


def image(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2])
def test_steps_run_in_order(threads) -> None:
    a, b = image(96, 200), image(200, 64)
    c, d, e = (np.empty(s, np.float32) for s in ((96, 64), (96,), (96, 64)))
    chain = Chain([step("C[i,j] += A[i,k]*B[k,j]", {"A": a, "B": b}, c, threads),
                   step("M[i] max= C[i,j]", {"C": c}, d, threads),
                   step("E[i,j] = C[i,j] - M[i]", {"C": c, "M": d}, e, 1)])
    for _ in range(3):
        a += 1
        chain()
        product = a @ b
        np.testing.assert_allclose(e, product - product.max(1)[:, None], rtol=1e-4, atol=1e-3)


def test_scratch_is_shared_and_does_not_disturb_neighbours() -> None:
    """A padded convolution keeps its copy of the input in scratch memory; two of them use the same."""
    text = "O[n,m,h,w] += (I[n,c,h+r-1,w+s-1] else 0)*W[m,c,r,s] where h in 0:{0}, w in 0:{0}"
    x, v = image(1, 16, 20, 20), image(16, 16, 3, 3)
    middle, last = np.empty_like(x), np.empty_like(x)
    first = step(text.format(20), {"I": x, "W": v}, middle, 1)
    second = step(text.format(20), {"I": middle, "W": v}, last, 1)
    first()
    second()
    alone = last.copy()
    needs = [native(s).needs for s in (first, second)]
    chain = Chain([first, second])
    assert chain.scratch == max(needs) > 0
    for _ in range(2):
        last[:] = 0
        chain()
        np.testing.assert_array_equal(last, alone)


def test_moved_arrays_are_used() -> None:
    a, b, other = image(50), np.empty(50, np.float32), np.empty(50, np.float32)
    doubled = step("B[i] = A[i]*2", {"A": a}, b, 1)
    chain = Chain([doubled])
    chain()
    doubled.move(1, other)
    b[:] = 0
    chain()
    np.testing.assert_array_equal(other, a * 2)
    np.testing.assert_array_equal(b, 0)


def test_steps_that_are_not_native_take_their_turn() -> None:
    log: list[str] = []
    a, b, c = image(8), np.empty(8, np.float32), np.empty(8, np.float32)

    def between(buffers: object) -> None:
        log.append("python")
        b[:] += 1

    chain = Chain([step("B[i] = A[i]*2", {"A": a}, b, 1), BoundRun(between, []), step("C[i] = B[i]*3", {"B": b}, c, 1)])
    times = chain.timed()
    np.testing.assert_allclose(c, (a * 2 + 1) * 3, rtol=1e-6)
    assert log == ["python"]
    assert len(times) == 3
    assert all(begin <= end for begin, end in times)
    assert times == sorted(times)


def test_empty_chain() -> None:
    chain = Chain([])
    chain()
    assert chain.timed() == []


@pytest.mark.parametrize("all_native", [True, False])
def test_steps_behind_a_condition(all_native) -> None:
    """One of two branches runs, in one of which is another condition; the conditions may be moved to other arrays."""
    a, b, c, d = image(40), *(np.zeros(40, np.float32) for _ in range(3))
    p, q = np.array(True), np.array(False)
    last = step("D[i] = A[i]*5", {"A": a}, d, 1)
    steps = [Skip(p, True, 3), step("B[i] = A[i]*2", {"A": a}, b, 1), Skip(q, True, 1), step("C[i] = A[i]*3", {"A": a}, c, 1),
             Skip(p, False, 1), step("B[i] = A[i]*4", {"A": a}, b, 1), last if all_native else BoundRun(lambda _: last(), [])]
    chain = Chain(steps)
    assert chain.native is all_native
    for first, second in ((True, True), (True, False), (False, True)):
        p[...], q[...] = first, second
        for run in (chain, chain.timed):
            b[:], c[:], d[:] = 0, 0, 0
            times = run()
            np.testing.assert_array_equal(b, a * (2 if first else 4))
            np.testing.assert_array_equal(c, a * 3 * (first and second))
            np.testing.assert_array_equal(d, a * 5)
        assert [start == end for start, end in times] == [not first, not (first and second), first, False]
    other = np.array(True)
    for k in (0, 4):
        steps[k].move(0, other)
    chain()
    np.testing.assert_array_equal(b, a * 2)
