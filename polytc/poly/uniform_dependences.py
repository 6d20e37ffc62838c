"""Uniform dependences by their distances alone, which isl's scheduler takes in a hundredth of the time.

    { S[t, i] -> S[t', i + 1] : t' > t and 0 <= i < n and ... }   ->   { S[t, i] -> S[t + 1, i + 1] }

Where the distances of all dependences are bounded once those of more than one iteration of the outermost loop are left out, and
the domains with them, the rest is as good: longer ones follow from chains of these as a rule. What is scheduled so is to be
checked against all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import islpy

from polytc.poly import isl


def nearest_distances(relations: Sequence[islpy.UnionMap], domain: islpy.UnionSet) -> Sequence[islpy.UnionMap]:
    """The relations by their nearest distances, if these are bounded between all statements; else as they are."""
    found = [isl.without_bounds(_near(u), domain) for u in relations]
    return found if all(_bounded(m) for u in found for m in isl.maps(u)) else relations


def _near(u: islpy.UnionMap) -> islpy.UnionMap:
    result = islpy.UnionMap.empty(u.get_space())
    for m in isl.maps(u):
        a, b = (m.dim(kind) for kind in (islpy.dim_type.in_, islpy.dim_type.out))
        if a and b:
            ins, outs = (", ".join(f"{x}{d}" for d in range(n)) for x, n in (("a", a), ("b", b)))
            source, sink = (m.get_tuple_name(kind) for kind in (islpy.dim_type.in_, islpy.dim_type.out))
            m = m.intersect(islpy.Map.read_from_str(m.get_ctx(), f"{{ {source}[{ins}] -> {sink}[{outs}] : b0 - a0 <= 1 }}"))
        result = result.union(m.to_union_map())
    return result


def _bounded(m: islpy.Map) -> bool:
    """Are all distances between two statements of as many loops bounded?"""
    if m.dim(islpy.dim_type.in_) != m.dim(islpy.dim_type.out):
        return False
    plain = m.reset_tuple_id(islpy.dim_type.in_).reset_tuple_id(islpy.dim_type.out)
    return bool(plain.deltas().is_bounded())
