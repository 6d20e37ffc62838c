"""Random transformations of a program's schedule: those that are refused must say what they would break."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from unittest import mock

import islpy

from polytc import errors
from polytc.poly import isl
from polytc.program import program as pr
from polytc.program.fetching import REGISTERS
from polytc.program.program import Program
from polytc.schedule.user import loopnest, recipe
from polytc.schedule.user.directives import offset
from polytc.schedule.user.recipe import Recipe
from polytc.schedule.user.steps import Steps
from tests.generator import instances
from tests.generator.choices import Choices

CHANGES = ["accumulate", "accumulate", "rfactor", "compute_at", "store_at", "store_at", "inline", "peel", "prefetch"]
"""Steps that change the program."""
STEPS = ["tile", "reorder", "interchange", "shift", "skew", "split", "unroll", "jam", "vectorize", "parallel", "sequential",
         "cache", "collapse", "reverse", *CHANGES]
REFUSALS = {"E701", "E704", "E706", "E707", "E708"}
WITNESS = r" breaks (\w+\[.*\] -> \w+\[.*\] on \w+|the reduction)"


GPU_STEPS = [*STEPS, "grid", "grid", "bind", "staged", "staged"]


def transformed(program: Program, c: Choices, gpu: bool = False) -> Recipe:
    """A few transformations, without those that are refused. gpu: loops are bound to groups and items, too.

    AssertionError: a refusal without its witness, or with one that is none; a legal schedule that breaks a dependence.
    """
    s = recipe.start(program)
    if gpu and c.likely(70):
        s = grid(s, c.of(loopnest.statements(s.body)), c)
    for _ in range(c.between(1, 6)):
        if sum(len(loopnest.loops(s.body, n)) for n in loopnest.statements(s.body)) > 24:
            break
        s = tried(s, lambda s: step(s, c, gpu))
    if c.likely(30):
        s = tried(s, lambda s: prefetched(s, c.of(loopnest.statements(s.body)), c))
    if c.likely(30):
        again(program, s)
    with contextlib.suppress(instances.Unknown):
        wrong = next(instances.conflicts(s.program, s.body), None)
        assert wrong is None, f"an illegal schedule is taken: {wrong}\n{s}"
    return s


def tried(s: Recipe, change: Callable[[Recipe], Recipe]) -> Recipe:
    """The recipe changed, or as it was where that is refused."""
    with attempts() as made:
        try:
            return change(s)
        except errors.CompileError as refusal:
            check(refusal)
            if isinstance(refusal, errors.IllegalTransform):
                true(refusal, made)
    return s


@contextlib.contextmanager
def attempts() -> Iterator[list[tuple[Program, loopnest.Body]]]:
    """The programs and loops of the steps that are tried, the refused ones among them; also those in which a statement runs as
    early as what is prefetched for it into registers is loaded."""
    found = list[tuple[Program, loopnest.Body]]()
    step_ = Steps.step

    def noted(self: Steps, what: str, body: loopnest.Body) -> Steps:
        found.append((self.program, body))
        for s in self.program.statements:
            for a in s.ahead:
                if a.into == REGISTERS and any(x.name(s.name) == a.loop for x in loopnest.loops(body, s.name)):
                    found.append((self.program, offset.shift(body, s.name, a.loop, -a.distance)))
        return step_(self, what, body)
    with mock.patch.object(Steps, "step", noted):
        yield found


def again(program: Program, s: Recipe) -> None:
    """A saved schedule reads as it was."""
    try:
        found = recipe.start(program).read(s.yaml())
    except errors.CompileError as refusal:
        if refusal.code not in ("E706", "E708"):
            raise AssertionError(f"what was saved is not read: {refusal}") from refusal
        return
    loops_of = [[(x.title, x.kind, x.rows[0].statement) for x in loopnest.walk(y.body)] for y in (found, s)]
    same = loops_of[0] == loops_of[1] and found.program == s.program and times(found).is_equal(times(s))
    assert same, f"what was saved is read as another schedule:\n{s.yaml()}\n{found.yaml()}"


def times(s: Recipe) -> islpy.UnionMap:
    """When each instance runs. isl prints one map in several ways."""
    return islpy.UnionMap.read_from_str(islpy.DEFAULT_CONTEXT, str(s.schedule.tree.get_map()))


def check(refusal: errors.CompileError) -> None:
    """A refusal of an illegal transformation is an IllegalTransform, with a witness."""
    assert refusal.code in REFUSALS, f"refused with a code that does not belong here: {refusal}"
    if refusal.code in ("E701", "E704"):
        assert isinstance(refusal, errors.IllegalTransform), str(refusal)
        assert re.search(WITNESS, str(refusal)), f"no witness: {refusal}"


def true(refusal: errors.IllegalTransform, made: Sequence[tuple[Program, loopnest.Body]]) -> None:
    """The two instances of a refusal are in each other's way in one of the ways that were tried, as can be seen by looking at
    all instances."""
    found = re.search(r" breaks (\w+)\[(.*?)\] -> (\w+)\[(.*?)\] on (\w+)(?:\[(.*)\])?", str(refusal))
    if found is None:
        return
    numbers = [tuple(int(n) for n in re.findall(r"-?\d+", re.sub(r"\w+=", "", found[k] or ""))) for k in (2, 4, 6)]
    known = [isl.name(s.name) for s in made[-1][0].statements]
    source, sink = (instances.Instance(known.index(found[k]), at) for k, at in zip((1, 3), numbers[:2], strict=True))
    told = source, sink, (found[5], numbers[2])
    with contextlib.suppress(instances.Unknown):
        seen = [x.when for way in made for x in instances.conflicts(*way) if (x.source, x.sink, x.element) == told]
        assert seen, f"the instances are not in each other's way: {refusal}"
        at_once = any(when not in ("after", "same") for when in seen)
        assert at_once or refusal.code == "E701", f"the instances are run {seen[0]}: {refusal}"


def names(s: Recipe, statement: str) -> list[str]:
    """The loops around a statement, outermost first."""
    return [x.name(statement) for x in loopnest.loops(s.body, statement)]


def grid(s: Recipe, a: str, c: Choices) -> Recipe:
    """The outermost loops around a statement and some others, or tiles of them, to groups, and the next ones to items."""
    known, k = loopnest.statements(s.body), c.of([2, 1, 3])
    others = c.some([n for n in known if n != a], 2)
    group = [n for n in known if n == a or n in others]
    if others:
        s = tried(s, lambda s: s.fuse(*group, depth=k))
    chosen = names(s, a)[:k]
    if chosen and c.likely(30):
        s = tried(s, lambda s: s.accumulate(a, c.of(chosen)))
    if chosen and c.likely(70):
        sizes = {n: c.of([4, 2, 3, 8, 16]) for n in chosen}
        s = tried(s, lambda s: s.tile(a, sizes))
    for loop, axis in zip(names(s, a)[:k][::-1], ("grid.x", "grid.y", "grid.z")):
        s = tried(s, lambda s, loop=loop, axis=axis: s.bind(a, {loop: axis}))
    if c.likely(60):
        for x, y in itertools.pairwise(group):
            s = tried(s, lambda s, x=x, y=y: s.distribute(x, y, depth=k))
    for n in group:
        free = [x.name(n) for x in loopnest.loops(s.body, n)[k:] if x.kind == "sequential"]
        s = items(s, n, c.shuffled(free)[:c.of([2, 1, 3])])
    read = [r.tensor for r in pr.reads(s.program.statement(a))]
    return tried(s, lambda s: staged(s, a, c.of(read), c)) if read and names(s, a) and c.likely(50) else s


def items(s: Recipe, statement: str, loops: Sequence[str]) -> Recipe:
    """Loops bound to items, as far as that is legal."""
    for loop, axis in zip(loops, ("block.x", "block.y", "block.z")):
        s = tried(s, lambda s, loop=loop, axis=axis: s.bind(statement, {loop: axis}))
    return s


def staged(s: Recipe, a: str, tensor: str, c: Choices) -> Recipe:
    """A copy of what a statement reads inside of some loop, made by all items of a group."""
    at = c.of(names(s, a))
    made = s.cache(a, tensor, at=at, space=c.of(["local", "packed", "private"]))
    copy = f"{a}_{tensor}"
    if copy in loopnest.statements(made.body):
        free = [x.name(copy) for x in loopnest.loops(made.body, copy) if x.kind == "sequential"]
        made = items(made, copy, free[::-1][:c.of([2, 1, 0])])
    return made


def prefetched(s: Recipe, a: str, c: Choices) -> Recipe:
    """What a statement reads is asked for iterations of some loop before: a copy's into registers, most often."""
    read = [r.tensor for r in pr.reads(s.program.statement(a))]
    if not read or not names(s, a):
        return s
    distance, into = (1, "registers") if c.likely(60) else (c.between(1, 9), "cache")
    return s.prefetch(a, c.of(read), c.of(names(s, a)), distance, into)


def step(s: Recipe, c: Choices, gpu: bool = False) -> Recipe:
    """One transformation with random operands. Raises what it raises."""
    known = loopnest.statements(s.body)
    a, b = c.of(known), c.of(known)
    own, every = names(s, a), GPU_STEPS if gpu else STEPS
    reads = [r.tensor for r in pr.reads(s.program.statement(a))]
    what = c.of([*(every if own else ()), "fuse", "distribute"])
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
            space = c.of(["local", "packed", "private"])
            return s if not reads else s.cache(a, c.of(reads), at=c.of([None, loop]), space=space)
        case "grid":
            return grid(s, a, c)
        case "bind":
            return s.bind(a, {loop: c.of(["grid.x", "block.x", "block.y", "grid.y", "block.z", "grid.z"])})
        case "collapse":
            return s.collapse(a, loop, own[min(len(own) - 1, own.index(loop) + 1)])
        case "reverse":
            return s.reverse(a, loop)
        case "staged":
            return s if not reads else staged(s, a, c.of(reads), c)
        case "sequential":
            return s.sequential(a, loop)
        case "parallel":
            return s.parallel(a, loop)
        case _:
            return change(s, what, a, loop, c)


def change(s: Recipe, what: str, a: str, loop: str, c: Choices) -> Recipe:
    """One of CHANGES with random operands."""
    made = {x.target for x in s.program.statements}
    reads = [r.tensor for r in pr.reads(s.program.statement(a)) if r.tensor in made]
    match what:
        case "accumulate":
            return s.accumulate(a, c.of([loop, None]))
        case "rfactor":
            return s.rfactor(a, loop)
        case "compute_at":
            return s.compute_at(c.of(reads), a, loop) if reads else s
        case "store_at":
            return s.store_at(c.of(reads), a, c.of([None, *names(s, a)]), loop) if reads else s
        case "inline":
            return s.inline(a)
        case "prefetch":
            return prefetched(s, a, c)
        case _:
            return s.peel(a, loop, c.between(1, 3))
