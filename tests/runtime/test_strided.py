"""Arrays in strides: where they lie, programs that read them there, and results into them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polytc
from polytc import compiler, op
from polytc.runtime import strided
from tests.guarded import guarded

R = np.random.default_rng(4)
BASE = R.standard_normal((96, 120)).astype(np.float32)
CUBE = R.standard_normal((24, 30, 40)).astype(np.float32)

VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "transposed": lambda a: a.T, "columns": lambda a: a[:, :100], "last columns": lambda a: a[:, 20:],
    "corner": lambda a: a[-90:, -100:], "every second": lambda a: a[:, ::2], "every second from 1": lambda a: a[:, 1::2],
    "rows": lambda a: a[::2], "backwards": lambda a: a[::-1], "columns backwards": lambda a: a[:, ::-1],
    "all backwards": lambda a: a[::-1, ::-1], "transposed columns": lambda a: a[:, 10:110].T,
    "some of both": lambda a: a[1::3, 2::2],
    "backwards by 2": lambda a: a[:, ::-2], "repeated": lambda a: np.broadcast_to(a[:, None, :50], (96, 3, 50)),
    "one column": lambda a: np.broadcast_to(a[:, :1], (96, 120))}


@pytest.fixture(autouse=True)
def _every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strided, "SMALLEST", 1)


def element(a: np.ndarray, place: strided.Place, memory: np.ndarray, index: tuple[int, ...]) -> float:
    where = tuple(start if axis is None else start + (index[axis] if end is None else end - index[axis])
                  for axis, start, end in zip(place.axes, place.starts, place.ends, strict=True))
    return memory[where]


@pytest.mark.parametrize("name", VIEWS)
def test_where_elements_lie(name: str) -> None:
    for dtype in (np.float32, np.float64, np.int8):
        a = VIEWS[name](BASE.astype(dtype))
        found = strided.lying_in(a)
        assert found is not None
        place, memory = found
        assert memory.flags.c_contiguous
        assert memory.dtype == a.dtype
        assert np.may_share_memory(memory, a)
        for index in [tuple(R.integers(0, a.shape)) for _ in range(40)] + [(0,) * a.ndim, tuple(n - 1 for n in a.shape)]:
            assert element(a, place, memory, index) == a[index]
        assert place.exact == (memory.size == a.size and 0 not in a.strides)


def test_random_views_of_three_dimensions() -> None:
    """Where there is an answer it is right, and does not leave the memory that there is."""
    found = 0
    for _ in range(300):
        a = CUBE
        for axis in range(3):
            start, stop = sorted(R.integers(0, a.shape[axis] + 1, 2))
            step = int(R.choice([1, 1, 2, 3, -1, -2]))
            ends = (int(start), int(stop)) if step > 0 else (int(stop) - 1, int(start) - 1 if start else None)
            cut = slice(*ends, step)
            a = a[(slice(None),) * axis + (cut,)]
        a = a.transpose(R.permutation(3))
        place = strided.lying_in(a) if a.size else None
        if place is None:
            continue
        found += 1
        first, last = CUBE.ctypes.data, CUBE.ctypes.data + CUBE.nbytes
        assert first <= place[1].ctypes.data
        assert place[1].ctypes.data + place[1].nbytes <= last
        for index in [tuple(R.integers(0, a.shape)) for _ in range(20)]:
            assert element(a, *place, index) == a[index]
    assert found > 150


@pytest.mark.parametrize("a", [
    np.lib.stride_tricks.sliding_window_view(np.arange(100.0), 9), np.zeros((0, 5)).T,
    np.zeros((8, 5), [("a", "f4"), ("b", "i1")])["a"]])
def test_what_lies_nowhere(a: np.ndarray) -> None:
    """Windows that overlap, nothing at all, and elements that are not in steps of their size."""
    assert strided.lying_in(a) is None


def test_small_arrays_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strided, "SMALLEST", 1 << 15)
    assert strided.lying_in(np.zeros((50, 60)).T) is None
    assert strided.lying_in(np.zeros((150, 60)).T) is not None


TEXTS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "sum": ("S[i] += A[i,j]", lambda a: a.sum(1)), "column sums": ("S[j] += A[i,j]", lambda a: a.sum(0)),
    "product": ("C[i,k] += A[i,j]*A[k,j]", lambda a: a @ a.T), "scaled": ("B[i,j] = A[i,j]*2 + 1", lambda a: a * 2 + 1),
    "largest": ("(m[i], k[i]) argmax= (A[i,j], j)", lambda a: a.argmax(1)),
    "guarded": ("B[i,j] = (A[i-1,j] else 5) + A[i,j]", lambda a: a + np.vstack([np.full((1, a.shape[1]), 5, a.dtype), a[:-1]])),
    "gathered": ("B[i] = A[k[i], 0]", lambda a: a[np.clip(np.arange(-3, a.shape[0] + 3), 0, a.shape[0] - 1), 0]),
    "shifted": ("B[i,j] = A[i,j] + A[i,j+1]", lambda a: a[:, :-1] + a[:, 1:])}


@pytest.mark.part(19)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", [n for n in VIEWS if n != "repeated"])
def test_programs(name: str, text: str) -> None:
    """Guards and clamped indices mean the ends of the view, not those of the memory around it."""
    a, (program, expected) = VIEWS[name](BASE), TEXTS[text]
    given = (a, np.arange(-3, a.shape[0] + 3)) if text == "gathered" else (a,)
    compiled = polytc.compile(program, threads=1)
    found = compiled(*given)
    found = found.k if text == "largest" else found
    np.testing.assert_allclose(found, expected(a), rtol=1e-4, atol=1e-4)
    again = compiled(*given)
    np.testing.assert_array_equal(again.k if text == "largest" else again, found)
    assert len(compiled._ready) == 1


@pytest.mark.part(5)
@pytest.mark.parametrize("name", ["corner", "every second from 1", "last columns", "transposed columns", "backwards by 2"])
def test_nothing_behind_the_memory_is_touched(name: str) -> None:
    """The array ends at a protected page, as does what it lies in."""
    for side in ("end", "start"):
        memory = guarded("A", BASE.nbytes, side, align=4)
        base = memory.array.view(np.float32).reshape(BASE.shape)
        base[...] = BASE
        a = VIEWS[name](base)
        for text, (program, expected) in TEXTS.items():
            if text not in ("gathered", "largest"):
                np.testing.assert_allclose(polytc.run(program, a), expected(a), rtol=1e-4, atol=1e-4)
        memory.check()


def test_others_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other targets, arrays written in place, indices that are checked, open sizes, schedules."""
    made: list[object] = []
    monkeypatch.setattr("polytc.program.inputs.strides.read_in_place", lambda *args: made.append(args))
    text, a = "B[i,j] = A[i,j] + 1", BASE.T
    for options in ({"target": "interp"}, {"checked": True}, {"shapes": {"A": ("M", "N")}}, {"schedule": "program"}):
        np.testing.assert_array_equal(polytc.compile(text, **options)(a[:9]), a[:9] + 1)
    changed = polytc.compile("def f(inout f32[M,N] A) { A[i,j] += 1 }")(a.copy(order="F"))
    np.testing.assert_array_equal(changed, a + 1)
    assert not made


def test_after_so_many_places_arrays_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op, "PLACES", 3)
    compiled = polytc.compile("S[i] += A[i,j]")
    for k in range(6):
        a = BASE[:, k:k + 50]
        np.testing.assert_allclose(compiled(a), a.sum(1), rtol=1e-4, atol=1e-5)
    assert len(compiled._lying) == 3
    assert len(compiled._ready) <= 4


def test_results_into_strides() -> None:
    scaled, large = polytc.compile("B[i,j] = A[i,j]*2"), np.zeros((96, 240), np.float32)
    assert (out := large[:, ::2]) is scaled(BASE, out=out)
    np.testing.assert_array_equal(large[:, ::2], BASE * 2)
    assert not large[:, 1::2].any()
    turned = np.empty((120, 96), np.float32).T
    scaled(BASE, out=turned)
    np.testing.assert_array_equal(turned, BASE * 2)
    both = polytc.compile("P[i,j] = A[i,j]*2; Q[i,j] = A[i,j]*3")
    p = np.empty((96, 120), np.float32)
    both(BASE, out=(p, turned))
    np.testing.assert_array_equal(p, BASE * 2)
    np.testing.assert_array_equal(turned, BASE * 3)


def test_results_into_gaps_of_an_input() -> None:
    """What lies between the elements of an input is no part of it."""
    memory = np.zeros((100, 400), np.float32)
    memory[:, ::2] = 1
    a, row = memory[:50, ::2], memory[60, :200]
    np.testing.assert_array_equal(polytc.run("S[j] += A[i,j]", a, out=row), np.full(200, 50))
    shared = memory[:, 1::2]
    polytc.run("B[i,j] = A[i,j]*7", memory[:, ::2].copy(), out=shared)
    assert set(shared[61]) == {7}


def test_einsum_of_views() -> None:
    a, b = BASE.T, BASE[:, ::-1]
    np.testing.assert_allclose(polytc.einsum("ij,jk->ik", a, b), a @ b, rtol=1e-4, atol=1e-3)


def test_no_copy_and_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code for a view reads the memory itself: what is written there between two calls is seen."""
    compiled, memory = polytc.compile("S[i] += A[i,j]"), BASE.copy()
    compiled(memory.T)
    monkeypatch.setattr(compiler, "start_program", lambda *args: pytest.fail("it was compiled before"))
    memory[3] += 1
    np.testing.assert_allclose(compiled(memory.T), memory.sum(0), rtol=1e-4, atol=1e-4)
