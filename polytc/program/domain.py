"""The domain of a statement: a box of indices and conditions that narrow it; listing its points, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from polytc.program import evaluator, scalars
from polytc.program import program as pr
from polytc.program.affine import QuasiAffine, Quotient, add, affine, at, indices, interval
from polytc.program.scalars import I64
from polytc.program.solutions import solve
from polytc.program.traces.traced import traced

LIMIT = 1 << 22
"""Points that a check may list; larger domains need a proof on intervals."""

_ROUNDS = 64
_CORNERS = 10
"""Indices of a box whose corners are looked at."""


def condition_indices(condition: pr.Expr) -> frozenset[str]:
    """The indices of a condition."""
    return frozenset(pr.index_names(condition))


def as_bounds(condition: pr.Expr) -> tuple[QuasiAffine, int | None, int | None] | None:
    """A comparison as low <= form <= high (None: unbounded); None if it is no such thing (`!=`, `||`, ...)."""
    if not isinstance(condition, pr.Binary) or condition.op not in scalars.COMPARISONS or condition.op == "!=":
        return None
    a, b = affine(condition.a), affine(condition.b)
    if a is None or b is None:
        return None
    low, high = {"<": (None, -1), "<=": (None, 0), ">": (1, None), ">=": (0, None), "==": (0, 0)}[condition.op]
    return add(a, b, -1), low, high


@dataclass(frozen=True)
class Domain:
    """box: index -> (smallest, largest) value; conditions: bool expressions over the indices."""

    box: pr.Box
    conditions: tuple[pr.Expr, ...] = ()

    def connected(self, names: Iterable[str]) -> tuple[frozenset[str], tuple[pr.Expr, ...]]:
        """`names` with all indices tied to them by conditions, and these conditions."""
        found, used = set(names), set[int]()
        grown = True
        while grown:
            grown = False
            for k, c in enumerate(self.conditions):
                tied = condition_indices(c)
                if k not in used and tied & found:
                    used.add(k)
                    found |= tied
                    grown = True
        return frozenset(found), tuple(c for k, c in enumerate(self.conditions) if k in used)

    def points(self, names: Iterable[str]) -> dict[str, np.ndarray] | None:
        """All points of the domain, as one array an index, for `names` and what is tied to them; None if too many."""
        found, conditions = self.connected(names)
        order = [i for i in self.box if i in found]
        if math.prod(self.box[i][1] - self.box[i][0] + 1 for i in order) > LIMIT:
            return None
        axes = {i: np.arange(int(self.box[i][0]), int(self.box[i][1]) + 1, dtype=np.int64) for i in order}
        return _satisfying(axes, conditions)

    def corners(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """The corners of the box that belong to the domain, for `names` and what is tied to them; objects for traced sizes."""
        found, conditions = self.connected(names)
        order = [i for i in self.box if i in found]
        if len(order) > _CORNERS:
            return {i: np.zeros(0, np.int64) for i in order}
        bounds = [as_bounds(c) for c in conditions]
        if any(traced(end) for i in order for end in self.box[i]) and None not in bounds:
            corners = (dict(zip(order, ends, strict=True)) for ends in product(*(dict.fromkeys(self.box[i]) for i in order)))
            kept = [p for p in corners if all(_within(b, p) for b in bounds if b is not None)]
            return {i: np.array([p[i] for p in kept], object) for i in order}
        return _satisfying({i: np.array(sorted(set(self.box[i])), np.int64) for i in order}, conditions)

    @property
    def empty(self) -> bool:
        """Is there no point at all? (Conditions count where their points can be listed.)"""
        if any(low > high for low, high in self.box.values()):
            return True
        if not self.conditions:
            return False
        names = frozenset().union(*map(condition_indices, self.conditions))
        if any(len(a) for a in self.corners(names).values()):
            return False
        points = self.points(names)
        return points is not None and any(len(a) == 0 for a in points.values())


def _within(bounds: tuple[QuasiAffine, int | None, int | None], point: Mapping[str, int]) -> bool:
    """Does a form stay between its bounds at a point?"""
    form, low, high = bounds
    value = at(form, point)
    return (low is None or value >= low) and (high is None or value <= high)


def _satisfying(axes: dict[str, np.ndarray], conditions: tuple[pr.Expr, ...]) -> dict[str, np.ndarray]:
    """The points of the product of `axes` for which all conditions are true, one array an index."""
    if not axes:
        return {}
    grid = {i: a.reshape([-1 if k == d else 1 for k in range(len(axes))]) for d, (i, a) in enumerate(axes.items())}
    mask = np.ones([len(a) for a in axes.values()], bool)
    for c in conditions:
        mask &= evaluator.compute(c, grid, {}, {})
    chosen = np.nonzero(mask)
    return {i: a[chosen[d]] for d, (i, a) in enumerate(axes.items())}


def tighten(domain: Domain) -> Domain:
    """The same points in a smaller box, without the conditions that hold everywhere in it. Where an index has no values there
    is none to tighten, and the others keep theirs."""
    if Domain(domain.box).empty:
        return domain
    box = dict(domain.box)
    for _ in range(_ROUNDS):
        before = dict(box)
        box |= {index: _trim(index, box[index], domain.conditions) for index in box}
        for c in domain.conditions:
            bounds = as_bounds(c)
            if bounds is None:
                continue
            for index in sorted(indices(bounds[0])):
                found = solve(*bounds, index, box, every=False)
                if found is not None:
                    box[index] = _intersect(box[index], found)
                    if box[index][0] > box[index][1]:
                        return Domain(box, domain.conditions)
        if box == before:
            break
    if Domain(box).empty:
        return Domain(box, domain.conditions)
    return Domain(box, tuple(c for c in domain.conditions if not holds(c, box)))


def separated(condition: pr.Expr) -> list[pr.Expr]:
    """A comparison with a least or largest value as comparisons with each: k < min(5, i + 2)  ->  k < 5, k < i + 2."""
    if not isinstance(condition, pr.Binary) or condition.op not in ("<", "<=", ">", ">="):
        return [condition]
    small, large = ("max", "min") if condition.op in ("<", "<=") else ("min", "max")
    return [pr.Binary(condition.op, a, b, condition.dtype)
            for a in _terms(condition.a, small) for b in _terms(condition.b, large)]


def _terms(e: pr.Expr, fn: str) -> list[pr.Expr]:
    """The expressions of which an integer one is the extremum `fn`."""
    if isinstance(e, pr.Call) and e.fn == fn and e.dtype == I64:
        return [x for a in e.args for x in _terms(a, fn)]
    if isinstance(e, pr.Call) and e.fn == "abs" and fn == "max" and e.dtype == I64:
        return [e.args[0], pr.Unary("-", e.args[0], I64)]
    if isinstance(e, pr.Binary) and e.op in ("+", "-") and e.dtype == I64:
        left = _terms(e.a, fn)
        if len(left) > 1:
            return [pr.Binary(e.op, x, e.b, I64) for x in left]
        right = _terms(e.b, fn if e.op == "+" else {"min": "max", "max": "min"}[fn])
        return [pr.Binary(e.op, e.a, x, I64) for x in right] if len(right) > 1 else [e]
    return [e]


def _intersect(a: tuple[int, int], b: tuple[int | None, int | None]) -> tuple[int, int]:
    low, high = b
    return (a[0] if low is None else max(a[0], low)), (a[1] if high is None else min(a[1], high))


def _trim(index: str, span: tuple[int, int], conditions: tuple[pr.Expr, ...]) -> tuple[int, int]:
    """The first and last value of `index` that the conditions on it alone allow."""
    own = [c for c in conditions if condition_indices(c) == {index}]
    if not own or (traced(span[0]) or traced(span[1])) and _are_solved(own) or span[1] - span[0] > LIMIT:
        return span
    axis = np.arange(int(span[0]), int(span[1]) + 1, dtype=np.int64)
    mask = np.broadcast_to(evaluator.compute(pr.conjunction(tuple(own)), {index: axis}, {}, {}), axis.shape)
    kept = np.nonzero(mask)[0]
    return (span[0] + int(kept[0]), span[0] + int(kept[-1])) if len(kept) else (span[0], span[0] - 1)


def _are_solved(conditions: Sequence[pr.Expr]) -> bool:
    """Does `solve` tell all that these conditions say of their one index?"""
    forms = [None if bounds is None else bounds[0].terms for bounds in map(as_bounds, conditions)]
    return all(terms is not None and len(terms) == 1 and isinstance(terms[0][0], str | Quotient) for terms in forms)


def holds(condition: pr.Expr, box: pr.Box) -> bool:
    """Is the comparison true in the whole box? (False may mean: not seen.)"""
    if isinstance(condition, pr.Const):
        return bool(condition.value)
    bounds = as_bounds(condition)
    if bounds is None:
        return False
    low, high = interval(bounds[0], box)
    return (bounds[1] is None or low >= bounds[1]) and (bounds[2] is None or high <= bounds[2])
