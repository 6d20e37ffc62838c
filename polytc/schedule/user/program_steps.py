"""Steps that change the program: they add statements, or take some away, and say where these run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from polytc import errors
from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.fetching import PLACES, REGISTERS, Ahead
from polytc.program.intrinsics import Intrinsic
from polytc.schedule import tree
from polytc.schedule.user import extents, loopnest
from polytc.schedule.user.changes import accumulators, copies, elements, inlining, partial_sums, peeling, prefetching, windows
from polytc.schedule.user.changes.elements import Told
from polytc.schedule.user.changes.listed import Change
from polytc.schedule.user.changes.pieces import Piece, rest
from polytc.schedule.user.changes.prefetching import Prefetch
from polytc.schedule.user.changes.tensorization import Tensorize
from polytc.schedule.user.directives import caching, offset, placing
from polytc.schedule.user.directives import kinds as kinds_of_loops
from polytc.schedule.user.loopnest import Body
from polytc.schedule.user.steps import by_tensor, illegal
from polytc.schedule.user.window_steps import WindowSteps, at_loop, first_iteration


@dataclass(frozen=True, eq=False)
class ProgramSteps(WindowSteps):
    """All steps: those of loops (Steps), windows (WindowSteps), and what is below."""

    @by_tensor
    def cache(self, statement: str, tensor: str, at: str | None = None, space: str = "local") -> Self:
        """Let a statement read a copy of a tensor, which a statement of its own makes: `S1_A` makes `A_S1` for S1.

            for i.0: for i.1: S1 reads A   ->   for i.0: { for i: S1_A copies what i.0 reads;  for i.1: S1 reads the copy }

        at: the loop around the statement in each of whose iterations the copy is made, each element when it is first read;
        None: all of it before the outermost loop. space: 'local' keeps the order of the dimensions; where each iteration of
        the loops outside uses elements of its own, code generation keeps only these, in memory of the thread (or private
        memory of a work-item). 'packed' has the dimensions in the order in which the loops walk them, the innermost last.
        Inside of loops that are bound to a GPU's grid each work-group has a copy of its own, and with 'private' each item.
        Elements that one vector or register tile uses stay in registers without being asked for.
        Of what the statement writes, the copy is the one that it writes to: see `accumulate`.
        Where iterations use elements of others too (`X[i+r]`, `X[2*i]`), each has a copy of its own of all that it uses.
        Raises E707 for what the statement does not read, E708 where it changes meanwhile, E701 where a read would come first.
        """
        if space not in ("local", "packed", "private"):
            raise errors.fail("E708", f"there is no space {space!r} for copies", notes=[
                "the spaces are local, packed and private; what a register tile uses is in registers without being asked for"])
        s = next((s for s in self.program.statements if s.name == statement), None)
        if s is not None and s.target == tensor and space != "packed" and tensor not in {r.tensor for r in pr.reads(s)}:
            return self.accumulate(statement, at)
        depth = 0 if at is None else loopnest.depth(self.body, statement, at) + 1
        loopnest.loops(self.body, statement)
        what = f"cache {tensor} of {statement}{at_loop(at)}"
        reads = [r for r in pr.reads(s) if r.tensor == tensor] if s is not None else []
        if at is not None and space != "packed" and reads and windows.overlap(reads):
            each = self._each(statement, reads, depth, space)
            if not isinstance(each, str):
                return self._windows(windows.Window(statement, tensor, each), depth, what)
        rank = len(self.program.tensor(tensor).shape) if tensor in {t.name for t in self.program.tensors} else 0
        order = self._walked(statement, tensor) if space == "packed" else tuple(range(rank))
        wanted = copies.Copy(statement, tensor, order, self._apart(statement, tensor, depth, space == "private"))
        program, make = copies.apply(self.program, wanted)
        values = copies.source(program.statement(statement), make, make.target)
        own = dict(zip((p.value for p in wanted.each), make.subscripts, strict=False))
        body = caching.place(self.body, statement, make, depth, values, self._firsts(statement), own)
        return self.changed([wanted], program, what, body)

    def _walked(self, statement: str, tensor: str) -> tuple[int, ...]:
        """The tensor's dimensions in the order in which the loops around the statement walk them."""
        reads = [r for r in pr.reads(self.program.statement(statement)) if r.tensor == tensor]
        around = loopnest.loops(self.body, statement)
        values = [next(r.value for r in x.rows if r.statement == statement) for x in around]
        depths = {e.name: n for n, value in enumerate(values) for e in pr.walk(value) if isinstance(e, pr.Index)}

        def innermost(d: int) -> int:
            return max((depths[e.name] for e in pr.walk(reads[0].subscripts[d]) if isinstance(e, pr.Index)), default=-1)
        return tuple(sorted(range(len(reads[0].subscripts)), key=innermost)) if reads else ()

    # ---- sums

    @by_tensor
    def accumulate(self, statement: str, at: str | None = None) -> Self:
        """Let a statement add up into a tensor of its own, which another one stores: `S1_store` stores `C_S1` of S1 into C.

            for i: for k: S1 adds to C   ->   for i: { S1_init;  for k: S1 adds to C_S1;  S1_store }          at i

        at: the loop in each of whose iterations the elements are begun, finished and stored; None: the innermost one outside
        of all that are summed over. Where each iteration has elements of its own they are kept in registers, or in memory of
        the thread or the group. The initialisation moves there; an update of what has values already begins with
        `S1_load`. Raises E708 for a loop that is summed over, for statements in a `for` loop, with ranges in memory or
        conditions that decide which elements they write, IllegalTransform where others need the elements meanwhile.
        """
        loopnest.loops(self.body, statement)
        found = accumulators.accumulate(self.program, accumulators.Accumulator(statement))
        depth = (placing.depth_known(self.body, statement, found.told) if at is None else
                 loopnest.depth(self.body, statement, at) + 1)
        wanted = accumulators.Accumulator(statement, self._layout(statement, found.told, depth))
        if wanted.layout:
            found = accumulators.accumulate(self.program, wanted)
        body = placing.beside(self.body, statement, found.last, depth, found.told, after=True)
        if found.first is not None:
            body = _ahead(body, statement, found.first, depth, found.told)
        return self.changed([wanted], found.program, f"accumulate {statement}{at_loop(at)}", body)

    def _layout(self, statement: str, told: Told, depth: int) -> tuple[Piece, ...]:
        """A dimension of accumulators for each loop that their elements tell, if loops inside of the outermost `depth` walk an
        index in pieces; none where loops do not tell all elements, or sizes are open."""
        around = [x.value(statement) for x in loopnest.loops(self.body, statement)]
        values = [v for v in around if any(pr.index_names(v)) and told.of(v) is not None]
        found = [p for v in values if (p := Piece.of(v)) is not None]
        inside = [i for v in around[depth:] if v in values for i in set(pr.index_names(v))]
        apart = len(inside) > len(set(inside)) and len(found) == len(values) and not told.values and not self.program.sizes
        return tuple(found) if apart and all(rest(i, values) is None for i in told.indices) else ()

    @by_tensor
    def rfactor(self, statement: str, loop: str) -> Self:
        """Add up in two stages: a partial result for each iteration of a loop, and these together (`S1_part` makes `C_part`).

            for i: for k.0: for k.1: S1 adds to C[i]
            ->  for i: { for k.0: { S1_part_init;  for k.1: S1_part adds to C_part[k.0,i] };  for k.0: S1 adds them up }

        loop: over a piece of an index that is summed over; its iterations no longer depend on each other. The second stage runs
        in the loops outside of all that are summed over. Sums of floats are associated anew. Raises E708 for a loop that is not
        summed over or that was skewed, for assignments, `precise` programs, statements in a `for` loop, with ranges in
        memory or conditions that decide which elements they write, IllegalTransform where others need the sum meanwhile.
        """
        around = loopnest.loops(self.body, statement)
        at = loopnest.depth(self.body, statement, loop)
        value = around[at].value(statement)
        piece = Piece.of(value)
        if piece is None:
            raise errors.fail("E708", f"{loop} runs over {pr.format_expr(value)}: no piece of an index for partial sums",
                              notes=["split the loop over the index, and name one of the two"])
        found = partial_sums.stage(self.program, statement, piece)
        cell = found.begin.subscripts
        both = elements.told(found.part, cell)
        told = replace(both, values=tuple(v for v in both.values if v[0] != piece.value))
        part, body = found.part.name, placing.renamed(self.body, statement, found.part.name)
        # the partial results are begun inside of the loop, where it stands outside of what is summed over in it
        begun = placing.beside(body, part, found.begin, placing.depth_known(body, part, both), both, after=False)
        body = placing.beside(begun, part, found.whole, placing.depth_known(body, part, told), both, after=True)
        change = partial_sums.PartialSums(statement, piece)
        return self.changed([change], found.program, f"rfactor {statement} over {loop}", body)

    # ---- intrinsics

    @by_tensor
    def tensorize(self, statement: str, at: str, intrinsic: Intrinsic) -> Self:
        """Let a loop around a statement, with all inside of it, be a call of an intrinsic that was declared (polytc.intrinsic).

            for k.0: for k.1: S1 adds A[i,k] * B[j,k] to C[i,j]   ->   for k.0: dot8(C[i,j], A[i,k.0*8], B[j,k.0*8])    at k.1

        at: the outermost of the loops that become the call. They are compared with what the intrinsic computes: the box of
        their iterations, the operator, the value with its types, and each access as an affine map. Targets whose language it
        has a text for write that; the others run the loops. Raises E711 where the loops compute something else, with the
        operand, E708 for loops that run other statements, too, or that were skewed, and for `precise` sums of floats.
        """
        if not isinstance(intrinsic, Intrinsic):
            raise errors.fail("E708", f"{intrinsic!r} is no intrinsic", notes=["declare one: polytc.intrinsic(...)"])
        depth = loopnest.depth(self.body, statement, at)
        inside = loopnest.loops(self.body, statement)[depth:]
        others = [x for x in loopnest.statements(inside[0].body) if x != statement]
        if others:
            raise errors.fail("E708", f"{at} runs {', '.join(others)} besides {statement}: it is no call of {intrinsic.name}",
                              notes=["distribute the loops first"])
        values = [x.value(statement) for x in inside]
        pieces = [Piece.of(v) for v in values]
        unknown = next((v for v, p in zip(values, pieces, strict=True) if p is None), None)
        if unknown is not None:
            raise errors.fail("E708", f"a loop of {statement} runs over {pr.format_expr(unknown)}: no piece of an index",
                              notes=["tensorize loops that are not skewed, shifted or collapsed"])
        wanted = Tensorize(statement, tuple(p for p in pieces if p is not None), intrinsic)
        body = self.body
        for x in inside:
            body = kinds_of_loops.mark(body, statement, x.name(statement), kinds.MATRIX)
        return self.changed([wanted], wanted.apply(self.program), f"tensorize {at} of {statement} as {intrinsic.name}", body)

    # ---- memory ahead of its use

    @by_tensor
    def prefetch(self, statement: str, tensor: str, at: str, distance: int = 1, into: str = REGISTERS) -> Self:
        """Fetch what a statement reads of a tensor in an iteration of a loop so many iterations before.

            for k.0: { S1_A copies tile k.0;  S1 }
            ->  registers = tile 0;  for k.0: { S1_A stores them;  registers = tile k.0 + 1;  S1 }

        at: a loop around the statement that runs in order. into: 'registers' for a copy to the memory of a group, one iteration
        ahead: its loads then come before the arithmetic of an iteration, and its stores behind it; 'cache' for lines of the
        processor's caches. It comes last: a later step must leave the loop its name. Raises E707 for what the statement does
        not read, E708 for other loops and statements, IllegalTransform where an element would be loaded before it is written.
        """
        if into not in PLACES or isinstance(distance, bool) or not isinstance(distance, int) or not 1 <= distance < 1 << 31:
            raise errors.fail("E708", f"there is no prefetch into {into!r}, {distance!r} iterations ahead", notes=[
                "the places are registers and cache, a distance is a positive integer"])
        if into == REGISTERS and distance != 1:
            raise errors.fail("E708", f"registers hold what one iteration loads, not that of {distance}",
                              notes=["prefetch into the cache, or one iteration ahead"])
        wanted = Prefetch(statement, Ahead(tensor, at, distance, into))
        program = wanted.apply(self.program)
        before = next((a for a in self.program.statement(statement).ahead if (a.tensor, a.into) == (tensor, into)), None)
        if before is not None:
            raise errors.fail("E708", f"{tensor} of {statement} is prefetched already, {before.distance} of {before.loop} "
                              f"ahead into {into}", notes=["leave one of the two out"])
        loop = loopnest.loops(self.body, statement)[loopnest.depth(self.body, statement, at)]
        if not prefetching.moves(self.program.statement(statement), tensor, tuple(pr.index_names(loop.value(statement)))):
            raise errors.fail("E708", f"all iterations of {at} read the same of {tensor}", notes=["name a loop that moves it"])
        return self.changed([wanted], program, f"prefetch {tensor} of {statement} at {at} into {into}", self.body)

    def changed(self, changes: Sequence[Change], program: pr.Program, what: str, body: Body) -> Self:
        """As WindowSteps.changed. Raises E708 where a statement is gone for which something is prefetched."""
        left = {s.name for s in program.statements}
        for s in self.program.statements:
            if s.ahead and s.name not in left:
                raise errors.fail("E708", f"{what}: {s.ahead[0].tensor} is prefetched for {s.name}, which is then gone",
                                  notes=["prefetch last"])
        return super().changed(changes, program, what, body)

    def step(self, what: str, body: Body) -> Self:
        """As Steps.step. Raises E708 where a statement no longer reads what is prefetched for it, or a loop is no more what
        something is prefetched in, IllegalTransform for what is then loaded before it is written."""
        made = super().step(what, body)
        for s in made.program.statements:
            for a in s.ahead:
                made._fetched(s, a, what)
        return made

    def _fetched(self, s: pr.Statement, a: Ahead, what: str) -> None:
        """Raises E708 and IllegalTransform for what cannot be fetched ahead in these loops."""
        if all(r.tensor != a.tensor for r in pr.reads(s)):
            raise errors.fail("E708", f"{what}: {a.tensor} is prefetched for {s.name}, which then does not read it",
                              notes=["prefetch last, for the statement that reads it"])
        loop = next((x for x in loopnest.loops(self.body, s.name) if x.name(s.name) == a.loop), None)
        if loop is None or loop.kind != "sequential":
            why = f"{s.name} has no loop {a.loop}" if loop is None else f"{a.loop} of {s.name} is a {loop.kind} loop"
            raise errors.fail("E708", f"{what}: {a.tensor} is prefetched in {a.loop}, but {why}",
                              notes=["prefetch in a loop that runs in order, and last"])
        if a.into == REGISTERS:
            early = replace(self, body=offset.shift(self.body, s.name, a.loop, -a.distance))
            found = self.bounded(lambda: prefetching.too_early(self.scop, self.deps, s, a.tensor, early.schedule))
            if found is not None:
                raise illegal(what, tree.Refusal("E701", found))

    # ---- statements less and more

    def inline(self, tensor: str) -> Self:
        """Compute a temporary where it is read, as often as it is read.

            for i: S1 makes T[i];  for i: S2 reads T[i], T[i+1]   ->   for i: S2 reads what T[i] and T[i+1] are made of

        tensor: the temporary, or the statement that makes it. Raises E707 for an unknown one, E708 for what is no temporary,
        has more than one assignment, is read where it may have no element, or is made of what changes meanwhile.
        """
        known = loopnest.statements(self.body)
        tensor = self.program.statement(tensor).target if tensor in known else tensor
        program = inlining.inline(self.program, tensor)
        maker = next(s.name for s in self.program.statements if s.target == tensor)
        return self.changed([inlining.Inline(tensor)], program, f"inline {tensor}", placing.without(self.body, maker))

    @by_tensor
    def peel(self, statement: str, loop: str, count: int = 1) -> Self:
        """Run the first iterations of a loop before the others, in a loop of their own: `S1_head` runs what S1 would.

            for i in 0:n: S1   ->   for i in 0:1: S1_head;  for i in 1:n: S1

        count: how many iterations. All statements in the loop come apart so. Raises E412 for a loop that begins where an open
        size says, E708 for a bad count, one that leaves no iterations to a statement, a loop that was skewed or shifted, and
        statements whose instances run in the order of their indices.
        """
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count < 1 << 31:
            raise errors.fail("E708", f"{count!r} is no number of iterations", notes=["give a positive integer"])
        at = loopnest.depth(self.body, statement, loop)
        found = loopnest.loops(self.body, statement)[at]
        instances = extents.domains(self.scop)
        firsts = [first_iteration(found, r.statement, instances, f"to peel {r.statement}") for r in found.rows]
        program, changes, names = self.program, list[Change](), dict[str, str]()
        for r in found.rows:
            piece = Piece.of(r.value)
            if piece is None:
                raise errors.fail("E708", f"{r.name} of {r.statement} runs over {pr.format_expr(r.value)}: no piece of an "
                                  "index", notes=["peel the loop before it is skewed or shifted"])
            wanted = peeling.Peel(r.statement, piece, min(firsts) + count)
            low, high = extents.of(replace(found, rows=(r,)), instances)
            if not low < wanted.bound < high:
                raise errors.fail("E708", f"{r.statement} runs in {r.name} from {low} to {high - 1}: before and from "
                                  f"iteration {wanted.bound} on there must be some",
                                  notes=["peel fewer, or distribute the loop first"])
            program, names[r.statement] = peeling.peel(program, wanted)
            changes.append(wanted)
        return self.changed(changes, program, f"peel {count} of {loop}", placing.twice(self.body, statement, at, names))


def _ahead(body: Body, statement: str, first: pr.Statement, depth: int, told: Told) -> Body:
    """The nest with a statement's initialisation in its outermost loops, before all that these run of it."""
    names = loopnest.statements(body)
    if first.name in names:
        inside = loopnest.shared(body, first.name, statement) >= depth
        if inside and names.index(first.name) < names.index(statement):
            return body
        body = placing.without(body, first.name)
    return placing.beside(body, statement, first, depth, told, after=False)
