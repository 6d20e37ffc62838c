"""Accumulators: sums that are kept apart until they are whole, on every kind of update; and where they then lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.codegen import loops, traverse
from polytc.machine import GENERIC_GPU
from polytc.schedule.user.changes import accumulators, elements
from polytc.schedule.user.changes.pieces import Piece, fixed, rest
from polytc.schedule.user.loopnest import shared, statements
from polytc.schedule.user.recipe import Recipe
from polytc.targets.opencl.target import OpenCLTarget
from tests.schedule.user.test_recipe import refusal, right, start

MATMUL = "C[i,j] += A[i,k]*B[k,j]"
SHAPES = [{"A": (64, 96), "B": (96, 64)}, {"A": (37, 45), "B": (45, 29)}, {"A": (1, 3), "B": (3, 1)}]
AXES = {"i.0": "grid.y", "j.0": "grid.x", "i.1": "block.y", "j.1": "block.x"}


def matmul(shapes: dict[str, tuple[int, ...]] = SHAPES[1]) -> Recipe:
    return polytc.schedule(MATMUL, shapes=shapes)


def register_tile(shapes: dict[str, tuple[int, ...]]) -> Recipe:
    """128 x 128 x 16, 8 x 8 for each of 256 items."""
    g = matmul(shapes).tile("C", i=128, j=128, k=16).tile("C", {"i.1": 8, "j.1": 8}).reorder("C", "k.1", "i.1.1", "j.1.1")
    g = g.bind("C", {"i.0": "grid.y", "j.0": "grid.x", "i.1.0": "block.y", "j.1.0": "block.x"}).cache("C", "C", space="private")
    g = g.cache("C", "A", at="k.0").split("A_S1", "i", 8).reorder("A_S1", "k", "i.1.1")
    g = g.bind("A_S1", {"i.1.0": "block.y", "k": "block.x"})
    return g.cache("C", "B", at="k.0").split("B_S1", "j", 8).bind("B_S1", {"j.1.0": "block.x", "k": "block.y"})


def spaces(recipe: Recipe, shapes: dict[str, tuple[int, ...]], local: int = 32 << 10) -> dict[str, str]:
    """Where each array of the kernel lies, on a machine with so many bytes of local memory."""
    target = OpenCLTarget(replace(GENERIC_GPU, local_bytes=local))
    low = polytc.lower(MATMUL, shapes=shapes, target=target, schedule=recipe)
    found = {x.buffer.name: x.buffer.space for k in low.loops.kernels for x in traverse.walk_stmt(k.body)
             if isinstance(x, loops.Alloc)}
    return {**found, **{b.name: "global" for b in low.loops.scratch}}


@pytest.mark.part(24)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("make", [
    lambda s: s.accumulate("C"),
    lambda s: s.tile("C", i=8, j=8, k=8).accumulate("C"),
    lambda s: s.tile("C", i=8, j=8, k=8).accumulate("C", at="i.0"),
    lambda s: s.tile("C", i=8, k=8).tile("C", {"i.1": 2}).accumulate("C", at="i.0").parallel("C", "i.0"),
    lambda s: s.fuse("C_init", "C", depth=2).split("C", "k", 4).accumulate("C"),
    lambda s: s.reorder("C", "k", "i", "j").accumulate("C"),
    lambda s: s.tile("C", i=4, j=8).vectorize("C", "j.1", 8).unroll_and_jam("C", "i.1", 4).accumulate("C"),
    lambda s: s.cache("C", "C", at="i").cache("C", "A", at="i"),
])
def test_results(make: Callable[[Recipe], Recipe], shapes: dict[str, tuple[int, ...]]) -> None:
    made = right(make(matmul(shapes)))
    again = matmul(shapes).read(made.yaml())
    assert (again.program, again.changes) == (made.program, made.changes)
    assert any(isinstance(c, accumulators.Accumulator) for c in made.changes)


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "shapes", "statement"), [
    ("C[i] max= A[i,k]", {"A": (7, 9)}, "C"),
    ("C[i] += A[i,k] where k <= i", {"A": (7, 9)}, "C"),
    ("C[h+r] += A[h,r]", {"A": (7, 3)}, "C"),
    ("C[i] = A[i]; C[i] += B[i,k]", {"A": (7,), "B": (7, 5)}, "S2"),
    ("C[i] = A[i] * 2", {"A": (9,)}, "C"),
    ("C[] += A[i,k]", {"A": (7, 9)}, "C"),
    ("C[i,j] += A[i,k] * (B[k,j-1] else 0) where j in 0:6", {"A": (3, 4), "B": (4, 5)}, "C"),
])
def test_other_updates(text: str, shapes: dict[str, tuple[int, ...]], statement: str) -> None:
    right(start(text, shapes).accumulate(statement))


def test_what_has_values_already_is_loaded() -> None:
    s = start("C[i] = A[i]; C[i] += B[i,k]", {"A": (7,), "B": (7, 5)}).accumulate("S2")
    assert statements(s.body) == ("S1", "S2_load", "S2", "S2_store")
    assert shared(s.body, "S2_load", "S2_store") == 1


def test_the_initialisation_comes_along() -> None:
    s = matmul().tile("C", i=8, j=8, k=8).accumulate("C")
    assert statements(s.body) == ("S1_init", "S1", "S1_store")
    assert shared(s.body, "S1_init", "S1") == 2
    assert s.called("C") == "S1"
    assert s.called("C_init") == "S1_init"


@pytest.mark.parametrize(("make", "code", "part"), [
    (lambda: matmul().tile("C", i=8, k=8).accumulate("C", at="k.0"), "E708", "S1_store cannot run in the loop k.0 of S1"),
    (lambda: start("def f(inout f32[N] A, f32[T,N] X) -> (A) { for t in 0:T { A[i] += X[t,i] } }",
                   {"A": (4,), "X": (3, 4)}).accumulate("S1"), "E708", "stands in a `for` loop"),
    (lambda: start("def f(inout f32[N] A, f32[N,K] X) -> (A) { A[i] += X[i,k] where k < i }",
                   {"A": (4,), "X": (4, 3)}).accumulate("S1"), "E708", "conditions decide which elements S1 writes"),
    (lambda: start("C[i] += A[i,k]; D[i] = C[i]", {"A": (8, 3)}).split("S1", "i", 4).split("S2", "i", 4)
     .fuse("S1", "S2", depth=2).accumulate("S1", at="i.0"),
     "E701", "accumulate S1 at i.0 breaks S1_store[i=0] -> S2[i=0] on C[0]"),
    (lambda: matmul().accumulate("X"), "E707", "there is no statement 'X'"),
    (lambda: matmul().read('changes:\n- "accumulate S7"\n'), "E707", "there is no statement 'S7'"),
    (lambda: matmul().read('changes:\n- "accumulate S1 k/4"\n'), "E708", "k/4 are no accumulators for S1"),
    (lambda: matmul().read('changes:\n- "gather S1"\n'), "E702", "is no change of a program"),
])
def test_refusals(make: Callable[[], Recipe], code: str, part: str) -> None:
    assert part in refusal(make, code)


@pytest.mark.parametrize("shapes", SHAPES[:2])
def test_in_the_natural_order_sums_stay_in_registers(shapes: dict[str, tuple[int, ...]]) -> None:
    """Nobody asked for accumulators: the schedule is completed for the device."""
    s = matmul(shapes).tile("C", i=8, j=8, k=8).bind("C", AXES)
    s = s.cache("C", "A", at="k.0").bind("A_S1", {"i": "block.y", "k": "block.x"})
    found = spaces(s, shapes)
    assert found["C_S1"] == "private"
    assert "global" not in found.values()


@pytest.mark.part(2)
@pytest.mark.parametrize("shapes", [{"A": (256, 128), "B": (128, 256)}, {"A": (300, 70), "B": (70, 260)}])
def test_a_register_tile(shapes: dict[str, tuple[int, ...]]) -> None:
    made = register_tile(shapes)
    found = spaces(made, shapes)
    assert found["C_S1"] == "private"
    assert (found["A_S1"], found["B_S1"]) == ("local", "local")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype("f4") for s in shapes.values())
    np.testing.assert_array_equal(polytc.run(MATMUL, a, b, schedule=made, target="cpu"), a @ b)


def test_a_register_tile_has_two_buffers_where_there_is_room() -> None:
    shapes = {"A": (256, 128), "B": (128, 256)}
    found = spaces(register_tile(shapes), shapes, local=96 << 10)
    assert {"A_S1", "A_S1_other", "B_S1", "B_S1_other"} <= found.keys()


def test_work_items_of_a_small_tile_compute_the_same() -> None:
    """The loops as work-items run them, in an interpreter that checks each access."""
    shapes = {"A": (21, 10), "B": (10, 19)}
    g = matmul(shapes).tile("C", i=8, j=8, k=4).tile("C", {"i.1": 2, "j.1": 2})
    g = g.bind("C", {"i.0": "grid.y", "j.0": "grid.x", "i.1.0": "block.y", "j.1.0": "block.x"}).accumulate("C")
    g = g.cache("C", "B", at="k.0").bind("B_S1", {"k": "block.y"})
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, s).astype("f4") for s in shapes.values())
    for target in ("interp", "cpu"):
        np.testing.assert_array_equal(polytc.run(MATMUL, a, b, schedule=g, target=target), a @ b)


def test_groups_larger_than_the_machines_are_refused() -> None:
    s = matmul(SHAPES[0]).tile("C", i=32, j=32).bind("C", AXES)
    with pytest.raises(polytc.PolytcError, match=r"E505: .* has work-groups of 1024 work-items; the machine allows 256"):
        polytc.lower(MATMUL, shapes=SHAPES[0], target="opencl", schedule=s)


def test_what_loops_tell_of_an_index() -> None:
    whole, tile, part = Piece("i"), Piece("i", 32), Piece("i", 8, 4)
    for found, told in (([], 0), ([whole], 1), ([tile], 32), ([tile, part], 8), ([part], 0), ([part, tile], 8),
                        ([tile, Piece("i", 1, 32)], 1), ([Piece("j")], 0), ([Piece("i", 16, 4), Piece("i", 64)], 16)):
        assert fixed("i", [p.value for p in found]) == told, found
    assert rest("i", [whole.value]) is None
    assert rest("i", [tile.value]) == Piece("i", 1, 32).value
    assert rest("i", []) == whole.value


def test_elements_tell_indices() -> None:
    s = start("C[i+1,j] = A[i,j]", {"A": (3, 4)}).program.statements[0]
    cell = elements.touched(start("C[i+1,j] = A[i,j]", {"A": (3, 4)}).program, s, "test").subscripts
    assert set(elements.told(s, cell).indices) == {"i", "j"}
    assert elements.shifted(s.subscripts[0]) == ("i", 1)
