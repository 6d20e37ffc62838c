"""Copies with plain subscripts for sums that read through subscripts in pieces many times."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc import stages
from polytc.lang import evaluate
from polytc.program import program as pr
from polytc.rewrite.tidy import piecewise_copies

R = np.random.default_rng(4)

COPIED = {
    "O[m,h,w] += X[c,clamp(h+r-1,0,8),clamp(w+s-1,0,8)]*W[m,c,r,s] where h in 0:9, w in 0:9": (4, 9, 9),
    "O[m,h,w] += X[c,abs(h+r-1),(w+s+8)%9]*W[m,c,r,s] where h in 0:8, w in 0:9": (4, 9, 9),
    "O[m,h,w] += (X[c,max(h+r-1,0),w+s-2] else 3)*W[m,c,r,s] where h in 0:7, w in 0:9": (4, 9, 9),
    "O[m,h,w] += X[c,h+r-1 < 0 ? 1-h-r : h+r-1,w]*W[m,c,r,s] where h in 0:8": (4, 9, 9)}
LEFT = {
    "O[h,w] += X[0,clamp(h+r-1,0,8),clamp(w+s-1,0,8)]*W[0,0,r,s] where h in 0:9, w in 0:9": (4, 9, 9),      # few uses
    "O[m,h,w] += X[c,max(h,r),w]*W[m,c,r,s] where h in 0:9": (4, 9, 9)}                                     # no one form


def built(text: str, shape: tuple[int, ...]) -> tuple[pr.Program, dict[str, np.ndarray]]:
    given = {n: R.integers(-9, 9, s).astype(np.int32) for n, s in (("X", shape), ("W", (16, shape[0], 3, 3)))}
    return stages.build(text, {n: a.shape for n, a in given.items()}, dict.fromkeys(given, np.dtype("i4"))), given


@pytest.mark.part(4)
@pytest.mark.parametrize("text", COPIED)
def test_what_is_copied(targets: tuple[str, ...], text: str) -> None:
    before, given = built(text, COPIED[text])
    after = piecewise_copies.materialise(before)
    assert [t.name for t in after.tensors if t not in before.tensors] == ["X_pieces"]
    largest = max(after.statements, key=lambda s: s.points)
    assert not any(x in pr.format_expr(largest.value) for x in ("%", "clamp", "max(", "abs", "?"))
    expected = evaluate(before, given)["O"]
    np.testing.assert_array_equal(evaluate(after, given)["O"], expected)
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, **given, target=target), expected)


@pytest.mark.parametrize("text", LEFT)
def test_what_is_not(text: str) -> None:
    program, given = built(text, LEFT[text])
    assert piecewise_copies.materialise(program) == program
    np.testing.assert_array_equal(polytc.run(text, **given), polytc.evaluate(text, **given))


BOX = "where i in 0:40, j in 0:30, a in 0:3, b in 0:2"
TABLES = {
    f"Y[i,j] += X[T[i+a],U[j+b]] {BOX}": lambda x, t, u, i, j, a, b: x[t[i + a], u[j + b]],
    f"Y[i,j] += (X[T[i+a]+20,j+b-1] else 5) {BOX}": lambda x, t, u, i, j, a, b:
        np.where((t[i + a] < 20) & (j + b >= 1), x[np.minimum(t[i + a] + 20, 39), np.maximum(j + b - 1, 0)], 5),
    f"Y[i,j] += X[T[T[i+a]],min(j+b,29)] {BOX}": lambda x, t, u, i, j, a, b: x[t[t[i + a]], np.minimum(j + b, 29)],
    f"Y[i,j] max= X[39-i,U[j+b]-U[j+b]%2] {BOX}": lambda x, t, u, i, j, a, b: x[39 - i, u[j + b] // 2 * 2] + 0*a}
LEFT_TABLES = (
    "Y[i] += X[T[i],k] where k in 0:30",                                        # the place of a row is found once
    "Y[i,b] += X[T[i],U[b]]*a where a in 0:3, i in 0:40, b in 0:30",            # few uses
    "Y[i,j] += X[T[i+a],j] where i in 0:40, i <= 37, a in 0:3, a < 40 - i",     # the table ends before the box does
    "Y[i,j] += X[T[i+a]+i,j] where i in 0:38, a in 0:3")                        # no one form


def tables() -> dict[str, np.ndarray]:
    return {"X": R.integers(-9, 9, (40, 30)).astype(np.int32), "T": R.integers(0, 40, 42), "U": R.integers(0, 30, 31)}


@pytest.mark.part(4)
@pytest.mark.parametrize("text", TABLES)
def test_windows_over_tables_are_gathered_once(targets: tuple[str, ...], text: str) -> None:
    given = tables()
    i, j, a, b = np.ogrid[:40, :30, :3, :2]
    terms = TABLES[text](*given.values(), i, j, a, b)
    terms = np.broadcast_to(terms, (40, 30, 3, 2))
    expected = terms.max((2, 3)) if "max=" in text else terms.sum((2, 3))
    used = {n: x for n, x in given.items() if f"{n}[" in text}
    before = stages.build(text, {n: x.shape for n, x in used.items()}, {n: x.dtype for n, x in used.items()})
    after = piecewise_copies.materialise(before)
    assert [t.name for t in after.tensors if t not in before.tensors] == ["X_pieces"]
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, **used, target=target), expected)


@pytest.mark.parametrize("text", LEFT_TABLES)
def test_tables_that_are_read_in_place(text: str) -> None:
    given = {n: x[:40] if "40 - i" in text and n == "T" else x for n, x in tables().items() if f"{n}[" in text}
    program = stages.build(text, {n: x.shape for n, x in given.items()}, {n: x.dtype for n, x in given.items()})
    assert piecewise_copies.materialise(program) == program


def test_a_table_that_is_written_between_two_sums() -> None:
    """The second sum has a copy of its own."""
    box = "where i in 0:40, j in 0:30, a in 0:3"
    sums = [f"{y}[i,j] += X[T[i+a],j] {box}" for y in "YZ"]
    text = f"def f(i32[40,30] X, inout i64[42] T) -> (Y, Z) {{ {sums[0]}; T[i] = 7; {sums[1]} }}"
    given = tables()
    x, t = given["X"], given["T"].copy()
    window = np.lib.stride_tricks.sliding_window_view
    y, z = polytc.run(text, X=x, T=t)
    np.testing.assert_array_equal(y, window(x[given["T"]], 3, 0).sum(2))
    np.testing.assert_array_equal(z, window(x[np.full(42, 7)], 3, 0).sum(2))


def test_a_table_that_is_checked() -> None:
    given = tables()
    given["T"][5] = 40
    op = polytc.compile(f"Y[i,j] += X[T[i+a],U[j+b]] {BOX}", shapes={n: x.shape for n, x in given.items()},
                        dtypes={n: x.dtype for n, x in given.items()}, checked=True)
    with pytest.raises(IndexError, match="X"):
        op(**given)
