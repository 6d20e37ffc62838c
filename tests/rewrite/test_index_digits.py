"""An index as two digits: what becomes of each of its uses."""

from __future__ import annotations

from dataclasses import replace

from polytc import stages
from polytc.program import program as pr
from polytc.rewrite import index_digits
from tests.rewrite.equal import same_results


def test_uses() -> None:
    before = stages.build("C[k] = a[k//4] + a[k%4] + b[k//8] + b[k%8]*a[k//6] where k in 8:24", {"a": (9,), "b": (8,)}, {})
    (s,) = before.statements
    (r,) = s.ranges
    after = replace(before, statements=(index_digits.in_digits(
        s, r, pr.Range("h", 2, 6), pr.Range("l", 0, 4)),))
    found = str(after)
    for part in ("C[4 * h + l]", "a[h]", "a[l]", "b[h // 2]", "b[4 * (h % 2) + l]", "a[(4 * h + l) // 6]"):
        assert part in found, part
    same_results(before, after)
