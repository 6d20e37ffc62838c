"""Which elements of temporaries may share a place: against a count of what is alive, instance by instance."""

from __future__ import annotations

import itertools
from dataclasses import replace

import islpy
import pytest

from polytc.poly import isl, storage_folding
from polytc.poly.storage_folding import Fold, Unfolded
from polytc.schedule.user.recipe import Recipe
from tests.generator import choices, recipes
from tests.schedule.user.test_recipe import start

CHAIN = "T[i] = X[i] * 2; Y[i] = T[i] + T[i+1] * 3 + T[i+2]"


def folded(s: Recipe) -> Fold | Unfolded:
    asked = replace(s.scop, program=replace(s.program, folded=("T",)))
    (found,) = storage_folding.told(asked, s.schedule.tree)
    return found


def alive_apart(s: Recipe) -> int:
    """The farthest two elements of T[i] that are alive at once, by running the sequential schedule in one's head: T[i] from
    when it is made to when Y[i-2], Y[i-1] or Y[i] last reads it."""
    when = dict[tuple[str, int], tuple[int, ...]]()
    for m in isl.maps(s.schedule.tree.get_map().intersect_domain(s.scop.domain)):
        for point in range(40):
            at = m.intersect_domain(m.domain().fix_val(islpy.dim_type.set, 0,
                                                       islpy.Val(point, m.get_ctx())))
            if not at.is_empty():
                image = at.range().sample_point()
                n = at.range().dim(islpy.dim_type.set)
                when[m.domain().get_tuple_name(), point] = tuple(
                    image.get_coordinate_val(islpy.dim_type.set, d).to_python() for d in range(n))
    made = {i: t for (name, i), t in when.items() if name == "S1"}
    last = {i: max(when["S2", i - d] for d in range(3) if ("S2", i - d) in when) for i in made}
    return max((abs(a - b) for a, b in itertools.combinations(made, 2)
                if not (last[a] < made[b] or last[b] < made[a])), default=0)


def test_of_sequential_schedules() -> None:
    """Random ones: a ring has room for all that is alive, and not for much more."""
    met = 0
    for seed in range(60):
        c, s = choices.seeded(seed), start(CHAIN, {"X": (34,)})
        s = recipes.tried(s.shift("S2", i=2), lambda s: s.fuse("S1", "S2")) if c.likely(80) else s
        for _ in range(c.between(0, 3)):
            a, k = c.of(["S1", "S2"]), c.between(-2, 4)
            loop = c.of(recipes.names(s, a))
            change = c.of([lambda s, a=a, k=k, x=loop: s.shift(a, {x: k}), lambda s, a=a, k=k, x=loop: s.split(a, x, max(2, k)),
                           lambda s, a=a, x=loop: s.reverse(a, x)])
            s = recipes.tried(s, change)
        found, apart = folded(s), alive_apart(s)
        if isinstance(found, Fold):
            met += 1
            assert apart < found.places <= storage_folding.MORE * (apart + 1)
        else:
            assert storage_folding.MORE * (apart + 1) >= 34 - 16 or apart + 1 >= 32, f"{found} {apart}\n{s}"
    assert met > 15


@pytest.mark.parametrize("kind", ["parallel", "grid.x", "block.x"])
def test_iterations_in_no_order_are_alive_at_once(kind: str) -> None:
    s = start("T[b,i] = X[b,i]; Y[b,i] = T[b,i]", {"X": (6, 9)}).fuse("S1", "S2", depth=1)
    assert folded(s) == Fold("T", 0, 1, 6)
    at_once = s.parallel("S1", "b") if kind == "parallel" else s.bind("S1", {"b": kind})
    assert isinstance(folded(at_once), Unfolded)


def test_lanes_walk_no_ring() -> None:
    s = start(CHAIN, {"X": (34,)}).shift("S2", i=2).fuse("S1", "S2")
    assert folded(s) == Fold("T", 0, 4, 34)
    wide = start(CHAIN, {"X": (34,)}).vectorize("S2", "i", 4)
    assert "lanes of vectors walk dimension 0" in str(folded(wide))


def test_only_what_is_asked_for() -> None:
    s = start(CHAIN, {"X": (34,)}).shift("S2", i=2).fuse("S1", "S2")
    assert storage_folding.told(s.scop, s.schedule.tree) == ()
