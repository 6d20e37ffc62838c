"""Which instances are in each other's way, against all pairs of instances of small programs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import islpy
import pytest

from polytc.program.affine import Affine, Linear
from polytc.schedule.facts.conflicts import FEW, Conflicts, Distances, reduced, text

I, J, BOTH = Affine(0, (("i", 1),)), Affine(0, (("j", 1),)), Affine(0, (("i", 1), ("j", 1)))
FORMS = [I, J, BOTH, Affine(3, (("j", -1),)), Affine(0, (("i", 1), ("j", -1))), Affine(-1, (("i", 2), ("j", 1))), Affine(5, ())]
SIDE = 7
SOME = ["[i, j] -> [i + 1, j]", "[i, j] -> [i + 1, j - 1]", "[i, j] -> [i, j + 2]",
        "[i, j] -> [k, j] : i < k", "[i, j] -> [i + 1, l] : l != j", "[i, j] -> [k, l] : i + j = k + l and i < k",
        "[i, j] -> [k, l] : k > i + 2 and l > j", "[i, j] -> [i + 2, j + 1]; [i, j] -> [i, j + 3]", "[i, j] -> [i, j] : 1 = 0"]
BOX = f"[i, j] : 0 <= i, j < {SIDE}"
Point = tuple[int, int]
Pair = tuple[Point, Point]


def value(row: Linear, p: Point) -> int:
    return row.constant + sum(c * p["ij".index(i)] for i, c in row.terms)


def agree(rows: tuple[Linear, ...], pair: Pair) -> bool:
    return all(value(r, pair[0]) == value(r, pair[1]) for r in rows)


def pairs(m: islpy.Map) -> list[Pair]:
    found: list[Pair] = []
    m.wrap().foreach_point(lambda p: found.append(tuple(
        tuple(int(p.get_coordinate_val(islpy.dim_type.set, 2 * s + d).to_python()) for d in (0, 1)) for s in (0, 1))))
    return found


def made(text: str, source: str = "S", sink: str = "S", *, bounded: bool = True) -> tuple[Conflicts, list[Pair]]:
    """Of pairs in a box, or in all of the plane, which are too many to be written out."""
    ctx = islpy.Context()
    box = islpy.Set.read_from_str(ctx, f"{{ {BOX} }}")
    where = islpy.Map.read_from_str(ctx, f"{{ {text} }}")
    here = where.intersect_domain(box).intersect_range(box)
    named = (here if bounded else where).set_tuple_name(islpy.dim_type.in_, source).set_tuple_name(islpy.dim_type.out, sink)
    union = islpy.UnionMap.from_map(named)
    nothing = islpy.UnionMap.read_from_str(ctx, "{ }")
    return Conflicts.of({"S": ("i", "j"), "T": ("i", "j")}, union, union, nothing), pairs(here)


def choices() -> Iterator[tuple[tuple[Linear, ...], tuple[Linear, ...]]]:
    rng = random.Random(0)
    for fixed in (0, 1, 2):
        for loops in (1, 2):
            for _ in range(6):
                yield tuple(rng.choices(FORMS, k=fixed)), tuple(rng.choices(FORMS, k=loops))


def ordered(pair: Pair, rows: tuple[Linear, ...]) -> bool:
    times = [tuple(value(r, p) for r in rows) for p in pair]
    return times[0] < times[1]


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("given", SOME)
def test_loops_of_one_statement(given: str, bounded: bool) -> None:
    """Whether they keep all pairs in order, and whether one carries some; distances are those of the plane."""
    conflicts, known = made(given, bounded=bounded)
    for fixed, loops in choices():
        left = [p for p in known if agree(fixed, p)]
        assert conflicts.legal("S", fixed, loops) == all(ordered(p, loops) for p in left), (fixed, loops)
        assert conflicts.carries("S", fixed, loops[0]) == any(not agree(loops[:1], p) for p in left), (fixed, loops)
        same = tuple((r, r) for r in (*fixed, *loops))
        assert conflicts.follows("S", "S", same) == any(agree(loops, p) for p in left), (fixed, loops)
    assert conflicts.legal("T", (), (I,))
    assert not conflicts.carries("T", (), I)
    assert not conflicts.follows("S", "T", ())
    assert not conflicts.follows("T", "T", ())


@pytest.mark.parametrize("given", SOME)
def test_loops_over_two_statements(given: str) -> None:
    conflicts, known = made(given, "S", "T")
    rng = random.Random(1)
    for a, b, c, d in (rng.choices(FORMS, k=4) for _ in range(30)):
        left = [(p, q) for p, q in known if value(a, p) == value(b, q)]
        assert conflicts.follows("S", "T", ((a, b),)) == bool(left)
        assert not conflicts.follows("T", "S", ((b, a),))
        expected = all(value(c, p) == value(d, q) for p, q in left)
        assert conflicts.together({"S": c, "T": d}, {"S": (a,), "T": (b,)}) == expected


def test_parts_are_ordered_by_what_follows_what() -> None:
    ctx = islpy.Context()
    edges = "{ A[i] -> B[i]; B[i] -> A[i + 1]; C[i] -> A[i]; D[i] -> C[i + 1]; C[i] -> D[i] }"
    order = islpy.UnionMap.read_from_str(ctx, edges)
    conflicts = Conflicts.of(dict.fromkeys("ABCDE", ("i",)), order, order, islpy.UnionMap.read_from_str(ctx, "{ }"))
    parts = [("A",), ("E",), ("B",), ("C",), ("D",)]
    assert conflicts.components(parts, dict.fromkeys("ABCDE", ())) == [[1], [3, 4], [0, 2]]
    assert conflicts.components(parts, dict.fromkeys("ABCDE", (I,))) == [[1], [3], [0], [2], [4]]


def test_reductions_meet_in_one_element() -> None:
    ctx = islpy.Context()
    meet = islpy.UnionMap.read_from_str(ctx, f"{{ S[i, j] -> S[i, l] : 0 <= i, j, l < {SIDE} and j != l }}")
    conflicts = Conflicts.of({"S": ("i", "j"), "T": ("i", "j")}, islpy.UnionMap.read_from_str(ctx, "{ }"), meet, meet)
    assert conflicts.reduces("S", (I,), J)
    assert not conflicts.reduces("S", (), J)
    assert not conflicts.reduces("S", (J,), I)
    assert not conflicts.reduces("T", (I,), J)


def test_what_is_left_of_a_row() -> None:
    """Points that agree in the rows that stand still differ in it as in the row itself; their indices are gone."""
    points = list(product(range(SIDE), repeat=2))
    for row, *fixed in product(FORMS, repeat=3):
        found = reduced(row, tuple(fixed))
        assert found.constant == 0
        for p, q in zip(points, reversed(points), strict=True):
            if agree(tuple(fixed), (p, q)):
                assert value(found, p) - value(found, q) == value(row, p) - value(row, q)
        assert {reduced(found, tuple(fixed)), reduced(Affine(9, row.terms), tuple(fixed))} == {found}
        assert not reduced(fixed[0], tuple(fixed)).terms
    assert reduced(Affine(1, (("i", 2), ("j", 3))), (Affine(4, (("i", -1), ("k", 2))), J)) == Affine(0, (("k", 4),))


def test_forms_in_isls_notation() -> None:
    assert [text(f) for f in FORMS] == ["i", "j", "i + j", "-1*j + 3", "i + -1*j", "2*i + j + -1", "5"]
    assert text(BOTH, "'") == "i' + j'"
    assert text(Affine(0, ())) == "0"


@pytest.mark.parametrize(("side", "few"), [(4, True), (5, False), (1, True)])
def test_distances_are_written_out_where_they_are_few(side: int, few: bool) -> None:
    pairs = islpy.Map.read_from_str(islpy.Context(), f"{{ [i, j] -> [k, l] : 0 <= i, j, k, l < {side} }}")
    apart = tuple(product(range(1 - side, side), repeat=2))
    assert few == (len(apart) <= FEW)
    found = Distances.of(pairs, ("i", "j"))
    assert (None if found.few is None else sorted(found.few)) == (list(apart) if few else None)
    none = Distances.of(pairs.subtract(pairs), ("i", "j"))
    assert none.few == ()
    assert not none.meet(None, "")
