"""Numbers back to parameters: sets and relations in which large sizes stand are lifted to symbolic ones.

    { S[i, j] : 0 <= i < 2000 and 0 <= j < 1999 }  ->  [n0] -> { S[i, j] : 0 <= i < n0 and 0 <= j < n0 - 1 }

isl's scheduler solves integer programs whose cost grows with the numbers in them (a stencil of size 1000 takes a hundred times
as long as one of size n). A schedule found for parameters need not be legal for the numbers, as sizes that are equal by
accident are taken for one parameter: it is to be checked. Its rows hold parameters only as constants, see `number`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import islpy

from polytc.poly import isl
from polytc.program import program as pr

SMALLEST = 6
"""Numbers below this stay numbers."""
NEAR = 8
"""Numbers that differ by at most this, and by at most a quarter, share a parameter."""
MULTIPLE = 3
"""A number may be so many times a parameter (near it)."""


@dataclass(frozen=True)
class Symbols:
    """values: the number that each parameter n0, n1, ... stands for, the largest first."""

    values: tuple[int, ...]

    def name(self, position: int) -> str:
        return f"n{position}"

    def number(self, parameter: str) -> int:
        """The number that a parameter stands for."""
        return self.values[int(parameter[1:])]

    def split(self, constant: int) -> tuple[int, int, int] | None:
        """(parameter, factor, rest) of a number; None for one that stays."""
        if abs(constant) < SMALLEST:
            return None
        for factor in range(1, MULTIPLE + 1):
            for p, value in enumerate(self.values):
                rest = abs(constant) - factor * value
                if abs(rest) <= _near(value):
                    sign = 1 if constant > 0 else -1
                    return p, sign * factor, sign * rest
        return None


def symbols(statements: Iterable[pr.Statement]) -> Symbols:
    """The parameters of some statements: one for each group of neighbouring bounds."""
    found: list[int] = []
    for value in sorted({r.upper for s in statements for r in s.ranges}, reverse=True):
        if value >= SMALLEST and not any(abs(value - v) <= _near(v) for v in found):
            found.append(value)
    return Symbols(tuple(found))


def _near(value: int) -> int:
    return min(NEAR, value // 4)


def context(ctx: islpy.Context, known: Symbols) -> islpy.Set:
    """All parameters are at least half as large as the smallest number that becomes one."""
    names = [known.name(p) for p in range(len(known.values))]
    facts = " and ".join(f"{n} >= {SMALLEST // 2}" for n in names)
    return islpy.Set.read_from_str(ctx, f"[{', '.join(names)}] -> {{ : {facts} }}")


def domain(u: islpy.UnionSet, known: Symbols) -> islpy.UnionSet:
    """The instances with parameters in place of numbers."""
    facts = context(u.get_ctx(), known)
    result = islpy.UnionSet.empty(u.get_space())
    for s in isl.sets(u):
        pieces = s.get_basic_set_list()
        for k in range(pieces.n_basic_set()):
            result = result.union(_set(pieces.get_at(k), known).to_set().to_union_set())
    return result.intersect_params(facts)


def relation(u: islpy.UnionMap, known: Symbols) -> islpy.UnionMap:
    """The pairs with parameters in place of numbers."""
    facts = context(u.get_ctx(), known)
    result = islpy.UnionMap.empty(u.get_space())
    for m in isl.maps(u):
        pieces = m.get_basic_map_list()
        for k in range(pieces.n_basic_map()):
            lifted = _set(pieces.get_at(k).wrap(), known)
            result = result.union(lifted.unwrap().to_map().to_union_map())
    return result.intersect_params(facts).coalesce()


def _set(piece: islpy.BasicSet, known: Symbols) -> islpy.BasicSet:
    first = piece.dim(islpy.dim_type.param)
    assert first == 0, "symbolic: there are parameters already"
    piece = piece.add_dims(islpy.dim_type.param, len(known.values))
    for p in range(len(known.values)):
        piece = piece.set_dim_name(islpy.dim_type.param, p, known.name(p))
    result = islpy.BasicSet.universe(piece.get_space())
    constraints = piece.get_constraints()
    for c in constraints:
        found = known.split(int(c.get_constant_val().to_python()))
        if found is not None:
            p, factor, rest = found
            c = c.set_constant_val(rest).set_coefficient_val(islpy.dim_type.param, p, factor)
        result = result.add_constraint(c)
    return result
