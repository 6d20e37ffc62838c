"""Schedules for GPUs that users build: bound loops, copies in local and private memory, barriers, races; against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polytc
from polytc import compiler
from polytc.codegen import loops, traverse
from polytc.schedule.user.recipe import Recipe

MATMUL = "C[i,j] += A[i,k]*B[k,j]"
SHAPES = {"A": (37, 45), "B": (45, 29)}
AXES = {"i.0": "grid.y", "j.0": "grid.x", "i.1": "block.y", "j.1": "block.x"}
ITEMS = {"i.1": "block.y", "j.1": "block.x"}


def tiled() -> Recipe:
    return polytc.schedule(MATMUL, shapes=SHAPES).fuse("S1_init", "S1", depth=2).tile("S1", i=8, j=8).split("S1", "k", 8)


def phases() -> Recipe:
    made = tiled().distribute("S1_init", "S1", depth=2).reorder("S1", "k.0", "i.1", "j.1", "k.1")
    return made.bind("S1", AXES).bind("S1_init", ITEMS)


def copied() -> Recipe:
    made = phases().cache("S1", "A", at="k.0").cache("S1", "B", at="k.0")
    return made.bind("S1_A", {"i": "block.y", "k": "block.x"}).bind("S1_B", {"k": "block.y", "j": "block.x"})


def packed() -> Recipe:
    """Its rows are longer by one, since items walk its columns."""
    return phases().cache("S1", "B", at="k.0", space="packed").bind("S1_B", {"k": "block.y", "j": "block.x"})


SCHEDULES: dict[str, tuple[Callable[[], Recipe], dict[str, int], int]] = {
    "bound": (lambda: tiled().bind("S1", AXES), {}, 0),
    "phases": (phases, {}, 0),
    "copies by all items": (copied, {"A_S1": 64, "B_S1": 64}, 2),
    "a copy by one item": (lambda: phases().cache("S1", "A", at="k.0"), {"A_S1": 64}, 2),
    "a packed copy": (packed, {"B_S1": 72}, 2),
    "private copies": (lambda: tiled().bind("S1", AXES).cache("S1", "A", at="k.0", space="private"), {}, 0),
}


@pytest.mark.part(3)
@pytest.mark.parametrize("name", SCHEDULES)
def test_results(name: str, targets: tuple[str, ...]) -> None:
    made = SCHEDULES[name][0]()
    rng = np.random.default_rng(5)
    given = {n: rng.integers(-5, 6, s).astype("f4") for n, s in SHAPES.items()}
    for target in ("interp", "opencl") if "opencl" in targets else ("interp",):
        found = polytc.run(MATMUL, **given, target=target, schedule=made)
        np.testing.assert_array_equal(found, given["A"] @ given["B"], target)


@pytest.mark.part(2)
@pytest.mark.parametrize("name", SCHEDULES)
def test_copies_are_in_the_memory_of_those_that_use_them(name: str) -> None:
    make, local, barriers = SCHEDULES[name]
    low = polytc.lower(MATMUL, shapes=SHAPES, target="opencl", schedule=make())
    own = [s.buffer for k in low.loops.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, loops.Alloc)]
    twice = {f"{n}{other}": size for n, size in local.items() for other in ("", "_other")}  # codegen.double_buffers
    assert {b.name: b.size for b in own if b.space == "local"} == twice
    assert low.loops.scratch == ()
    assert low.source.text.count("barrier(") == barriers


@pytest.mark.parametrize("name", ["copies by all items", "private copies"])
def test_the_text_is_the_schedule(name: str) -> None:
    made = SCHEDULES[name][0]()
    assert str(polytc.schedule(MATMUL, shapes=SHAPES).read(made.yaml())) == str(made)


@pytest.mark.parametrize(("step", "expected"), [
    (lambda: tiled().bind("S1", AXES).cache("S1", "A", at="k.0"),
     "S1_A[j_each=0, i=0, k=0] -> S1[i=0, j=1, k=0] on A_S1[0, 0, 0]"),
    (lambda: phases().bind("S1", {"k.1": "block.z"}), "S1[i=0, j=0, k=0] -> S1[i=0, j=0, k=1] on C[0, 0]"),
])
def test_a_race_is_refused_with_two_instances(step: Callable[[], Recipe], expected: str) -> None:
    with pytest.raises(polytc.IllegalTransform) as found:
        step()
    assert found.value.code == "E704"
    assert expected in str(found.value)


def test_a_foreign_copy_is_refused() -> None:
    text = copied().yaml().replace("j/8", "q/8")
    with pytest.raises(polytc.CompileError, match="S1 has no index 'q'"):
        polytc.schedule(MATMUL, shapes=SHAPES).read(text)


REPEATED = "def f(inout f32[8] A, f32[8] X) -> (A) { for t in 0:2 { A[i] += X[i] } }"


def test_a_copy_that_later_launches_read_outlives_the_first(targets: tuple[str, ...]) -> None:
    """The host runs the loop over t; its first iteration copies."""
    shapes = {"A": (8,), "X": (8,)}
    made = polytc.schedule(REPEATED, shapes=shapes).bind("S1", {"i": "grid.x"}).cache("S1", "X", at="i")
    low = polytc.lower(REPEATED, shapes=shapes, target="opencl", schedule=made)
    assert [[r.upper for r in launch.loops] for launch in low.source.launches] == [[2]]
    assert [b.name for b in low.loops.scratch] == ["X_S1"]
    x = np.arange(8, dtype=np.float32)
    for target in ("interp", "opencl") if "opencl" in targets else ("interp",):
        np.testing.assert_array_equal(polytc.run(REPEATED, np.ones(8, np.float32), x, target=target, schedule=made), 1 + 2 * x)


def test_what_each_launch_stores_first_is_kept_in_it() -> None:
    text = "for t in 0:4 { T[i] = X[t,i] * 2; Y[t,i] = T[i] * T[i] } -> (Y)"
    made = polytc.schedule(text, shapes={"X": (4, 8)}).fuse("S1", "S2", depth=2).bind("S1", {"i": "grid.x"})
    low = polytc.lower(text, shapes={"X": (4, 8)}, target="opencl", schedule=made)
    assert [[r.upper for r in launch.loops] for launch in low.source.launches] == [[4]]
    assert low.loops.scratch == ()


def apart() -> Recipe:
    """A loop over k lies between the loops over items."""
    return polytc.schedule(MATMUL, shapes=SHAPES).reorder("S1", "i", "k", "j").bind("S1", {"i": "block.x", "j": "block.x"})


def in_phases() -> Recipe:
    """Each of two phases of a group has two loops of an axis."""
    text = "T[i,j,k] = A[i,k]*B[k,j]; C[i,j,k] = T[i,j,k] + T[i,k,j] where j in 0:29, k in 0:29 -> (C)"
    made = polytc.schedule(text, shapes=SHAPES).fuse("S1", "S2", depth=1).bind("S1", {"i": "grid.x"})
    axes = {"j": "block.x", "k": "block.x"}
    return made.bind("S1", axes).bind("S2", axes)


@pytest.mark.parametrize("made", [apart, in_phases])
def test_loops_that_share_an_axis_of_items_surround_each_other_directly(made: Callable[[], Recipe]) -> None:
    """They would be the same item else."""
    s = made()
    with pytest.raises(polytc.PolytcError, match=r"E510: .* over '\w+' lies in another one of axis 0, over '\w+'"):
        compiler.lower_program(s.program, "opencl", s.yaml())
