"""Reductions in two stages, on CPUs and GPUs, against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polytc
from polytc.program import program as pr
from polytc.schedule.user.changes import partial_sums
from polytc.schedule.user.recipe import Recipe
from tests.schedule.user.test_recipe import refusal, right, start

ROWS = "C[i] += A[i,k]"
PRECISE = "precise def f(f32[N,K] A) -> (C) { C[i] += A[i,k] }"
WHOLE = "S[] += X[k] * X[k]"


@pytest.mark.part(12)
@pytest.mark.parametrize("columns", [1, 16, 100, 131])
@pytest.mark.parametrize("make", [
    lambda s: s.rfactor("C", "k.0").parallel("S1_part", "k.0"),
    lambda s: s.rfactor("C", "k.1").parallel("S1_part", "k.1"),
    lambda s: s.rfactor("C", "k.0").rfactor("S1_part", "k.1"),
    lambda s: s.reorder("C", "k.0", "i", "k.1").rfactor("C", "k.0").parallel("S1_part", "k.0"),
    lambda s: s.reorder("C", "k.0", "k.1", "i").rfactor("C", "k.1").vectorize("S1_part", "i", 8),
    lambda s: s.rfactor("C", "k.0").accumulate("S1_part"),
    lambda s: s.accumulate("C").rfactor("C", "k.0"),
    lambda s: s.rfactor("C", "k.1").vectorize("S1_part", "k.1", 8),
    lambda s: s.fuse("C_init", "C", depth=1).rfactor("C", "k.0"),
])
def test_rows(make: Callable[[Recipe], Recipe], columns: int) -> None:
    shapes = {"A": (7, columns)}
    made = right(make(polytc.schedule(ROWS, shapes=shapes).split("C", "k", 16)))
    assert polytc.schedule(ROWS, shapes=shapes).read(made.yaml()).program == made.program
    a = np.random.default_rng(0).integers(-4, 5, shapes["A"]).astype("f4")
    np.testing.assert_array_equal(polytc.run(ROWS, a, schedule=made, threads=2), a.sum(1))


@pytest.mark.part(2)
@pytest.mark.parametrize("text", ["C[i] max= A[i,k]", "C[i] min= A[i,k] where k <= i + 3", "C[i] *= A[i,k]", "C[h+r] += A[h,r]",
                                  "C[i] = A[i,0]; C[i] += A[i,k]"])
def test_other_updates(text: str) -> None:
    s = start(text, {"A": (7, 9)})
    update = s.program.statements[-1]
    loop = update.indices[-1]
    right(s.split(update.name, loop, 4).rfactor(update.name, f"{loop}.0"))


def test_names_and_identities() -> None:
    p = start("C[i] max= A[i,k]", {"A": (7, 9)}).split("C", "k", 4).rfactor("C", "k.0").program
    assert [s.name for s in p.statements] == ["S1_init", "S1_part_init", "S1_part", "S1"]
    assert pr.format_statement(p.statements[1]) == "C_part[k_part, i] = -inf  where k_part in 0:3, i in 0:7"
    assert p.tensor("C_part").shape == (3, 7)


@pytest.mark.parametrize("n", [1000, 4096, 5000])
def test_groups_and_items(n: int) -> None:
    """Two stages: items of a group add up what is theirs, the group adds up their sums; then the sums of groups."""
    g = polytc.schedule(WHOLE, shapes={"X": (n,)}).tile("S", k=1024).split("S", "k.1", 64)
    g = g.rfactor("S", "k.0").rfactor("S1_part", "k.1.1").reorder("S1_part_part", "k.1.1", "k.1.0")
    g = g.bind("S1_part_part", {"k.0": "grid.x", "k.1.1": "block.x"})
    x = np.random.default_rng(0).integers(-2, 3, n).astype("f4")
    for target in ("interp", "cpu"):
        np.testing.assert_array_equal(polytc.run(WHOLE, x, schedule=g, target=target), x @ x)
    text = polytc.lower(WHOLE, shapes={"X": (n,)}, schedule=g, target="opencl").source.text
    assert text.count("__kernel") <= 3
    assert "barrier(" in text


@pytest.mark.parametrize(("make", "code", "part"), [
    (lambda s: s.rfactor("C", "i"), "E708", "S1 does not add up over i"),
    (lambda s: s.rfactor("C_init", "i"), "E708", "S1_init is an assignment"),
    (lambda s: s.rfactor("C", "x"), "E707", "S1 has no loop 'x'"),
    (lambda s: s.skew("C", "k", by="i").rfactor("C", "k"), "E708", "no piece of an index for partial sums"),
    (lambda s: s.read('changes:\n- "rfactor S1 q/4"\n'), "E708", "S1 does not add up over q // 4"),
    (lambda s: s.read('changes:\n- "rfactor S1"\n'), "E702", "is no change of a program"),
    (lambda s: s.split("C", "k", 4).rfactor("C", "k.0").parallel("S1", "k.0"), "E704", "on C["),
])
def test_refusals(make: Callable[[Recipe], Recipe], code: str, part: str) -> None:
    assert part in refusal(lambda: make(start(ROWS, {"A": (7, 9)})), code)


def test_precise_sums_keep_their_order() -> None:
    s = start(PRECISE, {"A": (7, 9)})
    assert "S1 is precise" in refusal(lambda: s.rfactor("C", "k"), "E708")


def test_integers_may_be_associated_anew_even_then() -> None:
    p = polytc.build(PRECISE.replace("f32", "i32"), shapes={"A": (7, 9)}, dtypes={"A": "i32"})
    changed = partial_sums.stage(p, "S1", partial_sums.Piece("k", 4)).program
    assert [s.name for s in changed.statements] == ["S1_init", "S1_part_init", "S1_part", "S1"]
