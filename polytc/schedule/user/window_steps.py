"""Steps that change the program: windows of what a reader uses, filled by copies or by what makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from polytc import errors
from polytc.machine import Machine
from polytc.poly import dependences
from polytc.poly import scop as polyhedra
from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.names import update_of
from polytc.program.scalars import I64
from polytc.schedule.user import extents, loopnest, quasi_affine
from polytc.schedule.user.changes import folding, peeling, sliding, windows
from polytc.schedule.user.changes.listed import Change
from polytc.schedule.user.changes.pieces import Piece
from polytc.schedule.user.directives import caching, placing
from polytc.schedule.user.loopnest import Body
from polytc.schedule.user.steps import Steps


@dataclass(frozen=True, eq=False)
class WindowSteps(Steps):
    """Steps over a program that they may change. exact: nothing is added when it is compiled. changes: what was done to the
    program `base`, copies for instance. machine_of: the machine of a target, by the target's name."""

    exact: bool = False
    changes: tuple[Change, ...] = ()
    base: pr.Program | None = None
    machine_of: Callable[[Any], Machine] | None = None

    def called(self, name: str) -> str:
        """As Steps.called; a tensor's name means the statement that wrote it before the program was changed, if that is still
        there: with accumulators "C" is S1, not S1_store."""
        known = loopnest.statements(self.body)
        writers = [s.name for s in (self.base or self.program).statements if s.target == name and update_of(s.name) is None]
        return writers[0] if name not in known and len(writers) == 1 and writers[0] in known else super().called(name)

    def changed(self, changes: Sequence[Change], program: pr.Program, what: str, body: Body) -> Self:
        """The loops `body` of the changed program as the next step. Raises IllegalTransform."""
        scop = polyhedra.extract(program)
        made = replace(self, program=program, scop=scop, deps=dependences.analyse(scop), base=self.base or self.program,
                       changes=(*self.changes, *changes))
        return made.step(what, body)

    def compute_at(self, producer: str, statement: str, at: str) -> Self:
        """Compute what a statement makes in each iteration of a loop around its reader, as much as is read there; what several
        iterations read is computed in each of them.

            for i: S1 makes T[i];  for i.0: for i.1: S2 reads T[i], T[i+1]
            ->  for i.0: { for i: S2_T makes T_S2[i.0, i];  for i.1: S2 reads T_S2 }          at i.0

        producer: the statement, an assignment or an update with its initialisation, or the tensor that it makes; at: the loop.
        The producer goes where nobody else reads what it makes. To compute each element once, and keep it for the iterations
        that follow, use `shift` and `fuse`. Raises E708 where the tensor has another maker too, is read where it may have no
        element, or is made of what changes meanwhile, and for loops that were skewed or shifted.
        """
        statement, producer = self.called(statement), self.called(producer)
        depth = loopnest.depth(self.body, statement, at) + 1
        loopnest.loops(self.body, producer)
        tensor = self.program.statement(producer).target
        reads = [r for r in pr.reads(self.program.statement(statement)) if r.tensor == tensor]
        each = self._each(statement, reads, depth, "local")
        if isinstance(each, str):
            raise errors.fail("E708", f"{each} of {statement} runs over no piece of an index that there could be a window for",
                              notes=["compute it there before the loop is skewed or shifted"])
        wanted = windows.Window(statement, tensor, each, recompute=True)
        return self._windows(wanted, depth, f"compute {producer} at {at} of {statement}")

    def _windows(self, wanted: windows.Window, depth: int, what: str) -> Self:
        """The step that fills windows in the outermost loops of their reader."""
        found = windows.apply(self.program, wanted)
        each = dict(zip((p.value for p in wanted.each), found.each, strict=True))
        body, kept = self.body, {x.name for x in found.program.statements}
        for name in loopnest.statements(body):
            body = body if name in kept else placing.without(body, name)
        for make in found.made:
            body = caching.place(body, wanted.statement, make, depth, {}, self._firsts(wanted.statement), each)
        return self.changed([wanted], found.program, what, body)

    def store_at(self, producer: str, statement: str, at: str | None, compute: str) -> Self:
        """Compute what a statement makes in each iteration of one loop around its reader, and keep it for all iterations of
        another loop outside of that, so that no element is computed twice there.

            for i: S1 makes T[i];  for i.0: for i.1: S2 reads T[i], T[i+1]
            ->  for i.0: { S2_T_head makes T_S2[i.0, 0..1];  for i.1: { S2_T makes T_S2[i.0, i.1 + 1];  S2 reads T_S2 } }

        at: the loop in each of whose iterations there is storage of its own; None: outside of all loops. compute: the loop
        inside of it in each of whose iterations the elements are made that are read there first; those that its first
        iteration reads are made before it, by `S2_T_head`. Storage is folded to as many elements as are alive at once, where
        the finished schedule allows that. Raises E708 as compute_at does, and where `compute` does not walk forwards through
        one dimension of what is read, E412 for open sizes, IllegalTransform where its iterations may run at once.
        """
        statement, producer = self.called(statement), self.called(producer)
        outer = 0 if at is None else loopnest.depth(self.body, statement, at) + 1
        inner = loopnest.depth(self.body, statement, compute)
        if inner < outer:
            raise errors.fail("E708", f"{compute} of {statement} is not inside of {at}: it would keep nothing",
                              notes=["compute_at computes what one iteration reads in it"])
        if self.program.sizes:
            raise errors.fail("E412", "which elements a loop reads first depends on the sizes", notes=["fix the sizes"])
        loopnest.loops(self.body, producer)
        tensor = self.program.statement(producer).target
        reader = self.program.statement(statement)
        reads = [r for r in pr.reads(reader) if r.tensor == tensor]
        loop = loopnest.loops(self.body, statement)[inner]
        each, piece = self._each(statement, reads, outer, "local"), Piece.of(loop.value(statement))
        if isinstance(each, str) or piece is None:
            raise errors.fail("E708", f"{each if isinstance(each, str) else compute} of {statement} runs over no piece of an "
                              "index that there could be a window for", notes=["store it before the loop is skewed or shifted"])
        wanted = windows.Window(statement, tensor, each, recompute=True)
        found = windows.apply(self.program, wanted)
        moves = sliding.of(reader, reads, piece, each)
        what = f"store {producer}{at_loop(at)} of {statement}, computed at {compute}"
        return self._stored(wanted, found, moves, (outer, inner + 1), loop, what)

    def _stored(self, wanted: windows.Window, found: windows.Windowed, moves: sliding.Sliding, depths: tuple[int, int],
                loop: loopnest.NamedLoop, what: str) -> Self:
        """The step that fills windows in the inner of two depths of loops around their reader, and begins them in the outer
        one. loop: the innermost one, which slides."""
        index, relative = found.sides[moves.dimension]
        element: pr.Expr = pr.Index(index)
        if not relative:
            if wanted.each:
                raise errors.fail("E708", f"a window has all of dimension {moves.dimension} of {wanted.tensor}",
                                  notes=["store it outside of all loops, at None, or compute_at"])
            element = pr.Binary("-", element, pr.Const(moves.base, I64), I64)
        bound = moves.begun + (0 if relative else moves.base)
        if bound >= found.made[-1].by_index[index].upper:
            raise errors.fail("E708", f"the first iteration of {loop.title} reads all of {wanted.tensor} that is kept",
                              notes=["compute_at has the same effect"])
        changes, program, body = list[Change]([wanted]), found.program, self.body
        kept = {x.name for x in program.statements}
        for name in loopnest.statements(body):
            body = body if name in kept else placing.without(body, name)
        each = dict(zip((p.value for p in wanted.each), found.each, strict=True))
        now = {**each, loop.value(wanted.statement): quasi_affine.normal(moves.iteration(element))}
        heads, first = list[pr.Statement](), self._firsts(wanted.statement)
        for make in found.made:
            peel = peeling.Peel(make.name, Piece(index), bound)
            changes.append(peel)
            program, head = peeling.peel(program, peel)
            heads.append(program.statement(head))
        for make in heads:
            body = caching.place(body, wanted.statement, make, depths[0], {}, first, each)
        for make in found.made:
            body = caching.place(body, wanted.statement, make, depths[1], {}, first, now)
        changes.append(folding.Fold(found.tensor))
        return self.changed(changes, changes[-1].apply(program), what, body)

    def _firsts(self, statement: str) -> Callable[[loopnest.NamedLoop], int]:
        """The first iteration of a loop around a statement."""
        instances = extents.domains(self.scop)
        return lambda loop: first_iteration(loop, statement, instances, f"for the copy for {statement}")

    def _each(self, statement: str, reads: Sequence[pr.Read], depth: int, space: str) -> tuple[Piece, ...] | str:
        """What there is a window for each value of: the outermost loops over what subscripts have, and those that are bound to
        groups, with 'private' also those that are bound to items. A loop over no piece
        of an index, if there is one."""
        used = {i for r in reads for sub in r.subscripts for i in pr.index_names(sub)}
        found = dict.fromkeys(self._apart(statement, reads[0].tensor, depth, space == "private") if reads else ())
        for loop in loopnest.loops(self.body, statement)[:depth]:
            value = loop.value(statement)
            piece = Piece.of(value)
            if piece is None and used & set(pr.index_names(value)):
                return loop.name(statement)
            if piece is not None and piece.index in used:
                found[piece] = None
        return tuple(found)

    def _apart(self, statement: str, tensor: str, depth: int, items: bool) -> tuple[Piece, ...]:
        """What there is a copy for each value of: the loops outside over work-groups, or items too, that elements do not tell.

        depth: loops around the copy.
        """
        reads = [r for s in self.program.statements if s.name == statement for r in pr.reads(s) if r.tensor == tensor]
        used = {e.name for r in reads for e in pr.walk(r) if isinstance(e, pr.Index)}
        found = []
        for loop in loopnest.loops(self.body, statement)[:depth]:
            mapped = kinds.is_group(loop.kind) or items and kinds.is_item(loop.kind)
            piece = Piece.of(next(r.value for r in loop.rows if r.statement == statement)) if mapped else None
            found += [piece] if piece is not None and piece.index not in used else []
        return tuple(found)


def at_loop(loop: str | None) -> str:
    """The loop as a step prints it."""
    return f" at {loop}" if loop is not None else ""


def first_iteration(loop: loopnest.NamedLoop, statement: str, instances: extents.Domains, what: str) -> int:
    """The first iteration of a loop around a statement. what: is to be done in it. Raises E412 where it depends on sizes."""
    found = extents.first(loop, statement, instances)
    if found is None:
        low, _ = extents.texts(loop, instances)
        raise errors.fail("E412", f"the loop {loop.title} begins at {low}, which depends on the sizes: there is no first "
                          f"iteration {what}", notes=["name a loop outside of it, or fix the sizes"])
    return found
