"""How many instances a statement has: exact, in numpy's time for the points of all indices but one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from polytc.program import program as pr
from polytc.program.affine import Affine, add, indices, values
from polytc.program.domain import Domain, as_bounds
from polytc.program.evaluator import compute

CHUNK = 1 << 20
"""Points of the other indices looked at together."""
LIMIT = 1 << 28
"""Points of the other indices looked at in all; beyond it the count is that of the box."""


@dataclass(frozen=True)
class Count:
    """value: a number of points; exact: else it is an upper bound (that of the box around them)."""

    value: int
    exact: bool = True

    def __add__(self, other: Count) -> Count:
        return Count(self.value + other.value, self.exact and other.exact)

    def __mul__(self, factor: int) -> Count:
        return Count(self.value * factor, self.exact)

    def __str__(self) -> str:
        return f"{self.value:,}" if self.exact else f"at most {self.value:,}"


NOTHING = Count(0)


def instances(s: pr.Statement) -> Count:
    """The points of the statement's domain. Indices that no condition ties together are counted apart."""
    domain = Domain(s.box, s.where)
    left, total = set(domain.box), NOTHING + Count(1)
    while left:
        tied, conditions = domain.connected([next(iter(left))])
        part = _tied(Domain({i: b for i, b in domain.box.items() if i in tied}, conditions))
        total = Count(total.value * part.value, total.exact and part.exact)
        left -= tied
    return total


def _tied(domain: Domain) -> Count:
    extents = {i: max(0, high - low + 1) for i, (low, high) in domain.box.items()}
    everything = prod(extents.values())
    if not domain.conditions or everything == 0:
        return Count(everything)
    along = _countable(domain, extents)
    others = {i: b for i, b in domain.box.items() if i != along}
    if prod(extents[i] for i in others) > LIMIT:
        return Count(everything, exact=False)
    return Count(sum(_rows(domain, along, grid) for grid in _grids(others)))


def _countable(domain: Domain, extents: dict[str, int]) -> str | None:
    """The longest index that every condition bounds by a form of the others, so that its values are an interval."""
    def plain(index: str, condition: pr.Expr) -> bool:
        bounds = as_bounds(condition)
        if bounds is None:
            return index not in {n.name for n in pr.walk(condition) if isinstance(n, pr.Index)}
        carriers = [c for t, c in bounds[0].terms if index in indices(t)]
        return not carriers or (carriers in ([1], [-1]) and (index, carriers[0]) in bounds[0].terms)
    usable = [i for i in domain.box if all(plain(i, c) for c in domain.conditions)]
    return max(usable, key=lambda i: extents[i], default=None)


def _grids(box: dict[str, tuple[int, int]]) -> Iterator[dict[str, np.ndarray]]:
    """All points of a box, one array an index, some at a time."""
    shape = tuple(high - low + 1 for low, high in box.values())
    size = prod(shape)
    for start in range(0, size, CHUNK):
        places = np.unravel_index(np.arange(start, min(size, start + CHUNK)), shape) if shape else ()
        yield {i: p + low for (i, (low, _)), p in zip(box.items(), places, strict=True)}


def _rows(domain: Domain, along: str | None, grid: dict[str, np.ndarray]) -> int:
    """The points of the domain over the points of `grid`."""
    count = len(next(iter(grid.values()))) if grid else 1
    inside = np.ones(count, bool)
    low, high = (np.full(count, end) for end in (domain.box[along] if along is not None else (0, 0)))
    for c in domain.conditions:
        bounds = as_bounds(c)
        if bounds is None or along is None or (along, 1) not in bounds[0].terms and (along, -1) not in bounds[0].terms:
            inside &= np.broadcast_to(compute(c, grid, {}, {}), (count,))
            continue
        form, least, most = bounds
        sign = dict(form.terms)[along]
        rest = values(add(form, Affine(0, ((along, sign),)), -1), grid.__getitem__)
        below, above = (None if least is None else least - rest), (None if most is None else most - rest)
        if sign < 0:
            below, above = (None if above is None else -above), (None if below is None else -below)
        low = low if below is None else np.maximum(low, below)
        high = high if above is None else np.minimum(high, above)
    return int(np.where(inside, np.maximum(high - low + 1, 0), 0).sum())
