"""Places of extrema by blocks: which searches get them, and that results are numpy's, of NaN, ties and infinities too."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.machine import AVX2, AVX512
from polytc.rewrite.cpu import extremum_blocks
from polytc.rewrite.cpu.extremum_blocks import Blocks
from polytc.rewrite.step import Decision
from polytc.stages import build
from tests.rewrite.equal import same_results

ROWS = "(M[i], I[i]) argmax= (A[i,j], j)"


@pytest.mark.parametrize("elements", [96, 224, 500])
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_rows_in_blocks(elements: int, op: str) -> None:
    before = build(ROWS.replace("argmax", op), {"A": (7, 1003)})
    after = extremum_blocks.split(before, Decision(AVX2, (Blocks("S1", elements),)))
    assert "S1_blocks_end" in {s.name for s in after.statements}
    same_results(before, after)


def test_rows_of_a_matrix_are_the_blocks_of_its_extremum() -> None:
    before = build("(m, I, J) argmax= (A[i,j], i, j)", {"A": (50, 200)})
    decision = extremum_blocks.decide(before, AVX2)
    assert decision.choices == (Blocks("S1", 200),)
    after = extremum_blocks.split(before, decision)
    assert after.tensor("m_blocks").shape == (50,)
    same_results(before, after)


@pytest.mark.parametrize(("text", "shape", "why"), [
    (ROWS, (7, 64), "less"),
    ("(M[j], I[j]) argmax= (A[i,j], i)", (1003, 7), ""),
    ("(M[i], I[i]) argmax= (A[i,j], j) where j <= i + 900", (7, 1003), ""),
    ("M[i] max= A[i,j]; I[i] min= A[i,j] == M[i] ? 7 - j : 9", (7, 1003), ""),
])
def test_others_have_none(text: str, shape: tuple[int, int], why: str) -> None:
    decision = extremum_blocks.decide(build(text, {"A": shape}), AVX2)
    assert not decision.choices
    assert [r.acted for r in decision.reasons] == [False] * bool(why)
    assert all(why in r.text for r in decision.reasons)


def test_choices_that_do_not_fit() -> None:
    program = build(ROWS, {"A": (7, 1003)})
    assert extremum_blocks.fits(program, AVX512, Blocks("S1", 448)) == ""
    assert "elements" in extremum_blocks.fits(program, AVX512, Blocks("S1", 7))
    assert "no extremum" in extremum_blocks.fits(program, AVX512, Blocks("S2", 448))
    (place,) = extremum_blocks.options(program, AVX512)
    assert Blocks("S1", 448) in [c for option in place for c in option.choices]


def special(dtype: str, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Random numbers, few values, one value; of floats infinities and NaN in some places."""
    rng = np.random.default_rng(3)
    plain = (1000 * rng.standard_normal(shape)).astype(dtype)
    found = [plain, rng.integers(0, 3, shape).astype(dtype), np.full(shape, 5, dtype)]
    if dtype[0] == "f":
        found += [np.full(shape, sign * np.inf, dtype) for sign in (1, -1)]
        found += [np.where(rng.random(shape) < share, np.nan, plain).astype(dtype) for share in (.0003, .02, 1)]
        found += [np.where(rng.random(shape) < .5, 0.0, -0.0).astype(dtype)]
    return found


@pytest.mark.part(9)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1", "u4"])
@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("shape", [(9, 1003), (3, 2048), (1, 100_001)])
def test_rows(dtype: str, op: str, shape: tuple[int, ...]) -> None:
    run = polytc.compile(ROWS.replace("argmax", op))
    for a in special(dtype, shape):
        found = run(a)
        np.testing.assert_array_equal(found.I, getattr(a, op)(axis=1))
        np.testing.assert_array_equal(found.M, getattr(a, op[3:])(axis=1))


@pytest.mark.part(2)
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_matrices_and_values(op: str) -> None:
    whole = polytc.compile(f"(m, I, J) {op}= (A[i,j], i, j)")
    inner = polytc.compile(f"(M[i], J[i], K[i]) {op}= (A[i,j,k], j, k)")
    value = polytc.compile(f"(m, I) {op}= (abs(x[i])*y[i], i)")
    for a in special("f4", (40, 1003)):
        found = whole(a)
        assert np.unravel_index(getattr(a, op)(), a.shape) == (found.I, found.J)
        cube = a.reshape(5, 8, 1003)
        found = inner(cube)
        np.testing.assert_array_equal(found.J*1003 + found.K, getattr(cube.reshape(5, -1), op)(axis=1))
        x, y = a.ravel(), np.roll(a.ravel(), 1)
        with np.errstate(invalid="ignore"):
            assert getattr(np.abs(x)*y, op)() == value(x, y).I


def test_values_that_change_before_their_place_is_looked_for() -> None:
    program = build("T[i,j] = A[i,j]; M[i] max= T[i,j]; T[i,j] max= B[i,j]; I[i] min= T[i,j] == M[i] ? j : 9223372036854775807"
                    " -> (M, I)", {"A": (4, 2000), "B": (4, 2000)})
    assert not extremum_blocks.decide(program, AVX2).choices


@pytest.mark.parametrize("second", ["i64(j) : 9223372036854775807", "i32(j) : 2147483647"])
def test_one_extremum_with_two_places(second: str) -> None:
    program = build("M[i] max= A[i,j]; I[i] min= A[i,j] == M[i] || A[i,j] != A[i,j] ? i32(j) : 2147483647;"
                    f"K[i] min= A[i,j] == M[i] ? {second} -> (M, I, K)", {"A": (4, 2000)})
    decision = extremum_blocks.decide(program, AVX2)
    assert len(decision.choices) == 1
    same_results(program, extremum_blocks.split(program, decision))


def test_where_and_payloads() -> None:
    a = special("f8", (9, 2000))[0]
    w = np.arange(2000) * 3
    below = polytc.compile("(M[i], I[i]) argmax= (A[i,j], j) where j <= 200*i")(a)
    np.testing.assert_array_equal(below.I, [a[i, :200*i + 1].argmax() for i in range(9)])
    found = polytc.compile("(M[i], P[i]) argmin= (A[i,j], W[j])")(a, w)
    np.testing.assert_array_equal(found.P, w[a.argmin(axis=1)])
