"""Random programs under random sequences of transformations: what is legal computes the same, what is not is refused with a
witness, and what is saved reads the same."""

from __future__ import annotations

import re
from collections.abc import Callable

import islpy
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from polytc import errors
from polytc.machine import AVX2, AVX512, GENERIC_CPU
from polytc.program import program as pr
from polytc.program.program import Program
from polytc.schedule.user import loopnest, recipe
from polytc.schedule.user.recipe import Recipe
from tests import loop_statements as ls
from tests.schedule.test_random_programs import programs
from tests.schedule.user.test_recipe import right
from tests.test_programs import check

SETTINGS = settings(max_examples=5, deadline=None, derandomize=True,
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large])
REFUSALS = {"E701", "E704", "E708"}
WITNESS = r" breaks (\w+\[.*\] -> \w+\[.*\] on \w+|the reduction)"


def step(s: Recipe, draw: st.DataObject) -> Recipe:
    """One transformation with random operands. Raises what it raises."""
    names = st.sampled_from(loopnest.statements(s.body))
    a, b = draw.draw(names), draw.draw(names)
    own = [x.name(a) for x in loopnest.loops(s.body, a)]
    what = draw.draw(st.sampled_from(["fuse", "distribute", *(STEPS if own else ())]))
    if what == "fuse":
        return s.fuse(a, b, depth=draw.draw(st.sampled_from([None, 1, 2])))
    if what == "distribute":
        return s.distribute(a, b, depth=draw.draw(st.sampled_from([None, 0, 1])))
    loop, other = draw.draw(st.sampled_from(own)), draw.draw(st.sampled_from(own))
    size = draw.draw(st.integers(1, 5))
    reads = [r.tensor for r in pr.reads(s.program.statement(a))]
    if what == "cache":
        return s if not reads else s.cache(a, draw.draw(st.sampled_from(reads)), at=draw.draw(st.sampled_from([None, loop])),
                                           space=draw.draw(st.sampled_from(["local", "packed"])))
    note(f"{what} {a} {loop} {other} {size}")
    match what:
        case "accumulate":
            return s.accumulate(a, draw.draw(st.sampled_from([None, loop])))
        case "compute_at":
            return s.compute_at(b, a, loop) if s.program.statement(b).target in reads else s
        case "store_at":
            outside = draw.draw(st.sampled_from([None, loop]))
            return s.store_at(b, a, outside, other) if s.program.statement(b).target in reads else s
        case "collapse":
            return s.collapse(a, loop, other)
        case "reverse":
            return s.reverse(a, loop)
        case "peel":
            return s.peel(a, loop, size)
        case "inline":
            return s.inline(a)
        case "rfactor":
            return s.rfactor(a, loop)
        case "tile":
            chosen = draw.draw(st.lists(st.sampled_from(own), min_size=1, max_size=3, unique=True))
            return s.tile(a, {n: draw.draw(st.integers(1, 5)) for n in chosen})
        case "reorder":
            return s.reorder(a, *draw.draw(st.lists(st.sampled_from(own), max_size=4)))
        case "interchange":
            return s.interchange(a, loop, other)
        case "shift":
            return s.shift(a, {loop: draw.draw(st.integers(-3, 3))})
        case "skew":
            return s.skew(a, loop, other, draw.draw(st.integers(-2, 3)))
        case "split":
            return s.split(a, loop, size)
        case "unroll":
            return s.unroll(a, loop, draw.draw(st.sampled_from([None, 2, 3])))
        case "jam":
            return s.unroll_and_jam(a, loop, size)
        case "vectorize":
            return s.vectorize(a, loop, draw.draw(st.sampled_from([2, 4, 8])))
        case _:
            return s.parallel(a, loop)


STEPS = ["tile", "reorder", "interchange", "shift", "skew", "split", "unroll", "jam", "vectorize", "parallel", "cache",
         "accumulate", "rfactor", "collapse", "reverse", "peel", "inline", "compute_at", "store_at"]


def transformed(program: Program, draw: st.DataObject) -> Recipe:
    """A few random transformations, those that are refused left out; a refusal shows what it breaks."""
    assume(program.statements)  # with extents of 0 there may be none to transform
    s = recipe.start(program)
    for _ in range(draw.draw(st.integers(1, 6))):
        if sum(len(loopnest.loops(s.body, n)) for n in loopnest.statements(s.body)) > 24:
            break
        try:
            s = step(s, draw)
        except errors.CompileError as refusal:
            refused = refusal
        else:
            continue
        assert refused.code in REFUSALS, str(refused)
        assert refused.code == "E708" or re.search(WITNESS, str(refused)), str(refused)
    note(str(s))
    return s


@given(programs(), st.data())
@SETTINGS
def test_transformed_programs_compute_the_same(program: Program, data: st.DataObject) -> None:
    s = transformed(program, data)
    check(program, data.draw(st.sampled_from(["cpu", "interp"])), s.yaml(), threads=data.draw(st.sampled_from([1, 2])))


@st.composite
def time_loops(draw: Callable[..., object]) -> Program:
    """One to three stencils inside a loop over t, some inside one over i too; in place, or from one array to the other."""
    steps, n = draw(st.integers(1, 4)), draw(st.integers(4, 9))
    found = [ls.statement("S0", "Y", "i", None, ls.read("X", "i"), [("i", 0, n)])]
    for k in range(1, draw(st.integers(1, 3)) + 1):
        target, of = draw(st.sampled_from([("X", "Y"), ("Y", "X"), ("X", "X")]))
        offsets = draw(st.lists(st.integers(-1, 1), min_size=1, max_size=3, unique=True))
        value = ls.number(0.5)
        for c in offsets:
            value = ls.calc("+", value, ls.calc("*", ls.number(0.25), ls.read(of, ls.plus("i", c))))
        labels = ("T", f"I{k}") if target == of or draw(st.booleans()) else ("T",)
        where = [ls.below("i", ls.plus("t", 3))] if draw(st.integers(0, 3)) == 0 else []
        found.append(ls.statement(f"S{k}", target, "i", None, value, [("t", 0, steps), ("i", 1, n - 1)], where, labels))
    return pr.Program("random", (ls.tensor("X", n), ls.tensor("Y", n)), tuple(found), ("X",), ("X", "Y"))


@given(time_loops(), st.data())
@SETTINGS
def test_transformed_time_loops_compute_the_same(program: Program, data: st.DataObject) -> None:
    note(str(program))
    right(transformed(program, data))


@given(programs(), st.data())
@SETTINGS
def test_completed_schedules_compute_the_same(program: Program, data: st.DataObject) -> None:
    s = transformed(program, data).complete(data.draw(st.sampled_from([AVX2, AVX512, GENERIC_CPU])))
    note(str(s))
    check(program, data.draw(st.sampled_from(["cpu", "interp"])), s.yaml(), threads=2)


@given(programs(), st.data())
@SETTINGS
def test_saved_schedules_read_the_same(program: Program, data: st.DataObject) -> None:
    s = transformed(program, data)
    again = recipe.start(program).read(s.yaml())
    assert [(x.title, x.kind) for x in loopnest.walk(again.body)] == [(x.title, x.kind) for x in loopnest.walk(s.body)]
    assert islpy.UnionMap.read_from_str(s.scop.ctx, str(again.schedule.tree.get_map())).is_equal(s.schedule.tree.get_map())
    assert again.steps == s.steps


@pytest.mark.long
@given(time_loops(), st.data())
@settings(SETTINGS, max_examples=100)
def test_many_transformed_time_loops(program: Program, data: st.DataObject) -> None:
    right(transformed(program, data))


@pytest.mark.long
@given(programs(), st.data())
@settings(SETTINGS, max_examples=100)
def test_many_completed_schedules(program: Program, data: st.DataObject) -> None:
    s = transformed(program, data).complete(data.draw(st.sampled_from([AVX2, AVX512, GENERIC_CPU])))
    check(program, data.draw(st.sampled_from(["cpu", "interp"])), s.yaml(), threads=2)


@pytest.mark.long
@given(programs(), st.data())
@settings(SETTINGS, max_examples=2000)
def test_many_transformed_programs(program: Program, data: st.DataObject) -> None:
    s = transformed(program, data)
    check(program, data.draw(st.sampled_from(["cpu", "interp"])), s.yaml())
