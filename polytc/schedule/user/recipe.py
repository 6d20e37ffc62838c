"""Recipe: the schedule that a user builds step by step, saves, reads and compiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polytc import errors
from polytc.machine import Machine
from polytc.poly import dependences, nest
from polytc.poly import scop as polyhedra
from polytc.program import program as pr
from polytc.schedule import tree
from polytc.schedule.user import completion, loopnest, pseudocode, reading, saved
from polytc.schedule.user.changes import listed
from polytc.schedule.user.program_steps import ProgramSteps
from polytc.schedule.user.saved import Saved


@dataclass(frozen=True, eq=False)
class Recipe(ProgramSteps):
    """When each instance of a program's statements runs, as loops with names. Every method returns a new Recipe, or raises: see
    ProgramSteps and Steps.

        s = polytc.schedule("C[i,j] += A[i,k]*B[k,j]", shapes={"A": (512, 512), "B": (512, 512)})
        s = s.tile("S1", i=64, j=64).parallel("S1", "i.0")
        C = polytc.run("C[i,j] += A[i,k]*B[k,j]", A, B, schedule=s)

    A loop is named by a statement in it and what that statement calls it: an index, or what a transformation made of one
    ('i.0', 'i.1').
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.program, self.body, self.steps, self.exact, self.changes, self.base, self.machine_of)

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


def _again(program: pr.Program, body: loopnest.Body, steps: tuple[str, ...], *rest: Any) -> Recipe:
    """A copied or unpickled recipe: what isl computed of its program is computed again."""
    exact, changes, base, machine_of = rest
    return replace(start(program, exact), body=body, steps=steps, changes=changes, base=base, machine_of=machine_of)


def start(program: pr.Program, exact: bool = False) -> Recipe:
    """Program order: every statement in loops of its own, those in a `for` in its loop."""
    scop = polyhedra.extract(program)
    return Recipe(program, scop, dependences.analyse(scop), loopnest.of(nest.program_order(program), program), exact=exact)
