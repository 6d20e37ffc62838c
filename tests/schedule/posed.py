"""What decisions about the loops of a `for` program look at."""

from __future__ import annotations

from polytc.lang import build
from polytc.machine import Machine
from polytc.poly import dependences, nest, scheduler, scop
from polytc.program import program as pr
from polytc.schedule.facts import bands, scheduler_constraints
from polytc.schedule.tiling import point_loops

Shapes = dict[str, tuple[int, ...]]


def posed(text: str, shapes: Shapes, machine: Machine) -> tuple[point_loops.Scene, pr.Loop, scheduler_constraints.Question]:
    """The scene of the first loop of a text, that loop, and the question that isl's scheduler is asked."""
    program = build(text, shapes)
    facts = scop.extract(program)
    loop = next(x for x in pr.stretches(program.statements) if isinstance(x, pr.Loop))
    asked = scheduler_constraints.question(facts, dependences.analyse(facts), loop.statements)
    return point_loops.Scene(program, point_loops.names(loop.statements), asked.conflicts, machine), loop, asked


def scheduled(asked: scheduler_constraints.Question) -> bands.PermutableBand:
    """The first band that isl's scheduler finds."""
    tree = asked.answer(scheduler.find(asked.constraints, scheduler.SYMBOLIC_ATTEMPTS))
    while not isinstance(tree, bands.PermutableBand):
        assert isinstance(tree, nest.Sequence)
        tree = tree.children[0]
    return tree
