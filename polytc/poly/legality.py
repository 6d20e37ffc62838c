"""Does a schedule respect the dependences? If not, which two instances does it break?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import islpy

from polytc.poly import isl


@dataclass(frozen=True)
class Violation:
    """A broken dependence. source must run before sink, both as text: 'S1[t=0, i=1]' -> 'S1[t=1, i=0]'; element: that both
    touch, 'A[1]', or '' where the dependence does not tell."""

    source: str
    sink: str
    element: str = ""

    def __str__(self) -> str:
        return f"{self.source} must run before {self.sink}" + (f": both touch {self.element}" if self.element else "")


SEARCH = 100_000
"""isl operations that the search for a small witness may take."""

Accesses: TypeAlias = tuple[islpy.UnionMap, islpy.UnionMap]
"""What instances read, and what they write."""


def violation(schedule: islpy.Schedule, order: islpy.UnionMap, accesses: Accesses | None = None) -> Violation | None:
    """A pair of `order` that the schedule runs in the wrong order or at the same time; None if the schedule is legal.

    The schedule may not have extension nodes.
    """
    times = {m.get_tuple_name(islpy.dim_type.in_): m for m in isl.maps(schedule.get_map())}
    leading = {name: _leading(m) for name, m in times.items()}
    for dependence in isl.maps(order):
        source, sink = (dependence.get_tuple_name(side) for side in (islpy.dim_type.in_, islpy.dim_type.out))
        if leading[source][:len(leading[sink])] < leading[sink][:len(leading[source])]:
            continue
        first, second = times[source], times[sink]
        wrong = _backwards(dependence.apply_domain(first).apply_range(second))
        if wrong is None:
            continue
        broken = wrong.apply_domain(first.reverse()).apply_range(second.reverse()).intersect(dependence)
        found = _witness(broken, accesses)
        if found is not None:
            return found
    return None


def _leading(times: islpy.Map) -> list[int]:
    """The numbers with which all times of a statement begin: its place in the outermost sequences of the schedule."""
    found = list[int]()
    for d in range(times.dim(islpy.dim_type.out)):
        value = times.plain_get_val_if_fixed(islpy.dim_type.out, d)
        if not value.is_int():
            break
        found.append(value.to_python())
    return found


def _witness(pairs: islpy.Map, accesses: Accesses | None) -> Violation | None:
    """The first of the pairs, if there is any; one of them where isl takes long to find the first."""
    if pairs.is_empty():
        return None
    try:
        pair = isl.bounded(pairs.get_ctx(), SEARCH, lambda: pairs.wrap().lexmin().unwrap())
    except isl.QuotaExceeded:
        pair = pairs.sample().to_map()
    texts = isl.sample(pair)
    assert texts is not None, "legality: an empty sample"
    return Violation(*texts, _element(pair, *accesses) if accesses is not None else "")


def _element(pair: islpy.Map, reads: islpy.UnionMap, writes: islpy.UnionMap) -> str:
    """An element that both instances of the pair touch, at least one writing."""
    source, sink = pair.domain().to_union_set(), pair.range().to_union_set()
    first, second = writes.intersect_domain(source).range(), writes.intersect_domain(sink).range()
    common = first.intersect(second.union(reads.intersect_domain(sink).range()))
    common = common.union(second.intersect(reads.intersect_domain(source).range()))
    return next((isl.element(s) for s in isl.sets(common)), "")


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


def carried(node: islpy.ScheduleNode, member: int, dependences: islpy.UnionMap, accesses: Accesses | None = None) \
        -> Violation | None:
    """A dependence that member `member` of the band at `node` carries, if any: then its iterations may not run at once.

    Only pairs count that all outer loops, and the outer members of the band, run in the same iteration.
    """
    return Carried(node, dependences, accesses).by(member)


class Carried:
    """The dependences that the members of a band carry. What outer loops and members run in one iteration is found once for all
    members."""

    def __init__(self, node: islpy.ScheduleNode, dependences: islpy.UnionMap, accesses: Accesses | None = None) -> None:
        self._node, self._dependences, self._accesses = node, dependences, accesses
        self._same: list[islpy.UnionMap] = []

    def by(self, member: int) -> Violation | None:
        """As `carried`."""
        for m in isl.maps(self._agreeing(member).subtract(self._agreeing(member + 1))):
            found = _witness(m, self._accesses)
            if found is not None:
                return found
        return None

    def _agreeing(self, members: int) -> islpy.UnionMap:
        """The pairs that all outer loops and so many members run in the same iteration."""
        if not self._same:
            instances = self._node.get_domain()
            active = self._dependences.intersect_domain(instances).intersect_range(instances)
            if self._node.get_schedule_depth() > 0:
                active = active.eq_at_multi_union_pw_aff(self._node.get_prefix_schedule_multi_union_pw_aff())
            self._same.append(active)
        band = self._node.band_get_partial_schedule()
        while len(self._same) <= members:
            here = islpy.MultiUnionPwAff.from_union_pw_aff(band.get_at(len(self._same) - 1))
            self._same.append(self._same[-1].eq_at_multi_union_pw_aff(here))
        return self._same[members]


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
        found = _witness(m, None)
        if found is not None:
            return found
    return None
