"""How many points isl sets have: exact, or an upper bound where counting takes too long."""

from __future__ import annotations

from math import prod

import islpy

from polytc.poly import isl
from polytc.program.cardinality import NOTHING, Count

ROWS = 400_000
"""Points without their longest dimension that are counted at most: isl counts a row at a time, about 2 microseconds each."""


def point_count(s: islpy.Set) -> Count:
    """The number of points of a bounded set without parameters."""
    if s.is_empty():
        return NOTHING
    extents = bounding_box_extents(s)
    if prod(extents) == 1 or s.is_box():
        return Count(prod(extents))
    order = sorted(range(len(extents)), key=lambda d: extents[d])
    if prod(extents) // max(extents) > ROWS:
        return Count(prod(extents), exact=False)
    return Count(_longest_last(s, order).count_val().to_python())


def total_points(u: islpy.UnionSet) -> Count:
    """The number of points of all sets of a union."""
    return sum((point_count(s) for s in isl.sets(u)), NOTHING)


def bounding_box_extents(s: islpy.Set) -> list[int]:
    """The extents of the box around a bounded, non-empty set."""
    return [s.dim_max_val(d).to_python() - s.dim_min_val(d).to_python() + 1 for d in range(s.dim(islpy.dim_type.set))]


def _longest_last(s: islpy.Set, order: list[int]) -> islpy.Set:
    """The set with its dimensions permuted: isl counts rows along the last one."""
    space = s.get_space()
    names = [f"x{d}" for d in range(len(order))]
    permuted = ", ".join(names[d] for d in order)
    swap = islpy.Map.read_from_str(s.get_ctx(), f"{{ [{', '.join(names)}] -> [{permuted}] }}")
    plain = s.reset_tuple_id() if space.has_tuple_id(islpy.dim_type.set) else s
    return plain.apply(swap)
