"""What isl's scheduler is asked about some statements: their instances and dependences, with symbolic sizes."""

from __future__ import annotations

from dataclasses import dataclass

import islpy

from polytc.poly import isl, symbolic_sizes, uniform_dependences
from polytc.poly.dependences import Dependences
from polytc.poly.scop import Scop
from polytc.program import program as pr
from polytc.schedule.facts import bands
from polytc.schedule.facts.conflicts import Conflicts

POSING = 3_000_000
"""isl operations for the question: the dependences with symbolic sizes."""


@dataclass(frozen=True)
class Question:
    """What isl's scheduler is asked about some statements, and their dependences, with symbolic sizes."""

    constraints: islpy.ScheduleConstraints
    conflicts: Conflicts
    known: symbolic_sizes.Symbols

    def answer(self, found: islpy.Schedule) -> bands.Tree:
        """Its answer as bands. Raises bands.Unreadable."""
        return bands.read(found, self.known.number, self.conflicts.indices)


def question(scop: Scop, deps: Dependences, chosen: tuple[pr.Statement, ...]) -> Question:
    """The question about some statements. Raises isl.QuotaExceeded."""
    indices = {isl.name(s.name): tuple(map(isl.name, s.indices)) for s in chosen}
    known = symbolic_sizes.symbols(chosen)
    constraints, conflicts = isl.bounded(scop.ctx, POSING, lambda: _posed(scop, deps, indices, known))
    return Question(constraints, conflicts, known)


def _posed(scop: Scop, deps: Dependences, indices: dict[str, tuple[str, ...]], known: symbolic_sizes.Symbols
           ) -> tuple[islpy.ScheduleConstraints, Conflicts]:
    """The scheduler's question about the statements that have the indices, and their dependences."""
    ours = islpy.UnionSet.empty(scop.domain.get_space())
    for piece in isl.sets(scop.domain):
        if piece.get_tuple_name() in indices:
            ours = ours.union(piece.to_union_set())

    def lifted(u: islpy.UnionMap) -> islpy.UnionMap:
        return symbolic_sizes.relation(u.intersect_domain(ours).intersect_range(ours), known)
    order, everything, flow = lifted(deps.order), lifted(deps.all), lifted(deps.flow)
    instances = symbolic_sizes.domain(ours, known)
    near = uniform_dependences.nearest_distances((order, everything, flow), instances)
    constraints = (islpy.ScheduleConstraints.on_domain(instances).set_context(symbolic_sizes.context(scop.ctx, known))
                   .set_validity(near[0]).set_coincidence(near[1]).set_proximity(near[2]))
    return constraints, Conflicts.of(indices, order, everything, lifted(deps.reduction))
