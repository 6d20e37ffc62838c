"""Temporaries that are computed where they are read, and loops whose first iterations stand apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import polytc
from polytc.schedule.user.changes import inlining, listed, peeling
from polytc.schedule.user.changes.pieces import Piece
from polytc.schedule.user.directives import placing
from polytc.schedule.user.loopnest import statements
from polytc.schedule.user.recipe import Recipe
from tests.schedule.user.test_recipe import chain, matmul, refusal, right, seidel, start


@pytest.mark.parametrize("text", [
    "T[i] = X[i] * 2; Y[i] = T[i+1] + T[i]",
    "T[i] = X[i] * 2; Y[i] = T[i+1] + T[i]; Z[j] = T[20-j]",
    "T[i+2] = X[i] * 2; Y[i] += T[i+k+2] where k in 0:3",
    "T[i] = (X[i-2] else 1) where i in 0:9; Y[i] = max(T[i], 0)",
])
def test_inlined(text: str) -> None:
    s = start(text, {"X": (21,)})
    made = right(s.inline("T"))
    assert "T" not in {t.name for t in made.program.tensors}
    assert s.read(made.yaml()).program == made.program
    assert s.inline("S1").program == made.program


@pytest.mark.parametrize(("text", "part"), [
    ("T[i] += X[i]; Y[i] = T[i]", "T is made by S1_init, S1"),
    ("Y[i] = X[i]; Z[i] = Y[i] -> (Y, Z)", "Y is no temporary"),
    ("T[i] = X[i]; Y[i] = (T[i+1] else 0) where i in 0:9", "where it may have no element"),
    ("def f(inout f32[N] X) -> (X, Y) { T[i] = X[i] * 2; X[i] = 1; Y[i] = T[i] }", "after S2 has changed"),
    ("def f(f32[N] X, inout f32[N] A) -> (A) { for t in 0:3 { T[i] = X[i] + t; A[i] = A[i] + T[i] } }",
     "stands in a `for` loop"),
])
def test_what_is_not_inlined(text: str, part: str) -> None:
    tensor = "Y" if "Z[i] = Y" in text else "T"
    assert part in refusal(lambda: start(text, {"X": (9,), "A": (9,)} if "A" in text else {"X": (9,)}).inline(tensor), "E708")


def test_unknown_tensors() -> None:
    assert "temporaries are T" in refusal(lambda: chain().inline("Q"), "E707")


@pytest.mark.part(4)
@pytest.mark.parametrize("make", [
    lambda: matmul().tile("S1", i=4, k=4).peel("S1", "k.0"),
    lambda: matmul().tile("S1", i=4, k=4).peel("S1", "i.0", 2),
    lambda: matmul().fuse("S1_init", "S1", depth=2).peel("S1", "i", 5),
    lambda: chain().peel("Y", "i", 3),
    lambda: chain().shift("S2", {"i": 1}).peel("S1", "i", 3).fuse("S1", "S2"),
    lambda: seidel().peel("S1", "t", 2),
    lambda: start("Y[i] += X[i,k] where k <= i", {"X": (9, 7)}).peel("Y", "k", 2).peel("Y", "i", 4),
    lambda: matmul().peel("S1", "k", 3).accumulate("S1"),
    lambda: matmul().peel("S1_init", "i", 3).accumulate("S1"),
    lambda: matmul().peel("S1", "k", 4).rfactor("S1", "k"),
])
def test_peeled(make: Callable[[], Recipe]) -> None:
    made = right(make())
    assert any(isinstance(c, peeling.Peel) for c in made.changes)
    assert any(n.endswith("_head") for n in statements(made.body))


def test_saved() -> None:
    made = matmul().tile("S1", i=4).peel("S1", "i.0", 2)
    assert 'changes:\n- "peel S1 i/4 2"\n' in made.yaml()
    assert str(matmul().read(made.yaml())) == str(made)
    assert listed.read("peel S1 i/4 2") == peeling.Peel("S1", Piece("i", 4), 2)
    assert listed.read("inline T") == inlining.Inline("T")


@pytest.mark.parametrize(("make", "code", "part"), [
    (lambda: matmul().peel("S1", "k", 0), "E708", "0 is no number of iterations"),
    (lambda: matmul().peel("S1", "k", 10), "E708", "S1 runs in k from 0 to 9"),
    (lambda: matmul().skew("S1", "k", by="i").peel("S1", "k"), "E708", "no piece of an index"),
    (lambda: polytc.schedule("Y[i] = X[i+1]", shapes={"X": ("N",)}).reverse("Y", "i").peel("Y", "i"),
     "E412", "depends on the sizes"),
    (lambda: matmul().read('changes:\n- "peel S1 q/1 1"\n'), "E707", "there is no index 'q' of S1"),
    (lambda: matmul().read('changes:\n- "peel S1 k"\n'), "E702", "is no change"),
])
def test_refusals(make: Callable[[], Recipe], code: str, part: str) -> None:
    assert part in refusal(make, code)


def test_bodies_without_a_statement() -> None:
    body = matmul().fuse("S1_init", "S1", depth=2).body
    assert statements(placing.without(body, "S1_init")) == ("S1",)
    assert statements(placing.renamed(body, "S1", "S9")) == ("S1_init", "S9")
