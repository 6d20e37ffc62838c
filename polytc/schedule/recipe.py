"""Recipe: the schedule that a user builds step by step, saves, reads and compiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from polytc.lang import program as pr
from polytc.machine import Machine
from polytc.poly import dependences, nest
from polytc.poly import scop as polyhedra
from polytc.schedule import completion, loopnest, pseudocode, reading, tree
from polytc.schedule.steps import Steps


@dataclass(frozen=True, eq=False)
class Recipe(Steps):
    """When each instance of a program's statements runs, as loops with names. Every method returns a new Recipe, or raises: see
    Steps.

        s = polytc.schedule("C[i,j] += A[i,k]*B[k,j]", shapes={"A": (512, 512), "B": (512, 512)})
        s = s.tile("S1", i=64, j=64).parallel("S1", "i.0")
        C = polytc.run("C[i,j] += A[i,k]*B[k,j]", A, B, schedule=s)

    A loop is named by a statement in it and what that statement calls it: an index, or what a transformation made of one
    ('i.0', 'i.1'). exact: nothing is added when it is compiled.
    """

    exact: bool = False

    def __str__(self) -> str:
        return pseudocode.text(self.body, self.scop)

    def __repr__(self) -> str:
        return f"<polytc.Recipe of {self.program.name}: {'; '.join(self.steps) or 'program order'}>"

    def yaml(self) -> str:
        """The schedule tree in isl's YAML, which `polytc.compile(schedule=...)` takes as it is, without adding to it."""
        steps = "".join(f"# {step}\n" for step in self.steps)
        return f"{tree.WRITTEN}\n{steps}{self.schedule}\n"

    def save(self, path: str | Path) -> None:
        """Write the YAML to a file."""
        Path(path).write_text(self.yaml(), encoding="utf-8")

    def load(self, path: str | Path) -> Recipe:
        """The schedule of a file, for this program. Raises E702 for what is no schedule, E703 for one of another program,
        E701 and E704 for an illegal one, E708 for one whose loops cannot be edited."""
        return self.read(Path(path).read_text(encoding="utf-8"))

    def read(self, text: str) -> Recipe:
        """The schedule of a YAML text, for this program; see `load`."""
        found = self.bounded(lambda: tree.from_yaml(text, self.scop, self.deps))
        return replace(self, body=reading.body(found.tree, self.program), steps=reading.steps(text))

    def request(self, machine: Machine) -> str:
        """The YAML of what is compiled for a machine: completed unless it is exact."""
        return (self if self.exact else self.complete(machine)).yaml()

    def complete(self, machine: Machine) -> Recipe:
        """The recipe with what it leaves open decided for a machine; see schedule.completion."""
        return completion.complete(self, machine)


def start(program: pr.Program, exact: bool = False) -> Recipe:
    """Program order: every statement in loops of its own, those in a `for` in its loop."""
    scop = polyhedra.extract(program)
    return Recipe(program, scop, dependences.analyse(scop), loopnest.of(nest.program_order(program), program), exact=exact)
