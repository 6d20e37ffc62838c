"""Stages that are computed in one loop and stored in another one outside of it: sliding windows, folded; against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polytc
from polytc import compiler
from polytc.codegen import loops, traverse
from polytc.poly import isl
from polytc.schedule.user.changes import folding, sliding
from polytc.schedule.user.changes.pieces import Piece
from polytc.schedule.user.recipe import Recipe
from tests.cuda_here import COMPILER, CompiledCuda
from tests.schedule.user.test_recipe import refusal, right, start

CHAIN = "T[i] = X[i] * 2; Y[i] = T[i] + T[i+1] * 3 + T[i+2]"
ROWS = "T[y,x] = X[y,x] * 2 + X[y,x+1]; Y[y,x] = T[y,x] + T[y+1,x] * 3 + T[y+2,x+1]"
GRID = {"y.0": "grid.y", "x.0": "grid.x", "x.1": "block.x"}


def chain(n: int = 130) -> Recipe:
    return start(CHAIN, {"X": (n,)})


def rows() -> Recipe:
    return start(ROWS, {"X": (34, 66)})


def on_a_grid() -> Recipe:
    """Groups of columns, which walk down their rows."""
    s = rows().tile("Y", y=16, x=32).reorder("Y", "y.0", "x.0", "y.1", "x.1").store_at("T", "Y", at="x.0", compute="y.1")
    return s.bind("Y", GRID).bind("S2_T", {"x": "block.x"}).bind("S2_T_head", {"x": "block.x"})


def of_numpy(x: np.ndarray) -> np.ndarray:
    t = x[:, :-1] * 2 + x[:, 1:]
    return t[:-2, :-1] + t[1:-1, :-1] * 3 + t[2:, 1:]


def kept(s: Recipe, target: str = "interp") -> dict[str, tuple[int, ...]]:
    """The shapes of the storage of temporaries."""
    p = s.base or s.program
    low = compiler.lower_program(p, target, s.yaml())
    own = [x.buffer for k in low.loops.kernels for x in traverse.walk_stmt(k.body) if isinstance(x, loops.Alloc)]
    return {b.name.removesuffix("_slice"): b.shape for b in (*own, *low.loops.scratch)}


def made(s: Recipe) -> int:
    """How many elements of T are computed."""
    return sum(int(d.count_val().to_python()) for d in isl.sets(s.scop.domain) if d.get_tuple_name().startswith("S2_T"))


@pytest.mark.part(7)
@pytest.mark.parametrize("n", [19, 33, 34, 130, 131])
@pytest.mark.parametrize(("make", "ring"), [
    (lambda s: s.store_at("T", "Y", at=None, compute="i"), (4,)),
    (lambda s: s.split("Y", "i", 16).store_at("T", "Y", at="i.0", compute="i.1").parallel("Y", "i.0"), (4,)),
    (lambda s: s.tile("Y", {"i": 16}).split("Y", "i.1", 4).store_at("T", "Y", at="i.0", compute="i.1.0"), None),
    (lambda s: s.split("Y", "i", 2).store_at("T", "Y", at=None, compute="i.0"), (4,)),
])
def test_a_chain(make: Callable[[Recipe], Recipe], ring: tuple[int, ...] | None, n: int) -> None:
    s = right(make(chain(n)))
    assert chain(n).read(s.yaml()).program == s.program
    assert str(chain(n).read(s.yaml())) == str(s)
    x = np.random.default_rng(0).integers(-4, 5, n).astype("f4")
    t = x * 2
    for exact in (s, polytc.schedule(CHAIN, {"X": (n,)}, exact=True).read(s.yaml())):
        np.testing.assert_array_equal(polytc.run(CHAIN, x, schedule=exact, target="interp"), t[:-2] + t[1:-1] * 3 + t[2:])
    if ring is not None and n > 33:
        assert kept(s) == {"T_S2": ring}


def test_each_element_is_computed_once() -> None:
    assert made(chain(130).store_at("T", "Y", at=None, compute="i")) == 130
    assert made(chain(130).split("Y", "i", 32).store_at("T", "Y", at="i.0", compute="i.1")) == 128 + 4 * 2
    assert made(chain(130).split("Y", "i", 32).compute_at("T", "Y", at="i.1")) == 3 * 128


@pytest.mark.part(3)
@pytest.mark.parametrize("target", ["interp", "cpu", "opencl"])
def test_line_buffers(target: str, targets: tuple[str, ...]) -> None:
    """Rows in a ring, walked by vectors; on devices in local memory."""
    if target not in targets:
        pytest.skip(f"no {target} here")
    x = np.random.default_rng(1).integers(-4, 5, (34, 66)).astype("f4")
    lines = rows().split("Y", "y", 16).store_at("T", "Y", at="y.0", compute="y.1").parallel("Y", "y.0")
    assert kept(lines) == {"T_S2": (4, 65)}
    for s in (lines, on_a_grid()):
        np.testing.assert_array_equal(polytc.run(ROWS, x, schedule=s, target=target), of_numpy(x))


def test_rows_of_a_group_in_local_memory() -> None:
    low = polytc.lower(ROWS, "opencl", shapes={"X": (34, 66)}, schedule=on_a_grid())
    assert "__local float T_S2[4][33]" in low.source.text
    assert low.loops.scratch == ()


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
def test_cuda_text() -> None:
    x = np.random.default_rng(1).integers(-4, 5, (34, 66)).astype("f4")
    found = polytc.run(ROWS, x, schedule=on_a_grid(), target=CompiledCuda())
    np.testing.assert_array_equal(found, of_numpy(x))


@pytest.mark.part(4)
@pytest.mark.parametrize(("text", "shapes", "loop"), [
    ("T[i] += X[i,k]; Y[i] = T[i] + T[i+1]", {"X": (21, 5)}, "i"),
    ("T[i] += X[i,k] where k <= i; Y[i] = T[i] + T[i+1]", {"X": (21, 5)}, "i"),
    ("T[i+1] = X[i]; Y[i] = T[i+1] * T[i+2] where i in 0:18", {"X": (21,)}, "i"),
    ("T[i,j] = X[j,i]; Y[i,j] = T[i,j+1] - T[i+1,j]", {"X": (8, 19)}, "i"),
    ("T[i] = X[i]; Y[i] = T[i] + T[i+1]; Z[i] = T[i]", {"X": (21,)}, "i"),
    ("T[k] max= X[k,i]; Y[i,j] += T[i+k] * X[k,j] where i in 0:14, k in 0:8", {"X": (21, 8)}, "i"),
    ("T[i] = X[i]; Y[i] = T[2*i] + T[2*i+1] + T[2*i+2]", {"X": (21,)}, "i"),
    ("T[i] = X[i]; Y[i] = T[3*i+1]", {"X": (21,)}, "i"),
    ("T[i] = X[i]; Y[i,j] = T[i+j] where i in 3:9, j in 2:7", {"X": (21,)}, "i"),
    ("T[i] = X[i]; Y[i,j] = T[i-j] where i in 7:15, j in 0:7", {"X": (21,)}, "i"),
])
def test_many_forms(text: str, shapes: dict[str, tuple[int, ...]], loop: str) -> None:
    s = start(text, shapes)
    for change in (lambda s: s.store_at("T", "Y", None, loop),
                   lambda s: s.split("Y", loop, 5).store_at("T", "Y", f"{loop}.0", f"{loop}.1"),
                   lambda s: s.split("Y", loop, 3).store_at("T", "Y", None, f"{loop}.0")):
        right(change(s))


def test_later_steps_keep_more_where_more_is_alive() -> None:
    """The ring follows from the schedule that is compiled."""
    s = chain(130).split("Y", "i", 32).store_at("T", "Y", at="i.0", compute="i.1")
    assert kept(s) == {"T_S2": (4,)}
    assert kept(right(s.shift("S2", {"i.1": 5}))) == {"T_S2": (8,)}
    assert kept(right(s.distribute("S2_T", "S2", depth=1))) == {"T_S2": (1, 34)}


def test_what_it_slides_through() -> None:
    s = start("T[i] = X[i]; Y[i] = T[2*i+1] + T[2*i+4] where i in 4:16", {"X": (40,)}).program.statements[-1]
    found = sliding.of(s, list(sliding.pr.reads(s)), Piece("i", 2), ())
    assert (found.step, found.last, found.base, found.first) == (4, 5 - 8, 9, 2)
    assert found.begun == 6                                            # T[9] to T[14], where i is 4 and 5


@pytest.mark.parametrize(("make", "code", "part"), [
    (lambda: chain().split("Y", "i", 32).store_at("T", "Y", "i.0", "i.1").parallel("Y", "i.1"),
     "E704", "parallel i.1 breaks S2_T[i_each=0, i=3] -> S2[i=2] on T_S2[0, 3]"),
    (lambda: chain().store_at("T", "Y", None, "i").reverse("Y", "i"),
     "E701", "reverse i breaks S2_T[i=3] -> S2[i=2] on T_S2[3]"),
    (lambda: chain().split("Y", "i", 32).store_at("T", "Y", "i.1", "i.0"), "E708", "i.0 of S2 is not inside of i.1"),
    (lambda: chain().split("Y", "i", 32).store_at("T", "Y", None, "i.1"), "E708", "another loop moves through the same"),
    (lambda: start("T[i] = X[i]; Y[i] = T[20-i]", {"X": (21,)}).store_at("T", "Y", None, "i"), "E708", "moves backwards"),
    (lambda: start("T[i,j] = X[i,j]; Y[i] = T[i,i]", {"X": (9, 9)}).store_at("T", "Y", None, "i"),
     "E708", "several subscripts"),
    (lambda: start("T[i] = X[i]; Y[i,j] = T[i] where j in 0:4", {"X": (9,)}).store_at("T", "Y", None, "j"),
     "E708", "no subscript has it"),
    (lambda: start("T[i] = X[i]; Y[i] = T[i] + T[2*i]", {"X": (9,)}).store_at("T", "Y", None, "i"),
     "E708", "do not move together"),
    (lambda: chain().shift("Y", i=1).store_at("T", "Y", None, "i"), "E708", "runs over no piece of an index"),
    (lambda: chain(4).store_at("T", "Y", None, "i").store_at("Q", "Y", None, "i"), "E707", "no statement 'Q'"),
    (lambda: start("T[i] = X[i]; Y[i] = T[i] + T[i+3] where i in 0:1", {"X": (9,)}).store_at("T", "Y", None, "i"),
     "E708", "reads all of T that is kept"),
    (lambda: chain(5).split("Y", "i", 16).store_at("T", "Y", "i.0", "i.1"), "E708", "a window has all of dimension 0 of T"),
    (lambda: polytc.schedule(CHAIN, {"X": ("N",)}).store_at("T", "Y", None, "i"), "E412", "depends on the sizes"),
    (lambda: chain().read('changes:\n- "fold Q"\n'), "E707", "there is no temporary 'Q'"),
    (lambda: chain().read('changes:\n- "fold"\n'), "E702", "is no change"),
])
def test_refusals(make: Callable[[], Recipe], code: str, part: str) -> None:
    assert part in refusal(make, code)


def test_it_prints() -> None:
    assert str(folding.Fold.read("T")) == "fold T"
    s = chain(130).store_at("T", "Y", at=None, compute="i")
    assert s.steps == ("store S1 of S2, computed at i",)
    told = [str(polytc.explain(CHAIN, "interp", shapes={"X": (130,)}, schedule=x, roofline=False)) for x in (s.yaml(), s)]
    assert "T_S2 keeps 4 of 130 in dimension 0: no more are alive at once" in told[0]
    assert "T_S2 is kept as a whole: no dimension has fewer elements alive at once, and lanes of vectors walk" in told[1]
