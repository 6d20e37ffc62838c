"""Steps that choose for themselves, and what is said of schedules that say nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import polytc
from polytc import errors
from polytc.machine import AVX2
from polytc.schedule.user import loopnest
from polytc.schedule.user.recipe import Recipe
from tests.schedule.user.test_recipe import matmul, refusal, right, seidel, start

WAITS = """def f(inout f32[N,M,K] A, inout f32[N,M,K] B) -> (A, B) {
    for i in 1:N { for j in 0:M { for k in 0:K {
        A[i,j,k] = B[i-1,j,k] + 1
        B[i,j,k] = A[i,j,k] * 2
    } } }
}"""


def test_statements_are_put_into_loops_of_their_own_as_far_out_as_is_legal() -> None:
    s = start(WAITS, {"A": (4, 5, 6), "B": (4, 5, 6)})
    assert right(s.distribute("S1", "S2")).steps == ("distribute S1,S2 to depth 1",)


def test_statements_share_as_many_loops_as_is_legal() -> None:
    s = start("T[i,j,k] = X[i,j,k]; Y[i,j,k] = T[i,3-j,k] + 1; Z[i,j,k] = T[i,j,4-k]", {"X": (3, 4, 5)})
    assert right(s.fuse("S1", "S2")).steps == ("fuse S1,S2 to depth 1",)
    assert right(s.fuse("S1", "S3")).steps == ("fuse S1,S3 to depth 2",)
    assert right(s.fuse("S2", "S3")).steps == ("fuse S2,S3 to depth 3",)


def test_a_schedule_that_says_nothing_is_the_automatic_one() -> None:
    """One that was read says something where its loops are others than the text's, whatever steps it tells."""
    tiled = "\n".join(x for x in matmul().tile("S1", i=4).yaml().splitlines() if not x.startswith('- "tile'))
    read = matmul().read(tiled)
    assert read.steps == ()
    assert read.request(AVX2) is not None
    assert matmul().request(AVX2) is None
    assert matmul().read(matmul().yaml()).request(AVX2) is None


def test_whole_loops_of_open_sizes_are_not_written_out() -> None:
    s = polytc.schedule("Y[i] += X[i,k]", shapes={"X": ("N", 3)})
    assert loopnest.loops(s.unroll("S1", "k").body, "S1")[1].kind == "unroll"
    with pytest.raises(errors.CompileError, match="E412"):
        s.unroll("S1", "i")
    s.unroll("S1", "i", 4)


def test_loops_come_apart_where_they_stand() -> None:
    """Behind another loop, and before one: each statement stays in one loop."""
    text = "A[i] = X[i] + 1; B[i] = X[i] * 2; C[i] = B[i] - 1; D[i] = A[i] * C[i]"
    s = start(text, {"X": (7,)}).fuse("S2", "S3", depth=1).distribute("S2", "S3", depth=0)
    assert loopnest.statements(right(s).body) == ("S1", "S2", "S3", "S4")
    assert len(s.body) == 4


def test_what_runs_beside_an_inner_loop_goes_with_its_half() -> None:
    text = "A[i] = X[i,0] + 1; B[i,j] = X[i,j] * 2; C[i,j] = B[i,j] - 1; D[i] = A[i] * C[i,0]"
    s = start(text, {"X": (7, 5)}).fuse("S2", "S3", depth=2).fuse("S1", "S2", depth=1).fuse("S1", "S4", depth=1)
    assert len(s.body) == 1
    apart = right(s.distribute("S2", "S3", depth=0))
    assert [loopnest.statements((x,)) for x in apart.body] == [("S1", "S2"), ("S3", "S4")]


@pytest.mark.part(4)
@pytest.mark.parametrize("make", [
    lambda s: s.collapse("S1", "i", "j"),
    lambda s: s.collapse("S1", "j", "k").tile("S1", {"j_k": 7}),
    lambda s: s.tile("S1", i=4, j=8).collapse("S1", "i.0", "j.0").parallel("S1", "i.0_j.0"),
    lambda s: s.fuse("S1_init", "S1", depth=2).collapse("S1", "i", "j").parallel("S1", "i_j"),
    lambda s: s.reverse("S1", "k"),
    lambda s: s.fuse("S1_init", "S1", depth=2).reverse("S1", "i").tile("S1", {"i": 5}),
    lambda s: s.reverse("S1", "i").reverse("S1", "i"),
])
def test_collapsed_and_reversed_loops(make: Callable[[Recipe], Recipe]) -> None:
    made = right(make(matmul()))
    assert [x.title for x in loopnest.walk(matmul().read(made.yaml()).body)] == [x.title for x in loopnest.walk(made.body)]


def test_triangles_are_collapsed_and_reversed() -> None:
    s = start("Y[i] += X[i,j] where j <= i", {"X": (9, 7)})
    right(s.collapse("Y", "i", "j"))
    right(s.reverse("Y", "i"))
    assert "reverse t breaks S1[" in refusal(lambda: seidel().reverse("S1", "t"), "E701")
    assert "k does not stand directly in i" in refusal(lambda: matmul().collapse("S1", "i", "k"), "E708")
    open_ = polytc.schedule("Y[i,j] = X[i,j]", shapes={"X": ("N", "M")})
    assert "j in 0:M has no fixed number" in refusal(lambda: open_.collapse("Y", "i", "j"), "E412")
    assert polytc.schedule("Y[i,j] = X[i,j]", shapes={"X": ("N", 6)}).collapse("Y", "i", "j").steps == ("collapse i,j",)


MOVED = """def f(inout f32[N] A, inout f32[N] B) -> (A, B) { for i in 1:N { A[i] = B[i-1] * 2; B[i] = B[i] + 1 } }"""
BETWEEN = """def f(inout f32[N] A, inout f32[N] B, inout f32[N] C) -> (A, B, C) {
    for i in 1:N { A[i] = 2; B[i] = C[i-1]; C[i] = B[i] + 1 }
}"""


def test_loops_change_places_where_only_that_is_legal() -> None:
    s = right(start(MOVED, {"A": (9,), "B": (9,)}).distribute("A", "B"))
    assert loopnest.statements(s.body) == ("S2", "S1")
    s = right(start(BETWEEN, {"A": (9,), "B": (9,), "C": (9,)}).distribute("A", "C"))
    assert [loopnest.statements((x,)) for x in s.body] == [("S1",), ("S2", "S3")]


def test_statements_are_named_by_their_tensors() -> None:
    s = matmul().fuse("C_init", "C", depth=2).distribute("C_init", "C", depth=1)
    assert s.steps == ("fuse S1_init,S1 to depth 2", "distribute S1_init,S1 to depth 1")
    assert matmul().cache("C", "A").called("A_S1") == "S1_A"
    two = start("C[i] = A[i]; C[i] += A[i]", {"A": (9,)})
    assert "name one: S1, S2" in refusal(lambda: two.parallel("C", "i"), "E707")


def test_halves_of_what_is_left_of_an_index() -> None:
    s = matmul().tile("C", i=6).cache("C", "A", at="i.0").split("A_S1", "i", 2)
    assert [x.name("S1_A") for x in loopnest.loops(right(s).body, "S1_A")] == ["i.0", "i.1.0", "i.1.1", "k"]
