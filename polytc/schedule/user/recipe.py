"""Recipe: the schedule that a user builds step by step, saves, reads and compiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polytc import errors
from polytc.machine import Machine
from polytc.poly import dependences, nest
from polytc.poly import scop as polyhedra
from polytc.program import kinds
from polytc.program import program as pr
from polytc.schedule import tree
from polytc.schedule.user import completion, extents, loopnest, pseudocode, reading, saved
from polytc.schedule.user.changes import copies, listed
from polytc.schedule.user.changes.listed import Change
from polytc.schedule.user.changes.pieces import Piece
from polytc.schedule.user.directives import caching
from polytc.schedule.user.saved import Saved
from polytc.schedule.user.steps import Steps, by_tensor


@dataclass(frozen=True, eq=False)
class Recipe(Steps):
    """When each instance of a program's statements runs, as loops with names. Every method returns a new Recipe, or raises: see
    Steps.

        s = polytc.schedule("C[i,j] += A[i,k]*B[k,j]", shapes={"A": (512, 512), "B": (512, 512)})
        s = s.tile("S1", i=64, j=64).parallel("S1", "i.0")
        C = polytc.run("C[i,j] += A[i,k]*B[k,j]", A, B, schedule=s)

    A loop is named by a statement in it and what that statement calls it: an index, or what a transformation made of one
    ('i.0', 'i.1'). exact: nothing is added when it is compiled. changes: what was
    done to the program `base`, copies for instance. machine_of: the machine of a target, by the target's name.
    """

    exact: bool = False
    changes: tuple[Change, ...] = ()
    base: pr.Program | None = None
    machine_of: Callable[[Any], Machine] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.program, self.body, self.steps, self.exact, self.changes, self.base, self.machine_of)

    @by_tensor
    def cache(self, statement: str, tensor: str, at: str | None = None, space: str = "local") -> Recipe:
        """Let a statement read a copy of a tensor, which a statement of its own makes: `S1_A` makes `A_S1` for S1.

            for i.0: for i.1: S1 reads A   ->   for i.0: { for i: S1_A copies what i.0 reads;  for i.1: S1 reads the copy }

        at: the loop around the statement in each of whose iterations the copy is made, each element when it is first read;
        None: all of it before the outermost loop. space: 'local' keeps the order of the dimensions; where each iteration of
        the loops outside uses elements of its own, code generation keeps only these, in memory of the thread (or private
        memory of a work-item). 'packed' has the dimensions in the order in which the loops walk them, the innermost last.
        Inside of loops that are bound to a GPU's grid each work-group has a copy of its own, and with 'private' each item.
        Elements that one vector or register tile uses stay in registers without being asked for.
        Raises E707 for what the statement does not read, E708 where it changes meanwhile, E701 where a read would come first.
        """
        if space not in ("local", "packed", "private"):
            raise errors.fail("E708", f"there is no space {space!r} for copies", notes=[
                "the spaces are local, packed and private; what a register tile uses is in registers without being asked for"])
        depth = 0 if at is None else loopnest.depth(self.body, statement, at) + 1
        loopnest.loops(self.body, statement)
        rank = len(self.program.tensor(tensor).shape) if tensor in {t.name for t in self.program.tensors} else 0
        order = self._walked(statement, tensor) if space == "packed" else tuple(range(rank))
        wanted = copies.Copy(statement, tensor, order, self._apart(statement, tensor, depth, space == "private"))
        program, make = copies.apply(self.program, wanted)
        values = copies.source(program.statement(statement), make, make.target)
        instances = extents.domains(self.scop)
        each = dict(zip((p.value for p in wanted.each), make.subscripts, strict=False))
        body = caching.place(self.body, statement, make, depth, values, lambda loop: _first(loop, statement, instances), each)
        made = replace(start(program), exact=self.exact, steps=self.steps, base=self.base or self.program,
                       changes=(*self.changes, wanted), machine_of=self.machine_of)
        return made.step(f"cache {tensor} of {statement}" + (f" at {at}" if at is not None else ""), body)

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

    def _walked(self, statement: str, tensor: str) -> tuple[int, ...]:
        """The tensor's dimensions in the order in which the loops around the statement walk them."""
        reads = [r for r in pr.reads(self.program.statement(statement)) if r.tensor == tensor]
        around = loopnest.loops(self.body, statement)
        values = [next(r.value for r in x.rows if r.statement == statement) for x in around]
        depths = {e.name: n for n, value in enumerate(values) for e in pr.walk(value) if isinstance(e, pr.Index)}

        def innermost(d: int) -> int:
            return max((depths[e.name] for e in pr.walk(reads[0].subscripts[d]) if isinstance(e, pr.Index)), default=-1)
        return tuple(sorted(range(len(reads[0].subscripts)), key=innermost)) if reads else ()

    def __str__(self) -> str:
        return pseudocode.text(self.body, self.scop)

    def __repr__(self) -> str:
        return f"<polytc.Recipe of {self.program.name}: {'; '.join(self.steps) or 'program order'}>"

    def yaml(self) -> str:
        """The schedule tree in isl's YAML, which `polytc.compile(schedule=...)` takes as it is, without adding to it."""
        return str(Saved(f"{self.schedule}\n", True, self.changes, self.steps))

    def save(self, path: str | Path) -> None:
        """Write the YAML to a file."""
        Path(path).write_text(self.yaml(), encoding="utf-8")

    def load(self, path: str | Path) -> Recipe:
        """The schedule of a file, for this program. Raises E702 for what cannot be read or is no schedule, E703 for one of
        another program, E701 and E704 for an illegal one, E708 for one whose loops cannot be edited."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise errors.fail("E702", f"cannot read the schedule {str(path)!r}: {error}") from error
        return self.read(text)

    def read(self, text: str) -> Recipe:
        """The schedule of a YAML text, for this program; see `load`."""
        written, given = self.base or self.program, saved.read(text)
        made = replace(start(listed.applied(written, given.changes), self.exact), base=written, changes=given.changes,
                       machine_of=self.machine_of)
        found = made.bounded(lambda: tree.from_yaml(given.tree, made.scop, made.deps))
        return replace(made, body=reading.body(found.tree, made.program), steps=given.steps)

    def request(self, machine: Machine) -> str | None:
        """The YAML of what is compiled for a machine: completed unless it is exact; None, the automatic schedule, if nothing
        was said at all."""
        if not self.steps and not self.exact and self.body == loopnest.of(nest.program_order(self.program), self.program):
            return None
        return (self if self.exact else self.complete(machine)).yaml()

    def complete(self, target: str | Machine = "cpu") -> Recipe:
        """The recipe with what it leaves open decided for a target; see schedule.user.completion."""
        assert self.machine_of is not None or isinstance(target, Machine), "recipe: no targets are known here"
        machine = target if isinstance(target, Machine) else self.machine_of(target)  # type: ignore[misc]
        return completion.complete(self, machine)


def _first(loop: loopnest.NamedLoop, statement: str, instances: extents.Domains) -> int:
    """The first iteration of a loop around a statement, in which an element is copied that the loop does not choose. Raises
    E412 where that depends on sizes."""
    found = extents.first(loop, statement, instances)
    if found is None:
        low, _ = extents.texts(loop, instances)
        raise errors.fail("E412", f"the loop {loop.title} begins at {low}, which depends on the sizes: there is no first "
                          f"iteration for the copy for {statement}", notes=[
                              "make the copy outside of that loop, or fix the sizes"])
    return found


def _again(program: pr.Program, body: loopnest.Body, steps: tuple[str, ...], *rest: Any) -> Recipe:
    """A copied or unpickled recipe: what isl computed of its program is computed again."""
    exact, changes, base, machine_of = rest
    return replace(start(program, exact), body=body, steps=steps, changes=changes, base=base, machine_of=machine_of)


def start(program: pr.Program, exact: bool = False) -> Recipe:
    """Program order: every statement in loops of its own, those in a `for` in its loop."""
    scop = polyhedra.extract(program)
    return Recipe(program, scop, dependences.analyse(scop), loopnest.of(nest.program_order(program), program), exact=exact)
