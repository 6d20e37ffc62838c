"""What tiles touch, against counting: indices from the rows of a band, spans, boxes, and rates of memories."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from polytc.lang import build
from polytc.machine import AVX2
from polytc.program.affine import Affine, Linear
from polytc.schedule.cost import footprints

INDICES = ("i", "j", "k")


def value(row: Linear, point: dict[str, int]) -> int:
    return row.constant + sum(c * point[i] for i, c in row.terms)


def rows(rng: random.Random, count: int) -> list[Linear]:
    made = ({i: rng.choice((-2, -1, 0, 0, 1, 1, 3)) for i in INDICES} for _ in range(count))
    return [Affine(rng.randrange(-3, 4), tuple((i, c) for i, c in terms.items() if c)) for terms in made]


@pytest.mark.parametrize("seed", range(30))
def test_indices_follow_from_rows(seed: int) -> None:
    """Each index that is found is that sum of rows, but for a number; all are where the rows have full rank."""
    rng = random.Random(seed)
    given = rows(rng, rng.randrange(1, 5))
    found = footprints.inverse(INDICES, given)
    for index, parts in found.items():
        sums = {sum(c * (value(given[n], point) - given[n].constant) for n, c in parts.items()) - point[index]
                for point in (dict(zip(INDICES, p, strict=True)) for p in product((0, 1, 5), repeat=3))}
        assert sums == {0}
    assert set(found) == {i for i in INDICES if _spanned(given, i)}


def _spanned(given: list[Linear], index: str) -> bool:
    """Is the unit vector a sum of rows? It adds nothing to their rank then."""
    vectors = [[row.coefficient(i) for i in INDICES] for row in given]
    return _rank(vectors) == _rank([*vectors, [int(i == index) for i in INDICES]])


def _rank(vectors: list[list[int]]) -> int:
    left, rank = [[Fraction(x) for x in v] for v in vectors], 0
    for d in range(len(INDICES)):
        pivot = next((v for v in left if v[d]), None)
        if pivot is None:
            continue
        left = [[x - y * v[d] / pivot[d] for x, y in zip(v, pivot, strict=True)] for v in left if v is not pivot]
        rank += 1
    return rank


@pytest.mark.parametrize(("first", "second"), [
    ({"i": 1}, {"j": 1}), ({"i": 1, "j": 1}, {"j": 1}), ({"j": 1}, {"i": 1, "j": -1}), ({"i": 1, "j": 2}, {"i": 1, "j": 1})])
def test_spans_are_those_of_the_largest_tile(first: dict[str, int], second: dict[str, int]) -> None:
    s = build("Y[i,j] = X[i,j]", {"X": (20, 24)}).statements[-1]
    program = build("Y[i,j] = X[i,j]", {"X": (20, 24)})
    band = [Affine(0, tuple(sorted(row.items()))) for row in (first, second)]
    found = footprints.reach(program, s, band)
    points = [{"i": i, "j": j} for i in range(20) for j in range(24)]
    for sizes in ((1, 1), (4, 1), (1, 4), (4, 3), (4, None), (None, None)):
        tiles: dict[tuple[int, ...], list[dict[str, int]]] = {}
        for p in points:
            tiles.setdefault(tuple(value(r, p) // n if n else 0 for r, n in zip(band, sizes, strict=True)), []).append(p)
        for index, span in found.spans(sizes).items():
            largest = max(max(p[index] for p in t) - min(p[index] for p in t) + 1 for t in tiles.values())
            assert largest <= span <= {"i": 20, "j": 24}[index]
            assert span == largest or len(first) + len(second) > 2


def test_bytes_of_the_boxes_of_all_tensors() -> None:
    program = build("Y[i,j] += A[i,k] * B[k,2*j+1] * A[i+1,k] where i in 0:9", {"A": (10, 20), "B": (20, 40)},
                    {"A": "f32", "B": "f64"})
    s = program.statements[-1]
    found = footprints.reach(program, s, [Affine(0, ((i, 1),)) for i in ("i", "j", "k")])
    of = {r.index: r.extent for r in s.ranges}
    for sizes in ((1, 1, 1), (2, 3, 5), (9, 2, 20), (None, None, None)):
        i, j, k = (n or of[x] for x, n in zip("ijk", sizes, strict=True))
        bytes_y = program.tensor("Y").dtype.bytes
        assert footprints.touched([(found, found.spans(sizes))]) == bytes_y * i * j + 4 * i * k + 8 * k * (2 * j - 1)
    assert footprints.touched([]) == 0


def test_ends_of_rows() -> None:
    s = build("Y[i,j] = X[i,j] where i in 2:20, j in 3:24", {"X": (20, 24)}).statements[-1]
    for terms, constant in (((("i", 1),), 0), ((("i", 1), ("j", -2)), 5), ((), 7)):
        row = Affine(constant, terms)
        values = [value(row, {"i": i, "j": j}) for i in range(2, 20) for j in range(3, 24)]
        assert footprints.row_ends(s, row) == (min(values), max(values))


def test_farther_memories_are_slower() -> None:
    ends = [c.bytes for c in AVX2.caches]
    rates = [footprints.rate(AVX2, size) for size in (*ends, ends[-1] + 1)]
    assert rates[0] == 0.0
    assert rates == sorted(rates)
    assert len(set(rates)) == len(rates)
    assert [footprints.rate(AVX2, n + 1) for n in ends] == rates[1:]
    more = replace(AVX2, caches=(*AVX2.caches, *(replace(AVX2.caches[-1], bytes=ends[-1] * n) for n in (2, 4))))
    assert footprints.rate(more, ends[-1] * 4) == footprints.rate(more, ends[-1] * 5) == rates[-1]
