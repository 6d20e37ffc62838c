"""Random transformations of a program's schedule: those that are refused must say what they would break."""

from __future__ import annotations

import re

from polytc import errors
from polytc.lang import program as pr
from polytc.lang.program import Program
from polytc.schedule import loopnest, recipe
from polytc.schedule.recipe import Recipe
from tests.generator.choices import Choices

STEPS = ["tile", "reorder", "interchange", "shift", "skew", "split", "unroll", "jam", "vectorize", "parallel", "sequential",
         "cache"]
REFUSALS = {"E701", "E704", "E706", "E708"}
WITNESS = r" breaks (\w+\[.*\] -> \w+\[.*\] on \w+|the reduction)"


def transformed(program: Program, c: Choices) -> Recipe:
    """A few transformations, without those that are refused. AssertionError: a refusal without its witness."""
    s = recipe.start(program)
    for _ in range(c.between(1, 6)):
        if sum(len(loopnest.loops(s.body, n)) for n in loopnest.statements(s.body)) > 24:
            break
        try:
            s = step(s, c)
        except errors.CompileError as refusal:
            check(refusal)
    if c.likely(30):
        again(program, s)
    return s


def again(program: Program, s: Recipe) -> None:
    """A saved schedule reads as it was."""
    try:
        found = recipe.start(program).read(s.yaml())
    except errors.CompileError as refusal:
        if refusal.code not in ("E706", "E708"):
            raise AssertionError(f"what was saved is not read: {refusal}") from refusal
        return
    assert found.yaml() == s.yaml(), f"what was saved is read as another schedule:\n{s.yaml()}\n{found.yaml()}"


def check(refusal: errors.CompileError) -> None:
    """A refusal of an illegal transformation is an IllegalTransform, with a witness."""
    assert refusal.code in REFUSALS, f"refused with a code that does not belong here: {refusal}"
    if refusal.code in ("E701", "E704"):
        assert isinstance(refusal, errors.IllegalTransform), str(refusal)
        assert re.search(WITNESS, str(refusal)), f"no witness: {refusal}"


def step(s: Recipe, c: Choices) -> Recipe:
    """One transformation with random operands. Raises what it raises."""
    names = loopnest.statements(s.body)
    a, b = c.of(names), c.of(names)
    own = [x.name(a) for x in loopnest.loops(s.body, a)]
    what = c.of([*(STEPS if own else ()), "fuse", "distribute"])
    if what == "fuse":
        return s.fuse(a, b, depth=c.of([None, 1, 2]))
    if what == "distribute":
        return s.distribute(a, b, depth=c.of([None, 0, 1]))
    loop, other, size = c.of(own), c.of(own), c.between(1, 5)
    match what:
        case "tile":
            return s.tile(a, {n: c.between(1, 5) for n in [loop, *c.some([n for n in own if n != loop], 2)]})
        case "reorder":
            return s.reorder(a, *c.some(own, 4))
        case "interchange":
            return s.interchange(a, loop, other)
        case "shift":
            return s.shift(a, {loop: c.between(-3, 3)})
        case "skew":
            return s.skew(a, loop, other, c.between(-2, 3))
        case "split":
            return s.split(a, loop, size)
        case "unroll":
            return s.unroll(a, loop, c.of([None, 2, 3]))
        case "jam":
            return s.unroll_and_jam(a, loop, size)
        case "vectorize":
            return s.vectorize(a, loop, c.of([2, 4, 8]))
        case "cache":
            reads = [r.tensor for r in pr.reads(s.program.statement(a))]
            space = c.of(["local", "packed", "private"])
            return s if not reads else s.cache(a, c.of(reads), at=c.of([None, loop]), space=space)
        case "sequential":
            return s.sequential(a, loop)
        case _:
            return s.parallel(a, loop)
