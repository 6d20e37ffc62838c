"""Quasi-affine forms: sums of `coefficient * atom`, an atom being an index, `(form) // number` or `(form) % number`.

Exact integer reasoning over boxes of indices: intervals of a form, and the interval of one index that a bound on a form allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from polytc.program import program as pr
from polytc.program.program import Box


@dataclass(frozen=True)
class Quotient:
    """floor(a / divisor), divisor > 0."""

    a: QuasiAffine
    divisor: int


@dataclass(frozen=True)
class Remainder:
    """a - divisor * floor(a / divisor), divisor > 0."""

    a: QuasiAffine
    divisor: int


Atom: TypeAlias = str | Quotient | Remainder
A = TypeVar("A", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True)
class Affine(Generic[A]):
    """constant + sum(coefficient * atom); no atom twice, no coefficient 0. `2*h + r//3 - 1` has the terms (('h', 2),
    (Quotient(r, 3), 1)) and the constant -1."""

    constant: int = 0
    terms: tuple[tuple[A, int], ...] = ()

    @property
    def index(self) -> str | None:
        """The index if the form is nothing but one index."""
        if self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1 and isinstance(self.terms[0][0], str):
            return self.terms[0][0]
        return None

    def coefficient(self, index: str) -> int:
        """Of an index that is an atom; 0 if it is none."""
        return next((c for atom, c in self.terms if atom == index), 0)


QuasiAffine: TypeAlias = Affine[Atom]
Linear: TypeAlias = Affine[str]
"""A plain sum of `coefficient * index` and a number. program.linear sorts the terms by index: equal sums are equal."""


def add(a: Affine[T], b: Affine[T], factor: int = 1) -> Affine[T]:
    """a + factor * b."""
    total = dict(a.terms)
    for atom, c in b.terms:
        total[atom] = total.get(atom, 0) + factor * c
    return Affine(a.constant + factor * b.constant, tuple((t, c) for t, c in total.items() if c))


def _divide(a: QuasiAffine, divisor: int) -> QuasiAffine:
    if all(c % divisor == 0 for _, c in a.terms):
        return Affine(a.constant // divisor, tuple((t, c // divisor) for t, c in a.terms))
    return Affine(0, ((Quotient(a, divisor), 1),))


def _modulo(a: QuasiAffine, divisor: int) -> QuasiAffine:
    kept = Affine(a.constant, tuple((t, c) for t, c in a.terms if c % divisor))
    return Affine(a.constant % divisor) if not kept.terms else Affine(0, ((Remainder(kept, divisor), 1),))


def affine(e: pr.Expr) -> QuasiAffine | None:
    """The form of an integer expression; None if it is not quasi-affine (a gather, a product of indices, ...)."""
    try:
        form: QuasiAffine | None = e._affine
        return form
    except AttributeError:
        form = _affine(e)
        object.__setattr__(e, "_affine", form)
        return form


def _affine(e: pr.Expr) -> QuasiAffine | None:
    match e:
        case pr.Const() if not isinstance(e.value, float):
            return Affine(+e.value)
        case pr.Index():
            return Affine(0, ((e.name, 1),))
        case pr.Unary(op="-"):
            a = affine(e.a)
            return None if a is None else add(Affine(0), a, -1)
        case pr.Binary():
            a, b = affine(e.a), affine(e.b)
            return None if a is None or b is None else _combine(e.op, a, b)
        case _:
            return None


def _combine(op: str, a: QuasiAffine, b: QuasiAffine) -> QuasiAffine | None:
    if op in ("+", "-"):
        return add(a, b, 1 if op == "+" else -1)
    if op == "*":
        if a.terms and b.terms:
            return None
        number, form = (a.constant, b) if not a.terms else (b.constant, a)
        return add(Affine(0), form, number)
    if op in ("//", "%") and not b.terms and b.constant > 0:
        return _divide(a, b.constant) if op == "//" else _modulo(a, b.constant)
    return None


def indices(a: QuasiAffine | Atom) -> frozenset[str]:
    """All indices in a form or atom."""
    if isinstance(a, str):
        return frozenset((a,))
    if isinstance(a, Affine):
        return frozenset().union(*(indices(t) for t, _ in a.terms))
    return indices(a.a)


def interval(a: QuasiAffine, box: Box) -> tuple[int, int]:
    """Bounds of the form over a non-empty box; exact where no index occurs in two atoms."""
    low = high = a.constant
    for atom, c in a.terms:
        first, last = _atom_interval(atom, box)[::1 if c > 0 else -1]
        low, high = low + c * first, high + c * last
    return low, high


def _atom_interval(atom: Atom, box: Box) -> tuple[int, int]:
    if isinstance(atom, str):
        return box[atom]
    low, high = interval(atom.a, box)
    if isinstance(atom, Quotient):
        return low // atom.divisor, high // atom.divisor
    if low // atom.divisor == high // atom.divisor:
        return low % atom.divisor, high % atom.divisor
    return 0, atom.divisor - 1


def exact(a: QuasiAffine) -> bool:
    """Is `interval` attained at both ends for every box? True for plain sums of distinct indices."""
    return all(isinstance(atom, str) for atom, _ in a.terms)


def solve(a: QuasiAffine, low: int | None, high: int | None, index: str, box: Box, *, every: bool
          ) -> tuple[int | None, int | None] | None:
    """The interval of `index` where low <= a <= high.

    every=True: the largest interval valid for all values of the other indices in their box (ranges from reads);
    every=False: the smallest that contains every solution (bounding box of a condition). None as an end is unbounded;
    None as the result: `index` occurs in a way that cannot be inverted.
    """
    carriers = [(t, c) for t, c in a.terms if index in indices(t)]
    if len(carriers) != 1:
        return None
    atom, c = carriers[0]
    rest_low, rest_high = interval(add(a, Affine(0, ((atom, c),)), -1), box)
    if not every:
        rest_low, rest_high = rest_high, rest_low
    below = None if low is None else low - rest_low
    above = None if high is None else high - rest_high
    if c < 0:
        below, above = (None if above is None else -above), (None if below is None else -below)
    lower = None if below is None else -(-below // abs(c))
    upper = None if above is None else above // abs(c)
    if isinstance(atom, str):
        return lower, upper
    d = atom.divisor
    if isinstance(atom, Quotient):
        return solve(atom.a, None if lower is None else lower * d, None if upper is None else upper * d + d - 1, index, box,
                     every=every)
    harmless = (lower is None or lower <= 0) and (upper is None or upper >= d - 1)
    return (None, None) if harmless or not every else None


def at(a: QuasiAffine, point: Mapping[str, int]) -> int:
    """The form at one point."""
    return a.constant + sum(c * _atom_at(atom, point) for atom, c in a.terms)


def _atom_at(atom: Atom, point: Mapping[str, int]) -> int:
    if isinstance(atom, str):
        return point[atom]
    return at(atom.a, point) // atom.divisor if isinstance(atom, Quotient) else at(atom.a, point) % atom.divisor


def values(a: QuasiAffine, grid: Callable[[str], np.ndarray]) -> np.ndarray:
    """The form on arrays of index values; grid gives the array of an index."""
    total: np.ndarray = np.asarray(a.constant, np.int64)
    for atom, c in a.terms:
        if isinstance(atom, str):
            part = grid(atom)
        elif isinstance(atom, Quotient):
            part = values(atom.a, grid) // atom.divisor
        else:
            part = values(atom.a, grid) % atom.divisor
        total = total + c * part
    return total
