"""How many instances of a statement can run at once, whatever schedule it has: those that there are, over the longest chain.

    for t in 0:100 { A[i] = A[i-1] + A[i+1] where i in 1:1999 }     1998 of 199,800 instances at once: t carries a dependence
    s += x[k]                                                       all: sums may be put together in any order

Instances are counted exactly. The chain is an upper bound: the product of the loops that carry a dependence, or of one
statement the shortest hyperplane that all of its distances cross (Lamport, The Parallel Execution of DO Loops, CACM 1974).
Instances of an update that meet in one element count as independent, as trees put them together, where the program lets them be
reassociated.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from polytc.poly import isl
from polytc.poly.dependences import Dependences
from polytc.poly.scop import Scop
from polytc.program import cardinality
from polytc.program import program as pr
from polytc.program.affine import Affine, Linear
from polytc.program.cardinality import Count
from polytc.program.linear import collected
from polytc.schedule.facts.conflicts import Conflicts, Distances
from polytc.schedule.facts.fusion_groups import reduced_indices

COEFFICIENTS = (0, 1, 2)
"""Of an index in a hyperplane."""
DIMENSIONS = 4
"""Indices of a hyperplane at most."""
OPERATIONS = 500_000
"""Of isl, for one statement."""


@dataclass(frozen=True)
class Independent:
    """instances: of a statement, in all; chain: of them that run one after another at most, in any schedule; carried: the
    indices of the loops that make the chain."""

    instances: Count
    chain: int
    carried: tuple[str, ...]

    @property
    def at_once(self) -> int:
        """Instances that can run at once, on average."""
        return max(1, self.instances.value // self.chain)


def independent(scop: Scop, deps: Dependences, statement: pr.Statement) -> Independent:
    """Of a statement of a scop. Dependences that exceeded isl's budget make all of it a chain."""
    count, own = cardinality.instances(statement), scop.program.precise and _rounds(scop.program, statement)
    held = set(reduced_indices(statement)) if own else set()
    if deps.coarse:
        return Independent(count, max(1, count.value), statement.indices)
    try:
        return isl.bounded(scop.ctx, OPERATIONS, lambda: _counted(scop, deps, statement, count, held))
    except isl.QuotaExceeded:
        return Independent(count, max(1, count.value), statement.indices)


def _rounds(program: pr.Program, s: pr.Statement) -> bool:
    """Does the order of an update show in its digits?"""
    return s.op in ("+", "*") and program.tensor(s.target).dtype.is_float


def _counted(scop: Scop, deps: Dependences, s: pr.Statement, count: Count, held: set[str]) -> Independent:
    around = [x for x in scop.program.statements if s.loops and x.loops[:1] == s.loops[:1]] or [s]
    indices = {isl.name(x.name): tuple(map(isl.name, x.indices)) for x in around}
    conflicts = Conflicts.of(indices, deps.order, deps.order, deps.reduction)
    name, rows = isl.name(s.name), tuple(Affine(0, ((i, 1),)) for i in indices[isl.name(s.name)])
    carried = [n for n, row in enumerate(rows) if conflicts.carries(name, rows[:n], row)]
    for depth in range(s.depth):
        mine = {isl.name(x.name): tuple(Affine(0, ((isl.name(i), 1),)) for i in x.indices) for x in around
                if x.loops[:depth + 1] == s.loops[:depth + 1]}
        if depth not in carried and not conflicts.together({n: r[depth] for n, r in mine.items()},
                                                           {n: r[:depth] for n, r in mine.items()}):
            carried.append(depth)
    chain = prod(s.ranges[n].extent for n in carried)
    own = conflicts.order.get((name, name))
    if len(around) == 1 and own is not None and len(carried) > 1:
        found = _hyperplane(Distances.of(own, indices[name]), s, tuple(i for i in indices[name]))
        chain = min(chain, found) if found is not None else chain
    names = tuple(i for n, i in enumerate(s.indices) if n in carried or i in held)
    return Independent(count, max(1, chain * prod(s.extents[i] for i in held if s.indices.index(i) not in carried)), names)


def _hyperplane(apart: Distances, s: pr.Statement, names: tuple[str, ...]) -> int | None:
    """The steps of the shortest hyperplane that all distances cross, of those with small coefficients."""
    if len(names) > DIMENSIONS:
        return None
    best: int | None = None
    for chosen in product(COEFFICIENTS, repeat=len(names)):
        steps = 1 + sum(c * (r.extent - 1) for c, r in zip(chosen, s.ranges, strict=True))
        if any(chosen) and (best is None or steps < best) and _crossed(apart, _row(names, chosen)):
            best = steps
    return best


def _row(names: tuple[str, ...], coefficients: tuple[int, ...]) -> Linear:
    return collected(((i, c) for i, c in zip(names, coefficients, strict=True) if c), 0)


def _crossed(apart: Distances, row: Linear) -> bool:
    """Does every distance go forward along a row?"""
    return not apart.meet(row, "<") and not apart.standing((row,)).meet(None, "")
