"""Steps: loops that are transformed one step at a time, each step checked at once against the dependences."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar, cast

from polytc import errors
from polytc.poly import isl
from polytc.poly.dependences import Dependences
from polytc.poly.scop import Scop
from polytc.program import program as pr
from polytc.program.names import initialisation, update_of
from polytc.schedule import tree
from polytc.schedule.user import extents, loopnest
from polytc.schedule.user.directives import fusion, kinds, offset, order, tiling
from polytc.schedule.user.loopnest import Body

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def by_tensor(method: F) -> F:
    """A method whose statement may be named by the tensor that it alone writes, besides what initialises it: "C" for S1 of
    `C[i,j] += A[i,k]*B[k,j]`."""
    @functools.wraps(method)
    def named(self: Steps, statement: str, *args: Any, **more: Any) -> Any:
        return method(self, self.called(statement), *args, **more)
    return cast(F, named)


@dataclass(frozen=True, eq=False)
class Steps:
    """When each instance of a program's statements runs. Every method returns a new value, or raises:

    E707 for a statement or loop that there is not, E708 where a transformation does not fit the loops, IllegalTransform E701 or
    E704 where it would break a dependence, with two instances and the element that both touch; E706 where that cannot be
    decided.

    program: as written. body: its loops. steps: what was done, in order.
    """

    program: pr.Program
    scop: Scop
    deps: Dependences
    body: Body
    steps: tuple[str, ...] = ()

    def called(self, name: str) -> str:
        """The statement of that name, or the only one but for initialisations that writes the tensor of that name. Raises E707
        where several do; any other name comes back as it is. "C_init" is the initialisation of the statement that "C" is."""
        known = loopnest.statements(self.body)
        if name in known:
            return name
        if not isinstance(name, str):
            raise errors.fail("E707", f"{name!r} is no name of a statement", notes=[
                f"the statements are {', '.join(known)}", "numbers, such as depth, are given by keyword"])
        updated = update_of(name)
        if updated is not None and (init := initialisation(self.called(updated))) in known:
            return init
        found = [s.name for s in self.program.statements if s.target == name and update_of(s.name) is None]
        if len(found) > 1:
            raise errors.fail("E707", f"several statements write {name!r}", notes=[f"name one: {', '.join(found)}"])
        return found[0] if found else name

    # ---- loops in pieces

    @by_tensor
    def split(self, statement: str, loop: str, factor: int, names: tuple[str, str] | None = None) -> Self:
        """for i -> for i.0: for i.1, the inner one with `factor` iterations. names: of the two. See directives.tiling.split."""
        body = tiling.split(self.body, statement, loop, factor, {loop: names} if names else None)
        return self.step(f"split {loop} by {factor}", body)

    @by_tensor
    def tile(self, statement: str, sizes: Mapping[str, int] | None = None, names: tiling.Names | None = None,
             **more: int) -> Self:
        """for i: for j -> for i.0: for j.0: for i.1: for j.1. sizes: loop -> iterations a tile, also as keywords. See
        directives.tiling.tile."""
        wanted = {**(sizes or {}), **more}
        return self.step(f"tile {_pairs(wanted)}", tiling.tile(self.body, statement, wanted, names))

    # ---- order

    @by_tensor
    def interchange(self, statement: str, a: str, b: str) -> Self:
        """Exchange two loops of a perfect nest. See directives.order.reorder."""
        inner, outer = sorted((a, b), key=lambda n: -loopnest.depth(self.body, statement, n))
        return self.step(f"interchange {a},{b}", order.reorder(self.body, statement, (inner, outer)))

    @by_tensor
    def reorder(self, statement: str, *loops: str) -> Self:
        """Permute loops of a perfect nest; they take each other's places. See directives.order.reorder."""
        return self.step(f"reorder {','.join(loops)}", order.reorder(self.body, statement, loops))

    def fuse(self, *statements: str, depth: int | None = None) -> Self:
        """Let statements share their outer loops. depth: how many they share then; None is as many as is legal. See
        directives.fusion.fuse."""
        made, statements = self, tuple(map(self.called, statements))
        for other in statements[1:]:
            made = made._fuse(statements[0], other, depth)
        return made

    def _fuse(self, a: str, b: str, depth: int | None) -> Self:
        most = min(len(loopnest.loops(self.body, s)) for s in (a, b))
        now = loopnest.shared(self.body, a, b)
        return self._first(f"fuse {a},{b}", [depth] if depth is not None else list(range(most, now, -1)) or [now],
                           lambda d: [fusion.fuse(self.body, a, b, d)])

    def distribute(self, a: str, b: str, depth: int | None = None) -> Self:
        """Put the first statement, with all before it, and the second, with all behind it, into loops of their own. depth:
        how many loops they still share; None is as few as is legal. Where only that is legal, what stands between goes with the
        second, or the second's loop comes first. See directives.fusion.distribute."""
        a, b = self.called(a), self.called(b)
        most = loopnest.shared(self.body, a, b) - 1
        return self._first(f"distribute {a},{b}", [depth] if depth is not None else list(range(max(1, most + 1))),
                           lambda d: fusion.distribute(self.body, a, b, d))

    @by_tensor
    def collapse(self, statement: str, outer: str, inner: str) -> Self:
        """Make one loop of two that stand directly in each other, called `i_j`. See directives.order.collapse. Raises E412
        where the inner one has as many iterations as an open size says."""
        found = loopnest.loops(self.body, statement)[loopnest.depth(self.body, statement, inner)]
        instances = extents.domains(self.scop)
        if not extents.constant(found, instances):
            raise errors.fail("E412", f"{inner} in {':'.join(extents.texts(found, instances))} has no fixed number of "
                              "iterations: it cannot be part of another loop", notes=["split it, and collapse the inner piece"])
        low, high = extents.of(found, instances)
        return self.step(f"collapse {outer},{inner}", order.collapse(self.body, statement, outer, inner, low, high))

    @by_tensor
    def reverse(self, statement: str, loop: str) -> Self:
        """Run a loop's iterations from the last to the first. See directives.order.reverse."""
        found = loopnest.loops(self.body, statement)[loopnest.depth(self.body, statement, loop)]
        low, high = (1, 0) if self.program.sizes else extents.of(found, extents.domains(self.scop))
        return self.step(f"reverse {loop}", order.reverse(self.body, statement, loop, low + high - 1))

    # ---- iterations moved

    @by_tensor
    def shift(self, statement: str, amounts: Mapping[str, int] | None = None, **more: int) -> Self:
        """Run a statement's instances so many iterations of a loop later. amounts: loop -> iterations, also as keywords. See
        directives.offset.shift."""
        wanted, body = {**(amounts or {}), **more}, self.body
        for name, by in wanted.items():
            body = offset.shift(body, statement, name, by)
        return self.step(f"shift {statement} by {_pairs(wanted)}", body)

    @by_tensor
    def skew(self, statement: str, loop: str, by: str, factor: int = 1) -> Self:
        """Run each iteration of a loop later by `factor` times the iteration of the loop `by`. See directives.offset.skew."""
        return self.step(f"skew {loop} by {factor}*{by}", offset.skew(self.body, statement, loop, by, factor))

    # ---- how iterations run

    @by_tensor
    def unroll(self, statement: str, loop: str, factor: int | None = None) -> Self:
        """Write out a loop, or pieces of `factor` iterations. See directives.kinds.unroll. Raises E412 for a whole loop whose
        iterations are as many as an open size says."""
        if factor is None and self.program.sizes:
            found = loopnest.loops(self.body, statement)[loopnest.depth(self.body, statement, loop)]
            instances = extents.domains(self.scop)
            if not extents.bounded(found, instances):
                raise errors.fail("E412", f"{loop} in {':'.join(extents.texts(found, instances))} cannot be written out while "
                                  "its sizes stay open", notes=[f'write out pieces of it: unroll("{statement}", "{loop}", 4)'])
        return self.step(f"unroll {loop}", kinds.unroll(self.body, statement, loop, factor))

    @by_tensor
    def unroll_and_jam(self, statement: str, loop: str, factor: int) -> Self:
        """Write out pieces of `factor` iterations inside all other loops. See directives.kinds.innermost."""
        return self.step(f"unroll and jam {loop}", kinds.innermost(self.body, statement, loop, factor, "unroll"))

    @by_tensor
    def vectorize(self, statement: str, loop: str, width: int) -> Self:
        """Run pieces of `width` iterations as vectors, inside all other loops. Of a loop that only adds up (or multiplies,
        ...) into one element, the lanes hold partial results. See directives.kinds.innermost."""
        what = f"vectorize {loop}"
        try:
            return self.step(what, kinds.innermost(self.body, statement, loop, width, "vector"))
        except errors.IllegalTransform:
            if not self._accumulates(statement):
                raise
            try:
                return self.step(what, kinds.innermost(self.body, statement, loop, width, "reduce"))
            except errors.IllegalTransform:
                pass
            raise

    @by_tensor
    def parallel(self, statement: str, loop: str) -> Self:
        """Divide a loop's iterations among threads. See directives.kinds.mark."""
        return self.step(f"parallel {loop}", kinds.mark(self.body, statement, loop, "parallel"))

    @by_tensor
    def sequential(self, statement: str, loop: str) -> Self:
        """Run a loop's iterations in order, as loops do that nobody marks."""
        return self.step(f"sequential {loop}", kinds.mark(self.body, statement, loop, "sequential"))

    @by_tensor
    def bind(self, statement: str, axes: Mapping[str, str]) -> Self:
        """Map loops to a GPU's axes. axes: loop -> 'grid.x', 'grid.y', 'grid.z' (work-groups), 'block.x', 'block.y' or
        'block.z' (work-items of a group)."""
        body = self.body
        for name, axis in axes.items():
            body = kinds.mark(body, statement, name, kinds.axis(axis))
        return self.step(f"bind {', '.join(f'{n} to {a}' for n, a in axes.items())}", body)

    # ---- checks

    @property
    def schedule(self) -> tree.Schedule:
        """The schedule tree."""
        return tree.Schedule(self.scop.tree(loopnest.nest_of(self.body)), "; ".join(self.steps) or "program order")

    def step(self, what: str, body: Body) -> Self:
        """The loops `body` as the next step. Raises IllegalTransform."""
        made = replace(self, body=body, steps=(*self.steps, what))
        found = self.bounded(lambda: tree.refusal(made.schedule, self.deps))
        if found is not None:
            raise illegal(what, found)
        return made

    def _first(self, what: str, depths: Sequence[int], change: Callable[[int], Sequence[Body]]) -> Self:
        """The step with the first of the depths, and of the ways to reach it, that is legal. Raises what the first way to the
        last depth raises."""
        for depth in depths:
            refused: errors.IllegalTransform | None = None
            for body in change(depth):
                try:
                    return self.step(f"{what} to depth {depth}", body)
                except errors.IllegalTransform as e:
                    refused = refused or e
        assert refused is not None, "steps: no way to try"
        raise refused

    def bounded(self, compute: Callable[[], T]) -> T:
        """What `compute` gives within isl's budget. Raises E706 beyond it."""
        try:
            return isl.bounded(self.scop.ctx, isl.BUDGET, compute)
        except isl.QuotaExceeded as e:
            raise errors.fail("E706", f"whether this schedule is legal takes too long to find out: {e}",
                              notes=["smaller tiles, or fewer loops in one step"]) from None

    def _accumulates(self, statement: str) -> bool:
        return self.program.statement(statement).op is not None and not self.program.precise


def _pairs(values: Mapping[str, int]) -> str:
    return ", ".join(f"{n}={v}" for n, v in values.items())


def illegal(what: str, found: tree.Refusal) -> errors.CompileError:
    """The exception for a step that breaks something."""
    broken = found.broken
    where = f" on {broken.element}" if broken.element else ""
    message = f"{what} breaks {broken.source} -> {broken.sink}{where}"
    if found.loop is None:
        notes = [f"{broken.source} must run before {broken.sink}: one writes an element that the other touches"]
        return errors.fail(found.code, message, kind=errors.IllegalTransform, notes=notes)
    kind, band, member = found.loop
    title = "/".join(loopnest.BandName.read(band).titles[member])
    notes = [f"the iterations of {title} depend on each other: as a {kind} loop they would run at once"]
    if found.reduces:
        message = f"{what} breaks the reduction over {title}: {broken.source} and {broken.sink} would share an iteration"
        notes = ["a reduce loop holds one update whose instances meet in one element and commute"]
    return errors.fail(found.code, message, kind=errors.IllegalTransform, notes=notes)
