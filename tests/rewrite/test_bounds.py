"""What domains say about forms, against all instances one by one."""

from __future__ import annotations

from itertools import product

import pytest

from polytc.program import affine
from polytc.program import program as pr
from polytc.program.affine import Affine
from polytc.rewrite import bounds
from polytc.stages import build


def statement(where: str) -> pr.Statement:
    return build(f"Y[i,j] += X[i,j] where {where}", {"X": (6, 5)}).statements[-1]


@pytest.mark.parametrize("where", ["i in 0:6", "i >= 2", "i > j", "j <= i - 1", "2*i + j >= 3", "i in 1:4, j in 2:5"])
@pytest.mark.parametrize("terms", [(("i", 1),), (("i", 1), ("j", -1)), (("j", 1),), (("i", 2), ("j", 1)), (("j", -1),)])
@pytest.mark.parametrize("constant", [0, -1, 3])
def test_at_least_holds_at_each_instance(where: str, terms: tuple[tuple[str, int], ...], constant: int) -> None:
    s, subject = statement(where), Affine(constant, terms)
    box = pr.box(s.ranges)
    points = [dict(zip(box, p, strict=True)) for p in product(*(range(lo, hi + 1) for lo, hi in box.values()))]
    values = [affine.at(subject, p) for p in points if all(bool(affine.truth(w, lambda i, p=p: p[i])) for w in s.where)]
    proved = [least for least in range(-9, 16) if bounds.at_least(subject, least, s)]
    assert proved
    assert max(proved) <= min(values)
    if not s.where:
        assert max(proved) == min(values)


def test_a_condition_alone_proves_what_the_box_does_not() -> None:
    s = statement("i > j")
    assert bounds.at_least(Affine(0, (("i", 1), ("j", -1))), 1, s)
    assert not bounds.at_least(Affine(0, (("i", 1), ("j", -1))), 2, s)


def test_a_box_without_the_index_says_nothing() -> None:
    form = Affine(0, (("i", 1),))
    assert bounds.box_interval(form, ()) == (float("-inf"), float("inf"))
    assert bounds.box_interval(form, (pr.Range("i", 2, 7),)) == (2, 6)
