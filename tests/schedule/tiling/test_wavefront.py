"""Bands as planned: tiles on a diagonal in parallel, loops that carry nothing as they are, and each instance once."""

from __future__ import annotations

from itertools import product

import pytest

from polytc.machine import AVX2
from polytc.poly import nest
from polytc.schedule.facts import bands
from polytc.schedule.tiling import tile_sizes, wavefront
from tests.schedule.posed import posed, scheduled

SEIDEL = """def seidel(inout f32[N,M] A) -> (A) {
    for i in 1:N-1 { for j in 1:M-1 { A[i,j] = A[i-1,j] + A[i,j-1] + A[i,j+1] + A[i+1,j] } }
}"""
ROWS = "def rows(inout f32[N,M] A) -> (A) { for i in 0:N { for j in 1:M { A[i,j] = A[i,j-1] * 2 } } }"


def planned(text: str, sizes: tuple[int | None, ...]) -> tuple[bands.PermutableBand, tile_sizes.Plan, nest.Nest]:
    scene, _, asked = posed(text, {"A": (200, 300)}, AVX2)
    band = scheduled(asked)
    chosen = tile_sizes.given(scene, band, dict.fromkeys(bands.statements(band), ()), sizes)
    return band, chosen, wavefront.nest(scene, band, chosen, "B")


def test_tiles_on_a_diagonal_are_parallel() -> None:
    _, chosen, found = planned(SEIDEL, (8, 16))
    assert chosen.wave is not None
    assert isinstance(found, nest.Band)
    assert [m.kind for m in found.members] == ["sequential", "parallel"]
    (wave,), (own,) = (m.rows for m in found.members)
    assert wave[1].count("floor(") == 2, "the sum of both tiles' numbers"
    assert own[1] in wave[1]


def test_no_dependence_goes_from_a_tile_to_one_beside_it() -> None:
    """The diagonal of an element's tile is never below that of an element that it reads and that ran before."""
    _, _, found = planned(SEIDEL, (8, 16))
    assert isinstance(found, nest.Band)
    text = found.members[0].rows[0][1].replace("floor(", "int(").replace("/", "//")
    for i, j in product(range(1, 40), repeat=2):
        here = eval(text, {"i": i, "j": j})
        assert all(eval(text, {"i": y, "j": x}) <= here for y, x in ((i - 1, j), (i, j - 1)))


@pytest.mark.parametrize("sizes", [(None, None), (8, None)])
def test_loops_that_carry_nothing_are_parallel_as_they_are(sizes: tuple[int | None, ...]) -> None:
    band, chosen, found = planned(ROWS, sizes)
    assert chosen.wave is None
    assert any(loop.coincident for loop in band.loops)
    assert nest.statements(found) == ("S1",)
    if any(sizes):
        assert isinstance(found, nest.Band)
        assert found.members[0].kind == "parallel"
