"""Quasi-affine forms: sums of `coefficient * atom`, an atom being an index, `(form) // number`, `(form) % number`, the larger
of two forms, or a choice between two forms. With one of the last two a form is piecewise quasi-affine.

Exact integer reasoning over boxes of indices: intervals of a form (program.solutions has the interval of an index).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from polytc.program import program as pr
from polytc.program.node import frozen
from polytc.program.program import Box
from polytc.program.scalars import BOOL, COMPARISONS, I64


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


@dataclass(frozen=True)
class Maximum:
    """The larger of a and b. The smaller one is -max(-a, -b)."""

    a: QuasiAffine
    b: QuasiAffine


@dataclass(frozen=True)
class Choice:
    """a where the condition holds, b elsewhere. condition: comparisons of such forms, and `&& || !` of them."""

    condition: pr.Expr
    a: QuasiAffine
    b: QuasiAffine


Atom: TypeAlias = str | Quotient | Remainder | Maximum | Choice
A = TypeVar("A", covariant=True)
T = TypeVar("T")


@frozen
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
            found = None if a is None or b is None else _combine(e.op, a, b)
            return found if found is None or exact(found) or choices(e) <= CHOICES else None
        case pr.Call() if e.dtype == I64:
            forms = [affine(x) for x in e.args]
            return None if None in forms or choices(e) > CHOICES else _piecewise(e.fn, [f for f in forms if f is not None])
        case pr.Select() if e.dtype == I64 and decidable(e.cond) and choices(e) <= CHOICES:
            a, b = affine(e.a), affine(e.b)
            return None if a is None or b is None else a if a == b else Affine(0, ((Choice(e.cond, a, b), 1),))
        case _:
            return None


CHOICES = 6
"""Choices (`?:`) that a form may have: each doubles its pieces."""


def choices(e: pr.Expr) -> int:
    """How many different ones an expression has."""
    return len({n for n in pr.walk(e) if isinstance(n, pr.Select)})


def _piecewise(fn: str, a: list[QuasiAffine]) -> QuasiAffine | None:
    """The intrinsics of integers that have pieces."""
    match fn:
        case "max":
            return _larger(a[0], a[1])
        case "min":
            return _smaller(a[0], a[1])
        case "clamp":
            return _smaller(_larger(a[0], a[1]), a[2])
        case "abs":
            return _larger(a[0], _negative(a[0]))
        case "sign":
            return _smaller(_larger(a[0], Affine(-1)), Affine(1))
        case _:
            return None


def _negative(a: QuasiAffine) -> QuasiAffine:
    return add(Affine(0), a, -1)


def _larger(a: QuasiAffine, b: QuasiAffine) -> QuasiAffine:
    return a if a == b else Affine(0, ((Maximum(a, b), 1),))


def _smaller(a: QuasiAffine, b: QuasiAffine) -> QuasiAffine:
    return _negative(_larger(_negative(a), _negative(b)))


def decidable(condition: pr.Expr) -> bool:
    """Is it made of comparisons of quasi-affine forms alone?"""
    match condition:
        case pr.Const():
            return condition.dtype == BOOL
        case pr.Unary(op="!"):
            return decidable(condition.a)
        case pr.Binary(op="&&" | "||"):
            return decidable(condition.a) and decidable(condition.b)
        case pr.Binary() if condition.op in COMPARISONS and condition.a.dtype == I64:
            return None not in (affine(condition.a), affine(condition.b)) and choices(condition) <= CHOICES
        case _:
            return False


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
    if isinstance(a, Maximum):
        return indices(a.a) | indices(a.b)
    if isinstance(a, Choice):
        return indices(a.a) | indices(a.b) | frozenset(pr.index_names(a.condition))
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
    if isinstance(atom, Maximum | Choice):
        other = interval(atom.b, box)
        return max(low, other[0]) if isinstance(atom, Maximum) else min(low, other[0]), max(high, other[1])
    if isinstance(atom, Quotient):
        return low // atom.divisor, high // atom.divisor
    if low // atom.divisor == high // atom.divisor:
        return low % atom.divisor, high % atom.divisor
    return 0, atom.divisor - 1


def exact(a: QuasiAffine) -> bool:
    """Is `interval` attained at both ends for every box? True for plain sums of distinct indices."""
    return all(isinstance(atom, str) for atom, _ in a.terms)


def at(a: QuasiAffine, point: Mapping[str, int]) -> int:
    """The form at one point."""
    return a.constant + sum(c * _atom_at(atom, point) for atom, c in a.terms)


def _atom_at(atom: Atom, point: Mapping[str, int]) -> int:
    match atom:
        case str():
            return point[atom]
        case Quotient():
            return at(atom.a, point) // atom.divisor
        case Remainder():
            return at(atom.a, point) % atom.divisor
        case Maximum():
            return max(at(atom.a, point), at(atom.b, point))
        case Choice():
            chosen = truth(atom.condition, lambda index: np.asarray(point[index], np.int64))
            return at(atom.a if chosen else atom.b, point)


def values(a: QuasiAffine, grid: Callable[[str], np.ndarray]) -> np.ndarray:
    """The form on arrays of index values; grid gives the array of an index."""
    total: np.ndarray = np.asarray(a.constant, np.int64)
    for atom, c in a.terms:
        total = total + c * _atom_values(atom, grid)
    return total


def _atom_values(atom: Atom, grid: Callable[[str], np.ndarray]) -> np.ndarray:
    match atom:
        case str():
            return grid(atom)
        case Quotient():
            return values(atom.a, grid) // atom.divisor
        case Remainder():
            return values(atom.a, grid) % atom.divisor
        case Maximum():
            return np.maximum(values(atom.a, grid), values(atom.b, grid))
        case Choice():
            return np.where(truth(atom.condition, grid), values(atom.a, grid), values(atom.b, grid))


_COMPARE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


def truth(condition: pr.Expr, grid: Callable[[str], np.ndarray]) -> np.ndarray:
    """A decidable condition on arrays of index values."""
    match condition:
        case pr.Const():
            return np.asarray(bool(condition.value))
        case pr.Unary():
            return np.logical_not(truth(condition.a, grid))
        case pr.Binary(op="&&" | "||"):
            both = np.logical_and if condition.op == "&&" else np.logical_or
            return np.asarray(both(truth(condition.a, grid), truth(condition.b, grid)))
    assert isinstance(condition, pr.Binary)
    a, b = affine(condition.a), affine(condition.b)
    assert a is not None
    assert b is not None
    return _COMPARE[condition.op](values(a, grid), values(b, grid))
