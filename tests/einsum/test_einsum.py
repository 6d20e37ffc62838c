"""polytc.einsum against numpy.einsum."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polytc
from polytc.contraction import text_of
from polytc.errors import ArgumentError
from polytc.program.scalars import DTYPES

CASES = [
    ("ij,jk->ik", (5, 4), (4, 3)), ("ij,jk->ik", (5, 0), (0, 3)), ("ij->ji", (0, 3)),
    ("ij,jk", (5, 4), (4, 3)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("ii", (4, 4)), ("ii->i", (4, 4)), ("iij->j", (3, 3, 2)), ("ij->ji", (2, 3)), ("ji", (2, 3)), ("ij->", (2, 3)),
    ("i,i", (5,), (5,)), ("i,j->ij", (3,), (4,)), ("ij,ij->ij", (1, 3), (2, 3)), ("ij,ij->i", (2, 1), (2, 5)),
    ("...ij->...ji", (2, 3, 4, 5)), ("...ij,...jk->...ik", (2, 3, 4), (1, 4, 5)), ("...", (2, 3)),
    ("i...,i...->...", (4, 2, 3), (4, 3)), ("...i,...i", (2, 3, 4), (3, 4)), ("ij...->...", (2, 3, 4)),
    ("ij,jk,kl->il", (3, 4), (4, 5), (5, 2)), ("a,ab,abc->abc", (2,), (2, 3), (2, 3, 4)),
    ("ij,jk,ki->", (2, 3), (3, 4), (4, 2)),
    ("aab,b->a", (2, 2, 3), (3,)), (",i->i", (), (3,)), (",", (), ()), ("Aa,aB->AB", (2, 3), (3, 4)), ("b a -> a b", (2, 3)),
    ("ijk,ijl->kl", (3, 2, 4), (3, 2, 5)), ("ij,k->i", (2, 3), (4,)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
]


@pytest.mark.part(2)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
@pytest.mark.parametrize("target", ["evaluate", "cpu"])
def test_as_numpy(case: tuple, target: str) -> None:
    spec, *shapes = case
    rng = np.random.default_rng(0)
    operands = [rng.standard_normal(s) for s in shapes]
    found, expected = polytc.einsum(spec, *operands, target=target), np.einsum(spec, *operands)
    assert np.shape(found) == np.shape(expected)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@st.composite
def problems(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    extents = {c: draw(st.integers(1, 4)) for c in "abcd"}
    parts = draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=4))
    shapes = [tuple(1 if draw(st.integers(0, 9)) == 0 else extents[c] for c in p) for p in parts]
    for k, part in enumerate(parts):
        # numpy wants the two extents of a repeated label equal within one operand.
        first = {c: shapes[k][part.index(c)] for c in part}
        shapes[k] = tuple(first[c] for c in part)
    spec = ",".join(parts)
    if draw(st.booleans()):
        labels = sorted(set("".join(parts)))
        spec += "->" + "".join(draw(st.permutations(labels))[:draw(st.integers(0, len(labels)))])
    return spec, shapes


@settings(max_examples=60, deadline=None)
@given(problems())
def test_any_spec(problem: tuple[str, list[tuple[int, ...]]]) -> None:
    spec, shapes = problem
    rng = np.random.default_rng(1)
    operands = [rng.integers(-3, 4, s) for s in shapes]
    assert np.array_equal(polytc.einsum(spec, *operands, target="evaluate"), np.einsum(spec, *operands))


def test_types() -> None:
    a, b = np.ones((3, 4), "f4"), np.ones((4, 2), "i4")
    assert polytc.einsum("ij,jk", a, b).dtype == np.einsum("ij,jk", a, b).dtype == np.float64
    assert polytc.einsum("ij,jk", a, a.T, dtype="f8").dtype == np.float64
    wraps = np.full(3, 100, "i1"), np.ones(3, "i1")
    assert polytc.einsum("i,i", *wraps) == np.einsum("i,i", *wraps) == 44
    flags = np.array([[True, False], [False, False]])
    assert np.array_equal(polytc.einsum("ij->i", flags), np.einsum("ij->i", flags))
    assert polytc.einsum(",i", 3, np.arange(3)).tolist() == [0, 3, 6]


def test_sublist_form_and_out() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    assert np.allclose(polytc.einsum(a, [0, 1], b, [1, 2], [2, 0]), (a @ b).T)
    assert np.allclose(polytc.einsum(a, [0, 1], b, [1, 2]), a @ b)
    assert np.allclose(polytc.einsum(a, [Ellipsis, 1], [1, Ellipsis]), np.einsum(a, [Ellipsis, 1], [1, Ellipsis]))
    out = np.empty((2, 4))
    assert polytc.einsum("ij,jk", a, b, out=out) is out
    assert np.allclose(out, a @ b)


def test_a_chain_is_contracted_pairwise() -> None:
    """Forty operands of ten each could not be one loop nest; numpy does this only with optimize=True."""
    a = np.eye(10)
    spec = ",".join(f"{chr(97 + k)}{chr(98 + k)}" for k in range(20)) + "->au"
    assert np.array_equal(polytc.einsum(spec, *[a] * 20, target="evaluate"), a)


@pytest.mark.parametrize(("spec", "extents"), [
    ("ce,dbfa,gdcb,egf->a", dict(zip("abcdefg", (21, 21, 7, 21, 16, 7, 19)))),
    ("ge,fdbc,d,ibc,gj->ij", dict(zip("bcdefgij", (3, 4, 12, 9, 8, 7, 30, 31)))),
    ("ab,bc,cd,da->", dict(zip("abcd", (2, 40, 3, 50))))])
def test_no_other_order_takes_fewer_operations(spec: str, extents: dict[str, int]) -> None:
    """Of all orders of products of two, each of which is tried."""
    left, result = spec.split("->")
    text = text_of(spec, tuple(tuple(extents[x] for x in part) for part in left.split(",")), DTYPES["f32"])
    taken = sum(math.prod(map(int, re.findall(r"in 0:(\d+)", line))) for line in text.splitlines()[:-1])

    def fewest(parts: tuple[frozenset[str], ...]) -> int:
        if len(parts) == 1:
            return 0
        found = []
        for a, b in itertools.combinations(parts, 2):
            rest = list(parts)
            rest.remove(a)
            rest.remove(b)
            kept = (a | b) & frozenset(result).union(*rest)
            found.append(math.prod(extents[x] for x in a | b) + fewest((*rest, kept)))
        return min(found)
    assert taken == fewest(tuple(map(frozenset, left.split(","))))


@pytest.mark.parametrize(("spec", "shapes", "names"), [
    ("ij,jk", [(2, 3)], "2 operands"), ("ij", [(2, 3, 4)], "the operand has 3"), ("ij->iik", [(2, 3)], "'i' twice"),
    ("ij->k", [(2, 3)], "no operand"), ("ij,jk", [(2, 3), (4, 5)], "'j' is 3"), ("i1", [(2, 3)], "'1'"),
    ("i...->i", [(2, 3)], "..."), ("ii", [(2, 3)], "'i' is 2"), ("i->->i", [(2,)], "'-'"),
])
def test_refusals(spec: str, shapes: list[tuple[int, ...]], names: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        polytc.einsum(spec, *[np.ones(s) for s in shapes])
    assert caught.value.code == "E411"
    assert names in str(caught.value)
    with pytest.raises(ValueError):
        np.einsum(spec, *[np.ones(s) for s in shapes])


def test_refusals_of_the_call() -> None:
    for bad in ((), ("ij",), ([0, 1],)):
        with pytest.raises(ArgumentError) as caught:
            polytc.einsum(*bad)
        assert caught.value.code == "E411"
    with pytest.raises(ArgumentError) as caught:
        polytc.einsum("i", np.ones(2, np.clongdouble))
    assert caught.value.code == "E403"
