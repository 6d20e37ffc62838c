"""Borders of subscripts in pieces, periodic ones among them: what is split off, and that results are those of the text."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc import stages
from polytc.lang import evaluate
from polytc.program import program as pr
from polytc.rewrite.tidy import borders

R = np.random.default_rng(2)

SPLIT = {
    "Y[i] = X[(i+31)%32] + X[(i+1)%32] where i in 0:32": {"X": (32,)},
    "Y[i] = X[(i+5)%32] where i in 0:32": {"X": (32,)}, "Y[i] = X[(i-5)%32] where i in 0:32": {"X": (32,)},
    "Y[i] = X[(37-i)%32] where i in 0:32": {"X": (32,)}, "Y[i] = X[(i+100)%32] where i in 3:30": {"X": (32,)},
    "N[i,j] += X[(i+a+15)%16, (j+b+15)%16] where a in 0:3, b in 0:3, i in 0:16, j in 0:16": {"X": (16, 16)},
    "Y[i,j] = X[(i-1)%16,j]*X[i,(j+1)%24] - X[(i+1)%16,(j-1)%24] where i in 0:16, j in 0:24": {"X": (16, 24)},
    "Y[i] max= X[(i+k)%32]*w[k] where i in 0:32": {"X": (32,), "w": (5,)},
    "Y[i] += X[(2*k+i)%32] where i in 0:32, k in 0:4": {"X": (32,)},
    "Y[i] += X[(i+k)%32] where i in 0:32, k in 0:9, k <= i": {"X": (32,)},
    "Y[i,j] = X[clamp(i-1,0,15),min(j+2,23)] + X[max(i-3,0),j] where i in 0:16, j in 0:24": {"X": (16, 24)},
    "N[i,j] += X[clamp(i+a-1,0,15),abs(j+b-1)] where a in 0:3, b in 0:3, i in 0:16, j in 0:15": {"X": (16, 16)},
    "Y[i] += X[i+k-2 < 0 ? 2-i-k : i+k-2 > 31 ? 64-i-k : i+k-2]*w[k] where i in 0:32": {"X": (32,), "w": (5,)},
    "Y[i] = X[!(i >= 3 && i != 40 || i == 50) ? 3-i : i-3] where i in 0:32": {"X": (32,)},
    "Y[i] = X[clamp(2*i-1,0,31)] where i in 0:16": {"X": (32,)}, "Y[i] = X[i == 3 ? 0 : i] where i in 0:32": {"X": (32,)},
    "Y[i] max= X[(clamp(i+k-2,0,31)+5) % 32] where i in 0:32, k in 0:5": {"X": (32,)}}

LEFT = {
    "Y[i] += X[(i+k)%32] where i in 0:32, k in 0:32": {"X": (32,)},   # nothing is inside
    "S += X[(i+3)%32] where i in 0:32": {"X": (32,)},                 # no index of the result
    "Y[i] = X[(3*i)%32] where i in 0:32": {"X": (32,)},
    "Y[i] = X[i%4] where i in 0:32": {"X": (32,)},
    "S += X[max(i,3)] where i in 0:32": {"X": (32,)},
    "Y[i] = X[max(i,Q[i])] where i in 0:32": {"X": (32,), "Q": (32,)},
    "def f(inout i32[32] X) { Y[i] = X[i]\n for t in 0:32 { X[t] = Y[max(t-1,0)] } }": {"X": (32,)}}


def built(text: str, shapes: dict[str, tuple[int, ...]]) -> pr.Program:
    return stages.build(text, shapes, dict.fromkeys(shapes, np.dtype("i4")))


def arrays(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    return {n: R.integers(-9, 9, s).astype(np.int32) for n, s in shapes.items()}


@pytest.mark.part(9)
@pytest.mark.parametrize("text", SPLIT)
def test_what_is_split(targets: tuple[str, ...], text: str) -> None:
    before, given = built(text, SPLIT[text]), arrays(SPLIT[text])
    after = borders.split(before)
    largest = max((s for s in after.statements if "_init" not in s.name), key=lambda s: s.points)
    assert not any(x in pr.format_expr(largest.value) for x in ("%", "clamp", "min(", "max(", "abs", "?"))
    assert sum(s.points for s in after.statements) == sum(s.points for s in before.statements)
    (name,) = before.outputs
    expected = evaluate(before, given)[name]
    np.testing.assert_array_equal(evaluate(after, given)[name], expected)
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, **given, target=target), expected)


@pytest.mark.parametrize("text", LEFT)
def test_what_stays(text: str) -> None:
    program, given = built(text, LEFT[text]), arrays(LEFT[text])
    assert borders.split(program) == program
    np.testing.assert_array_equal(polytc.run(text, **given), polytc.evaluate(text, **given))


def test_what_never_wraps_has_no_remainder() -> None:
    (s,) = borders.split(built("Y[i] = X[(i+40)%32] where i in 0:9", {"X": (32,)})).statements
    assert pr.format_expr(s.value) == "X[i + 8]"


def test_steps_of_time(targets: tuple[str, ...]) -> None:
    """Statements in a loop are split in it."""
    text = """def f(inout i32[16,16] A) { for t in 0:5 {
        B[i,j] = (A[(i-1)%16,j] + A[(i+1)%16,j] + A[i,(j-1)%16] + A[i,(j+1)%16]) & 255
        A[i,j] = B[i,j] } }"""
    expected = R.integers(0, 256, (16, 16)).astype(np.int32)
    a = expected.copy()
    for _ in range(5):
        expected = sum(np.roll(expected, d, axis) for d in (1, -1) for axis in (0, 1)) & 255
    for target in targets:
        given = a.copy()
        polytc.compile(text, target)(given)
        np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("mask", ["j >= 63 - i", "!(j <= i) || j < i - 30", "j <= i && j > i - 20", "i + j < 100"])
def test_masks_stay(mask: str) -> None:
    program = stages.build(f"Y[i,j] = {mask} ? X[i,j] : 0.0", {"X": (131, 200)}, {})
    assert borders.split_all(program) == program


def test_parts_that_never_run(targets: tuple[str, ...]) -> None:
    """Conditions may leave nothing of a part, about which isl's scheduler says nothing."""
    text = """def f(i32[5,5] A, i32[4,4] B) -> (T) {
        T[i,j] = A[i,j]
        for t in 0:4 {
            T[i,t] = B[t,t] where i in 0:5
            T[i,j] = B[i%3,j%3] + B[t,t] where i in 0:t+1, j in t:5
        } }"""
    shapes = {"A": (5, 5), "B": (4, 4)}
    parts = [s for s in borders.split(built(text, shapes)).statements if s.name.startswith("S3")]
    assert [s.name for s in parts] == ["S3", "S3_behind", "S3_behind2_behind"]
    given = arrays(shapes)
    expected = given["A"].copy()
    for t in range(4):
        expected[:, t] = given["B"][t, t]
        for i, j in np.ndindex(t + 1, 5 - t):
            expected[i, j + t] = given["B"][i % 3, (j + t) % 3] + given["B"][t, t]
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, **given, target=target), expected)


@pytest.mark.parametrize("text", [t for t in SPLIT if "+=" in t or "max=" in t])
def test_parts_of_sums_begin_where_they_are_kept(text: str) -> None:
    """Each part follows what its elements start from, so that both share loops and the sum stays in registers."""
    after = borders.split(built(text, SPLIT[text])).statements
    updates = [n for n, s in enumerate(after) if s.op is not None]
    assert len(updates) > 1
    for n in updates:
        start, part = after[n - 1], after[n]
        assert start.op is None
        assert [(r.lower, r.upper) for r in start.ranges] == [(r.lower, r.upper) for r in part.ranges[:len(start.ranges)]]


def test_a_start_that_is_no_start_stays_whole() -> None:
    """Of other elements than those that are updated, or turned."""
    for start in ("Y[i,j] = 0 where i in 0:17, j in 0:16", "Y[j,i] = Z[j,i]", "Y[i,j] = i where i in 0:16, j in 0:16, i < j"):
        update = "Y[i,j] += X[(i+1)%16,(j+k)%16] where i in 0:16, j in 0:16, k in 0:3"
        text = f"Y[i,j] = 7 where i in 0:17, j in 0:16; {start}; {update}"
        shapes = {"X": (16, 16)} | ({"Z": (17, 16)} if "Z" in start else {})
        program = borders.split(built(text, shapes))
        assert [s.name for s in program.statements[:2]] == ["S1", "S2"]
        given = arrays(shapes)
        np.testing.assert_array_equal(evaluate(program, given)["Y"], polytc.evaluate(text, **given))
