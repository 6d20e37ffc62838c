"""Halos: copies of windows that overlap, and stages that are computed where they are read; against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polytc
from polytc.schedule.user.changes import producers, windows
from polytc.schedule.user.recipe import Recipe
from tests.schedule.user.test_recipe import refusal, right, start

CHAIN = "T[i] = X[i] * 2; Y[i] = T[i] + T[i+1] * 3 + T[i+2]"


def chain(n: int = 130) -> Recipe:
    return polytc.schedule(CHAIN, shapes={"X": (n,)})


@pytest.mark.part(12)
@pytest.mark.parametrize("n", [3, 33, 130, 131])
@pytest.mark.parametrize("make", [
    lambda s: s.compute_at("T", "Y", at="i.0").parallel("Y", "i.0"),
    lambda s: s.cache("Y", "T", at="i.0"),
    lambda s: s.cache("Y", "T", at="i.0").inline("T").parallel("Y", "i.0"),
    lambda s: s.compute_at("T", "Y", at="i.1"),
    lambda s: s.split("Y", "i.1", 8).compute_at("T", "Y", at="i.1.0"),
    lambda s: s.compute_at("T", "Y", at="i.0").bind("Y", {"i.0": "grid.x", "i.1": "block.x"}).bind("T_S2", {"i": "block.x"}),
])
def test_a_chain(make: Callable[[Recipe], Recipe], n: int) -> None:
    made = right(make(chain(n).tile("Y", i=32)))
    assert chain(n).read(made.yaml()).program == made.program
    x = np.random.default_rng(0).integers(-4, 5, n).astype("f4")
    t = x * 2
    np.testing.assert_array_equal(polytc.run(CHAIN, x, schedule=made, target="interp"), t[:-2] + t[1:-1] * 3 + t[2:])


@pytest.mark.part(6)
@pytest.mark.parametrize(("text", "shapes", "tensor"), [
    ("Y[i] = X[2*i] + X[2*i+1]", {"X": (41,)}, "X"),
    ("Y[i] = X[20-i] * X[21-i] where i in 0:20", {"X": (30,)}, "X"),
    ("Y[i,j] += X[i+r,j+s] * W[r,s]", {"X": (12, 17), "W": (3, 3)}, "X"),
    ("Y[i,j] += (X[i+r-1,j+s-1] else 0) * W[r,s] where i in 0:12, j in 0:17", {"X": (12, 17), "W": (3, 3)}, "X"),
    ("Y[i,j] += X[i+1,j] - X[i,j] where j <= i", {"X": (10, 9)}, "X"),
    ("Y[i,j] = X[i+j] + X[i+j+2] where i in 0:9, j in 0:14", {"X": (25,)}, "X"),
])
@pytest.mark.parametrize("at", ["i.0", "i.1"])
def test_windows_of_many_forms(text: str, shapes: dict[str, tuple[int, ...]], tensor: str, at: str) -> None:
    s = start(text, shapes).tile(start(text, shapes).program.statements[-1].name, i=4)
    made = right(s.cache(s.program.statements[-1].name, tensor, at=at))
    assert any(isinstance(c, windows.Window) for c in made.changes)


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "shapes"), [
    ("T[i] += X[i,k]; Y[i] = T[i] + T[i+1]", {"X": (21, 5)}),
    ("T[i] += X[i,k] where k <= i; Y[i] = T[i] + T[i+1]", {"X": (21, 5)}),
    ("T[i+1] = X[i]; Y[i] = T[i+1] * T[i+2] where i in 0:18", {"X": (21,)}),
    ("T[i,j] = X[j,i]; Y[i,j] = T[i,j+1] - T[i+1,j]", {"X": (8, 19)}),
    ("T[i] = X[i]; Y[i] = T[i] + T[i+1]; Z[i] = T[i]", {"X": (21,)}),
    ("T[k] max= X[k,i]; Y[i,j] += T[i+k] * X[k,j]", {"X": (21, 8)}),
])
def test_producers_of_many_forms(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    s = start(text, shapes)
    maker, reader = s.called("T"), s.called("Y")
    made = right(s.tile(reader, i=4).compute_at(maker, reader, at="i.0"))
    assert (maker in {x.name for x in made.program.statements}) == ("Z[i]" in text)


def test_a_halo_in_local_memory_without_races() -> None:
    g = chain().tile("Y", i=32).compute_at("T", "Y", at="i.0")
    g = g.bind("Y", {"i.0": "grid.x", "i.1": "block.x"}).bind("T_S2", {"i": "block.x"})
    low = polytc.lower(CHAIN, shapes={"X": (130,)}, schedule=g, target="opencl")
    assert "__local float T_S2[34]" in low.source.text
    assert low.source.text.count("barrier(") == 1
    assert low.loops.scratch == ()


def test_copies_in_skewed_loops() -> None:
    """An element is copied in the iteration that reads it first: there are no windows for these loops."""
    made = right(chain().shift("Y", {"i": 3}).cache("Y", "T", at="i"))
    assert not any(isinstance(c, windows.Window) for c in made.changes)


def test_open_sizes() -> None:
    s = polytc.schedule(CHAIN, shapes={"X": ("N",)}).tile("Y", i=32).compute_at("T", "Y", at="i.0").parallel("Y", "i.0")
    op = polytc.compile(CHAIN, shapes={"X": ("N",)}, schedule=s)
    for n in (3, 50, 131):
        x = np.random.default_rng(n).integers(-4, 5, n).astype("f4")
        t = x * 2
        np.testing.assert_array_equal(op(x), t[:-2] + t[1:-1] * 3 + t[2:])


@pytest.mark.parametrize(("make", "code", "part"), [
    (lambda: chain().tile("Y", i=32).shift("Y", {"i.0": 1}).compute_at("T", "Y", at="i.0"),
     "E708", "i.0 of S2 runs over no piece of an index"),
    (lambda: chain().compute_at("X", "Y", at="i"), "E707", "there is no statement 'X'"),
    (lambda: start("T[i] = X[i]; Y[i] = (T[i+1] else 0) where i in 0:9", {"X": (9,)}).compute_at("T", "Y", at="i"),
     "E708", "may have no element"),
    (lambda: start("def f(inout f32[N] X) -> (X, Y) { T[i] = X[i] * 2; X[i] = 1; Y[i] = T[i] + T[8-i] }", {"X": (9,)})
     .compute_at("T", "Y", at="i"), "E708", "would be computed after S2 has changed"),
    (lambda: start("T[i] = X[i]; T[i] += X[i]; Y[i] = T[i]", {"X": (9,)}).compute_at("S2", "Y", at="i"), "E708", "T "),
    (lambda: start(CHAIN, {"X": (9,)}).read('changes:\n- "window S2 Q i/4"\n'), "E707", "S2 does not read 'Q'"),
    (lambda: start(CHAIN, {"X": (9,)}).read('changes:\n- "window S2"\n'), "E702", "is no change"),
])
def test_refusals(make: Callable[[], Recipe], code: str, part: str) -> None:
    assert part in refusal(make, code)


def test_what_overlaps() -> None:
    def reads(text: str) -> list[windows.pr.Read]:
        return list(windows.pr.reads(start(text, {"X": (40,)}).program.statements[-1]))
    assert windows.overlap(reads("Y[i] = X[i] + X[i+1]"))
    assert windows.overlap(reads("Y[i] = X[2*i]"))
    assert windows.overlap(reads("Y[i,j] = X[i+j] where i in 0:5, j in 0:5"))
    assert not windows.overlap(reads("Y[i] = X[i+3]"))


def test_conditions_that_hold_anyway_are_left_out() -> None:
    index = producers.pr.Index("i")
    assert producers.within(index, 0, 5, {"i": (0, 4)}) == []
    assert [str(c.op) for c in producers.within(index, 0, 5, {"i": (-1, 5)})] == [">=", "<"]
