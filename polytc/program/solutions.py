"""Solutions: the values of one index for which a quasi-affine form stays between bounds, over a box of the other indices."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from itertools import product
from typing import TypeAlias

from polytc.program import program as pr
from polytc.program.affine import Affine, Choice, Maximum, QuasiAffine, Quotient, add, affine, indices, interval
from polytc.program.program import Box

Interval: TypeAlias = tuple[int | None, int | None]
"""Smallest and largest value; None is unbounded."""

_NOTHING: Interval = (1, -1)


def solve(a: QuasiAffine, low: int | None, high: int | None, index: str, box: Box, *, every: bool) -> Interval | None:
    """The interval of `index` where low <= a <= high.

    every=True: the largest interval valid for all values of the other indices in their box (ranges from reads);
    every=False: one that contains every solution (bounding box of a condition), the smallest for what has no pieces. None as an
    end is unbounded; None as the result: `index` occurs in a way that cannot be inverted, or the values are no interval.
    """
    found = _allowed(a, (low, high), index, box, every)
    if found is None or (every and len(found) > 1):
        return None
    return (found[0][0], found[-1][1]) if found else _NOTHING


def solve_behind(a: QuasiAffine, low: int, high: int, index: str, box: Box, conditions: Iterable[pr.Expr]
                 ) -> list[Interval] | None:
    """The values of `index` for which low <= a <= high, whatever the other indices are, or a condition on `index` alone fails:
    intervals in order. None where they cannot be told, or no condition is on `index` alone."""
    known = [x for c in conditions if index in pr.index_names(c) and (x := holding(c, index)) is not None]
    inside = _allowed(a, (low, high), index, box, True)
    if inside is None or not known:
        return None
    return _either(_complement(reduce(intersection, known)), inside)


def _allowed(a: QuasiAffine, ends: Interval, index: str, box: Box, every: bool) -> list[Interval] | None:
    """The values of `index` for which a form stays within `ends`, as intervals in order; None where that cannot be told."""
    carriers = [(t, c) for t, c in a.terms if index in indices(t)]
    if not carriers:
        first, last = interval(a, box)
        above, below = ends[0] is None or first >= ends[0], ends[1] is None or last <= ends[1]
        meets = (ends[0] is None or last >= ends[0]) and (ends[1] is None or first <= ends[1])
        return [(None, None)] if (above and below if every else meets) else []
    if len(carriers) > 1:
        return None
    atom, c = carriers[0]
    lower, upper = _of_atom(ends, c, interval(add(a, Affine(0, ((atom, c),)), -1), box), every)
    if not isinstance(atom, str | Quotient) and lower is not None and upper is not None and lower > upper:
        return []
    if isinstance(atom, Maximum):
        return _allowed_maximum(atom, (lower, upper), index, box, every)
    if isinstance(atom, Choice):
        return _allowed_choice(atom, (lower, upper), index, box, every)
    if isinstance(atom, str):
        return [(lower, upper)]
    d = atom.divisor
    if isinstance(atom, Quotient):
        inner = None if lower is None else lower * d, None if upper is None else upper * d + d - 1
        return _allowed(atom.a, inner, index, box, every)
    harmless = (lower is None or lower <= 0) and (upper is None or upper >= d - 1)
    return [(None, None)] if harmless or not every else None


def _of_atom(ends: Interval, c: int, rest: tuple[int, int], every: bool) -> Interval:
    """Where an atom may be if c * atom + rest stays within `ends`, for all (or some) values of the rest."""
    rest_low, rest_high = rest if every else rest[::-1]
    below = None if ends[0] is None else ends[0] - rest_low
    above = None if ends[1] is None else ends[1] - rest_high
    if c < 0:
        below, above = (None if above is None else -above), (None if below is None else -below)
    return None if below is None else -(-below // abs(c)), None if above is None else above // abs(c)


def _allowed_maximum(atom: Maximum, ends: Interval, index: str, box: Box, every: bool) -> list[Interval] | None:
    """max(a, b) <= high is a <= high and b <= high; low <= max(a, b) is low <= a or low <= b."""
    if every and indices(atom.a) & indices(atom.b) - {index}:
        return None  # for each value of theirs another one may be the larger
    parts = [_allowed(x, e, index, box, every) for e in ((None, ends[1]), (ends[0], None)) for x in (atom.a, atom.b)]
    small_a, small_b, large_a, large_b = parts
    if small_a is None or small_b is None or large_a is None or large_b is None:
        return None
    return intersection(intersection(small_a, small_b), _either(large_a, large_b))


def _allowed_choice(atom: Choice, ends: Interval, index: str, box: Box, every: bool) -> list[Interval] | None:
    """(condition and a) or (not condition and b), of a condition that names no other index."""
    a, b = _allowed(atom.a, ends, index, box, every), _allowed(atom.b, ends, index, box, every)
    holds = holding(atom.condition, index)
    if a is None or b is None or (holds is None and every):
        return None
    return _either(a, b) if holds is None else _either(intersection(holds, a), intersection(_complement(holds), b))


def holding(condition: pr.Expr, index: str) -> list[Interval] | None:
    """The values of `index` for which a condition on it alone holds; None where it is on others, or cannot be inverted."""
    match condition:
        case pr.Const():
            return [(None, None)] if condition.value else []
        case pr.Unary():
            a = holding(condition.a, index)
            return None if a is None else _complement(a)
        case pr.Binary(op="&&" | "||"):
            a, b = holding(condition.a, index), holding(condition.b, index)
            return None if a is None or b is None else (intersection if condition.op == "&&" else _either)(a, b)
    assert isinstance(condition, pr.Binary)
    left, right = affine(condition.a), affine(condition.b)
    assert left is not None
    assert right is not None
    difference = add(left, right, -1)
    if not indices(difference) <= {index}:
        return None
    ends: Interval = {"<": (None, -1), "<=": (None, 0), ">": (1, None), ">=": (0, None)}.get(condition.op, (0, 0))
    found = _allowed(difference, ends, index, {}, True)
    return found if found is None or condition.op != "!=" else _complement(found)


def _below(a: int | None, b: int | None) -> bool:
    """Is there nothing from a to b? None is unbounded."""
    return a is not None and b is not None and a > b


def intersection(a: list[Interval], b: list[Interval]) -> list[Interval]:
    """The intersection."""
    found = []
    for (p, q), (r, s) in product(a, b):
        low = r if p is None else p if r is None else max(p, r)
        high = s if q is None else q if s is None else min(q, s)
        found += [] if _below(low, high) else [(low, high)]
    return found


def _complement(a: list[Interval]) -> list[Interval]:
    """All other values."""
    found: list[Interval] = [(None, None)]
    for low, high in a:
        outside: list[Interval] = [] if low is None else [(None, low - 1)]
        found = intersection(found, outside + ([] if high is None else [(high + 1, None)]))
    return found


def _either(a: list[Interval], b: list[Interval]) -> list[Interval]:
    """The union, neighbours made one."""
    return _complement(intersection(_complement(a), _complement(b)))
