"""Formulas of sizes: sums of products of sizes, and of quotients of such sums."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias
from weakref import WeakValueDictionary


class Quotient:
    """The quotient of two formulas, rounded down. There is one object for equal ones, see `quotient`. name: unlike those of all
    others, and of sizes."""

    __slots__ = ("__weakref__", "a", "b", "name")

    def __init__(self, a: Terms, b: Terms, name: str) -> None:
        self.a, self.b, self.name = a, b, name

    def __repr__(self) -> str:
        return self.name


_QUOTIENTS: WeakValueDictionary[tuple[Terms, Terms], Quotient] = WeakValueDictionary()
_COUNT = itertools.count()


def quotient(a: Terms, b: Terms) -> Quotient:
    """The object for the quotient of two formulas."""
    found = _QUOTIENTS.get((a, b))
    return _QUOTIENTS.setdefault((a, b), Quotient(a, b, f"//{next(_COUNT)}")) if found is None else found


Atom: TypeAlias = "str | Quotient"
"""A size or a quotient."""
Monomial: TypeAlias = "tuple[Atom, ...]"
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"
"""A sum of `coefficient * product of atoms`, no product twice and no coefficient 0, in a fixed order."""

Guard: TypeAlias = "tuple[Terms, str]"
"""A formula and what it is compared with 0: '==', '!=', '>' or '<='."""


def constant(n: int) -> Terms:
    """The formula of a number."""
    return (((), n),) if n else ()


def _ordered(total: Mapping[Monomial, int]) -> Terms:
    return tuple(sorted(((p, c) for p, c in total.items() if c), key=_place))


def _place(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
    """Where a term stands in a formula."""
    return len(term[0]), [_name(atom) for atom in term[0]]


def _name(atom: Atom) -> str:
    return atom if isinstance(atom, str) else atom.name


def add(a: Terms, b: Terms, factor: int = 1) -> Terms:
    """a + factor * b."""
    total = dict(a)
    for product, c in b:
        total[product] = total.get(product, 0) + factor * c
    return _ordered(total)


def multiply(a: Terms, b: Terms) -> Terms:
    """a * b."""
    total: dict[Monomial, int] = {}
    for p, c in a:
        for q, d in b:
            both = tuple(sorted((*p, *q), key=_name))
            total[both] = total.get(both, 0) + c * d
    return _ordered(total)


def divide(a: Terms, b: Terms) -> Terms:
    """a // b, for b that is not 0: whole multiples of a divisor of one term are taken out.

        (2*n*m + n + 4) // n   ->   2*m + 1 + 4 // n
    """
    outside: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for product, c in a:
        left = _without(product, b[0][0]) if len(b) == 1 and c % b[0][1] == 0 else None
        if left is None:
            rest[product] = c
        else:
            outside[left] = outside.get(left, 0) + c // b[0][1]
    number = rest.get((), 0)
    if len(b) == 1 and not b[0][0] and number:  # (n + 7) // 4 = (n + 3) // 4 + 1
        outside[()] = outside.get((), 0) + number // b[0][1]
        rest[()] = number % b[0][1]
    inner = _ordered(rest)
    if not inner:
        return _ordered(outside)
    if all(not p for p, _ in (*inner, *b)):
        return add(_ordered(outside), constant(inner[0][1] // b[0][1]))
    return add(_ordered(outside), (((quotient(inner, b),), 1),))


def remainder(a: Terms, b: Terms) -> Terms:
    """a % b, of the sign of b."""
    return add(a, multiply(divide(a, b), b), -1)


def _without(product: Monomial, factor: Monomial) -> Monomial | None:
    """A product without some of its atoms; None if it has them not all."""
    left = list(product)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def evaluated(terms: Terms, sizes: Mapping[str, int]) -> int:
    """The number that a formula is for given sizes."""
    return sum(c * math.prod(_atom(a, sizes) for a in product) for product, c in terms)


def size_names(formulas: Iterable[Terms]) -> set[str]:
    """The sizes in some formulas."""
    return {n for terms in formulas for product, _ in terms for atom in product
            for n in ([atom] if isinstance(atom, str) else size_names((atom.a, atom.b)))}


Range: TypeAlias = "tuple[int, int]"
"""The smallest and the largest value."""


def interval(terms: Terms, ranges: Mapping[str, Range]) -> Range:
    """Bounds of a formula for sizes in these ranges. Raises ZeroDivisionError where a divisor may be 0."""
    low = high = 0
    for product, c in terms:
        least, most = c, c
        for atom in product:
            a, b = ranges[atom] if isinstance(atom, str) else _quotient_interval(atom, ranges)
            ends = (least * a, least * b, most * a, most * b)
            least, most = min(ends), max(ends)
        low, high = low + least, high + most
    return low, high


def _quotient_interval(q: Quotient, ranges: Mapping[str, Range]) -> Range:
    divisors = interval(q.b, ranges)
    if divisors[0] <= 0 <= divisors[1]:
        raise ZeroDivisionError("a divisor may be 0")
    ends = [a // b for a in interval(q.a, ranges) for b in divisors]
    return min(ends), max(ends)


def magnitude(terms: Terms, ranges: Mapping[str, Range]) -> int:
    """What nothing in the evaluation of a formula exceeds, for sizes in these ranges, up to signs."""
    found = 0
    for product, c in terms:
        most = abs(c)
        for atom in product:
            most *= max(map(abs, ranges[atom])) if isinstance(atom, str) else magnitude(atom.a, ranges)
        found += most
    inner = [magnitude(each, ranges) for product, _ in terms for q in product if not isinstance(q, str) for each in (q.a, q.b)]
    return max([found, *inner])


def always(guard: Guard, ranges: Mapping[str, Range]) -> bool:
    """Is a guard met by all sizes in these ranges, as their intervals tell?"""
    terms, question = guard
    try:
        low, high = interval(terms, ranges)
    except ZeroDivisionError:
        return False
    return {"==": low == high == 0, "!=": low > 0 or high < 0, ">": low > 0, "<=": high <= 0}[question]


def holds(guard: Guard, sizes: Mapping[str, int]) -> bool:
    """Do these sizes meet a guard?"""
    terms, question = guard
    try:
        value = evaluated(terms, sizes)
    except ZeroDivisionError:
        return False
    return {"==": value == 0, "!=": value != 0, ">": value > 0, "<=": value <= 0}[question]


def _atom(atom: Atom, sizes: Mapping[str, int]) -> int:
    return sizes[atom] if isinstance(atom, str) else evaluated(atom.a, sizes) // evaluated(atom.b, sizes)


def source(terms: Terms, place: Mapping[str, str]) -> str:
    """A formula in Python's notation."""
    def atom(a: Atom) -> str:
        return place[a] if isinstance(a, str) else f"({source(a.a, place)} // {source(a.b, place)})"
    return f"({' + '.join('*'.join([str(c), *map(atom, product)]) for product, c in terms) or '0'})"
