"""Dependences by their distances: the nearest of each kind, where all distances are bounded then."""

from __future__ import annotations

import islpy
import pytest

from polytc.poly import uniform_dependences

CTX = islpy.Context()
DOMAIN = islpy.UnionSet.read_from_str(CTX, "{ S[t, i] : 0 <= t < 9 and 0 <= i < 50; P[]; Q[t] : 0 <= t < 9 }")


def relation(text: str) -> islpy.UnionMap:
    return islpy.UnionMap.read_from_str(CTX, text)


def near(*texts: str) -> list[islpy.UnionMap]:
    return list(uniform_dependences.nearest_distances([relation(t) for t in texts], DOMAIN))


BOX = "0 <= t, u < 9 and 0 <= i, j < 50"


@pytest.mark.parametrize(("given", "expected"), [
    (f"{{ S[t, i] -> S[u, j] : u > t and j = i + 1 and {BOX} }}", "{ S[t, i] -> S[t + 1, i + 1] }"),
    (f"{{ S[t, i] -> S[u, j] : u >= t and j = i + 1 and {BOX} }}", "{ S[t, i] -> S[u, i + 1] : t <= u <= t + 1 }"),
    (f"{{ S[t, i] -> S[u, j] : u > t and i - 1 <= j <= i + 1 and {BOX} }}", "{ S[t, i] -> S[t + 1, j] : i - 1 <= j <= i + 1 }"),
])
def test_distances(given: str, expected: str) -> None:
    (found,) = near(given)
    assert found.intersect_domain(DOMAIN).intersect_range(DOMAIN).is_equal(
        relation(expected).intersect_domain(DOMAIN).intersect_range(DOMAIN))
    assert "50" not in str(found)


@pytest.mark.parametrize("given", [
    f"{{ S[t, i] -> S[u, j] : u > t and {BOX} }}",                                    # any column
    f"{{ S[t, i] -> S[u, j] : u = t and j > i and {BOX} }}",
    "{ P[] -> Q[t] : 0 <= t < 9 }", "{ Q[t] -> P[] : 0 <= t < 9 }",                       # statements of other depths
    "{ Q[t] -> S[t, i] : 0 <= t < 9 and 0 <= i < 50 }",
])
def test_relations_without_bounds_stay(given: str) -> None:
    good = f"{{ S[t, i] -> S[u, j] : u > t and j = i + 1 and {BOX} }}"
    found = near(good, given)
    assert [found[0].is_equal(relation(good)), found[1].is_equal(relation(given))] == [True, True]
