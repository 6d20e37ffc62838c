"""Which loop of a statement becomes vectors: asked by the strategies for CPUs and GPUs, and for what users leave open.

    Y[i,j] = X[j,i]*2 + Z[i,j]      ->  j: two accesses are contiguous along it, one is not

A contraction's is that of its register tile (register_tiles.py), by cycles. Of other statements it is the loop with the best
score: contiguous accesses count for a loop, those that would have to be gathered against it. Loops inside of tiles, whose order
is being searched, are compared by the cycles of each access (`access_cycles`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from polytc.machine import Costs, Machine
from polytc.program import program as pr
from polytc.schedule.cost import register_tiles
from polytc.schedule.cost.register_tiles import RegisterTile
from polytc.schedule.facts.strides import AccessStrides, vector_score


def of_contraction(s: pr.Statement, accesses: tuple[AccessStrides, ...], shared: tuple[str, ...], lanes: int, machine: Machine
                   ) -> RegisterTile | None:
    """The register tile over some indices of a reduction, which says the index that becomes vectors; None if none does."""
    return register_tiles.best(s, accesses, shared, lanes, machine)


def best(accesses: tuple[AccessStrides, ...], indices: Sequence[str], reduced: Collection[str] = (), *, later: bool = False,
         turned: Mapping[str, Collection[AccessStrides]] | None = None) -> tuple[int | None, int]:
    """(place, score) of the best of some indices, (None, 0) without any; one with a score of 0 or less gains nothing. reduced:
    those of them along which the statement reduces. later: of equal ones the last, else the first. turned: accesses that do not
    count for an index, as they are turned in registers."""
    left_out = turned or {}
    scores = [score(tuple(a for a in accesses if a not in left_out.get(i, ())), i, reduced) for i in indices]
    place = max(range(len(indices)), key=lambda n: (scores[n], n if later else -n), default=None)
    return place, scores[place] if place is not None else 0


def score(accesses: tuple[AccessStrides, ...], index: str, reduced: Collection[str] = ()) -> int:
    """How well an index vectorises; of a reduced one the target does not count, which stays where it is."""
    return vector_score(accesses[1:] if index in reduced else accesses, index)


def access_cycles(stride: int | None, lanes: int, costs: Costs) -> float:
    """Cycles an instance for one access of a vector loop, that walks memory in this stride."""
    match stride:
        case 0:
            return 0.0
        case 1:
            return costs.arithmetic.scalar / lanes
        case -1:
            return 2 * costs.arithmetic.scalar / lanes
        case _:
            return costs.accesses.scattered
