"""Quick calls: the native look at arrays agrees with numpy's own words, and what it turns away takes the general way."""

from __future__ import annotations

import ctypes
import pickle
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import polytc
from polytc import errors
from polytc.native import call_arguments

F4 = np.dtype("f4")
DTYPES = st.sampled_from([np.dtype(d) for d in ("f4", "f8", "i4", "u4", "bool", ">f4")])


def judge(inputs: list[np.ndarray], outputs: list[np.ndarray], shapes, dtypes) -> tuple[bool, list[int]]:
    types = list(zip(shapes, dtypes, strict=True))
    expected = call_arguments.expect(types[:len(inputs)], types[len(inputs):])
    assert expected is not None
    table = (ctypes.c_void_p * len(types))()
    return bool(expected.check(expected.address, ctypes.addressof(table), *inputs, *outputs)), [a or 0 for a in table]


@st.composite
def views(draw: st.DrawFn) -> np.ndarray:
    """Arrays of every kind: cut, turned, misaligned, locked, without elements, without dimensions."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    dtype = draw(DTYPES)
    size = int(np.prod(shape)) * dtype.itemsize
    array = np.frombuffer(bytearray(size + 8), np.uint8)[draw(st.integers(0, 2)):][:size].view(dtype).reshape(shape)
    if draw(st.booleans()):
        array = array.T
    if array.ndim and draw(st.booleans()):
        array = array[::draw(st.sampled_from([1, 2, -1]))]
    if draw(st.booleans()):
        array.flags.writeable = False
    return array


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i8", "u2", "?"])
def test_arrays_that_were_pickled_have_dtypes_of_their_own(dtype: str) -> None:
    x, y = np.ones((2, 3), dtype), np.zeros((2, 3), dtype)
    other = pickle.loads(pickle.dumps(x))
    assert other.dtype is not x.dtype
    assert judge([other], [y], [x.shape, y.shape], [x.dtype, y.dtype])[0]
    assert judge([x], [y], [x.shape, y.shape], [other.dtype, other.dtype])[0]


@settings(deadline=None)  # the first example makes the function
@given(views(), views(), hnp.array_shapes(min_dims=0, max_dims=2, max_side=3), st.booleans())
def test_what_fits_is_what_numpy_says(x: np.ndarray, y: np.ndarray, shape: tuple[int, ...], as_is: bool) -> None:
    shapes = (x.shape, y.shape) if as_is else (shape, shape)
    dtypes = (x.dtype, y.dtype) if as_is else (F4, F4)
    fits, table = judge([x], [y], shapes, dtypes)
    wanted = (x.shape, y.shape) == shapes and (x.dtype, y.dtype) == dtypes and y.flags.writeable
    wanted = wanted and all(a.flags.c_contiguous and a.flags.aligned for a in (x, y)) and not np.may_share_memory(x, y)
    assert fits == wanted
    if fits:
        assert table == [x.ctypes.data, y.ctypes.data]


@pytest.mark.parametrize("start", range(17))
def test_outputs_lie_apart(start: int) -> None:
    memory = np.zeros(20, F4)
    x, y, z = memory[4:8], memory[start:start + 4], memory[10:14]
    apart = not np.may_share_memory(x, y) and not np.may_share_memory(y, z)
    assert judge([x], [y, z], [(4,)] * 3, [F4] * 3)[0] == apart
    assert judge([x, x], [z], [(4,)] * 3, [F4] * 3)[0]  # inputs may meet


def test_other_objects_do_not_fit() -> None:
    class Sub(np.ndarray):
        pass

    x = np.zeros(4, F4)
    for other in (None, 3, [0.0] * 4, "text", np.float32(1), x.view(Sub), memoryview(x), type(x)):
        assert not judge([other], [x], [(4,)] * 2, [F4] * 2)[0]


def test_how_many() -> None:
    assert call_arguments.expect([], []) is None
    for count in (1, call_arguments.FEW, call_arguments.FEW + 1, 40):
        arrays = [np.zeros(4, F4) for _ in range(count)]
        addresses = [a.ctypes.data for a in (*arrays[1:], arrays[0])]
        assert judge(arrays[1:], arrays[:1], [(4,)] * count, [F4] * count) == (True, addresses)
        for wrong in {0, count // 2, count - 1}:
            others = [np.zeros(5, F4) if i == wrong else a for i, a in enumerate(arrays)]
            assert not judge(others[1:], others[:1], [(4,)] * count, [F4] * count)[0]


@pytest.fixture(params=["quick", "general"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of a call: with the native function, and where it does not understand this Python's arrays."""
    if request.param == "general":
        monkeypatch.setattr(call_arguments, "_functions", lambda: None)
    return str(request.param)


def test_results_are_the_same_either_way(way: str) -> None:
    op = polytc.compile("C[i,j] += A[i,k]*B[k,j]")
    a, b = np.arange(12, dtype=F4).reshape(3, 4), np.arange(20, dtype=F4).reshape(4, 5)
    out = np.zeros((3, 5), F4)
    for _ in range(3):
        np.testing.assert_array_equal(op(a, b), a @ b)
        assert op(a, b, out=out) is out
        np.testing.assert_array_equal(out, a @ b)
        np.testing.assert_array_equal(op(b.T, a.T), (a @ b).T)
        np.testing.assert_array_equal(op(np.asfortranarray(a), b[:, :3]), a @ b[:, :3])
        np.testing.assert_array_equal(op(a.astype("f8"), b.astype("f8")), a @ b)
        with pytest.raises(errors.ArgumentError, match="E408"):
            op(a, b, out=b.ravel()[:15].reshape(3, 5))
        with pytest.raises(errors.ArgumentError, match="E407"):
            op(a, b, out=out.T)
        with pytest.raises(errors.ArgumentError, match="E401"):
            op(a, b, a)


def test_several_outputs_either_way(way: str) -> None:
    op = polytc.compile("def f(A[n]) -> (S, D) { S[i] = A[i] + 1; D[i] = A[i] * 2 }")
    a, s, d = np.arange(4, dtype=F4), np.zeros(4, F4), np.zeros(4, F4)
    for _ in range(3):
        found = op(a)
        assert found.S.tolist() == [1, 2, 3, 4]
        assert found.D.tolist() == [0, 2, 4, 6]
        given_ = (s, d)
        assert op(a, out=given_) is given_
        assert op(a, out={"D": d, "S": s})["S"] is s
        assert (s.tolist(), d.tolist()) == (found.S.tolist(), found.D.tolist())
        with pytest.raises(errors.ArgumentError, match="E408"):
            op(a, out=(s, s))


def test_misaligned_arrays_either_way(way: str) -> None:
    op = polytc.compile("Y[i] = X[i] + 1")
    raw = np.zeros(17, np.uint8)
    x = raw[1:].view(F4)
    assert not x.flags.aligned
    for _ in range(2):
        assert op(x).tolist() == [1, 1, 1, 1]
        assert op(np.full(4, 6, F4), out=x) is x
        assert x.tolist() == [7, 7, 7, 7]
        x[:] = 0


def test_threads_call_at_once() -> None:
    """Each call has a table of addresses of its own."""
    op = polytc.compile("Y[i] = X[i] + 1", threads=1)
    wrong = []

    def call(n: int) -> None:
        x = np.full(64, n, F4)
        for _ in range(2000):
            if not (op(x) == n + 1).all():
                wrong.append(n)

    callers = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not wrong


def test_a_call_is_quick() -> None:
    """The bound is loose, for machines that are busy; benchmarks/overhead.py measures."""
    op = polytc.compile("Y[i] = A[i] + B[i] + C[i] + D[i]", threads=1)
    arrays, out = [np.ones(4, F4) for _ in range(4)], np.empty(4, F4)
    best = 1.0
    for _ in range(300):
        start = time.perf_counter()
        op(*arrays, out=out)
        best = min(best, time.perf_counter() - start)
    assert best < 50e-6
