"""Which statements share loops and which may not, told by small programs."""

from __future__ import annotations

import pytest

from polytc.lang import build
from polytc.schedule.facts.fusion_groups import coincident_indices, loses_register_tile, partition, single

X = {"X": (64, 96)}


def groups(text: str, shapes: dict[str, tuple[int, ...]] = X, policy: str = "smart") -> list[tuple[str, ...]]:
    """The targets of the statements of each group, with a ' behind those of updates."""
    return [tuple(s.target + ("'" if s.op else "") for s in g.statements) for g in partition(build(text, shapes), policy)]


@pytest.mark.parametrize(("text", "expected"), [
    ("Y[i] += X[i,k]", [("Y", "Y'")]),
    ("Y[i] = 0 where i in 0:64; Y[i] += X[i,k]", [("Y", "Y'")]),
    ("Y[i] = 0 where i in 0:64; Y[i] += X[i,k] where i % 2 == 0", [("Y",), ("Y'",)]),
    ("Y[i] = 0 where i in 0:64; Y[i] += X[i,k] where k <= i", [("Y", "Y'")]),
    ("Y[i] = 0 where i in 0:64; Z[i] = Y[i]; Y[i] += X[i,k]", [("Y", "Z", "Y'")]),
    ("Y[i] = 0 where i in 0:64; Z[j] += X[i,j]; Y[i] += X[i,k]", [("Z", "Z'"), ("Y", "Y'")]),
    ("Y[i] = 0 where i in 0:64; Z[j] = Y[j//2] where j in 0:128; Y[i] += X[i,k]", [("Y",), ("Z",), ("Y'",)]),
])
def test_an_update_and_what_it_begins_with(text: str, expected: list[tuple[str, ...]]) -> None:
    """They share loops where both write the same elements, and nothing between them touches these elsewhere."""
    assert groups(text) == expected


INOUT = "def f(inout f32[64,96] T, inout f32[64,96] Y, f32[64,96] X) -> (T, Y) { "


@pytest.mark.parametrize(("text", "shared"), [
    ("T[i,j] = X[i,j]; Y[i,j] = T[i,j] + 1", 2),
    ("T[i,j] = X[i,j]; Y[j,i] = T[i,j] + 1", 2),
    ("T[i,j] = X[i,j]; Y[i,j] = T[i,95-j] + 1", 1),
    ("T[i,j] = X[i,j]; Y[i,j] = T[63-i,j] + 1", 1),
    ("T[i,j] = X[i,j]; Y[i,j] = T[63-i,95-j] + 1", 0),
    ("T[i,j] = X[i,j]; Y[i,j] = T[i,j] + (T[i,j-1] else 0)", 1),
    ("T[i,j] = X[i,j]; Y[i,j] = T[i,j] where j in 0:95", 1),
    ("T[i,j] = X[i,j]; Y[i,j] = T[i,j] * X[j//2,j]", 2),
    ("T[i,j] = X[i,j]; Y[j] = T[3,j]", 1),
    ("T[i,j] = X[i,j]; Y[i] += T[i,j]", 1),
    ("T[i,j] = X[i,j]; Y[i,j] = X[i,j] + 1", 2),
    ("T[i,j] = X[i,j]; Y[i,j] = X[63-i,j] + 1", 1),
    ("T[i,j] = X[i,j]; Y[i,j] = X[63-i,95-j] + 1", 0),
    ("T[i,j] = X[i,j]; Y[i,j] = T[63-i,95-j] + X[i,j]", 0),
    ("T[i,2*j] = X[i,j]; T[i,2*j+1] = X[i,j] + 1", 2),
    (INOUT + "T[i,2*j] = X[i,j] where j in 0:48; T[i,2*j+1] = X[i,j] where j in 0:48 }", 2),
    (INOUT + "T[i,2*j] = X[i,j] where j in 0:40; T[i,2*j+2] = X[i,j] where j in 0:40 }", 1),
    (INOUT + "T[4*i,j] = X[i,j] where i in 0:9; T[6*i+3,j] = X[i,j] where i in 0:9 }", 2),
    (INOUT + "T[4*i,j] = X[i,j] where i in 0:9; T[6*i+2,j] = X[i,j] where i in 0:9 }", 1),
    (INOUT + "T[i,j] = X[i,j]; Y[i,j] = T[i,j] where i <= j }", 0),
    (INOUT + "T[i,j] = X[i,j] where i <= j; Y[i,j] = X[i,j] where i <= j }", 2),
    (INOUT + "T[i,j] = X[i,j] where i % 2 == 0; Y[j,k] = X[j,k] where j % 2 == 0 }", 2),
])
def test_neighbours_share_loops_where_each_reads_what_its_own_iteration_made(text: str, shared: int) -> None:
    """How many loops; 0 where the statements stay apart."""
    found = partition(build(text, {"X": (64, 96), "T": (64, 96), "Y": (64, 96)} if "inout" in text else X), "max")
    assert (len(found[0].rows) if len(found) == 1 else 0) == shared


@pytest.mark.parametrize(("text", "shape", "together"), [
    ("T[i,j] = X[i,j]; Y[i] += T[i,j]", (64, 96), True),
    ("T[i,j] = X[i,j]; Y[j] = T[3,j]", (64, 96), True),
    ("T[i,j] = X[i,j]; Y[i] = T[i,3]", (31, 31), False),
    ("T[i,j] = X[i,j]; Y[i] = T[i,3]", (32, 32), True),
    ("T[i,j,k] = X[i,j,k]; Y[j,i] = T[i,j,3]", (5, 6, 6), True),
    ("T[i,j,k] = X[i,j,k]; Y[j,i] = T[i,j,3]", (5, 6, 5), False),
    ("T[i,j] = X[i,j]; Y[i,j] = T[i,j] + 1", (3, 5), True),
    ("T[i,j] = X[i,j]; Y[i,k] = T[i,95-k] + 1", (64, 96), False),
])
def test_enough_iterations_are_left_for_threads(text: str, shape: tuple[int, ...], together: bool) -> None:
    """All loops are shared, or all of one statement's, which are as many as 32 iterations of the largest."""
    assert (len(groups(text, {"X": shape})) == 1) == together


def test_what_would_overwrite_what_the_group_reads_stays_apart() -> None:
    text = "def f(inout f32[64,96] X) -> (X, Y) {{ Y[i,j] = X[{}]; X[i,j] = Y[i,j] * 2 }}"
    assert groups(text.format("63-i,j"), policy="max") == [("Y",), ("X",)]
    assert groups(text.format("i,95-j"), policy="max") == [("Y",), ("X",)]
    assert groups(text.format("i,j"), policy="max") == [("Y", "X")], "it is read before in the same iteration"


def test_a_group_has_so_many_statements_at_most() -> None:
    text = "T0[i] = X[i,0]; " + "; ".join(f"T{n + 1}[i] = T{n}[i] + 1" for n in range(40))
    assert [len(g) for g in groups(text)] == [32, 9]


@pytest.mark.parametrize(("text", "free"), [
    ("Y[j,i] = X[i,j]", ("j", "i")),
    ("Y[j] += X[i,j]", ("j",)),
    ("Y[2*i] += X[i,j] where i in 0:1", ()),
    ("Y[i+j] += X[i,j]", ()),
    ("Y[i,i+j] += X[i,j]", ("i",)),
    ("Y[i//2,j] += X[i,j]", ("j",)),
    ("def f(inout f32[64,96] X) -> (X) { X[i,j] = X[i,j] + 1 }", ("i", "j")),
])
def test_loops_whose_iterations_are_independent(text: str, free: tuple[str, ...]) -> None:
    assert coincident_indices(build(text, X).statements[-1]) == free


def test_a_group_of_one_statement_has_the_ranges_of_its_loops() -> None:
    s = build("Y[j,i] = X[i,j] where i in 3:9, j in 2:40", X).statements[-1]
    g = single((s,))
    assert (g.rows, g.ranges, g.extents, g.inner(0)) == ((("j",), ("i",)), ((2, 40), (3, 9)), (38, 6), ())


@pytest.mark.parametrize(("policy", "lost"), [("min", False), ("smart", False), ("max", True)])
def test_products_lose_their_tiles_under_loops_of_too_few_others(policy: str, lost: bool) -> None:
    program = build("S[h,i,j] += Q[h,i,d] * K[h,j,d]; O[h,i,e] += exp(S[h,i,j]) * V[h,j,e]", dict.fromkeys("QKV", (12, 64, 32)))
    assert any(map(loses_register_tile, partition(program, policy))) == lost
