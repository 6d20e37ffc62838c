"""The smallest and the largest of values that isl has as fractions."""

from __future__ import annotations

import islpy
import pytest

from polytc.poly import isl


@pytest.mark.parametrize(("values", "expected"), [
    ("{ S[i] -> [(floor((i)/2))] : 0 <= i < 9 }", (0, 4)),
    ("{ S[i] -> [((i)/2)] : 2 <= i < 9 and i mod 2 = 0 }", (1, 4)),
    ("{ S[i] -> [((i)/2)] : 2 <= i < 9 and i mod 2 = 0; T[j] -> [(-j)] : 0 <= j < 3 }", (-2, 4)),
])
def test_ends(values: str, expected: tuple[int, int]) -> None:
    found = isl.ends(islpy.UnionPwAff.read_from_str(isl.new_context(), values))
    assert tuple(v.to_python() for v in found) == expected


def test_no_end() -> None:
    values = "{ S[i] -> [((i)/2)] : i >= 4 and i mod 2 = 0; T[j] -> [(j)] : 0 <= j < 3 }"
    low, high = isl.ends(islpy.UnionPwAff.read_from_str(isl.new_context(), values))
    assert low.to_python() == 0
    assert high.is_infty()
