"""Indices as sums of others with strides: each value once, and linear forms of them."""

from __future__ import annotations

from itertools import product

from polytc.program.affine import Affine, Linear
from polytc.program.program import Const, Index, Range
from polytc.program.scalars import I64
from polytc.rewrite.gpu import tiled_indices
from polytc.rewrite.gpu.tiled_indices import TiledIndex

CUT = TiledIndex(3, ((Range("i_group", 0, 2), 64),),
          ((Range("i_item", 0, 16), 4), (Range("i_row", 0, 4), 1), (Range("i_unit", 0, 1), 9)))


def values(form: Linear, ranges: list[Range]) -> list[int]:
    points = product(*(range(r.lower, r.upper) for r in ranges))
    return sorted(sum(c * dict(zip([r.index for r in ranges], p))[i] for i, c in form.terms) + form.constant for p in points)


def test_each_value_is_one_sum() -> None:
    ranges = [r for r, _ in (*CUT.outer, *CUT.inner)]
    assert values(CUT.whole, ranges) == list(range(3, 3 + 128))
    assert CUT.base == Affine(3, (("i_group", 64),))
    assert CUT.rest == Affine(0, (("i_item", 4), ("i_row", 1))), "what does not move is not in the sum"


def test_forms_of_the_original_index() -> None:
    form = Affine(7, (("i", 2), ("t", 5)))
    assert tiled_indices.substitute_tiled(form, {"i": CUT}, "base") == Affine(13, (("i_group", 128), ("t", 5)))
    assert tiled_indices.substitute_tiled(form, {"i": CUT}, "rest", constant=False) == Affine(0, (("i_item", 8), ("i_row", 2)))
    whole = tiled_indices.substitute_tiled(form, {"i": CUT}, "whole")
    assert dict(whole.terms) == {"i_group": 128, "i_item": 8, "i_row": 2, "t": 5}


def test_small_facts() -> None:
    assert [tiled_indices.is_ragged(n, 16) for n in (16, 17, 32)] == [False, True, False]
    assert [tiled_indices.varies(Range("i", 4, n)) for n in (5, 6)] == [False, True]
    zero, i = Const(0, I64), Index("i")
    assert tiled_indices.plus(zero, i) == tiled_indices.plus(i, zero) == i
    assert tiled_indices.weighted({"i": 3, "u": 8}, [Range("i", 0, 2), Range("u", 0, 1)]) == Affine(0, (("i", 3),))
