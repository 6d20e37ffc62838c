"""Does a schedule respect the dependences? If not, which two instances does it break?"""

from __future__ import annotations

from dataclasses import dataclass

import islpy

from polytc.poly import isl


@dataclass(frozen=True)
class Violation:
    """A broken dependence. source must run before sink, both as text: 'S1[t=0, i=1]' -> 'S1[t=1, i=0]'."""

    source: str
    sink: str

    def __str__(self) -> str:
        return f"{self.source} must run before {self.sink}"


def violation(schedule: islpy.Schedule, order: islpy.UnionMap) -> Violation | None:
    """A pair of `order` that the schedule runs in the wrong order or at the same time; None if the schedule is legal.

    The schedule may not have extension nodes.
    """
    times = {m.get_tuple_name(islpy.dim_type.in_): m for m in isl.maps(schedule.get_map())}
    for dependence in isl.maps(order):
        first, second = (times[dependence.get_tuple_name(side)] for side in (islpy.dim_type.in_, islpy.dim_type.out))
        wrong = _backwards(dependence.apply_domain(first).apply_range(second))
        if wrong is None:
            continue
        broken = wrong.apply_domain(first.reverse()).apply_range(second.reverse()).intersect(dependence)
        found = isl.sample(broken)
        if found is not None:
            return Violation(*found)
    return None


def _backwards(pairs: islpy.Map) -> islpy.Map | None:
    """Pairs of times whose first is not before the second, if there are any. From the outermost dimension inwards only what is
    still at the same time is looked at, which is seldom much."""
    before, after = islpy.dim_type.in_, islpy.dim_type.out
    for d in range(pairs.dim(before)):
        a, b = pairs.plain_get_val_if_fixed(before, d), pairs.plain_get_val_if_fixed(after, d)
        if a.is_int() and b.is_int() and not a.eq(b):
            return None if a.lt(b) else pairs
        late = pairs.order_gt(before, d, after, d)
        if not late.is_empty():
            return late
        pairs = pairs.equate(before, d, after, d)
        if pairs.is_empty():
            return None
    return pairs


def carried(node: islpy.ScheduleNode, member: int, dependences: islpy.UnionMap) -> Violation | None:
    """A dependence that member `member` of the band at `node` carries, if any: then its iterations may not run at once.

    Only pairs count that all outer loops, and the outer members of the band, run in the same iteration.
    """
    instances = node.get_domain()
    active = dependences.intersect_domain(instances).intersect_range(instances)
    if node.get_schedule_depth() > 0:
        active = active.eq_at_multi_union_pw_aff(node.get_prefix_schedule_multi_union_pw_aff())
    band = node.band_get_partial_schedule()
    for d in range(member):
        active = active.eq_at_multi_union_pw_aff(islpy.MultiUnionPwAff.from_union_pw_aff(band.get_at(d)))
    here = islpy.MultiUnionPwAff.from_union_pw_aff(band.get_at(member))
    for m in isl.maps(active.subtract(active.eq_at_multi_union_pw_aff(here))):
        found = isl.sample(m)
        if found is not None:
            return Violation(*found)
    return None


def apart(node: islpy.ScheduleNode, member: int, together: islpy.UnionMap) -> Violation | None:
    """Two instances that only member `member` of the band at `node` and what is inside tell apart, and that are not in
    `together`, if there are any."""
    instances = node.get_domain()
    pairs = islpy.UnionMap.from_domain_and_range(instances, instances)
    if node.get_schedule_depth() > 0:
        pairs = pairs.eq_at_multi_union_pw_aff(node.get_prefix_schedule_multi_union_pw_aff())
    band = node.band_get_partial_schedule()
    for d in range(member):
        pairs = pairs.eq_at_multi_union_pw_aff(islpy.MultiUnionPwAff.from_union_pw_aff(band.get_at(d)))
    for m in isl.maps(pairs.subtract(together)):
        found = isl.sample(m)
        if found is not None:
            return Violation(*found)
    return None
