"""Loops inside of a launch: which is the fastest axis, what a group runs, and the numbers of tiles."""

from __future__ import annotations

from polytc.machine import GENERIC_GPU
from polytc.poly import nest
from polytc.program.affine import Affine
from polytc.schedule.facts import bands, source_loops
from polytc.schedule.facts.bands import LinearLoop
from polytc.schedule.gpu import kernel_loops
from tests.schedule.posed import posed

TEXT = "def f(inout f32[N,M] q, f32[N,M] x) -> (q) { for t in 0:9 { q[j,i] = q[j,i]*2 + x[j,i] } }"
SHAPES = {"q": (16, 40), "x": (16, 40)}
SCENE, LOOP, ASKED = posed(TEXT, SHAPES, GENERIC_GPU)


def loop(index: str, constant: int = 0, coincident: bool = True) -> LinearLoop:
    return LinearLoop((("S1", Affine(constant, ((index, 1),))),), coincident)


def test_the_fastest_axis_runs_along_memory() -> None:
    i, j = loop("i"), loop("j")
    for order in ([i, j], [j, i]):
        assert kernel_loops.contiguous_first(SCENE, order, {"S1": ()}) == [i, j]


def test_members_of_tiles() -> None:
    def rows(*options: int, constant: int = 0) -> str:
        ((_, text),) = kernel_loops.member(SCENE, loop("i", constant), "sequential", *options).rows
        return text.replace(" ", "")
    assert rows() == "i"
    assert rows(8) == "floor((i)/8)"
    assert rows(1, 8) == "(i)mod8"
    assert rows(8, constant=-3) == "floor((i)/8)", "tiles begin at the first iteration, if that is below 0"


def test_loops_that_stand_alone_are_one_band() -> None:
    inner = bands.PermutableBand((loop("j"),), nest.Leaf("S1"))
    loops, child = kernel_loops.parallel_prefix_loops(bands.PermutableBand((loop("i"),), inner))
    assert (loops, child) == ((loop("i"), loop("j")), nest.Leaf("S1"))
    carried = loop("i", coincident=False)
    assert kernel_loops.parallel_prefix_loops(bands.PermutableBand((carried,), inner)) == ((carried,), inner)


def test_a_program_in_one_group() -> None:
    tree = source_loops.tree(ASKED.conflicts, (LOOP,))
    found = kernel_loops.plan(SCENE, tree, {"S1": ()}, 1.0, "G")
    assert isinstance(found.nest, nest.Band)
    assert [m.kind for m in found.nest.members] == ["block0"]
    assert "thread0" in str(found.nest)
    twice = kernel_loops.plan(SCENE, tree, {"S1": ()}, 2.0, "G")
    assert twice.time.seconds < found.time.seconds, "of one iteration of the loops around"
    assert nest.statements(kernel_loops.sequential_nest(SCENE, tree, "S")) == ("S1",)
