"""Strided, gathered and guarded accesses of the CPU target against numpy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from polytc.codegen import loops
from polytc.program.scalars import BOOL, F32, F64, I8, I32, I64, U8, DType
from polytc.targets.llvm import memory
from tests.targets.llvm.llvm_modules import TARGET, V, add, c, elementwise, load, module, run

# ---- addresses

def strided(stride: int, base: int, lanes: int) -> loops.Ramp:
    return loops.Ramp(add(loops.binary("*", V("i"), c(abs(stride))), c(base)), stride, lanes)


@pytest.mark.parametrize("dtype", [F32, F64, I8, BOOL], ids=str)
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 7, -1, -2, 0])
def test_strided_loads(stride: int, dtype: DType) -> None:
    lanes, n = 8, 32
    size = max(1, abs(stride)) * n
    base = 0 if stride >= 0 else -stride * (lanes - 1)
    a, out = loops.Buffer("a", dtype, (size,)), loops.Buffer("out", dtype, (n,))
    m = elementwise(lambda at, w: load(a, strided(stride, base, w), lanes=w), out, a, lanes=lanes)
    x = np.random.default_rng(0).integers(0, 100, size).astype(dtype.numpy)
    i = np.arange(n)
    want = x[abs(stride) * (i // lanes * lanes) + base + stride * (i % lanes)]
    assert np.array_equal(run(m, x), want)


@pytest.mark.parametrize("stride", [1, 2, 5, -1])
def test_strided_stores(stride: int) -> None:
    lanes, n = 4, 16
    base = 0 if stride > 0 else lanes - 1
    a, out = loops.Buffer("a", F32, (n,)), loops.Buffer("out", F32, (n * abs(stride),))
    value = load(a, loops.Ramp(V("i"), 1, lanes), lanes=lanes)
    body = loops.For("i", c(0), c(n), lanes, loops.Store(out, (strided(stride, base, lanes),), value))
    x = np.random.default_rng(0).random(n, np.float32)
    want = np.zeros(n * abs(stride), np.float32)
    i = np.arange(n)
    want[abs(stride) * (i // lanes * lanes) + base + stride * (i % lanes)] = x
    assert np.array_equal(run(module(body, a, out), x), want)


def test_ramps_in_two_dimensions_and_divided_ramps() -> None:
    """A diagonal, and ramp // 2 of an even base: both are known patterns."""
    a, out = loops.Buffer("a", F32, (16, 16)), loops.Buffer("out", F32, (16,))
    ramp = loops.Ramp(V("i"), 1, 8)
    x = np.random.default_rng(0).random((16, 16), np.float32)
    assert np.array_equal(run(elementwise(lambda at, w: load(a, ramp, ramp, lanes=w), out, a, lanes=8), x), np.diag(x))
    even = loops.Ramp(loops.binary("*", V("i"), c(2)), 1, 8)
    half = loops.binary("//", even, c(2, 8))
    rest = loops.binary("%", even, c(2, 8))
    got = run(elementwise(lambda at, w: load(a, rest, half, lanes=w), out, a, lanes=8), x)
    i = np.concatenate([np.arange(8), np.arange(16, 24)])
    assert np.array_equal(got, x[i % 2, i // 2])


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("index", [I32, I64, U8], ids=str)
def test_gather_and_scatter(index: DType, lanes: int) -> None:
    a, at, out = loops.Buffer("a", F32, (9, 5)), loops.Buffer("at", index, (16,)), loops.Buffer("out", F32, (16, 9))
    where = V("i") if lanes == 1 else loops.Ramp(V("i"), 1, lanes)
    picked = loops.Cast(load(at, where, lanes=lanes), I64, lanes)
    value = load(a, picked, c(3, lanes), lanes=lanes)
    body = loops.For("i", c(0), c(16), lanes, loops.Store(out, (where, picked), value))
    x = np.random.default_rng(0).random((9, 5), np.float32)
    i = np.random.default_rng(1).integers(0, 9, 16).astype(index.numpy)
    want = np.zeros((16, 9), np.float32)
    want[np.arange(16), i] = x[i, 3]
    assert np.array_equal(run(module(body, a, at, out), x, i), want)


# ---- guarded loads

@pytest.mark.parametrize("stride", [1, 2, 3, 0, -1, 70])
@pytest.mark.parametrize("lanes", [1, 8])
def test_guarded_loads_touch_nothing_outside(lanes: int, stride: int) -> None:
    """a[stride*i - 3] else 7, at the very start and end of a mapping that faults outside."""
    import mmap
    page = mmap.PAGESIZE
    n, count = page // 4, page // 4 + 64
    a, out = loops.Buffer("a", F32, (n,)), loops.Buffer("out", F32, (count,))

    def value(at: loops.Expr, w: int) -> loops.Expr:
        one = add(loops.binary("*", V("i"), c(stride)), c(-3))
        where = one if w == 1 else loops.Ramp(one, stride, w)
        inside = loops.binary("&&", loops.binary(">=", where, c(0, w)), loops.binary("<", where, c(n, w)))
        return loops.Select(inside, loops.binary("*", load(a, where, lanes=w), loops.Const(2.0, F32, w)),
                            loops.Const(7.0, F32, w), F32, w)

    memory = mmap.mmap(-1, 3 * page)
    whole = np.frombuffer(memory, np.float32)
    import ctypes
    base = whole.ctypes.data
    protect = ctypes.CDLL(None).mprotect
    assert protect(ctypes.c_void_p(base), page, 0) == 0
    assert protect(ctypes.c_void_p(base + 2 * page), page, 0) == 0
    x = whole[n:2 * n]
    x[:] = np.arange(n)
    got = run(elementwise(value, out, a, lanes=lanes), x)
    i = stride * np.arange(count) - 3
    want = np.where((i >= 0) & (i < n), 2.0 * np.clip(i, 0, n - 1), 7.0)
    protect(ctypes.c_void_p(base), page, 3)
    protect(ctypes.c_void_p(base + 2 * page), page, 3)
    assert np.array_equal(got, want)


def test_nested_guards_and_scalar_conditions() -> None:
    a, out = loops.Buffer("a", F32, (4, 16)), loops.Buffer("out", F32, (6, 16))
    row = add(V("r"), c(-1))
    column = loops.Ramp(add(V("i"), c(-2)), 1, 8)
    in_row = loops.binary("&&", loops.binary(">=", row, c(0)), loops.binary("<", row, c(4)))
    in_column = loops.binary(">=", column, c(0, 8))
    one = loops.Const(1.0, F32, 8)
    value = loops.Select(in_row, loops.Select(in_column, load(a, row, column, lanes=8), one, F32, 8), one, F32, 8)
    store = loops.Store(out, (V("r"), loops.Ramp(V("i"), 1, 8)), value)
    body = loops.For("r", c(0), c(6), 1, loops.For("i", c(0), c(16), 8, store))
    x = np.random.default_rng(0).random((4, 16), np.float32)
    want = np.pad(x, ((1, 1), (2, 0)), constant_values=1)[:, :16]
    assert np.array_equal(run(module(body, a, out), x), want)


def row_or_one(row: loops.Expr, high: int, width: int) -> loops.Expr:
    """Eight neighbours of a row, where there is one."""
    a = loops.Buffer("a", F32, (high, width))
    inside = loops.binary("&&", loops.binary(">=", row, c(0)), loops.binary("<", row, c(high)))
    there = load(a, row, loops.Ramp(V("i"), 1, 8), lanes=8)
    return loops.Select(loops.Broadcast(inside, 8, BOOL), there, loops.Const(1.0, F32, 8), F32, 8)


def test_copies_of_a_statement_have_guards_of_their_own() -> None:
    """The copies of an unrolled loop share addresses; some of their rows are there, and some are not."""
    a, out = loops.Buffer("a", F32, (4, 16)), loops.Buffer("out", F32, (3, 6, 16))
    store = loops.Store(out, (V("r"), V("u"), loops.Ramp(V("i"), 1, 8)), row_or_one(add(add(V("r"), V("u")), c(-2)), 4, 16))
    copies = loops.For("u", c(0), c(6), 1, store, "unroll")
    body = loops.For("r", c(0), c(3), 1, loops.For("i", c(0), c(16), 8, copies))
    x = np.random.default_rng(0).random((4, 16), np.float32)
    padded = np.pad(x, ((2, 4), (0, 0)), constant_values=1)
    assert np.array_equal(run(module(body, a, out), x), np.stack([padded[r:r + 6] for r in range(3)]))


def test_guarded_vectors_of_no_lane_look_at_memory_that_is_there() -> None:
    """A masked load of no lanes before a tensor is right, and slow where no memory is: benchmarks/cliffs.py measures that."""
    a, out = loops.Buffer("a", F32, (4, 16)), loops.Buffer("out", F32, (9, 16))
    store = loops.Store(out, (V("r"), loops.Ramp(V("i"), 1, 8)), row_or_one(add(V("r"), c(-3)), 4, 16))
    body = loops.For("r", c(0), c(9), 1, loops.For("i", c(0), c(16), 8, store))
    text = str(TARGET.emit(module(body, a, out)).text)
    calls = [line for line in text.splitlines() if "= call" in line and "@llvm.masked.load" in line]
    places = [line.split("(ptr ")[1].split(",")[0] for line in calls]
    assert places
    lines = {line.split(" = ")[0].strip(): line for line in text.splitlines() if " = " in line}
    assert all("getelementptr" in lines[p] for p in places)
    starts = [lines[p].split("ptr %")[1].split(",")[0] for p in places]
    assert all("select i1" in lines[f"%{s}"] for s in starts)


def test_if_else_and_bool() -> None:
    a, out = loops.Buffer("a", BOOL, (10,)), loops.Buffer("out", BOOL, (10,))
    even = loops.binary("==", loops.binary("%", V("i"), c(2)), c(0))
    negated = loops.Store(out, (V("i"),), loops.Unary("!", load(a, V("i")), BOOL))
    body = loops.For("i", c(0), c(10), 1, loops.If(even, negated, loops.Store(out, (V("i"),), load(a, V("i")))))
    x = np.random.default_rng(0).random(10) > 0.5
    assert np.array_equal(run(module(body, a, out), x), np.where(np.arange(10) % 2 == 0, ~x, x))


def test_an_element_whose_place_was_loaded_is_loaded_again_when_that_changed() -> None:
    """`s[0] = a[s[0]]` three times in a row walks along a chain of places: 0 -> 2 -> 3 -> 1."""
    a, s = loops.Buffer("a", I64, (4,)), loops.Buffer("s", I64, (1,))
    step = loops.Store(s, (c(0),), load(a, load(s, c(0))))
    assert run(module(loops.Block((step, step, step)), a, s), np.array([2, 7, 3, 1])) == [1]


def test_an_address_that_was_loaded_is_loaded_again_after_a_store() -> None:
    """What the first store says is where the second one reads, from another array."""
    a, b, out = (loops.Buffer(n, I64, (4,)) for n in ("a", "b", "out"))
    body = loops.block(loops.Store(out, (c(0),), load(a, load(out, c(0)))), loops.Store(out, (c(1),), load(b, load(out, c(0)))))
    x, y = np.array([2, 7, 3, 1]), np.array([5, 6, 8, 9])
    assert list(run(module(body, a, b, out), x, y)) == [x[0], y[x[0]], 0, 0]


def test_lanes_that_do_not_count_read_nothing_under_a_guard() -> None:
    """Eleven of sixteen lanes count, backwards, and a guard holds for the others: they have the address of the last one, which
    lies behind the array, at a protected page."""
    script = """
import numpy as np, polytc
from tests.guarded import guarded
text = "def f(inout i32[13,64] X, i16[9] A) { for t in 10:-1:-1 { X[i,t+2] = i32((A[t+i] else 2) + 1) where i in 0:13:2 } }"
a = guarded("A", 18, "end", align=2).array.view(np.int16)
a[:] = np.arange(9)
x = np.zeros((13, 64), np.int32)
polytc.compile(text, threads=1)(x, a)
expected = np.zeros_like(x)
for t in range(11):
    for i in range(0, 13, 2):
        expected[i, t + 2] = (a[t + i] if t + i < 9 else 2) + 1
assert (x == expected).all()
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120,
                         env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])})
    assert ran.returncode == 0, ran.stderr

@pytest.mark.parametrize(("lanes", "beside", "starts"), [
    ((0, 2, 4, 6), (0, 0), [0, 3]), ((0, 2, 4, 6), (0, 1), [0, 4]), ((0, 2, 4, 6), (1, 0), [-1, 3]),
    ((0, 4, 2, 6), (0, 1), [0, 4]), ((0, 1, 2, 3), (1, 0), [0]), ((0, 3, 6, 9), (1, 1), [0, 6])])
def test_windows_lie_in_what_may_be_read(lanes: tuple[int, ...], beside: tuple[int, int], starts: list[int]) -> None:
    found = memory.windows(lanes, beside)
    assert found == starts
    assert all(min(lanes) - beside[0] <= n and n + len(lanes) <= max(lanes) + 1 + beside[1] for n in found)
